//! A tool that is a larger model.

use super::*;

/// A delegate, with `own` in its table and `delegate` in `[tools.delegate]`, after another tool.
fn delegate(own: &str, delegate: &str) -> String {
    format!(
        "{}[[tools]]\nname = \"expert\"\nsay_done.es = \"{{{{ result.answer }}}}\"\n{own}\n[tools.parameters]\ntype = \"object\"\n\
         properties.question = {{ type = \"string\" }}\n[tools.delegate]\n{delegate}\n",
        tool("")
    )
}

/// What is said of a delegate like that, without where it stands.
fn said(own: &str, settings: &str) -> Vec<String> {
    let said = said_of(&delegate(own, &format!("url = \"https://llm.example/v1\"\nmodel = \"large\"\n{settings}")));
    said.lines().map(|line| line.splitn(4, ':').last().unwrap_or_default().trim().to_owned()).collect()
}

#[test]
fn a_larger_model_has_the_defaults_of_one() {
    let room = Room::with(&delegate("", "url = \"https://llm.example/v1\"\nmodel = \"large\""));
    let (config, warnings) = room.load().unwrap();
    assert!(warnings.is_empty(), "{warnings}");
    let [look_up, expert] = &config.tools[..] else { panic!("two tools") };
    assert_eq!((expert.timeout_ms, expert.idempotent, expert.policy().cancellable), (120_000, true, true));
    assert_eq!((look_up.timeout_ms, look_up.idempotent, look_up.policy().cancellable), (10_000, false, false));
    let service = expert.delegate.as_ref().unwrap();
    assert_eq!(
        (service.api, service.rounds_max, service.answer_timeout_ms, service.stall_timeout_ms),
        (LanguageApi::default(), 8, 60_000, 60_000)
    );
    assert_eq!(service.part(expert.timeout_ms).address("responses").unwrap().as_str(), "https://llm.example/v1/responses");
    let summary = config.summary().to_string();
    assert!(
        summary.contains("  expert: asks the model large at https://llm.example, within 5 min, idempotent, up to 5 attempts\n"),
        "{summary}"
    );
}

#[test]
fn what_is_written_is_kept_and_files_have_their_places() {
    let settings = "url = \"https://llm.example/v1\"\nmodel = \"large\"\nkey_file = \"llm-key\"\ntools = [\"look_up\"]";
    let text =
        delegate("timeout_ms = 30000\nidempotent = true", settings).replace("name = \"look_up\"", "name = \"look_up\"\nidempotent = true");
    let room = Room::with(&text);
    room.write("llm-key", "k");
    let (config, warnings) = room.load().unwrap();
    assert!(warnings.is_empty(), "{warnings}");
    let expert = config.tool("expert").unwrap();
    assert_eq!((expert.timeout_ms, expert.policy().cancellable), (30_000, false), "what its tools have done is not undone by giving it up");
    assert_eq!(expert.delegate.as_ref().unwrap().key_file, Some(room.path("llm-key")));
}

#[test]
fn what_a_larger_model_can_not_be_is_said_with_what_to_write_instead() {
    for (own, settings, expected) in [
        (
            "",
            "tools = [\"look_pu\"]",
            "tool \"expert\": delegate.tools: there is no tool \"look_pu\"; write instead: no tools: none here can be used",
        ),
        (
            "",
            "tools = [\"look_up\"]",
            "tool \"expert\": delegate.tools: \"look_up\" is not idempotent: an attempt of the model that is repeated would do it twice; write instead: \
             idempotent = true in \"look_up\", if the same request may safely be sent twice; or leave it out",
        ),
        (
            "",
            "tools = [\"expert\"]",
            "tool \"expert\": delegate.tools: \"expert\" is a larger model itself, and such are not asked by one another; write instead: no tools: none \
             here can be used",
        ),
        (
            "",
            "question = \"qestion\"",
            "tool \"expert\": delegate.question: \"qestion\" is not among the properties in parameters; write instead: question = \"question\"",
        ),
        ("", "rounds_max = 0", "tool \"expert\": delegate.rounds_max: 0 is outside of 1 to 64; write instead: rounds_max = 1"),
        (
            "",
            "answer_timeout_ms = 3600000",
            "tool \"expert\": delegate.answer_timeout_ms: 3600000 is outside of 500 to 600000; write instead: answer_timeout_ms = 600000",
        ),
        ("", "tokens_max = 1", "tool \"expert\": delegate.tokens_max: 1 is outside of 16 to 32768; write instead: tokens_max = 16"),
        (
            "",
            "instructions = \"About {{ argumets.question }}.\"",
            "tool \"expert\": delegate.instructions: there is no `argumets` to be said here; write instead: {{ arguments.question }}",
        ),
        (
            "",
            "instructions = \" \"",
            "tool \"expert\": delegate.instructions: a model that is told nothing; write instead: instructions = \"…\", or leave it out for the box's own",
        ),
        (
            "idempotent = false",
            "",
            "tool \"expert\": idempotent: what broke off is asked again, which does nothing twice: a larger model is idempotent; write instead: \
             idempotent = true; with retry.attempts_max = 1 it is asked once all the same",
        ),
        (
            "url = \"https://crm.example\"",
            "",
            "tool \"expert\": url: this tool is a larger model, whose service is named in [tools.delegate]; write instead: the same in \
             [tools.delegate], or no [tools.delegate]",
        ),
    ] {
        assert_eq!(said(own, settings), [expected], "{own}{settings}");
    }
    let known = said_of(&delegate("", "url = \"https://api.openai.com/v1\"\nmodel = \"large\""));
    assert!(
        known.contains("delegate.key_file: api.openai.com takes nobody without a key; write instead: key_file = \"language-key\""),
        "{known}"
    );
    let nowhere = said_of(&delegate("", "model = \"large\""));
    assert!(
        nowhere.contains("tool \"expert\": delegate: `url` is missing; write instead: url = \"https://api.openai.com/v1\""),
        "{nowhere}"
    );
}
