//! Malformed configurations and exactly what is said of them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;

mod delegate;
mod engines;
mod gemini;
mod identity;
mod mcp;
mod slips;

/// A directory with a configuration and the dialogue that it follows.
struct Room(tempfile::TempDir);

impl Room {
    fn with(toml: &str) -> Self {
        let room = Self(tempfile::tempdir().unwrap());
        room.write("recado.toml", toml);
        room.write("dialogue.toml", "");
        room
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn sources(&self) -> Sources {
        Sources { file: self.path("recado.toml"), ..Sources::default() }
    }

    fn load(&self) -> Result<(Config, Problems), Problems> {
        Config::load(&self.sources(), Depth::Files)
    }

    /// Every problem, a line each, without the directory's name.
    fn problems(&self, sources: &Sources) -> String {
        self.problems_to(sources, Depth::Files)
    }

    fn problems_to(&self, sources: &Sources, depth: Depth) -> String {
        let problems = match Config::load(sources, depth) {
            Ok((_, warnings)) => warnings,
            Err(problems) => problems,
        };
        let directory = self.0.path().display().to_string();
        problems.to_string().replace(&format!("{directory}/"), "").replace(&directory, "THE-ROOM")
    }
}

/// The whole of what is said about `toml`.
fn said_of(toml: &str) -> String {
    let room = Room::with(toml);
    room.problems(&room.sources())
}

/// A tool with nothing wrong, and `more` in it.
fn tool(more: &str) -> String {
    format!("[[tools]]\nname = \"look_up\"\nurl = \"https://crm.example/a\"\nsay_done.es = \"Hecho.\"\n{more}\n")
}

#[test]
fn an_empty_file_is_a_configuration() {
    let (config, warnings) = Room::with("").load().unwrap();
    assert!(warnings.is_empty());
    assert_eq!(config.sip, Sip::default());
    assert!(config.sip.allows("127.0.0.1".parse().unwrap()));
    assert!(!config.sip.allows("192.168.1.7".parse().unwrap()));
    assert_eq!(config.http.callback_base(config.http.listen), "http://127.0.0.1:8080");
    assert_eq!(config.this_box.data_dir(), Path::new("data"));
}

#[test]
fn each_mistake_is_named_with_its_place_and_a_remedy() {
    for (toml, said) in [
        // Keys.
        ("[sipp]\n", "recado.toml:1:2: sipp: there is no such setting; did you mean `sip`?; write instead: [sip]"),
        (
            "[sip]\nlisten = \"127.0.0.1:5060\"\n  calls-max = 4\n",
            "recado.toml:3:3: sip.calls-max: there is no such setting; did you mean `calls_max`?; write instead: calls_max = 4",
        ),
        (
            "[gate]\ncolour = \"red\"\n",
            "recado.toml:2:1: gate.colour: there is no such setting; write instead: one of min_quiet_ms, min_quiet_ms_es, min_quiet_ms_en, progress_min_quiet_ms",
        ),
        // Types.
        (
            "[sip]\ncalls_max = \"20\"\n",
            "recado.toml:2:13: sip.calls_max: expected a whole number, zero or more, found the text \"20\"; write instead: calls_max = 20",
        ),
        (
            "[sip]\nrtp_silence_ms = \"30 s\"\n",
            "recado.toml:2:18: sip.rtp_silence_ms: expected a whole number, zero or more, found the text \"30 s\"; write instead: rtp_silence_ms = 30000",
        ),
        (
            "[speech]\nwords_per_minute = 70000\n",
            "recado.toml:2:20: speech.words_per_minute: 70000 is outside of 80 to 300; write instead: words_per_minute = 300",
        ),
        (
            "[gate]\nmin_quiet_ms = -1\n",
            "recado.toml:2:16: gate.min_quiet_ms: -1 is outside of 100 to 10000; write instead: min_quiet_ms = 100",
        ),
        (
            "[standby]\ntakeover_ms = 10000\n",
            "recado.toml:2:15: standby.takeover_ms: 10000 is outside of 200 to 4500; write instead: takeover_ms = 4500",
        ),
        ("[messages]\nfiles_max = 0\n", "recado.toml:2:13: messages.files_max: 0 is outside of 1 to 10000; write instead: files_max = 1"),
        (
            "[media]\nrealtime = \"yes\"\n",
            "recado.toml:2:12: media.realtime: expected true or false, found the text \"yes\"; write instead: realtime = true",
        ),
        ("[box]\nname = 12\n", "recado.toml:2:8: box.name: expected text in quotes, found the number 12; write instead: name = \"12\""),
        (
            "[sip]\nusers = \"700\"\n",
            "recado.toml:2:9: sip.users: expected a list, found the text \"700\"; write instead: users = [\"700\"]",
        ),
        (
            "[sip]\nusers = [700]\n",
            "recado.toml:2:10: sip.users: expected text in quotes, found the number 700; write instead: users = [\"700\"]",
        ),
        ("sip = 3\n", "recado.toml:1:7: sip: expected a table, found the number 3; write instead: [sip]"),
        (
            "[tools]\nname = \"x\"\n",
            "recado.toml:1:1: tools: expected one [[tools]] table for each tool, found a table; write instead: [[tools]]",
        ),
        ("[log]\nformat = \"jsno\"\n", "recado.toml:2:10: log.format: \"jsno\" is not a choice; write instead: format = \"json\""),
        (
            "[box]\nlanguage = \"fr\"\n",
            "recado.toml:2:12: box.language: \"fr\" is not a choice; write instead: language = \"es\" or \"en\"",
        ),
        (
            "[log]\nlevel = \"loud\"\n",
            "recado.toml:2:9: log.level: \"loud\" is not a level (off, error, warn, info, debug, trace); write instead: level = \"info,recado::surface::sip=debug\"",
        ),
        // Addresses and ranges.
        (
            "[sip]\nlisten = \"localhost:5060\"\n",
            "recado.toml:2:10: sip.listen: this is not an address and port; write instead: listen = \"127.0.0.1:5060\"",
        ),
        (
            "[http]\nlisten = \"127.0.0.1\"\n",
            "recado.toml:2:10: http.listen: this is not an address and port; write instead: listen = \"127.0.0.1:8080\"",
        ),
        (
            "[sip]\nadvertised = \"box.example\"\n",
            "recado.toml:2:14: sip.advertised: this is not an IP address; write instead: advertised = \"192.0.2.10\"",
        ),
        (
            "[sip]\nallow = [\n  \"10.0.0.0/8\",\n  \"10.0.0.7/24\",\n]\n",
            "recado.toml:4:3: sip.allow: \"10.0.0.7/24\" has bits set beyond its prefix; write instead: allow = [\"10.0.0.0/24\"]",
        ),
        ("[sip]\nallow = []\n", "recado.toml:2:9: sip.allow: an empty list accepts nobody; write instead: allow = [\"127.0.0.0/8\"]"),
        (
            "[sip]\nlisten = \"192.168.1.5:5060\"\n",
            "recado.toml:2:10: sip.listen: others can reach 192.168.1.5:5060, and `allow` does not say whose calls are accepted; write instead: allow = [\"192.168.0.0/16\"] with the networks of your phones",
        ),
        (
            "[sip]\nlisten = \"0.0.0.0:5060\"\nallow = [\"10.0.0.0/8\"]\n",
            "recado.toml:2:10: sip.listen: 0.0.0.0 stands for every address, and `advertised` does not say which one phones reach; write instead: advertised = \"192.0.2.10\" with this box's own address",
        ),
        (
            "[sip]\nlisten = \"192.0.2.5:5060\"\nallow = [\"0.0.0.0/0\"]\n",
            "recado.toml:3:9: warning: sip.allow: it accepts calls from the whole internet, scanners included; write instead: allow = [\"192.168.0.0/16\"]",
        ),
        (
            "[sip]\nusers = [\"sip:700@pbx\"]\n",
            "recado.toml:2:10: sip.users: \"sip:700@pbx\" is not the user part of an address, which is what stands before the @; write instead: users = [\"700\"]",
        ),
        ("[sip]\ncalls_max = 0\n", "recado.toml:2:13: sip.calls_max: 0 is outside of 1 to 500; write instead: calls_max = 1"),
        (
            "[media]\nports = \"20999-20000\"\n",
            "recado.toml:2:9: media.ports: \"20999-20000\" ends before it begins; write instead: ports = \"20000-20999\"",
        ),
        (
            "[sip]\ncalls_max = 30\n[media]\nports = \"20001-20040\"\n",
            "recado.toml:4:9: media.ports: 20001-20040 holds 19 pairs of ports, and sip.calls_max = 30 calls take one each; write instead: ports = \"20002-20121\"",
        ),
        (
            "[listen]\nretract_ms = 1500\n",
            "recado.toml:2:14: listen.retract_ms: 1500 is outside of 200 to 1000; write instead: retract_ms = 1000",
        ),
        (
            "[listen]\nconfirm_voiced_ms = 500\nconfirm_window_ms = 400\n",
            "recado.toml:2:21: listen.confirm_voiced_ms: 500 ms of voice never fit into confirm_window_ms = 400; write instead: confirm_voiced_ms = 200",
        ),
        (
            "[speech]\nwords_per_minute = 40\nvoices.es = \"es; rm\"\n",
            "recado.toml:2:20: speech.words_per_minute: 40 is outside of 80 to 300; write instead: words_per_minute = 80\n\
             recado.toml:3:13: speech.voices.es: \"es; rm\" is not the name of a voice; write instead: es = \"es\" (`espeak-ng --voices` lists them)",
        ),
        (
            "[http]\nadvertised = \"box.example\"\n",
            "recado.toml:2:14: http.advertised: this is not an http:// or https:// URL without query and fragment; write instead: advertised = \"https://box.example\"",
        ),
        (
            "[model]\ndialogue = \"talk.toml\"\n",
            "recado.toml:2:12: model.dialogue: the file talk.toml does not exist; write instead: the path of a file that recado may read",
        ),
        (
            "[model]\nkind = \"realtime\"\n",
            "recado.toml:2:8: model.kind: there is no service whose model could lead calls; write instead: a table [cloud.realtime] with its url, its model and a key_file, or kind = \"scripted\"",
        ),
        (
            "[model]\ninstructions = \" \"\n",
            "recado.toml:2:16: model.instructions: a model that is told nothing does not know its task; write instead: what it is to do; or leave it out, for the box's own",
        ),
    ] {
        assert_eq!(said_of(toml), said, "{toml}");
    }
    let long = said_of(&format!("[model]\ninstructions = \"{}\"\n", "Sé breve. ".repeat(4_000)));
    assert!(long.starts_with("recado.toml:2:16: model.instructions: 44000 bytes are more than the 32768 that a service takes"), "{long}");
}

#[test]
fn a_box_whose_calls_a_live_service_leads_knows_what_does_what_the_model_delegates() {
    let with =
        |tools: &str| said_of(&format!("[model]\nkind = \"live\"\n[cloud.live]\nurl = \"wss://lives.example/v1\"\nmodel = \"m\"\n{tools}"));
    assert_eq!(with(""), "", "without tools nothing can be delegated");
    let tools = "[[tools]]\nname = \"a\"\nurl = \"https://crm.example/a\"\nsay_done.es = \"Hecho.\"\n";
    assert_eq!(
        with(tools),
        "recado.toml:3:8: cloud.live.delegate_tool: the tool \"a\" has no parameter that takes the task as text; write instead: a tool with a parameter such as request = { type = \"string\" }"
    );
    assert_eq!(with(&format!("{tools}parameters = {{ type = \"object\", properties = {{ request = {{ type = \"string\" }} }} }}\n")), "");
    let room = Room::with("[model]\nkind = \"live\"\n[cloud.live]\nurl = \"wss://lives.example/v1?k=s3cr3t\"\nmodel = \"m\"\n");
    let summary = room.load().unwrap().0.summary().to_string();
    assert!(summary.contains("led by the speech model m at wss://lives.example.\n") && !summary.contains("s3cr3t"), "{summary}");
    assert!(summary.contains("What it delegates is not done") && summary.contains("While it is away"), "{summary}");
    assert_eq!(
        said_of("[model]\nkind = \"live\"\n"),
        "recado.toml:2:8: model.kind: there is no service whose model could lead calls; write instead: a table [cloud.live] with its url, its model and a key_file, or kind = \"scripted\""
    );
    assert_eq!(
        said_of("[cloud.live]\nurl = \"https://x.example\"\nmodel = \"m\"\nacknowledgement_delay_ms = 70000\n"),
        "recado.toml:2:7: cloud.live.url: this is not a wss:// or ws:// URL; write instead: url = \"wss://api.openai.com/v1/live/sessions\"\n\
         recado.toml:4:28: cloud.live.acknowledgement_delay_ms: 70000 is outside of 0 to 60000; write instead: acknowledgement_delay_ms = 60000"
    );
}

#[test]
fn a_box_whose_calls_a_service_leads_needs_no_dialogue_and_a_broken_service_is_reported_once() {
    let service = "[cloud.realtime]\nurl = \"wss://speaks.example/v1?deployment=x\"\nmodel = \"clear-1\"\n";
    let room = Room::with(&format!("[model]\nkind = \"realtime\"\ndialogue = \"there-is-none.toml\"\n{service}"));
    assert_eq!(room.problems(&room.sources()), "");
    let led = "Calls are led by the speech model clear-1 at wss://speaks.example.\n";
    let summary = room.load().unwrap().0.summary().to_string();
    assert!(summary.contains(led) && !summary.contains("dialogue") && !summary.contains("cloud test"), "{summary}");
    let summary = Room::with(service).load().unwrap().0.summary().to_string();
    assert!(summary.contains("It follows the dialogue") && summary.contains("calls are not led by it"), "{summary}");
    let said = said_of("[model]\nkind = \"realtime\"\n[cloud]\nrealtime = 7\n");
    assert!(said.starts_with("recado.toml:4:12: cloud.realtime: expected a table") && said.lines().count() == 1, "{said}");
}

#[test]
fn each_mistake_in_a_tool_is_named_with_its_place_and_a_remedy() {
    let parameters = "parameters.type = \"object\"\nparameters.properties.subject.type = \"string\"";
    let with_parameters = |more: &str| tool(&format!("{parameters}\n{more}"));
    for (toml, said) in [
        (tool("[sip]"), ""),
        (
            "[[tools]]\nsay_done.es = \"Hecho.\"\n".to_owned(),
            "recado.toml:1:1: tool 1: `name` is missing; write instead: name = \"open_ticket\"",
        ),
        (
            "[[tools]]\nname = \"look_up\"\nsay_done.es = \"Hecho.\"\n".to_owned(),
            "recado.toml:1:1: tool \"look_up\": it does not say where the tool is; write instead: url = \"https://crm.example/recado/tickets\"",
        ),
        (
            tool("tiemout_ms = 3"),
            "recado.toml:5:1: tool \"look_up\": tiemout_ms: there is no such setting; did you mean `timeout_ms`?; write instead: timeout_ms = 3",
        ),
        (
            tool("[[tools]]\nname = \"look_up\"\nurl = \"https://crm.example/b\"\nsay_done.es = \"Hecho.\""),
            "recado.toml:6:8: tool \"look_up\": name: this name is taken by the tool at recado.toml:2:8; write instead: name = \"look_up_2\"",
        ),
        (
            tool("").replace("look_up", "mirar código"),
            "recado.toml:2:8: tool \"mirar código\": name: a name is 1 to 64 letters, digits, `_` and `-`, for models take no other; write instead: name = \"mirar_c_digo\"",
        ),
        (
            tool("").replace("https", "ftp"),
            "recado.toml:3:7: tool \"look_up\": url: this is not an http:// or https:// URL; write instead: url = \"https://crm.example/recado/tickets\"",
        ),
        (
            tool("").replace("crm.", "me:pass@crm."),
            "recado.toml:3:7: tool \"look_up\": url: a URL is logged, and this one holds a credential; write instead: the URL without it, and bearer_file = \"crm-token\"",
        ),
        (
            tool("headers.Authorization = \"Bearer abc\""),
            "recado.toml:5:25: tool \"look_up\": headers.Authorization: credentials don't stand in a configuration; write instead: bearer_file = \"crm-token\", a file that holds the token",
        ),
        (
            tool("timeout_ms = 20000\ndeadline_ms = 5000"),
            "recado.toml:5:14: tool \"look_up\": timeout_ms: one attempt may take 20000 ms, and the whole operation only deadline_ms = 5000; write instead: timeout_ms = 5000",
        ),
        (
            tool("bearer_file = \"token\"\nca_file = \"ca.pem\""),
            "recado.toml:5:15: tool \"look_up\": bearer_file: the credential file that is named is not in THE-ROOM: No such file or directory (os error 2); write instead: a file in $CREDENTIALS_DIRECTORY, or the path of one that holds the token\n\
             recado.toml:6:11: tool \"look_up\": ca_file: the file ca.pem does not exist; write instead: the path of a file that recado may read",
        ),
        (
            tool("retry.attempts_max = 3"),
            "recado.toml:5:1: warning: tool \"look_up\": retry: this tool is not idempotent, so only attempts that provably did not execute are repeated; write instead: idempotent = true, if the same request may safely be sent twice",
        ),
        (
            tool("concurrency = 0"),
            "recado.toml:5:15: tool \"look_up\": concurrency: 0 is outside of 1 to 64; write instead: concurrency = 1",
        ),
        (tool("idempotent = true\nretry.attempts_max = 3"), ""),
        (tool("confirm = true\nsay_confirm.es = \"¿Lo miro?\""), ""),
        (
            tool("say_confirm.es = \"¿Lo miro?\""),
            "recado.toml:5:1: warning: tool \"look_up\": say_confirm: this is never said; write instead: confirm = true",
        ),
        (
            with_parameters("confirm = true\nparameters.properties.caller_confirmed.type = \"boolean\""),
            "recado.toml:7:11: tool \"look_up\": confirm: the box's own \"caller_confirmed\" says that the caller agrees, and parameters have a property of that name; write instead: another name for the property caller_confirmed, or confirm = false",
        ),
        (
            tool("parameters.type = \"object\"\nparameters.properties.n.type = \"text\""),
            "recado.toml:6:32: tool \"look_up\": parameters.properties.n.type: this is not JSON Schema: \"text\" is not valid under any of the schemas listed in the 'anyOf' keyword; write instead: type = \"string\", \"number\", \"integer\", \"boolean\", \"array\" or \"object\"",
        ),
        (
            tool("parameters = { type = \"string\" }"),
            "recado.toml:5:1: tool \"look_up\": parameters: arguments come as one object; write instead: type = \"object\"",
        ),
        (
            with_parameters("idempotency_fields = [\"subjct\"]"),
            "recado.toml:7:23: tool \"look_up\": idempotency_fields: \"subjct\" is not among the properties in parameters; write instead: \"subject\"",
        ),
        (
            with_parameters("say_short.en = \"Done.\""),
            "recado.toml:7:1: tool \"look_up\": say_short: there is no text in the box's language, \"es\"; write instead: say_short.es = \"…\"",
        ),
        (
            with_parameters("say_failed.es = \"No: {{ error }\""),
            "recado.toml:7:17: tool \"look_up\": say_failed.es: this template can't be read: unexpected `}`, expected end of variable block; write instead: say_failed.es = \"… {{ arguments.name }} …\"",
        ),
        (
            with_parameters("say_accepted.es = \"Miro {{ argument.subject }}\""),
            "recado.toml:7:19: tool \"look_up\": say_accepted.es: there is no `argument` to be said here; write instead: {{ arguments.subject }}",
        ),
        (
            with_parameters("say_accepted.es = \"Es {{ result.number }}\""),
            "recado.toml:7:19: tool \"look_up\": say_accepted.es: there is no `result` to be said here; write instead: arguments and what is in it",
        ),
        (
            with_parameters("say_unknown.es = \"Sobre {{ arguments.sujbect }}\""),
            "recado.toml:7:18: tool \"look_up\": say_unknown.es: `arguments.sujbect` is not among the properties in parameters; write instead: {{ arguments.subject }}",
        ),
        (
            tool("").replace("say_done.es = \"Hecho.\"\n", ""),
            "recado.toml:1:1: warning: tool \"look_up\": say_done: without a text the caller only hears that it is done, not what came of it; write instead: say_done.es = \"… {{ result.… }} …\"",
        ),
    ] {
        assert_eq!(said_of(&toml), said, "{toml}");
    }
}

#[test]
fn each_mistake_in_what_becomes_of_a_result_is_named_with_its_place_and_a_remedy() {
    for (toml, said) in [
        (
            tool("cancel_url = \"/cancel\""),
            "recado.toml:5:14: tool \"look_up\": cancel_url: this is not an http:// or https:// URL; write instead: cancel_url = \"https://crm.example/recado/tickets\"",
        ),
        (
            tool("duplicate = \"replace\""),
            "recado.toml:5:13: warning: tool \"look_up\": duplicate: requests that differ in any argument are two, so there is never one to be replaced; write instead: idempotency_fields = [\"…\"], the arguments that name what is asked for",
        ),
        (
            tool("duplicate = \"refuse\""),
            "recado.toml:5:13: tool \"look_up\": duplicate: \"refuse\" is not a choice; write instead: duplicate = \"reuse\"",
        ),
        (
            tool("version_field = \"version\""),
            "recado.toml:5:17: tool \"look_up\": version_field: versions are compared on a topic, and this tool has none; write instead: topic = \"price\", or no version_field",
        ),
        (
            tool("say_progress.es = \"{{ progress.percent }} %\""),
            "recado.toml:5:1: warning: tool \"look_up\": say_progress: this is never said; write instead: progress = \"say\"",
        ),
        (
            tool("progress = \"say\"\nsay_progress.es = \"{{ result.percent }} %\""),
            "recado.toml:6:19: tool \"look_up\": say_progress.es: there is no `result` to be said here; write instead: arguments, progress and what is in it",
        ),
        (
            tool("when_unheard = \"webhook\""),
            "recado.toml:5:16: tool \"look_up\": when_unheard: there is no webhook to hand its results off to; write instead: a table [hand_off] with url and secret_file, or when_unheard = \"wait\"",
        ),
        (
            tool("min_quiet_ms = 5"),
            "recado.toml:5:16: tool \"look_up\": min_quiet_ms: 5 is outside of 100 to 10000; write instead: min_quiet_ms = 100",
        ),
        (
            "[hand_off]\nurl = \"crm\"\nsecret_file = \"none\"\n".to_owned(),
            "recado.toml:2:7: hand_off.url: this is not an http:// or https:// URL; write instead: url = \"https://crm.example/recado/unheard\"\n\
             recado.toml:3:15: hand_off.secret_file: the credential file that is named is not in THE-ROOM: No such file or directory (os error 2); write instead: a file in $CREDENTIALS_DIRECTORY, or the path of one that holds the secret",
        ),
        (
            "[hand_off]\nurl = \"https://crm.example/\"\n".to_owned(),
            "recado.toml:1:2: hand_off: `secret_file` is missing; write instead: secret_file = \"hand-off-secret\"",
        ),
    ] {
        assert_eq!(said_of(&toml), said, "{toml}");
    }
}

/// A cloud service with nothing wrong, and `more` in it.
fn realtime(more: &str) -> String {
    format!("[cloud.realtime]\nurl = \"wss://voice.example/v1/realtime\"\nmodel = \"speaks\"\n{more}\n")
}

#[test]
fn each_mistake_in_a_cloud_service_is_named_with_its_place_and_a_remedy() {
    assert_eq!(said_of(&realtime("")), "");
    let with_url = |url: &str| said_of(&realtime("").replace("wss://voice.example/v1/realtime", url));
    for (said, expected) in [
        (
            said_of("[cloud.realtime]\nurl = \"wss://voice.example\"\n"),
            "recado.toml:1:8: cloud.realtime: `model` is missing; write instead: model = \"gpt-realtime-2.1\"",
        ),
        (
            with_url("https://voice.example"),
            "recado.toml:2:7: cloud.realtime.url: this is not a wss:// or ws:// URL; write instead: url = \"wss://api.openai.com/v1/realtime\"",
        ),
        (
            with_url("ws://voice.example/a"),
            "recado.toml:2:7: warning: cloud.realtime.url: what callers say travels unencrypted, and so does the key; write instead: url = \"wss://…\"",
        ),
        (with_url("ws://127.0.0.1:8765/a"), ""),
        (
            with_url("wss://voice.example/a?api-key=s3cr3t"),
            "recado.toml:2:7: cloud.realtime.url: a URL is logged, and the query of this one holds a credential; write instead: the URL without it, key_file = \"realtime-key\" and key_header = \"api-key\"",
        ),
        (
            with_url("wss://me:s3cr3t@voice.example/a"),
            "recado.toml:2:7: cloud.realtime.url: a URL is logged, and this one holds a credential; write instead: the URL without it, and key_file = \"realtime-key\"",
        ),
        (
            with_url("wss://voice.example/a?model=sings"),
            "recado.toml:2:7: cloud.realtime.url: it asks for the model \"sings\", and `model` for another one; write instead: the URL without its model",
        ),
        (with_url("wss://voice.example/a?model=speaks"), ""),
        (
            said_of(&realtime("voice = \" marin\"")),
            "recado.toml:4:9: cloud.realtime.voice: \" marin\" is not a name that a service has; write instead: the voice by the service's own name",
        ),
        (
            said_of(&realtime("format = \"g711\"")),
            "recado.toml:4:10: cloud.realtime.format: \"g711\" is not a choice; write instead: format = \"pcmu\" or \"pcma\" or \"pcm\"",
        ),
        (
            said_of(&realtime("headers = { Authorization = \"Bearer s3cr3t\" }")),
            "recado.toml:4:29: cloud.realtime.headers.Authorization: credentials don't stand in a configuration; write instead: key_file = \"realtime-key\", a file that holds the key",
        ),
        (
            said_of(&realtime("headers = { API-Key = \"s3cr3t\" }")),
            "recado.toml:4:23: cloud.realtime.headers.API-Key: the box sets this header itself; write instead: nothing: leave it out",
        ),
        (
            said_of(&realtime("renew_after_ms = 1000")),
            "recado.toml:4:18: cloud.realtime.renew_after_ms: 1000 is outside of 60000 to 86400000; write instead: renew_after_ms = 60000",
        ),
        (
            said_of(&realtime("prices = { currency = \"EUR\", input_text = nan }")),
            "recado.toml:4:43: cloud.realtime.prices.input_text: a price lies between 0 and 1000000; write instead: input_text = 0",
        ),
        (
            said_of(&realtime("prices = { currency = \"EUR\", input_text = inf }")),
            "recado.toml:4:43: cloud.realtime.prices.input_text: a price lies between 0 and 1000000; write instead: input_text = 1000000",
        ),
        (
            said_of(&realtime("prices = { currency = \" \" }")),
            "recado.toml:4:23: cloud.realtime.prices.currency: \" \" is no currency that could be shown; write instead: currency = \"USD\"",
        ),
    ] {
        assert_eq!(said, expected);
        assert!(!said.contains("s3cr3t"), "{said}");
    }
    let missing = said_of(&realtime("key_file = \"realtime-key\""));
    assert!(
        missing.starts_with("recado.toml:4:12: cloud.realtime.key_file: the credential file that is named is not in THE-ROOM: "),
        "{missing}"
    );
}

#[test]
fn a_key_that_others_may_change_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let room = Room::with(&realtime("key_file = \"realtime-key\""));
    let key = room.0.path().join("realtime-key");
    std::fs::write(&key, "s3cr3t").unwrap();
    for (mode, is_warned_of) in [(0o600, false), (0o444, false), (0o644, false), (0o646, true), (0o664, true)] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        let said = room.problems(&room.sources());
        let warning = "recado.toml:4:12: warning: cloud.realtime.key_file: others than its owner may write to the credential file realtime-key; \
                       write instead: what it says now, after `chmod go-w realtime-key`";
        assert_eq!(said, if is_warned_of { warning } else { "" }, "{mode:o}");
    }
}

/// The parts of a cascade with nothing wrong, and `more` in one of them.
fn cascade(part: &str, more: &str) -> String {
    let more = |name| if name == part { more } else { "" };
    format!(
        "[cloud.transcription]\nurl = \"https://hears.example/v1\"\nmodel = \"ear-1\"\n{}\n\
         [cloud.language]\nurl = \"http://127.0.0.1:8000/v1\"\nmodel = \"mind-1\"\n{}\n",
        more("transcription"),
        more("language")
    )
}

#[test]
fn each_mistake_in_a_part_of_a_cascade_is_named_with_its_place_and_a_remedy() {
    assert_eq!(said_of(&cascade("", "")), "");
    assert_eq!(said_of(&cascade("language", "answer_timeout_ms = 2500")), "", "less than the time to connect that nobody has written");
    for (part, more, said) in [
        (
            "transcription",
            "prompt = \" \"",
            "recado.toml:4:10: cloud.transcription.prompt: a prompt has 1 to 1000 bytes: models read no more of it; write instead: a few words of the kind that callers say; or leave it out",
        ),
        (
            "transcription",
            "keywords = [\"Teo\", \"\"]",
            "recado.toml:4:20: cloud.transcription.keywords: a keyword has 1 to 64 bytes, without line breaks; write instead: a name or a word; or leave it out",
        ),
        (
            "transcription",
            "headers = { Authorization = \"Bearer s3cr3t\" }",
            "recado.toml:4:29: cloud.transcription.headers.Authorization: credentials don't stand in a configuration; write instead: key_file = \"transcription-key\", a file that holds the key",
        ),
        (
            "transcription",
            "headers = { Content-Type = \"audio/wav\" }",
            "recado.toml:4:28: cloud.transcription.headers.Content-Type: the box sets this header itself; write instead: nothing: leave it out",
        ),
        (
            "transcription",
            "stall_timeout_ms = 100",
            "recado.toml:4:20: cloud.transcription.stall_timeout_ms: 100 is outside of 500 to 60000; write instead: stall_timeout_ms = 500",
        ),
        (
            "language",
            "connect_timeout_ms = 20000",
            "recado.toml:8:22: cloud.language.connect_timeout_ms: 20000 is outside of 500 to 9999; write instead: connect_timeout_ms = 9999",
        ),
        (
            "transcription",
            "connect_timeout_ms = 500\nanswer_timeout_ms = 500",
            "recado.toml:5:21: cloud.transcription.answer_timeout_ms: 500 is outside of 600 to 60000; write instead: answer_timeout_ms = 600",
        ),
        (
            "language",
            "api = \"assistants\"",
            "recado.toml:8:7: cloud.language.api: \"assistants\" is not a choice; write instead: api = \"chat-completions\" or \"responses\"",
        ),
        (
            "language",
            "tokens_max = 1",
            "recado.toml:8:14: cloud.language.tokens_max: 1 is outside of 16 to 32768; write instead: tokens_max = 16",
        ),
        (
            "language",
            "temperature = 3.5",
            "recado.toml:8:15: cloud.language.temperature: 3.5 is outside of 0 to 2; write instead: temperature = 0.7; or leave it out, for the service's own",
        ),
    ] {
        let found = said_of(&cascade(part, more));
        assert_eq!(found, said);
        assert!(!found.contains("s3cr3t"), "{found}");
    }
    let with_url = |url: &str| said_of(&cascade("", "").replace("https://hears.example/v1", url));
    for (url, said) in [
        ("wss://hears.example/v1", "this is not a https:// or http:// URL; write instead: url = \"https://api.openai.com/v1\""),
        (
            "https://hears.example/v1?api-key=s3cr3t",
            "a URL is logged, and the query of this one holds a credential; write instead: the URL without it, key_file = \"transcription-key\" and key_header = \"api-key\"",
        ),
    ] {
        assert_eq!(with_url(url), format!("recado.toml:2:7: cloud.transcription.url: {said}"));
    }
    let plain = with_url("http://10.0.0.5:8000/v1");
    assert!(plain.starts_with("recado.toml:2:7: warning: cloud.transcription.url: what callers say travels unencrypted"), "{plain}");
}

#[test]
fn a_cascade_needs_both_its_parts_and_says_who_they_are() {
    let model = "[model]\nkind = \"cascade\"\ndialogue = \"there-is-none.toml\"\n";
    let missing = |part: &str| {
        format!(
            "recado.toml:2:8: model.kind: the cascade has no part for {part}; write instead: a table [cloud.{part}] with its url, its model and a key_file, or kind = \"scripted\""
        )
    };
    assert_eq!(said_of(model), format!("{}\n{}", missing("transcription"), missing("language")));
    let (_, language) =
        cascade("", "").split_once("[cloud.language]").map(|(a, b)| (a.to_owned(), format!("[cloud.language]{b}"))).unwrap();
    assert_eq!(said_of(&format!("{model}{language}")), missing("transcription"));
    let broken = said_of(&format!("{model}[cloud]\ntranscription = 7\n{language}"));
    assert!(broken.starts_with("recado.toml:5:17: cloud.transcription: expected a table") && broken.lines().count() == 1, "{broken}");
    let priced = |currency: &str| {
        let hears = cascade("transcription", &format!("prices = {{ currency = \"{currency}\", audio_minute = 1 }}"));
        said_of(&format!("{model}{hears}prices = {{ currency = \"USD\", output_text = 1 }}\n"))
    };
    assert_eq!(priced("USD"), "");
    assert!(priced("EUR").starts_with("recado.toml:7:23: cloud.transcription.prices.currency: \"EUR\": what a call costs is one sum"));
    let room = Room::with(&format!("{model}{}", cascade("language", "key_file = \"key\"")));
    room.write("credentials/key", "from-systemd");
    let sources = Sources { credentials_dir: Some(room.path("credentials")), ..room.sources() };
    let config = Config::load(&sources, Depth::Files).unwrap().0;
    let led = "Calls are led by the model mind-1 at http://127.0.0.1:8000, which reads what ear-1 at https://hears.example writes down.\n";
    assert!(config.summary().to_string().contains(led), "{}", config.summary());
    let language = config.cloud.language.unwrap();
    assert_eq!(language.key_file, Some(room.path("credentials/key")));
    assert_eq!(language.part().address("chat/completions").unwrap().as_str(), "http://127.0.0.1:8000/v1/chat/completions");
    let named = LanguageService { url: "https://x.example/openai/v1/?api-version=1".into(), ..language };
    assert_eq!(named.part().address("responses").unwrap().as_str(), "https://x.example/openai/v1/responses?api-version=1");
}

#[test]
fn a_cloud_key_is_found_among_the_credentials_and_the_model_stands_in_the_address_once() {
    let room = Room::with(&realtime("key_file = \"key\""));
    room.write("credentials/key", "from-systemd");
    let sources = Sources { credentials_dir: Some(room.path("credentials")), ..room.sources() };
    let service = Config::load(&sources, Depth::Files).unwrap().0.cloud.realtime.unwrap();
    assert_eq!(service.key_file, Some(room.path("credentials/key")));
    assert_eq!(service.address().unwrap().as_str(), "wss://voice.example/v1/realtime?model=speaks");
    let named = Realtime { url: "ws://127.0.0.1/a?model=speaks&x=1".into(), ..service };
    assert_eq!(named.address().unwrap().as_str(), "ws://127.0.0.1/a?model=speaks&x=1");
    let summary = Config::load(&sources, Depth::Files).unwrap().0.summary().to_string();
    assert!(summary.contains("The speech model speaks at wss://voice.example can be tried out"), "{summary}");
}

#[test]
fn what_a_tools_text_calls_and_is_not_there_is_refused_before_anybody_hears_of_it() {
    let said = said_of(&tool("say_failed.es = \"{% if error %}{{ error | uper }}{% endif %}\"\nsay_short.es = \"{{ lower(result.x) }}\""));
    let lines: Vec<_> = said.lines().collect();
    let filter = "recado.toml:5:17: tool \"look_up\": say_failed.es: there is no filter `uper`; did you mean `upper`?; write instead: one of abs, attr, ";
    assert!(lines[0].starts_with(filter) && lines[0].contains(", title, trim, "), "{said}");
    let function = "recado.toml:6:16: tool \"look_up\": say_short.es: there is no function `lower`; write instead: {{ … | lower }}";
    assert_eq!(lines[1..], [function], "{said}");
}

#[test]
fn a_place_that_keeps_nothing_is_refused_with_the_reason() {
    let room = Room::with("");
    room.write("file", "");
    let said = |setting: &str, place: &str| {
        let sources = Sources { flags: vec![format!("{setting}={place}"), "box.name=b".into()], ..room.sources() };
        room.problems(&sources)
            .replace(&format!("flag --set {setting}={place}: "), "")
            .replace(&room.0.path().display().to_string(), "HERE")
    };
    let instead = "write instead: data_dir = \"/var/lib/recado\"";
    let data = |place: &str| said("box.data_dir", place);
    assert_eq!(data(""), format!("box.data_dir: it is empty; {instead}"));
    assert_eq!(data("/dev/null"), format!("box.data_dir: /dev/null is a device, not a directory; {instead}"));
    assert_eq!(data("/dev/null/data"), format!("box.data_dir: /dev/null is a device, not a directory; {instead}"));
    assert_eq!(data("/proc/recado"), format!("box.data_dir: /proc/recado is in /proc, which keeps nothing; {instead}"));
    assert_eq!(data("/tmp/../sys/recado/a"), format!("box.data_dir: /tmp/../sys/recado/a is in /sys, which keeps nothing; {instead}"));
    std::os::unix::fs::symlink("/proc", room.path("link")).unwrap();
    let link = room.path("link/data").display().to_string();
    assert!(data(&link).contains("is in /proc, which keeps nothing"), "{}", data(&link));
    let file = room.path("file").display().to_string();
    assert!(data(&file).contains("file is a file, not a directory"), "{}", data(&file));
    assert!(said("media.recordings", &file).contains("file is a file, not a directory; "), "{}", said("media.recordings", &file));
    let new = room.path("new/data").display().to_string();
    assert_eq!(data(&new), "", "what is not there yet is made");
}

#[test]
fn ports_that_nobody_finds_or_that_two_want_are_refused() {
    for (toml, said) in [
        (
            "[http]\nlisten = \"192.0.2.1:0\"\n",
            "recado.toml:2:10: http.listen: nobody can find a port that is chosen at each start, and tools call back after a restart too; write instead: listen = \"192.0.2.1:8080\"",
        ),
        (
            "[http]\nlisten = \"127.0.0.1:0\"\nadvertised = \"https://box.example\"\n",
            "recado.toml:2:10: http.listen: nobody can find a port that is chosen at each start, and tools call back after a restart too; write instead: listen = \"127.0.0.1:8080\"",
        ),
        (
            "[http]\nadvertised = \"https://box.example:0\"\n",
            "recado.toml:2:14: http.advertised: nobody can be reached at port 0; write instead: advertised = \"https://box.example\"",
        ),
        (
            "[sip]\nlisten = \"[::]:0\"\nadvertised = \"2001:db8::1\"\nallow = [\"fd00::/8\"]\n",
            "recado.toml:2:10: sip.listen: phones can't find a port that is chosen at each start; write instead: listen = \"[::]:5060\"",
        ),
        (
            "[sip]\nlisten = \"127.0.0.1:20010\"\n[media]\nports = \"20000-20100\"\n",
            "recado.toml:4:9: media.ports: 20000-20100 holds port 20010, which is that of sip.listen = \"127.0.0.1:20010\"; write instead: ports = \"30000-30079\"",
        ),
        (
            "[http]\nlisten = \"127.0.0.1:8080\"\n[media]\nports = \"8000-9000\"\n",
            "recado.toml:4:9: media.ports: 8000-9000 holds port 8080, which is that of http.listen = \"127.0.0.1:8080\"; write instead: ports = \"20000-20079\"",
        ),
        (
            "[sip]\nlisten = \"[::1]:20010\"\n",
            "recado.toml:2:10: sip.listen: port 20010 is one of those for media, media.ports = \"20000-20999\"; write instead: listen = \"[::1]:5060\"",
        ),
        (
            "[http]\nlisten = \"127.0.0.1:20010\"\n",
            "recado.toml:2:10: http.listen: port 20010 is one of those for media, media.ports = \"20000-20999\"; write instead: listen = \"127.0.0.1:8080\"",
        ),
        ("[sip]\nlisten = \"127.0.0.1:0\"\n[http]\nlisten = \"127.0.0.1:0\"\n", ""),
        ("[http]\nlisten = \"127.0.0.2:8080\"\n[media]\nports = \"8000-9000\"\n", ""),
    ] {
        let without_warnings: Vec<_> = said_of(toml).lines().filter(|line| !line.contains(": warning: ")).map(str::to_owned).collect();
        assert_eq!(without_warnings.join("\n"), said, "{toml}");
    }
    let no_port = tool("").replace("crm.example", "crm.example:0");
    let reached = "tool \"look_up\": url: nobody can be reached at port 0; write instead: url = \"https://crm.example/recado/tickets\"";
    assert_eq!(said_of(&no_port), format!("recado.toml:3:7: {reached}"));
}

/// An engine that answers as espeak-ng does about a voice that it has not.
#[test]
fn a_voice_that_the_engine_has_not_is_refused_and_one_that_cannot_be_asked_is_not_waited_for() {
    let room = Room::with("[speech]\nprogram = \"engine\"\nvoices.es = \"klingon\"\n");
    let answers = |script: &str, depth: Depth| {
        room.write("script", script);
        // By a process of its own: what this one has open to be written, another test's child may have too, and then it can't be run.
        let installed = std::process::Command::new("install").args(["-m", "755"]).args([room.path("script"), room.path("engine")]).status();
        assert!(installed.unwrap().success());
        let program = format!("speech.program={}", room.path("engine").display());
        room.problems_to(&Sources { flags: vec![program], ..room.sources() }, depth)
    };
    let refused =
        "recado.toml:3:13: speech.voices.es: engine has no voice \"klingon\"; write instead: es = \"es\" (`espeak-ng --voices` lists them)";
    let without = |voice| {
        format!("#!/bin/sh\n[ \"$3\" = {voice} ] || exit 0\necho 'Error: The specified espeak-ng voice does not exist.' >&2\nexit 1\n")
    };
    let (patient, impatient) = (Duration::from_secs(600), Duration::from_millis(50));
    let [patient, impatient] = [patient, impatient].map(|answers_within| Depth::Engine { answers_within });
    assert_eq!(answers(&without("klingon"), patient), refused);
    assert_eq!(answers(&without("vulcan"), patient), "");
    assert_eq!(answers("#!/bin/sh\nexit 1\n", patient), "", "an engine that fails otherwise says nothing of voices");
    assert_eq!(answers("#!/bin/sh\nexec sleep 600\n", impatient), "");
    assert_eq!(answers("#!/bin/sh\nsleep 20 &\nexit 1\n", impatient), "", "what it leaves behind is not waited for");
    let notes = without("klingon").replace("#!/bin/sh\n", "#!/bin/sh\n: > \"$0.asked\"\n");
    assert_eq!(answers(&notes, Depth::Settings) + &answers(&notes, Depth::Files), "");
    assert!(!room.path("engine.asked").exists(), "who does not ask for voices starts no engine");
    assert_eq!(answers(&notes, patient), refused);
    assert!(room.path("engine.asked").exists());
    for voice in ["gmw/en", "-x", "9"] {
        let said = said_of(&format!("[speech]\nvoices.es = {voice:?}\n"));
        assert!(said.contains("is not the name of a voice"), "the engine is never given it: {said}");
    }
}

#[test]
fn a_password_in_a_url_is_refused_and_repeated_nowhere() {
    let urls = [
        "http://me:s3cr3t@box.example",
        "http://me:s3/cr3t@box.example",
        "ftp://me:s3cr3t@box.example",
        "http://s3cr3t@box:x/",
        "http://me:s3 cr3t@box.example",
        "http://me:s3\"cr3t' `cr3t@box.example",
        "http://me:s3@cr3t@box.example",
        "http://me:s3://cr3t@box.example",
        "me:s3cr3t@box.example",
        "http:/me:s3cr3t@box.example",
        "http:me:s3cr3t@box.example",
    ];
    for url in urls {
        for toml in [
            format!("[http]\nadvertised = {url:?}\n"),
            tool("").replace("https://crm.example/a", url),
            tool(&format!("cancel_url = {url:?}")),
            tool(&format!("proxy = {url:?}")),
            format!("[hand_off]\nurl = {url:?}\nsecret_file = \"none\"\n"),
        ] {
            let said = said_of(&toml);
            assert!(said.contains("recado.toml:") && !said.contains("cr3t"), "{said}");
        }
        let room = Room::with("");
        let said = room.problems(&Sources { flags: vec![format!("http.advertised={url}")], ..room.sources() });
        assert!(said.starts_with("flag --set http.advertised=") && !said.contains("cr3t"), "{said}");
    }
    let said = said_of("[http]\nadvertised = \"http://me:s3cr3t@box.example\"\n");
    assert_eq!(
        said,
        "recado.toml:2:14: http.advertised: the URL that every tool is given, and logs, holds a credential; write instead: the URL without it: a callback proves itself with its own token"
    );
    for rest in ["a?key=s3cr3t", "hooks/s3cr3t", "a#s3cr3t", "s3cr3t/a?b#c"] {
        let hand_off = format!("[hand_off]\nurl = \"https://hooks.example:8443/{rest}\"\nsecret_file = \"key\"\n");
        let keyed = Room::with(&format!("{hand_off}{}", tool("").replace("crm.example/a", &format!("crm.example/{rest}"))));
        keyed.write("key", "k");
        let summary = keyed.load().unwrap().0.summary().to_string();
        assert!(summary.contains("POST https://crm.example, ") && summary.contains("go to https://hooks.example:8443, "), "{summary}");
        assert!(!summary.contains("s3cr3t"), "{summary}");
    }
}

#[test]
fn each_mistake_in_what_else_a_tool_is_asked_is_named_with_its_place_and_a_remedy() {
    let status = "write instead: status_url = \"https://crm.example/recado/tickets/{operation_id}\"";
    let proxy = "write instead: proxy = \"http://proxy.example:3128\"";
    for (line, said) in [
        ("compensate_url = \"https://crm.example/undo\"", String::new()),
        ("status_url = \"https://crm.example/{operation_id}?key={idempotency_key}\"", String::new()),
        ("proxy = \"http://proxy.example:3128\"", String::new()),
        (
            "compensate_url = \"/undo\"",
            "recado.toml:5:18: tool \"look_up\": compensate_url: this is not an http:// or https:// URL; write instead: compensate_url = \"https://crm.example/recado/tickets\"".to_owned(),
        ),
        (
            "status_url = \"https://crm.example/status\"",
            format!("recado.toml:5:14: tool \"look_up\": status_url: it does not say which operation is asked about: {{operation_id}} or {{idempotency_key}} is missing; {status}"),
        ),
        (
            "status_url = \"https://crm.example/{operation_id}/{id}\"",
            format!("recado.toml:5:14: tool \"look_up\": status_url: only {{operation_id}} and {{idempotency_key}} are replaced in it; {status}"),
        ),
        (
            "status_url = \"https://crm.example/{operation_id}\"\nstatus_after_ms = 10",
            "recado.toml:6:19: tool \"look_up\": status_after_ms: 10 is outside of 250 to 60000; write instead: status_after_ms = 250".to_owned(),
        ),
        ("proxy = \"proxy.example\"", format!("recado.toml:5:9: tool \"look_up\": proxy: this is not an http:// or https:// URL; {proxy}")),
        ("proxy = \"http://proxy.example/a\"", format!("recado.toml:5:9: tool \"look_up\": proxy: a proxy is a scheme, a host and a port; {proxy}")),
        (
            "proxy = \"http://me:s3cr3t@proxy.example\"",
            "recado.toml:5:9: tool \"look_up\": proxy: a URL is logged, and this one holds a credential; write instead: a proxy that lets this box in without one".to_owned(),
        ),
        (
            "sign_secret_file = \"secret\"",
            "recado.toml:5:20: tool \"look_up\": sign_secret_file: the credential file that is named is not in THE-ROOM: No such file or directory (os error 2); write instead: a file in $CREDENTIALS_DIRECTORY, or the path of one that holds the secret".to_owned(),
        ),
        (
            "headers.Webhook-Id = \"7\"",
            "recado.toml:5:22: tool \"look_up\": headers.Webhook-Id: the box sets this header itself; write instead: nothing: leave it out".to_owned(),
        ),
    ] {
        assert_eq!(said_of(&tool(line)), said, "{line}");
    }
    for host in ["https://{operation_id}.example/a", "https://{operation_id}/a"] {
        let said = said_of(&tool(&format!("status_url = {host:?}")));
        assert!(said.contains("recado.toml:5:14: tool \"look_up\": status_url: "), "{said}");
    }
}

/// Wherever somebody writes one that should not, or misspells the setting.
#[test]
fn what_may_be_a_credential_is_repeated_nowhere_whatever_is_wrong_with_it() {
    let flags = [
        "hand_off.secret=s3cr3t",
        "hand_off.secret-file=s3cr3t",
        "hand_off.secretfile=s3cr3t",
        "hand_off.tokn=s3cr3t",
        "crm.anything=s3cr3t",
        "hand_off={url=\"https://crm.example/\", secret=\"s3cr3t\"}",
        "hand_off={url=\"https://crm.example/\", secret=\"s3cr3t\"",
        "hand_off=s3cr3t",
        "hand_off.url=s3cr3t",
        "hand_off.url=ftp://crm.example/s3cr3t",
        "hand_off.url=https://crm.example:0/s3cr3t",
        "http.advertised=https://box.example/?key=s3cr3t",
        "hand_off.secret:s3cr3t",
        "hand_off.secret s3cr3t",
        "cloud.realtime.key=s3cr3t",
        "cloud.realtime.url=https://voice.example/s3cr3t",
        "tools=s3cr3t",
        "tools=[{name=\"a\", url=\"https://crm.example/\", headers={Authorization=\"s3cr3t\"}}]",
        "tools=[{name=\"a\", url=\"https://crm.example/\", headers={X-Key=\"s3cr3t\"}, colour=1}",
    ];
    let room = Room::with("");
    for flag in flags {
        let said = room.problems(&Sources { flags: vec![flag.to_owned()], ..room.sources() });
        assert!(said.starts_with("flag --set ") && !said.contains("s3cr3t"), "{flag}: {said}");
        if let Some((key, value)) = flag.split_once('=') {
            let name = format!("RECADO_{}", key.to_uppercase().replace('.', "__"));
            let said = room.problems(&Sources { environment: vec![(name.clone(), value.to_owned())], ..room.sources() });
            assert!(said.starts_with(&format!("environment variable {name}: ")) && !said.contains("s3cr3t"), "{flag}: {said}");
        }
    }
    let hand_off = |more: &str| format!("[hand_off]\nurl = \"https://crm.example/\"\nsecret_file = \"none\"\n{more}\n");
    for toml in [
        hand_off("secret = \"s3cr3t\""),
        hand_off("secret_fil = \"s3cr3t\""),
        "hand_off = \"s3cr3t\"\n".to_owned(),
        "[hand_off]\nurl = \"https://crm.example/\"\nsecret_file = 5318008\n".to_owned(),
        "[hand_off]\nurl = 5318008\nsecret_file = \"none\"\n".to_owned(),
        tool("bearer = \"s3cr3t\""),
        tool("bearer_fil = \"s3cr3t\""),
        tool("bearer_file = 5318008"),
        tool("headers = \"Bearer s3cr3t\""),
        tool("headers.X-Key = 5318008"),
        tool("headers.X-Key = [\"s3cr3t\"]"),
        tool("headers.X-Key = \"s3cr3t\\n\""),
        tool("headers.Authorization = \"s3cr3t\""),
        tool("").replace("https://crm.example/a", "htps://crm.example/s3cr3t"),
        tool("bearer_file = \"none\"").replace("https://crm.example/a", "http://crm.example/s3cr3t"),
        "[hand_off]\nurl = \"http://crm.example/s3cr3t?key=s3cr3t\"\nsecret_file = \"none\"\n".to_owned(),
        realtime("key = \"s3cr3t\""),
        realtime("key_fil = \"s3cr3t\""),
        realtime("api_key = \"s3cr3t\""),
        realtime("headers = { Authorization = \"s3cr3t\" }"),
        realtime("").replace("wss://voice.example/v1/realtime", "ws://voice.example/s3cr3t"),
        realtime("").replace("wss://voice.example/v1/realtime", "https://voice.example/?key=s3cr3t"),
        // No TOML.
        hand_off("secret = s3cr3t"),
        hand_off("secret = \"s3cr3t"),
        hand_off("secret = 's3cr3t\n"),
        hand_off("secret = \"\\s3cr3t\""),
        hand_off("secret = \"a\" s3cr3t"),
        hand_off("secret = 5318008s3cr3t"),
        hand_off("secret: s3cr3t"),
        hand_off("secret = [\"s3cr3t\""),
    ] {
        let said = said_of(&toml);
        assert!(said.contains("recado.toml:") && !said.contains("s3cr3t") && !said.contains("5318008"), "{toml}{said}");
    }
}

/// Every setting that the annotated default names, with values that none of them takes: whatever is proposed is accepted.
#[test]
fn what_is_proposed_instead_is_accepted_when_it_is_written() {
    use toml::Value;
    let mut settings = Vec::new();
    let whole: toml::Table = everything().parse().unwrap();
    leaves(&Value::Table(whole.clone()), &mut Vec::new(), &mut settings);
    let numbers = [0, 1, 5, -1, 65_536, 4_294_967_295, 4_294_967_296, 1 << 42, i64::MAX].map(Value::Integer);
    let texts =
        ["", " ", "2 s", "9999999999 h", "99999999999999999999", "5000-80", "1024-65535", "0.0.0.0:0", "[::1]:70000", "a b@c:d", "ftp://x"];
    let values: Vec<Value> = numbers.into_iter().chain(texts.map(Value::from)).chain([Value::Float(2.5), Value::Boolean(true)]).collect();
    let room = Room::with("");
    for (name, text) in [
        ("crm-token", "t"),
        ("crm-ca.pem", ""),
        ("hand-off-secret", "s"),
        ("realtime-key", "k"),
        ("transcription-key", "k"),
        ("language-key", "k"),
        ("cloud-ca.pem", ""),
    ] {
        room.write(name, text);
    }
    engines::furnish(&room);
    let problems = |document: &Value| {
        room.write(
            "recado.toml",
            &document.as_table().unwrap().iter().map(|(key, value)| format!("{key} = {}\n", inline(value))).collect::<String>(),
        );
        Config::load(&room.sources(), Depth::Files).map_or_else(|problems| problems, |(_, warnings)| warnings)
    };
    let (mut followed, mut refused) = (0, Vec::new());
    for path in &settings {
        for value in &values {
            let mut document = Value::Table(whole.clone());
            let now = path.iter().fold(&document, |value, key| match value {
                Value::Array(items) => &items[key.parse::<usize>().unwrap()],
                value => &value[key.as_str()],
            });
            let value = match now {
                // As a text it is another value, of which other things may be wrong.
                Value::String(_) | Value::Array(_) if !value.is_str() => continue,
                Value::Integer(_) if value.as_str().is_some_and(|text| !text.starts_with(|c: char| c.is_ascii_digit())) => continue,
                Value::Array(_) => Value::Array(vec![value.clone()]),
                _ => value.clone(),
            };
            let (key, table) = path.split_last().unwrap();
            set(&mut document, table, key, value.clone());
            let about = path
                .iter()
                .filter(|key| key.parse::<usize>().is_err())
                .skip(usize::from(path[0] == "tools"))
                .cloned()
                .collect::<Vec<_>>()
                .join(".");
            let is_about = |problem: &&Problem| problem.severity == Severity::Error && problem.what.contains(&format!("{about}: "));
            let first = problems(&document);
            let Some(problem) = first.iter().find(is_about) else { continue };
            let Ok(proposed) = problem.instead.parse::<toml::Table>() else { continue };
            if problem.instead.contains('…') {
                continue;
            }
            for (key, value) in proposed {
                set(&mut document, table, &key, value);
            }
            let then = problems(&document);
            let again = then.iter().find(is_about);
            refused.extend(again.map(|again| format!("{path:?} = {value}: {problem}\nand then: {again}")));
            followed += 1;
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n\n"));
    assert!(followed > 300, "{followed} proposals were followed");
}

/// The way to every value that is no table, in any of the tables.
fn leaves(value: &toml::Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let inner: Vec<(String, &toml::Value)> = match value {
        toml::Value::Table(table) => table.iter().map(|(key, value)| (key.clone(), value)).collect(),
        toml::Value::Array(items) if items.iter().any(toml::Value::is_table) => {
            items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => return found.push(path.clone()),
    };
    for (key, value) in inner {
        path.push(key);
        leaves(value, path, found);
        path.pop();
    }
}

fn set(document: &mut toml::Value, table: &[String], key: &str, value: toml::Value) {
    let place = table.iter().fold(document, |value, key| match value {
        toml::Value::Array(items) => &mut items[key.parse::<usize>().unwrap()],
        value => &mut value[key.as_str()],
    });
    place.as_table_mut().unwrap().insert(key.to_owned(), value);
}

/// A value as TOML, on one line.
fn inline(value: &toml::Value) -> String {
    match value {
        toml::Value::Table(table) => {
            let entries: Vec<_> = table.iter().map(|(key, value)| format!("{key:?} = {}", inline(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        toml::Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        toml::Value::String(text) => format!("{text:?}"),
        toml::Value::Float(number) => format!("{number:?}"),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Boolean(boolean) => boolean.to_string(),
        toml::Value::Datetime(date) => date.to_string(),
    }
}

#[test]
fn a_number_too_large_for_anything_is_outside_of_the_settings_limits() {
    let huge = "99999999999999999999";
    for (setting, said) in [
        ("sip.calls_max", "99999999999999999999 is outside of 1 to 500; write instead: calls_max = 500"),
        ("store.keep_days", "99999999999999999999 is outside of 0 to 3650; write instead: keep_days = 3650"),
        ("sip.call_ms_max", "99999999999999999999 is outside of 10000 to 86400000; write instead: call_ms_max = 86400000"),
        ("trace.file_bytes_max", "99999999999999999999 is outside of 65536 to 67108864; write instead: file_bytes_max = 67108864"),
    ] {
        let (table, key) = setting.split_once('.').unwrap();
        let written = said_of(&format!("[{table}]\n{key} = {huge}\n"));
        assert!(written.lines().any(|line| line == format!("recado.toml:2:{}: {setting}: {said}", key.len() + 4)), "{written}");
        let room = Room::with("");
        let given = room.problems(&Sources { flags: vec![format!("{setting}={huge}")], ..room.sources() });
        assert!(given.contains(&format!("{setting}: {said}")), "{given}");
    }
}

#[test]
fn every_problem_is_reported_and_not_only_the_first() {
    let said = said_of(
        "[box]\nlanguage = \"fr\"\nnmae = \"x\"\n[sip]\ncalls_max = \"many\"\nlisten = 5060\n[[tools]]\nname = 1\nurl = \"ftp://x\"\n[[tools]]\nname = \"b\"\nurl = \"http://127.0.0.1/\"\nsay_done.en = \"{{\"\n",
    );
    let places: Vec<_> = said.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(
        places,
        [
            "recado.toml:2:12",
            "recado.toml:3:1",
            "recado.toml:5:13",
            "recado.toml:6:10",
            "recado.toml:7:1",
            "recado.toml:8:8",
            "recado.toml:9:7",
            "recado.toml:13:1",
            "recado.toml:13:15"
        ],
        "{said}"
    );
}

#[test]
fn a_file_that_is_not_toml_is_reported_at_each_place_that_is_not() {
    let said = said_of("[sip\nlisten = \"a\n[media]\nports = ,\n");
    let lines: Vec<_> = said.lines().collect();
    assert!(lines.len() >= 3, "{said}");
    assert_eq!(said_of(&format!("a = {}", "[".repeat(500))).lines().count(), 2, "what is wrong once is said once");
    assert!(lines.iter().all(|line| line.starts_with("recado.toml:") && line.contains(": this is not TOML: ")), "{said}");
}

#[test]
fn a_file_that_is_missing_too_large_or_not_text_is_named() {
    let room = Room::with("");
    let nowhere = Sources { file: room.path("nowhere.toml"), ..Sources::default() };
    assert_eq!(
        room.problems(&nowhere),
        "nowhere.toml: can't be read: No such file or directory (os error 2); write instead: the path of a configuration file, as in `-c config/recado.toml`"
    );
    let instead = "write instead: the path of a configuration file, as in `-c config/recado.toml`";
    let said = |file: PathBuf| room.problems(&Sources { file, ..Sources::default() });
    assert!(std::process::Command::new("mkfifo").arg(room.path("pipe")).status().unwrap().success());
    assert_eq!(said(room.path("pipe")), format!("pipe: can't be read: it is a named pipe, not a file; {instead}"));
    assert_eq!(said("/dev/null".into()), format!("/dev/null: can't be read: it is a device, not a file; {instead}"));
    assert_eq!(said("/dev/zero".into()), format!("/dev/zero: can't be read: it is a device, not a file; {instead}"));
    assert_eq!(said("/tmp".into()), format!("/tmp: can't be read: it is a directory, not a file; {instead}"));
    let dialogue = said_of("[model]\ndialogue = \"/dev/null\"\n");
    assert!(dialogue.starts_with("recado.toml:2:12: model.dialogue: /dev/null is a device, not a file; "), "{dialogue}");
    let secret = said_of(&tool("bearer_file = \"/dev/null\""));
    assert!(secret.contains("/dev/null can't be read: it is a device, not a file; "), "{secret}");
    room.write("recado.toml", &"#".repeat(2 * 1024 * 1024));
    assert_eq!(
        room.problems(&room.sources()),
        "recado.toml: is larger than 1048576 bytes; write instead: smaller files in its `.d` directory"
    );
    std::fs::write(room.path("recado.toml"), b"[box]\nname = \"\xff\"").unwrap();
    assert_eq!(room.problems(&room.sources()), "recado.toml: is not UTF-8 (byte 14); write instead: the same text saved as UTF-8");
}

#[test]
fn outer_layers_win_setting_by_setting_and_tools_are_added() {
    let room = Room::with(&format!("[sip]\ncalls_max = 1\nring_ms = 100\nusers = [\"a\", \"b\"]\n{}", tool("")));
    room.write("recado.toml.d/20-more.toml", "[sip]\ncalls_max = 3\n");
    room.write("recado.toml.d/10-less.toml", &format!("[sip]\ncalls_max = 2\nusers = [\"c\"]\n{}", tool("").replace("look_up", "other")));
    room.write("recado.toml.d/ignored.txt", "not toml at all [");
    let mut sources = room.sources();
    let sip = |sources: &Sources| Config::load(sources, Depth::Files).unwrap().0.sip;
    assert_eq!((sip(&sources).calls_max, sip(&sources).ring_ms, sip(&sources).users), (3, 100, vec!["c".to_owned()]));
    let names: Vec<_> = Config::load(&sources, Depth::Files).unwrap().0.tools.into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["look_up", "other"]);

    sources.environment = vec![
        ("RECADO_SIP__CALLS_MAX".into(), "4".into()),
        ("RECADO_SIP__USERS".into(), "[\"d\"]".into()),
        ("RECADO_BOX__NAME".into(), "007".into()),
        ("RECADO_SPEECH__VOICES__ES".into(), "es-419".into()),
    ];
    assert_eq!((sip(&sources).calls_max, sip(&sources).users), (4, vec!["d".to_owned()]));
    let (config, _) = Config::load(&sources, Depth::Files).unwrap();
    assert_eq!((config.this_box.name.as_str(), config.speech.voices.es.as_deref()), ("007", Some("es-419")));

    sources.flags = vec!["sip.calls_max=5".into(), "sip.listen=[::1]:5070".into(), "media.realtime=false".into()];
    let (config, _) = Config::load(&sources, Depth::Files).unwrap();
    assert_eq!((config.sip.calls_max, config.sip.listen.port(), config.media.realtime), (5, 5070, false));
}

#[test]
fn a_name_that_is_taken_is_replaced_by_one_that_is_free_and_no_longer_than_a_name() {
    let long = "a".repeat(64);
    let named = |name: &str| tool("").replace("look_up", name);
    let all = [named(&long), named(&format!("{}_2", "a".repeat(62))), named(&long)].concat();
    let said = said_of(&all);
    assert!(said.ends_with(&format!("; write instead: name = \"{}_3\"", "a".repeat(62))), "{said}");
}

#[test]
fn a_setting_with_more_parts_than_any_has_is_refused() {
    let room = Room::with("");
    let name = format!("RECADO_{}B", "A__".repeat(100_000));
    let sources = Sources { environment: vec![(name.clone(), "1".into())], ..room.sources() };
    let said = room.problems(&sources);
    assert_eq!(said, format!("environment variable {name}: there is no setting with 100001 parts; write instead: sip.calls_max=4"));
    let flag = format!("{}b=1", "a.".repeat(100_000));
    let said = room.problems(&Sources { flags: vec![flag], ..room.sources() });
    assert!(said.contains(": there is no setting with 100001 parts; "), "{}", &said[said.len() - 200..]);
}

#[test]
fn problems_of_outer_layers_name_the_variable_or_the_flag() {
    let room = Room::with("[sip]\ncalls_max = 1\n");
    let mut sources = room.sources();
    sources.environment = vec![("RECADO_SIP__CALLS_MAX".into(), "x".into()), ("RECADO_SPI__LISTEN".into(), "y".into())];
    sources.flags = vec!["media.ports=1".into(), "quiet".into()];
    assert_eq!(
        room.problems(&sources),
        "environment variable RECADO_SIP__CALLS_MAX: sip.calls_max: expected a whole number, zero or more, found the text \"x\"; write instead: a number without quotes, unit or sign\n\
         environment variable RECADO_SPI__LISTEN: spi: there is no such setting; did you mean `sip`?; write instead: [sip]\n\
         flag --set media.ports=1: media.ports: \"1\" is not a range of ports from 1024 to 65535; write instead: ports = \"20000-20999\"\n\
         flag --set quiet: there is no `=` between setting and value; write instead: --set sip.calls_max=4"
    );
}

#[test]
fn credentials_are_found_by_name_first_and_never_shown() {
    let room = Room::with(&tool("bearer_file = \"crm\""));
    room.write("crm", "beside-the-file");
    room.write("credentials/crm", "from-systemd");
    let mut sources = room.sources();
    assert_eq!(Config::load(&sources, Depth::Files).unwrap().0.tools[0].bearer_file, Some(room.path("crm")));
    sources.credentials_dir = Some(room.path("credentials"));
    sources.state_dir = Some("/var/lib/recado".into());
    let (config, _) = Config::load(&sources, Depth::Files).unwrap();
    let file = config.tool("look_up").unwrap().bearer_file.clone().unwrap();
    assert_eq!(file, room.path("credentials/crm"));
    assert_eq!(Secret::read(&file).unwrap().expose(), "from-systemd");
    assert_eq!(config.this_box.data_dir(), Path::new("/var/lib/recado"));
    assert!(!format!("{config:?}{}", config.summary()).contains("from-systemd"));
}

#[test]
fn a_credential_that_is_none_is_reported_without_being_shown() {
    let room = Room::with(&tool("bearer_file = \"token\""));
    room.write("token", "p@ss\nword");
    let said = room.problems(&room.sources());
    assert!(said.starts_with("recado.toml:5:15: tool \"look_up\": bearer_file: the credential file token must hold one line"), "{said}");
    assert!(!said.contains("p@ss"), "{said}");
    assert_eq!(room.problems_to(&room.sources(), Depth::Settings), "", "who sends nothing needs no credential");
}

proptest::proptest! {
    /// A file that was cut, doubled or typed over anywhere is a configuration or a list of problems that have places.
    #[test]
    fn a_damaged_file_is_reported_and_never_panics(at in 0.0..1.0, length in 0usize..40, typed in "[\\[\\]{}=\"'#.,a-z0-9é\n-]{0,12}") {
        let text = annotated();
        let boundary = |byte: usize| (0..=byte.min(text.len())).rev().find(|byte| text.is_char_boundary(*byte)).unwrap_or(0);
        let start = boundary((text.len() as f64 * at) as usize);
        let end = boundary(start + length).max(start);
        let room = Room::with(&format!("{}{typed}{}", &text[..start], &text[end..]));
        if let Err(problems) = room.load() {
            proptest::prop_assert!(problems.fatal());
            for problem in problems.iter() {
                proptest::prop_assert!(matches!(problem.place, Place::File { .. }), "{problem}");
            }
        }
    }
}

#[test]
fn the_annotated_default_says_the_defaults() {
    let room = Room::with(&annotated());
    let (mut annotated, warnings) = room.load().unwrap();
    assert!(warnings.is_empty(), "{warnings}");
    let (mut default, _) = Room::with("").load().unwrap();
    let tools = std::mem::take(&mut annotated.tools);
    default.model.dialogue = annotated.model.dialogue.clone();
    assert_eq!(annotated, default);
    let [table, _, order] = &tools[..] else { panic!("the annotated default has three tools") };
    assert_eq!((table.timeout_ms, table.deadline_ms, table.concurrency), (order.timeout_ms, order.deadline_ms, order.concurrency));
    assert_eq!((&table.retry, table.priority, table.ride, table.strict), (&order.retry, order.priority, order.ride, order.strict));
    assert_eq!((table.can_interrupt, table.uncertain), (order.can_interrupt, order.uncertain));
    assert_eq!((table.duplicate, table.max_wait_ms, table.audience), (order.duplicate, order.max_wait_ms, order.audience));
    assert_eq!((table.progress, table.when_unheard), (order.progress, order.when_unheard));
    assert_eq!(table.status_after_ms, order.status_after_ms);
}

#[test]
fn every_setting_that_is_commented_out_in_the_annotated_default_is_one() {
    let everything = everything();
    for key in [
        "recordings",
        "advertised",
        "retract_ms",
        "bearer_file",
        "topic",
        "cancel_url",
        "secret_file",
        "key_file",
        "compensate_url",
        "status_url",
        "sign_secret_file",
        "proxy",
    ] {
        assert!(everything.contains(&format!("\n{key} = ")), "{key}");
    }
    let room = Room::with(&everything);
    room.write("crm-token", "t");
    room.write("crm-secret", "whsec_c2VjcmV0LW9mLWJvdGgtc2lkZXM=");
    room.write("crm-ca.pem", "");
    room.write("hand-off-secret", "s");
    room.write("realtime-key", "k");
    room.write("live-key", "k");
    room.write("gemini-key", "k");
    room.write("gemini-ca.pem", "");
    room.write("cloud-ca.pem", "");
    room.write("standby.dialogue.toml", "");
    engines::furnish(&room);
    room.write("tools-ca.pem", "");
    for name in ["transcription-key", "language-key", "mcp-token", "api-key"] {
        room.write(name, "k");
    }
    assert_eq!(room.problems(&room.sources()), "");
}

/// The annotated default with every setting that is commented out in it.
fn everything() -> String {
    let setting = |line: &str| {
        let is_table = |rest: &str| rest.starts_with('[') && rest.ends_with(']');
        let is_setting = |rest: &str| rest.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
        let content = line.strip_prefix("# ").filter(|rest| is_table(rest) || is_setting(rest));
        content.unwrap_or(line).replace("http://127.0.0.1:9000", "https://crm.example")
    };
    annotated().lines().map(|line| setting(line) + "\n").collect()
}

fn annotated() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("config/recado.toml")).unwrap()
}

#[test]
fn the_summary_says_what_the_box_will_do() {
    let room = Room::with(&format!(
        "[box]\nlanguage = \"en\"\n[sip]\ncall_ms_max = 90000\n{}",
        tool("idempotent = true\npriority = \"urgent\"\nsay_done.en = \"Done.\"").replace("say_done.es = \"Hecho.\"\n", "")
    ));
    let summary = room.load().unwrap().0.summary().to_string().replace(&format!("{}/", room.0.path().display()), "");
    assert_eq!(
        summary,
        "recado speaks English for account \"default\" and keeps its data in data, below where it is started.\n\
         It answers SIP at 127.0.0.1:5060 (known to phones as 127.0.0.1) for any user, from 127.0.0.0/8, ::1/128.\n\
         Up to 20 calls of at most 90 s each, RTP on ports 20000-20999; calls are not recorded.\n\
         It follows the dialogue dialogue.toml.\n\
         It tells results after 650 ms of quiet.\n\
         Health and measures: http://127.0.0.1:8080; callbacks: http://127.0.0.1:8080.\n\
         Traces of calls, without words and numbers, are kept in data/traces.\n\
         Tools:\n  look_up: POST https://crm.example, within 5 min, idempotent, up to 5 attempts, urgent\n"
    );
}
