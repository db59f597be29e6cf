//! Slips of people who set up their first box: what is said names the table and the setting at hand, and never what may be a credential.

use super::*;

/// A service's table with nothing wrong, and `more` in it.
fn service(table: &str, more: &str) -> String {
    let scheme = if ["transcription", "language", "speech"].contains(&table) { "https" } else { "wss" };
    let voices = if table == "speech" { "voices.es = \"coral\"\n" } else { "" };
    format!("[cloud.{table}]\nurl = \"{scheme}://voice.example/v1\"\nmodel = \"speaks\"\n{voices}{more}\n")
}

const TABLES: [&str; 6] = ["realtime", "live", "gemini", "transcription", "language", "speech"];

#[test]
fn what_is_missing_is_proposed_as_its_own_table_has_it() {
    for (table, url) in [
        ("realtime", "wss://api.openai.com/v1/realtime"),
        ("live", "wss://api.openai.com/v1/live/sessions"),
        ("gemini", "wss://generativelanguage.googleapis.com/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"),
        ("transcription", "https://api.openai.com/v1"),
        ("language", "https://api.openai.com/v1"),
        ("speech", "https://api.openai.com/v1"),
    ] {
        let said = said_of(
            &format!("[cloud.{table}]\nmodel = \"speaks\"\nvoices.es = \"coral\"\n")
                .replace(if table == "speech" { "\0" } else { "voices.es = \"coral\"\n" }, ""),
        );
        assert_eq!(said, format!("recado.toml:1:8: cloud.{table}: `url` is missing; write instead: url = {url:?}"));
    }
    let hand_off = said_of("[hand_off]\nsecret_file = \"recado.toml\"\n");
    assert!(hand_off.contains("`url` is missing; write instead: url = \"https://crm.example/recado/unheard\""), "{hand_off}");
}

#[test]
fn a_table_or_a_setting_that_is_misspelt_is_written_as_its_own_table_has_it() {
    for (toml, said) in [
        (
            service("realtme", ""),
            "recado.toml:1:8: cloud.realtme: there is no such setting; did you mean `realtime`?; write instead: [cloud.realtime]",
        ),
        (
            service("realtime", "headers = [1]"),
            "recado.toml:4:11: cloud.realtime.headers: expected a table, found a list; write instead: headers = { OpenAI-Safety-Identifier = \"shop-7\" }",
        ),
        (
            "cloud.realtime = 7\n".to_owned(),
            "recado.toml:1:18: cloud.realtime: expected a table, found the number 7; write instead: [cloud.realtime]",
        ),
        (
            service("speech", "voice = \"sol\""),
            "recado.toml:5:1: cloud.speech.voice: there is no such setting; did you mean `voices`?; write instead: voices.es = \"sol\"",
        ),
        (
            format!("[box]\nlanguage = \"en\"\n{}", service("speech", "voice = \"sol\"").replace("voices.es", "voices.en")),
            "recado.toml:7:1: cloud.speech.voice: there is no such setting; did you mean `voices`?; write instead: voices.en = \"sol\"",
        ),
        (
            "[speech.piper]\nmodels.es = \"recado.toml\"\n[speech.piper.model]\nes = \"a\"\n".to_owned(),
            "recado.toml:3:15: speech.piper.model: there is no such setting; did you mean `models`?; write instead: [speech.piper.models]",
        ),
        (
            "tools = 5\n".to_owned(),
            "recado.toml:1:9: tools: expected one [[tools]] table for each tool, found the number 5; write instead: [[tools]]",
        ),
    ] {
        let all = said_of(&toml);
        assert!(all.lines().any(|line| line == said), "{said}\n{all}");
    }
    let english = said_of("[box]\nlanguage = \"en\"\n[speech]\nengine = \"piper\"\n");
    assert!(english.contains("models.en = \"voices/en_US-lessac-medium.onnx\""), "{english}");
}

#[test]
fn whoever_writes_a_key_is_shown_where_its_file_is_named() {
    for table in TABLES {
        for setting in ["key", "api_key", "apikey", "api-key", "token", "secret"] {
            let said = said_of(&service(table, &format!("{setting} = \"sk-s3cr3t\"")));
            assert!(said.contains(&format!("cloud.{table}.{setting}: there is no such setting; did you mean `key_file`?")), "{said}");
            let proposed = said.split("write instead: key_file = \"").nth(1).unwrap_or_else(|| panic!("{said}"));
            assert!(proposed.ends_with("-key\", a file that holds it") && !said.contains("s3cr3t"), "{said}");
        }
    }
    let said = said_of(&tool("token = \"s3cr3t\""));
    assert!(said.ends_with("did you mean `bearer_file`?; write instead: bearer_file = \"crm-token\", a file that holds it"), "{said}");
    let said = said_of("[hand_off]\nurl = \"https://crm.example/\"\nsecret = \"s3cr3t\"\n");
    assert!(said.contains("write instead: secret_file = \"hand-off-secret\", a file that holds it") && !said.contains("s3cr3t"), "{said}");
}

/// As the value of `key_file`, of `key_header`, of a header or as its name, in the file, a flag or the environment.
#[test]
fn a_key_that_was_pasted_where_none_belongs_is_repeated_nowhere() {
    let keys =
        ["sk-proj-s3cr3tA1b2", "AIzaSys3cr3t_x-9", "ey.s3cr3t/ab+cd==", "s3cr3t", "/s3cr3t", "/etc/s3cr3t/x", "../s3cr3t", "Bearer s3cr3t"];
    for key in keys {
        let mut settings = Vec::new();
        for table in TABLES {
            for more in [
                format!("key_file = {key:?}"),
                format!("key_header = {key:?}"),
                format!("key_header = [{key:?}]"),
                format!("headers = {key:?}"),
                format!("headers = [{key:?}]"),
                format!("headers = {{ {key:?} = 1 }}"),
                format!("headers = {{ {key:?} = \"a\\n\" }}"),
                format!("headers = {{ X-Key = [{key:?}] }}"),
                format!("headers = {{ Authorization = {key:?} }}"),
                format!("headers = {{ X-Key = \"{key}\\n\" }}"),
                format!("key_file = {key:?}\nkey_header = {key:?}"),
            ] {
                settings.push(service(table, &more));
            }
        }
        settings.push(tool(&format!("bearer_file = {key:?}")));
        settings.push(tool(&format!("headers = {{ {key:?} = \"a\\n\" }}")));
        settings.push(format!("[hand_off]\nurl = \"https://crm.example/\"\nsecret_file = {key:?}\n"));
        for toml in settings {
            let said = said_of(&toml);
            assert!(said.contains("recado.toml:") && !said.contains("s3cr3t"), "{toml}{said}");
        }
        let room = Room::with(&service("realtime", ""));
        for setting in ["key_file", "key_header", "headers"] {
            let flags = vec![format!("cloud.realtime.{setting}={key}")];
            let said = room.problems(&Sources { flags, ..room.sources() });
            assert!(said.starts_with("flag --set cloud.realtime.") && !said.contains("s3cr3t"), "{said}");
            let environment = vec![(format!("RECADO_CLOUD__REALTIME__{}", setting.to_uppercase()), key.to_owned())];
            let said = room.problems(&Sources { environment, ..room.sources() });
            assert!(said.starts_with("environment variable ") && !said.contains("s3cr3t"), "{said}");
        }
    }
    let said = said_of(&service("realtime", "key_header = \"sk-s3cr3t\""));
    assert_eq!(
        said,
        "recado.toml:4:14: cloud.realtime.key_header: this is not a choice; write instead: key_header = \"authorization\" or \"api-key\" or \"x-goog-api-key\""
    );
}

#[test]
fn a_misspelt_kind_is_all_that_is_said_of_what_leads() {
    assert_eq!(
        said_of("[model]\nkind = \"realtme\"\ndialogue = \"there-is-none.toml\"\n"),
        "recado.toml:2:8: model.kind: \"realtme\" is not a choice; write instead: kind = \"realtime\""
    );
}

#[test]
fn what_a_known_service_does_not_take_is_said_before_it_is_asked() {
    let at = |table: &str, url: &str, more: &str| {
        let (before, after) = (service(table, more), format!("url = {url:?}"));
        said_of(
            &before.lines().map(|line| if line.starts_with("url") { after.clone() } else { line.to_owned() } + "\n").collect::<String>(),
        )
    };
    for (said, expected) in [
        (
            at("realtime", "wss://api.openai.com/v1/realtime", ""),
            "recado.toml:1:8: cloud.realtime.key_file: api.openai.com takes nobody without a key; write instead: key_file = \"realtime-key\", a file that holds it",
        ),
        (
            at("language", "https://shop.openai.azure.com/openai/v1", ""),
            "recado.toml:1:8: cloud.language.key_file: shop.openai.azure.com takes nobody without a key; write instead: key_file = \"language-key\", a file that holds it",
        ),
        (
            at("gemini", "wss://generativelanguage.googleapis.com/ws/x", "key_file = \"dialogue.toml\"\nkey_header = \"api-key\""),
            "recado.toml:5:14: cloud.gemini.key_header: generativelanguage.googleapis.com does not look for a key in api-key; write instead: key_header = \"x-goog-api-key\"",
        ),
        (
            at("realtime", "wss://voice.example/v1?sig=s3cr3t", ""),
            "recado.toml:2:7: cloud.realtime.url: a URL is logged, and the query of this one holds a credential; write instead: the URL without it, key_file = \"realtime-key\" and key_header = \"api-key\"",
        ),
        (at("realtime", "wss://openai.azure.com.example/", ""), ""),
    ] {
        assert!(said == expected || !expected.is_empty() && said.lines().any(|line| line == expected), "{expected}\n{said}");
        assert!(!said.contains("s3cr3t"), "{said}");
    }
    for (currency, code) in [("dollar", "USD"), ("eur", "EUR"), ("Euro", "EUR"), ("£", "GBP"), (" USD", "USD")] {
        let said = said_of(&service("realtime", &format!("prices = {{ currency = {currency:?} }}")));
        let expected =
            format!("{currency:?} is not the code of a currency: three capital letters (ISO 4217); write instead: currency = {code:?}");
        assert!(said.ends_with(&expected), "{said}");
    }
}

#[test]
fn programs_that_are_named_by_a_path_are_looked_for_from_the_configuration_on_and_others_in_path() {
    let room = Room::with("");
    for (table, program) in [("speech", "engine"), ("speech.piper", "piper"), ("speech.command", "speak")] {
        let models = if table == "speech.piper" { "models.es = \"es.onnx\"\n" } else { "" };
        room.write("es.onnx", "");
        room.write("es.onnx.json", "{}");
        room.write("recado.toml", &format!("[{table}]\nprogram = \"./bin/{program}\"\n{models}"));
        let said = room.problems(&room.sources());
        assert!(said.contains(&format!("{table}.program: the file ./bin/{program} does not exist")), "{said}");
        let (config, _) = Config::load(&room.sources(), Depth::Settings).unwrap();
        let speech = config.speech;
        let resolved = speech.piper.map(|piper| piper.program).or(speech.command.map(|command| command.program)).unwrap_or(speech.program);
        assert_eq!(resolved, room.path("./bin").join(program));
    }
    for (toml, setting) in [
        ("[speech]\nprogram = \"no-such-engine\"\n", "speech.program"),
        (
            "[speech]\nengine = \"command\"\nprogram = \"nobody-looks\"\n[speech.command]\nprogram = \"no-such-engine\"\n",
            "speech.command.program",
        ),
        (
            "[speech]\nengine = \"piper\"\nprogram = \"nobody-looks\"\n[speech.piper]\nprogram = \"no-such-engine\"\nmodels.es = \"es.onnx\"\n",
            "speech.piper.program",
        ),
    ] {
        room.write("recado.toml", toml);
        let said = room.problems_to(&room.sources(), Depth::Engine { answers_within: Duration::from_millis(1) });
        let expected = format!(
            "warning: {setting}: there is no program no-such-engine in PATH, as it is here: what it would speak is not heard; write instead: program = \"/path/to/no-such-engine\", or install it"
        );
        assert!(said.ends_with(&expected) && said.lines().count() == 1, "{said}");
        assert_eq!(room.problems(&room.sources()), "", "a box may be started with another PATH");
    }
}

#[test]
fn media_is_taken_from_networks_that_are_named_and_not_from_everybody_without_a_warning() {
    let room = Room::with("[media]\nalso_from = [\"192.0.2.0/24\"]\n");
    let (config, warnings) = room.load().unwrap();
    assert!(warnings.is_empty() && config.media.also_from.len() == 1);
    let said = said_of("[media]\nalso_from = [\"192.0.2.0/24\", \"0.0.0.0/0\"]\n");
    assert!(said.starts_with("recado.toml:2:30: warning: media.also_from: whoever sends first to a call's port is listened to"), "{said}");
}

#[test]
fn a_service_that_is_written_and_leads_nothing_is_said_to() {
    let summary = |toml: &str| Room::with(toml).load().unwrap().0.summary().to_string();
    for table in ["live", "gemini"] {
        let said = format!("The speech model speaks at wss://voice.example does not lead calls: model.kind = {table:?} lets it.\n");
        assert!(summary(&service(table, "")).contains(&said), "{table}");
        assert!(!summary(&format!("[model]\nkind = {table:?}\n{}", service(table, ""))).contains("does not lead"), "{table}");
    }
}

/// Every configuration that the manual shows.
#[test]
fn what_the_manual_shows_is_a_configuration() {
    let manual = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/using.md")).unwrap();
    let shown: Vec<&str> = manual.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let whole: Vec<&&str> = shown.iter().filter(|toml| !toml.starts_with("[otherwise]")).collect();
    assert!(whole.len() >= 7, "{}", whole.len());
    for toml in whole {
        let room = Room::with(toml);
        if let Err(problems) = Config::load(&room.sources(), Depth::Settings) {
            panic!("{toml}\n{problems}");
        }
    }
}
