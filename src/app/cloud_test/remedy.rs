//! What mends a fault, in both languages.

use recado_core::policy::Language;

use super::kind::Kind;
use super::report::Fault;
use crate::cognition::language::http::{Again, Fault as PartFault, Reach};
use crate::cognition::models::transport::TransportError;
use crate::config::GeminiCalls;
use crate::outward::ServiceSetupError;

/// What mends a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    Key,
    Model,
    Limit,
    Network,
    Certificate,
    Plain,
    Address,
    Settings,
    Time,
    Tools,
    Task,
    Length,
    Sound,
    Silence,
    Service,
}

/// What mends this fault.
pub(super) fn remedy(fault: &Fault) -> Remedy {
    match fault {
        Fault::Transport(error) => match error {
            TransportError::Setup(error) => match error {
                ServiceSetupError::Key { .. } => Remedy::Key,
                ServiceSetupError::AuthoritiesFile { .. } | ServiceSetupError::NoAuthorities { .. } => Remedy::Certificate,
                ServiceSetupError::Url { .. } => Remedy::Address,
                ServiceSetupError::Header { .. } | ServiceSetupError::Client { .. } => Remedy::Settings,
            },
            TransportError::Unauthorised { .. } => Remedy::Key,
            TransportError::NotFound { .. } => Remedy::Model,
            TransportError::RateLimited { .. } => Remedy::Limit,
            TransportError::Unreachable { .. } => Remedy::Network,
            TransportError::TooSlow { .. } | TransportError::Silent(_) | TransportError::Stuck(_) => Remedy::Time,
            TransportError::Untrusted(reason) if is_plain(reason) => Remedy::Plain,
            TransportError::Untrusted(_) => Remedy::Certificate,
            TransportError::NoWebSocket { .. } | TransportError::Answered { status: 200..=299, .. } => Remedy::Address,
            // Some say by their close what others say in an event.
            TransportError::Closed { reason, .. } | TransportError::Answered { detail: reason, .. } => {
                of_words(reason).unwrap_or(Remedy::Service)
            }
            TransportError::TooLarge(_) | TransportError::Broken(_) => Remedy::Service,
        },
        Fault::Service(says) => of_words(says).unwrap_or(Remedy::Settings),
        Fault::Failed(reason) => of_words(reason).unwrap_or(Remedy::Service),
        Fault::Ended | Fault::Endless(_) => Remedy::Service,
        Fault::Nothing(_) | Fault::NotConfirmed => Remedy::Time,
        Fault::Silence(_) => Remedy::Silence,
        Fault::NoCall(_) => Remedy::Tools,
        Fault::NoTask => Remedy::Task,
        Fault::NoSound | Fault::EndedBefore => Remedy::Sound,
    }
}

/// What mends this fault of a part of a cascade.
pub(super) fn remedy_of_part(fault: &PartFault) -> Remedy {
    let PartFault { reason, again, reach } = fault;
    let is = |what: &[&str]| what.iter().any(|what| reason.contains(what));
    match (reach, again) {
        (Reach::Unreachable, _) if is_plain(reason) => Remedy::Plain,
        (Reach::Unreachable, _) if is(&["certificate", "secure connection"]) => Remedy::Certificate,
        (Reach::Unreachable, _) => Remedy::Network,
        // A 403 may be about the model, and a 404 about a key that is not for it: what the service says of it comes first.
        _ if of_words(reason).is_some() => of_words(reason).unwrap_or(Remedy::Settings),
        (Reach::Refuses, _) if is(&["refuses the key"]) => Remedy::Key,
        (Reach::Refuses, _) if is(&["no such address or model"]) => Remedy::Model,
        (Reach::Refuses, _) if is(&["no more requests"]) => Remedy::Limit,
        (Reach::Answers, _) if is(&["tokens_max"]) => Remedy::Length,
        (Reach::Answers | Reach::Fails, Again::Soon | Again::After(_)) if is(&[" within "]) => Remedy::Time,
        (Reach::Answers, Again::Never) => Remedy::Settings,
        (Reach::Refuses | Reach::Answers | Reach::Fails, _) => Remedy::Service,
    }
}

/// Whether what answered speaks no TLS: what rustls calls the first of it.
fn is_plain(reason: &str) -> bool {
    reason.contains("InvalidContentType")
}

/// What mends what a service says: by its name for it, or by the words of those that have none.
fn of_words(says: &str) -> Option<Remedy> {
    let named = says.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').find_map(of_code);
    let said = says.to_lowercase();
    named.or_else(|| PHRASES.iter().find(|(phrase, _)| said.contains(phrase)).map(|(_, remedy)| *remedy))
}

/// What mends what a service calls so.
fn of_code(code: &str) -> Option<Remedy> {
    match code {
        "invalid_api_key" | "authentication_error" | "permission_denied" | "UNAUTHENTICATED" | "PERMISSION_DENIED" => Some(Remedy::Key),
        "model_not_found" | "invalid_model" | "NOT_FOUND" => Some(Remedy::Model),
        "rate_limit_exceeded" | "insufficient_quota" | "billing_hard_limit_reached" | "RESOURCE_EXHAUSTED" => Some(Remedy::Limit),
        _ => None,
    }
}

/// What services say that give no name to it, in small letters.
const PHRASES: [(&str, Remedy); 6] = [
    ("api key", Remedy::Key),
    ("authentication credential", Remedy::Key),
    ("unregistered callers", Remedy::Key),
    ("is not found for api version", Remedy::Model),
    ("is not supported for bidigeneratecontent", Remedy::Model),
    ("quota", Remedy::Limit),
];

impl Remedy {
    pub fn sentence(self, language: Language, kind: Kind) -> String {
        let (table, name) = (kind.table(), kind.name());
        match (language, self) {
            (Language::Es, Self::Key) => format!(
                "Mire {table}.key_file: la clave debe ser de este servicio, estar entera y no revocada; si falta, ponga ahí el fichero que la contiene."
            ),
            (Language::En, Self::Key) => format!(
                "Look at {table}.key_file: the key must be this service's, whole and not revoked; where none is named, name the file that holds it."
            ),
            (Language::Es, Self::Model) => {
                let azure = if kind == Kind::Realtime { " (en Azure, el nombre del despliegue)" } else { "" };
                format!("Corrija {table}.model{azure} o la dirección en url.")
            }
            (Language::En, Self::Model) => {
                let azure = if kind == Kind::Realtime { " (Azure: the deployment's name)" } else { "" };
                format!("Correct {table}.model{azure}, or the address in url.")
            }
            (Language::Es, Self::Limit) => "Espere, o amplíe el límite o el saldo de la cuenta en el servicio.".to_owned(),
            (Language::En, Self::Limit) => "Wait, or raise the account's limit or credit at the service.".to_owned(),
            (Language::Es, Self::Network) => format!("Compruebe la red y {table}.url, y que el servicio esté en marcha."),
            (Language::En, Self::Network) => format!("Check the network and {table}.url, and that the service runs."),
            (Language::Es, Self::Certificate) => {
                format!("Ponga en {table}.ca_file la autoridad que firma su certificado, y compruebe el reloj.")
            }
            (Language::En, Self::Certificate) => {
                format!("Name in {table}.ca_file the authority that signs its certificate, and check the clock.")
            }
            (Language::Es, Self::Plain) => {
                format!("Lo que responde ahí no habla TLS: corrija {table}.url, que sin él empieza por {}.", kind.plain_scheme())
            }
            (Language::En, Self::Plain) => {
                format!("What answers there does not speak TLS: correct {table}.url, which begins with {} without it.", kind.plain_scheme())
            }
            (Language::Es, Self::Address) => format!("Corrija {table}.url: ahí no responde un servicio {name}."),
            (Language::En, Self::Address) => format!("Correct {table}.url: no {name} service answers there."),
            (Language::Es, Self::Settings) => format!("Corrija en [{table}] lo que se nombra."),
            (Language::En, Self::Settings) => format!("Correct in [{table}] what is named."),
            (Language::Es, Self::Time) => {
                format!("Compruebe la red; si solo es lenta, suba {} en [{table}].", timeouts(kind, " o "))
            }
            (Language::En, Self::Time) => {
                format!("Check the network; where it is only slow, raise {} in [{table}].", timeouts(kind, " or "))
            }
            (Language::Es, Self::Tools) => format!("Pruebe otra vez; si se repite, {}.", tools(language, kind)),
            (Language::En, Self::Tools) => format!("Try again; if it happens again, {}.", tools(language, kind)),
            (Language::Es, Self::Task) => {
                "Pruebe otra vez; si se repite, elija un modelo de cuya sesión el servicio escriba lo que se dice.".to_owned()
            }
            (Language::En, Self::Task) => {
                "Try again; if it happens again, choose a model of whose session the service writes down what is said.".to_owned()
            }
            (Language::Es, Self::Length) => format!("Suba tokens_max en [{table}], o quítelo."),
            (Language::En, Self::Length) => format!("Raise tokens_max in [{table}], or leave it out."),
            (Language::Es, Self::Sound) => format!("Pruebe otra vez; si se repite, mire {} en [{table}].", sound(kind, " y ")),
            (Language::En, Self::Sound) => format!("Try again; if it happens again, look at {} in [{table}].", sound(kind, " and ")),
            (Language::Es, Self::Silence) => {
                format!("Si el servicio solo es lento, suba answer_timeout_ms en [{table}]; si no, mire ahí {}.", sound(kind, " y "))
            }
            (Language::En, Self::Silence) => {
                format!(
                    "Where the service is only slow, raise answer_timeout_ms in [{table}]; else look there at {}.",
                    sound(kind, " and ")
                )
            }
            (Language::Es, Self::Service) => "Pruebe otra vez dentro de un rato; si se repite, es cosa del servicio.".to_owned(),
            (Language::En, Self::Service) => "Try again in a while; if it happens again, it is the service's to mend.".to_owned(),
        }
    }
}

/// What makes a model ask for what is to be done.
fn tools(language: Language, kind: Kind) -> &'static str {
    match (language, kind) {
        (Language::Es, Kind::Language | Kind::Transcription | Kind::Gemini(GeminiCalls::Blocking)) => {
            "elija un modelo que llame a funciones"
        }
        (Language::En, Kind::Language | Kind::Transcription | Kind::Gemini(GeminiCalls::Blocking)) => "choose a model that calls functions",
        (Language::Es, Kind::Realtime) => "elija un modelo que llame a funciones, o mire si format es el que el servicio entiende",
        (Language::En, Kind::Realtime) => "choose a model that calls functions, or see whether format is one that the service understands",
        (Language::Es, Kind::Live) => "elija un modelo que haga encargos, o mire si format es el que el servicio entiende",
        (Language::En, Kind::Live) => "choose a model that delegates, or see whether format is one that the service understands",
        (Language::Es, Kind::Gemini(GeminiCalls::NonBlocking)) => {
            "pruebe calls = \"blocking\" en [cloud.gemini], o elija un modelo que llame a funciones"
        }
        (Language::En, Kind::Gemini(GeminiCalls::NonBlocking)) => {
            "try calls = \"blocking\" in [cloud.gemini], or choose a model that calls functions"
        }
    }
}

/// How long is waited for what comes slowly.
fn timeouts(kind: Kind, or: &str) -> String {
    match kind {
        Kind::Realtime | Kind::Live | Kind::Gemini(_) => format!("connect_timeout_ms{or}answer_timeout_ms"),
        Kind::Transcription | Kind::Language => format!("answer_timeout_ms, stall_timeout_ms{or}whole_timeout_ms"),
    }
}

/// Settings that a model's sound hangs on.
fn sound(kind: Kind, and: &str) -> String {
    match kind {
        Kind::Realtime | Kind::Live => format!("voice{and}format"),
        Kind::Gemini(_) | Kind::Transcription | Kind::Language => "voice".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Step;
    use super::super::words::fails;
    use super::*;

    const GEMINI: Kind = Kind::Gemini(GeminiCalls::NonBlocking);

    #[test]
    fn each_fault_that_people_can_mend_says_how_in_both_languages() {
        let transport = |error| Fault::Transport(error);
        let closed = |reason: &str| transport(TransportError::Closed { code: 1008, reason: format!(": {reason}") });
        for (kind, fault, remedy_en, remedy_es) in [
            (
                Kind::Realtime,
                transport(TransportError::Unauthorised { status: 401, detail: String::new() }),
                "cloud.realtime.key_file",
                "clave",
            ),
            (Kind::Realtime, Fault::Service("invalid_api_key".into()), "key_file", "clave"),
            (Kind::Realtime, Fault::Service("model_not_found: No.".into()), "Azure", "cloud.realtime.model"),
            (Kind::Live, Fault::Service("model_not_found: No.".into()), "Correct cloud.live.model, ", "Corrija cloud.live.model o "),
            (GEMINI, closed("API key not valid. Please pass a valid API key."), "cloud.gemini.key_file", "cloud.gemini.key_file"),
            (
                GEMINI,
                closed("models/no is not found for API version v1beta, or is not supported for bidiGenerateContent."),
                "cloud.gemini.model",
                "cloud.gemini.model",
            ),
            (GEMINI, closed("You exceeded your current quota."), "credit", "saldo"),
            (GEMINI, Fault::Failed("the service says: RESOURCE_EXHAUSTED: Slow down.".into()), "credit", "saldo"),
            (Kind::Live, transport(TransportError::RateLimited { status: 429, after: None, detail: String::new() }), "credit", "saldo"),
            (Kind::Realtime, Fault::Failed("the service says: rate_limit_exceeded: Slow down.".into()), "credit", "saldo"),
            (Kind::Live, transport(TransportError::Unreachable { host: "h:1".into(), reason: "refused".into() }), "network", "red"),
            (Kind::Live, transport(TransportError::Untrusted("who is it".into())), "cloud.live.ca_file", "ca_file"),
            (
                Kind::Live,
                transport(TransportError::Untrusted("received corrupt message of type InvalidContentType".into())),
                "cloud.live.url, which begins with ws:// without it.",
                "cloud.live.url, que sin él empieza por ws://",
            ),
            (
                Kind::Realtime,
                transport(TransportError::Answered { status: 200, detail: String::new() }),
                "Correct cloud.realtime.url",
                "Corrija cloud.realtime.url",
            ),
            (Kind::Realtime, Fault::NoCall("Hola".into()), "functions", "funciones"),
            (Kind::Live, Fault::NoCall("Hola".into()), "delegates", "encargos"),
            (GEMINI, Fault::NoCall("Hola".into()), "calls = \"blocking\"", "calls = \"blocking\""),
            (GEMINI, Fault::NoSound, "look at voice in [cloud.gemini]", "mire voice en [cloud.gemini]"),
        ] {
            let english = fails(Language::En, kind, Step::Connect, &fault);
            assert!(english.starts_with("connection: does not work: ") && english.contains(remedy_en), "{english}");
            let spanish = fails(Language::Es, kind, Step::Connect, &fault);
            assert!(spanish.starts_with("conexión: no funciona: ") && spanish.contains(remedy_es), "{spanish}");
        }
    }
}
