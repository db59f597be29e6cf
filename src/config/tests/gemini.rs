//! What is said of `[cloud.gemini]`.

use super::*;

fn gemini(more: &str) -> String {
    format!("[cloud.gemini]\nurl = \"wss://voice.example/live\"\nmodel = \"speaks\"\n{more}\n")
}

#[test]
fn a_box_whose_calls_it_leads_says_so_and_one_without_it_is_refused() {
    let room = Room::with(&format!("[model]\nkind = \"gemini\"\ndialogue = \"there-is-none.toml\"\n{}", gemini("")));
    assert_eq!(room.problems(&room.sources()), "");
    let summary = room.load().unwrap().0.summary().to_string();
    assert!(summary.contains("Calls are led by the speech model speaks at wss://voice.example.\n"), "{summary}");
    assert_eq!(
        said_of("[model]\nkind = \"gemini\"\n"),
        "recado.toml:2:8: model.kind: there is no service whose model could lead calls; write instead: a table [cloud.gemini] with its url, its model and a key_file, or kind = \"scripted\""
    );
}

#[test]
fn its_key_is_sent_in_googles_header_where_nothing_else_is_said_and_never_in_the_url() {
    let load = |more: &str| Room::with(&gemini(more)).load().unwrap().0.cloud.gemini.unwrap();
    assert_eq!(load("").key_header, KeyHeader::XGoogApiKey);
    assert_eq!(load("key_header = \"authorization\"").key_header, KeyHeader::Authorization);
    assert_eq!(
        said_of(&gemini("").replace("/live", "/live?key=s3cr3t")),
        "recado.toml:2:7: cloud.gemini.url: a URL is logged, and the query of this one holds a credential; write instead: the URL without it, key_file = \"gemini-key\" and key_header = \"x-goog-api-key\""
    );
}

#[test]
fn a_model_is_asked_for_by_its_whole_name() {
    let whole = |name: &str| {
        let room = Room::with(&gemini("").replace("\"speaks\"", &format!("{name:?}")));
        room.load().unwrap().0.cloud.gemini.unwrap().whole_model()
    };
    assert_eq!(whole("speaks"), "models/speaks");
    for name in ["models/speaks", "projects/p/locations/l/publishers/google/models/speaks"] {
        assert_eq!(whole(name), name);
    }
}

#[test]
fn what_is_no_choice_or_out_of_bounds_is_named_with_what_is() {
    for (more, said) in [
        (
            "calls = \"async\"",
            "recado.toml:4:9: cloud.gemini.calls: \"async\" is not a choice; write instead: calls = \"non-blocking\" or \"blocking\"",
        ),
        (
            "text = \"both\"",
            "recado.toml:4:8: cloud.gemini.text: \"both\" is not a choice; write instead: text = \"content\" or \"realtime\"",
        ),
        (
            "renew_after_ms = 1",
            "recado.toml:4:18: cloud.gemini.renew_after_ms: 1 is outside of 60000 to 86400000; write instead: renew_after_ms = 60000",
        ),
        (
            "headers = { X-Goog-Api-Key = \"s3cr3t\" }",
            "recado.toml:4:30: cloud.gemini.headers.X-Goog-Api-Key: the box sets this header itself; write instead: nothing: leave it out",
        ),
    ] {
        assert_eq!(said_of(&gemini(more)), said, "{more}");
    }
}
