//! What is said of speech engines.

use super::*;

/// Puts there what the annotated default names for the engines. A program that is named by its path is one of the system's.
pub fn furnish(room: &Room) {
    room.write("speech-key", "k");
    for program in ["open-door", "house-server"] {
        room.write(program, "#!/bin/sh\n");
        let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(room.path(program), runs).unwrap();
    }
    room.write("pins", super::identity::PINS);
    std::fs::set_permissions(room.path("pins"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    for file in ["mcp-token", "tools-ca.pem", "house-key"] {
        room.write(file, "k");
    }
    for model in ["es_ES-davefx-medium", "en_US-lessac-medium"] {
        room.write(&format!("voices/{model}.onnx"), "");
        room.write(&format!("voices/{model}.onnx.json"), "{}");
    }
}

fn piper(more: &str) -> String {
    format!("[speech.piper]\nmodels.es = \"es.onnx\"\n{more}\n")
}

fn command(more: &str) -> String {
    format!("[speech.command]\nprogram = \"speak\"\n{more}\n")
}

fn service(more: &str) -> String {
    format!("[cloud.speech]\nurl = \"https://voice.example/v1\"\nmodel = \"speaks\"\nvoices.es = \"coral\"\n{more}\n")
}

#[test]
fn an_engine_needs_its_table() {
    for (engine, table, with) in [
        ("piper", "speech.piper", "models.es = \"voices/es_ES-davefx-medium.onnx\""),
        ("command", "speech.command", "its program"),
        ("http", "cloud.speech", "its url, its model, its voices and a key_file"),
    ] {
        assert_eq!(
            said_of(&format!("[speech]\nengine = {engine:?}\n")),
            format!(
                "recado.toml:2:10: speech.engine: there is no table [{table}], which says how it is reached; write instead: a table [{table}] with \
                 {with}; or engine = \"espeak-ng\""
            )
        );
    }
    assert!(said_of("[speech]\nengine = \"festival\"\n").contains("\"festival\" is not a choice"));
    let broken = said_of("cloud.speech = 7\n[speech]\nengine = \"http\"\n");
    assert!(broken.lines().count() == 1 && broken.contains("cloud.speech: expected a table"), "{broken}");
}

#[test]
fn each_mistake_in_piper_is_named_with_its_place_and_a_remedy() {
    let room = Room::with(&piper(""));
    room.write("es.onnx", "");
    assert_eq!(
        room.problems(&room.sources()),
        "recado.toml:2:13: speech.piper.models.es: the file es.onnx.json does not exist; write instead: the path of a file that recado may read"
    );
    room.write("es.onnx.json", "{}");
    assert_eq!(room.problems(&room.sources()), "");
    let said = |toml: &str| {
        room.write("recado.toml", toml);
        room.problems(&room.sources())
    };
    for (toml, expected) in [
        (
            "[speech.piper]\n".to_owned(),
            "recado.toml:1:9: speech.piper: `models` is missing; write instead: models = { es = \"voices/es_ES-davefx-medium.onnx\", en = \"voices/en_US-lessac-medium.onnx\" }",
        ),
        (
            piper("").replace("models.es", "models.en"),
            "recado.toml:2:1: speech.piper.models: there is no voice for the box's language, \"es\"; write instead: models.es = \"voices/es_ES-davefx-medium.onnx\"",
        ),
        (
            piper("pace_percent = 10"),
            "recado.toml:3:16: speech.piper.pace_percent: 10 is outside of 50 to 200; write instead: pace_percent = 50",
        ),
        (
            piper("timeout_ms = 1"),
            "recado.toml:3:14: speech.piper.timeout_ms: 1 is outside of 500 to 60000; write instead: timeout_ms = 500",
        ),
        (piper("program = \"\""), "recado.toml:3:11: speech.piper.program: it is empty; write instead: program = \"piper\""),
        (
            piper(&format!("program = {:?}", room.path("es.onnx"))),
            "recado.toml:3:11: speech.piper.program: the file es.onnx is not executable; write instead: the path of a program that recado may run",
        ),
        (
            piper("program = \"/nonexistent/piper\""),
            "recado.toml:3:11: speech.piper.program: the file /nonexistent/piper does not exist; write instead: the path of a file that recado may read",
        ),
    ] {
        assert_eq!(said(&toml), expected, "{toml}");
    }
}

#[test]
fn each_mistake_in_a_command_is_named_with_its_place_and_a_remedy() {
    assert_eq!(said_of(&command("arguments = [\"-v\", \"{voice}\", \"{x: 1}\"]\nvoices.es = \"sol\"")), "");
    for (toml, expected) in [
        (
            command("arguments = [\"--lang={lang}\"]"),
            "recado.toml:3:13: speech.command.arguments: there is no {lang} to be put there; write instead: one of {language}, {voice}, {words_per_minute}",
        ),
        (
            command("voices.es = \"sol\""),
            "recado.toml:3:13: warning: speech.command.voices.es: no argument has a {voice} that it would be put into; write instead: arguments = [\"--voice\", \"{voice}\"]",
        ),
        (
            command("arguments = [\"{voice}\"]\nvoices.es = \"--help\""),
            "recado.toml:4:13: speech.command.voices.es: \"--help\" is not the name of a voice, and the program could take it for something else; write instead: es = \"…\"",
        ),
        (
            command("arguments = [\"--voice={voice}\"]\nvoices.en = \"sun\""),
            "recado.toml:4:1: speech.command.voices: there is no voice for the box's language, \"es\", to be put into {voice}; write instead: voices.es = \"sol\"",
        ),
        (
            command("output = \"raw\""),
            "recado.toml:3:10: speech.command.output: the rate of samples without a header must be said; write instead: rate_hz = 22050",
        ),
        (
            command("output = \"raw\"\nrate_hz = 100"),
            "recado.toml:4:11: speech.command.rate_hz: 100 is outside of 8000 to 96000; write instead: rate_hz = 8000",
        ),
        (
            command("rate_hz = 22050"),
            "recado.toml:3:11: warning: speech.command.rate_hz: a WAV file says its rate itself; write instead: nothing: leave it out",
        ),
    ] {
        assert_eq!(said_of(&toml), expected, "{toml}");
    }
}

#[test]
fn each_mistake_in_a_speech_service_is_named_with_its_place_and_a_remedy() {
    assert_eq!(said_of(&service("")), "");
    let with_url = |url: &str| said_of(&service("").replace("https://voice.example/v1", url));
    for (said, expected) in [
        (
            with_url("wss://voice.example/s3cr3t"),
            "recado.toml:2:7: cloud.speech.url: this is not a https:// or http:// URL; write instead: url = \"https://api.openai.com/v1\"",
        ),
        (
            with_url("http://voice.example/v1"),
            "recado.toml:2:7: warning: cloud.speech.url: what callers are told travels unencrypted, and so does the key; write instead: url = \"https://…\"",
        ),
        (with_url("http://127.0.0.1:8000/v1"), ""),
        (
            with_url("https://voice.example/?key=s3cr3t"),
            "recado.toml:2:7: cloud.speech.url: a URL is logged, and the query of this one holds a credential; write instead: the URL without it, key_file = \"speech-key\" and key_header = \"api-key\"",
        ),
        (
            said_of(&service("").replace("voices.es", "voices.en")),
            "recado.toml:4:1: cloud.speech.voices: there is no voice for the box's language, \"es\"; write instead: voices.es = \"coral\", by the service's own name",
        ),
        (
            said_of(&service("voices.en = \" \"")),
            "recado.toml:5:13: cloud.speech.voices.en: \" \" is not a name that a service has; write instead: the en by the service's own name",
        ),
        (said_of(&service("speed = 9")), "recado.toml:5:9: cloud.speech.speed: a speed is 0.25 to 4; write instead: speed = 1.0"),
        (
            said_of(&service("response_format = \"mp3\"")),
            "recado.toml:5:19: cloud.speech.response_format: \"mp3\" is not a choice; write instead: response_format = \"pcm\" or \"wav\"",
        ),
        (
            said_of(&service("first_audio_timeout_ms = 6000")),
            "recado.toml:5:26: cloud.speech.first_audio_timeout_ms: the whole clause may take no longer than timeout_ms = 5000; write instead: first_audio_timeout_ms = 5000",
        ),
        (
            said_of(&service("headers = { Content-Type = \"s3cr3t\" }")),
            "recado.toml:5:28: cloud.speech.headers.Content-Type: the box sets this header itself; write instead: nothing: leave it out",
        ),
        (
            said_of(&service("headers = { X-Goog-Api-Key = \"s3cr3t\" }")),
            "recado.toml:5:30: cloud.speech.headers.X-Goog-Api-Key: the box sets this header itself; write instead: nothing: leave it out",
        ),
        (
            said_of(&service("headers = { Authorization = \"Bearer s3cr3t\" }")),
            "recado.toml:5:29: cloud.speech.headers.Authorization: credentials don't stand in a configuration; write instead: key_file = \"speech-key\", a file that holds the key",
        ),
    ] {
        assert_eq!(said, expected);
        assert!(!said.contains("s3cr3t"), "{said}");
    }
}

#[test]
fn files_of_engines_start_from_the_configuration_and_a_key_is_found_among_the_credentials() {
    let room = Room::with(&format!("{}{}", piper(""), service("key_file = \"key\"")));
    room.write("es.onnx", "");
    room.write("es.onnx.json", "{}");
    room.write("credentials/key", "from-systemd");
    let sources = Sources { credentials_dir: Some(room.path("credentials")), ..room.sources() };
    let (config, _) = Config::load(&sources, Depth::Files).unwrap();
    assert_eq!(config.speech.piper.unwrap().models.es, Some(room.path("es.onnx")));
    assert_eq!(config.cloud.speech.unwrap().key_file, Some(room.path("credentials/key")));
}

#[test]
fn a_service_has_somebody_who_stands_in_for_it_unless_that_is_not_wanted_and_the_summary_says_who_speaks() {
    let with = |speech: &str, tables: &str| {
        let room = Room::with(&format!("[speech]\n{speech}\n{tables}"));
        room.write("es.onnx", "");
        room.write("es.onnx.json", "{}");
        let (config, warnings) = room.load().unwrap();
        assert!(warnings.is_empty(), "{warnings}");
        (config.speech.stand_in(), config.summary().to_string())
    };
    for (speech, tables, stands_in, line) in [
        (
            "engine = \"http\"",
            service(""),
            true,
            "It speaks through the model speaks at https://voice.example, and with espeak-ng where that does not.\n",
        ),
        ("engine = \"http\"\nfallback = \"none\"", service(""), false, "It speaks through the model speaks at https://voice.example.\n"),
        ("engine = \"piper\"", piper(""), false, "It speaks with piper.\n"),
        (
            "engine = \"piper\"\nfallback = \"espeak-ng\"",
            piper(""),
            true,
            "It speaks with piper, and with espeak-ng where that does not.\n",
        ),
        ("engine = \"command\"", command(""), false, "It speaks through speak.\n"),
    ] {
        let (stand_in, summary) = with(speech, &tables);
        assert_eq!(stand_in, stands_in, "{speech}");
        assert!(summary.contains(line), "{summary}");
    }
    let (stand_in, summary) = with("fallback = \"espeak-ng\"", "");
    assert!(!stand_in && !summary.contains("It speaks"));
}
