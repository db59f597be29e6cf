//! Why something does not work, in Spanish: the rest of this program says it in English, as its log does.

/// A reason in Spanish. What a service or the system says in its own words stays as it is.
pub(super) fn reason(english: &str) -> String {
    SENTENCES.iter().find_map(|(sentence, spanish)| Some(put(spanish, &taken(sentence, english)?))).unwrap_or_else(|| english.to_owned())
}

/// What stands in the gaps of `sentence`, where `text` is one.
fn taken<'a>(sentence: &str, text: &'a str) -> Option<Vec<&'a str>> {
    let mut fixed = sentence.split(GAP);
    let mut rest = text.strip_prefix(fixed.next()?)?;
    let mut gaps = Vec::new();
    let mut fixed = fixed.peekable();
    while let Some(piece) = fixed.next() {
        let at = match fixed.peek() {
            Some(_) => rest.find(piece)?,
            None => rest.strip_suffix(piece)?.len(),
        };
        gaps.push(rest.get(..at)?);
        rest = rest.get(at + piece.len()..)?;
    }
    rest.is_empty().then_some(gaps)
}

/// The sentence with its gaps filled, each of which may be a reason too.
fn put(sentence: &str, gaps: &[&str]) -> String {
    let mut pieces = sentence.split(GAP);
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for (piece, gap) in pieces.zip(gaps) {
        text.push_str(&reason(gap));
        text.push_str(piece);
    }
    text
}

/// What differs from one time to another.
const GAP: &str = "{}";
/// As the program says it, and in Spanish. The first that fits is taken.
const SENTENCES: [(&str, &str); 64] = [
    // The connection.
    ("{}.url can't be used: {}", "{}.url no se puede usar: {}"),
    ("{}.headers: {} can't be sent: {}", "{}.headers: {} no se puede enviar: {}"),
    ("{}.key_file: {}", "{}.key_file: {}"),
    ("the credential file {} can't be read: {}", "el fichero de la clave {} no se puede leer: {}"),
    ("the credential file {} must hold one line of 1 to {}", "el fichero de la clave {} debe tener una sola línea, de 1 a {}"),
    ("{}.ca_file: {} can't be read: {}", "{}.ca_file: {} no se puede leer: {}"),
    ("{}.ca_file: {} is not PEM: {}", "{}.ca_file: {} no es PEM: {}"),
    (
        "this box has no certificate authorities to check {} with{}: install the package `ca-certificates`, or set {}.ca_file",
        "esta central no tiene autoridades con las que comprobar {}{}: instale el paquete `ca-certificates` o ponga {}.ca_file",
    ),
    ("{}: no client can be made: {}", "{}: no se puede hacer ningún cliente: {}"),
    ("{} can't be reached: {}", "no se llega a {}: {}"),
    ("its name does not resolve", "nadie conoce su nombre"),
    ("its name has no address", "su nombre no tiene dirección"),
    ("Connection refused (os error {})", "rechaza la conexión"),
    ("Connection reset by peer (os error {})", "la ha cortado el otro extremo"),
    ("Connection timed out (os error {})", "no responde"),
    ("No route to host (os error {})", "no hay camino hasta allí"),
    ("Network is unreachable (os error {})", "no hay red hasta allí"),
    ("Broken pipe (os error {})", "la ha cortado el otro extremo"),
    ("the secure connection to {} failed: {}", "ha fallado la conexión segura con {}: {}"),
    (
        "{}'s certificate is signed by an authority that this box does not trust: set {}'s `ca_file` to that authority's certificate",
        "el certificado de {} lo firma una autoridad de la que esta central no se fía: ponga en `ca_file` de {} el certificado de esa autoridad",
    ),
    (
        "{}'s certificate has expired, or this box's clock is wrong: renew the certificate, or check the clock",
        "el certificado de {} ha caducado, o el reloj de esta central va mal: renueve el certificado o compruebe el reloj",
    ),
    (
        "{}'s certificate is not valid yet, or this box's clock is in the past: check the clock",
        "el certificado de {} aún no es válido, o el reloj de esta central atrasa: compruebe el reloj",
    ),
    (
        "{}'s certificate is for another host: use the host name that it is for in {}'s `url`",
        "el certificado de {} es de otro servidor: use en la `url` de {} el nombre para el que es",
    ),
    ("{}'s certificate is not accepted: {}", "el certificado de {} no se acepta: {}"),
    ("no connection to {} within {} ms", "no hay conexión con {} en {} ms"),
    ("the service refuses the key ({}){}", "el servicio rechaza la clave ({}){}"),
    ("the service knows no such address or model ({}){}", "el servicio no conoce esa dirección o ese modelo ({}){}"),
    ("the service takes no more requests for now ({}){}", "el servicio no admite más peticiones por ahora ({}){}"),
    ("the service answers {}", "el servicio responde {}"),
    ("what answers at {} speaks no WebSocket: {}", "lo que responde en {} no habla WebSocket: {}"),
    ("the service closed the connection ({}){}", "el servicio ha cerrado la conexión ({}){}"),
    ("the connection to the service broke: {}", "se ha roto la conexión con el servicio: {}"),
    ("the service sent a message of more than {} bytes", "el servicio ha enviado un mensaje de más de {} bytes"),
    ("nothing has come from the service for {} ms", "no ha llegado nada del servicio en {} ms"),
    ("the service has not taken what was sent for {} ms", "el servicio no ha recogido en {} ms lo que se le ha enviado"),
    // A session.
    ("the service says: {}", "el servicio dice: {}"),
    ("the service did not answer in time that the session is set", "el servicio no ha dicho a tiempo que la sesión esté preparada"),
    ("the service did not say in time that the session has started", "el servicio no ha dicho a tiempo que la sesión haya empezado"),
    ("the service has ended the session, which was too old", "el servicio ha terminado la sesión, que era demasiado vieja"),
    ("the service has ended the session: it does not say why", "el servicio ha terminado la sesión y no dice por qué"),
    ("the service has ended the session: {}", "el servicio ha terminado la sesión: {}"),
    ("the session is near its limit", "la sesión está cerca de su límite"),
    ("the service broke off its response, which nobody asked for", "el servicio ha cortado su respuesta sin que nadie lo pidiera"),
    ("the service speaks at {} Hz, which is none of its protocol's", "el servicio habla a {} Hz, que no es de su protocolo"),
    ("the service says why it gives no other response: {}", "el servicio dice por qué no da otra respuesta: {}"),
    (
        "the model called a function in a way that can't be taken: {}",
        "el modelo ha llamado a una función de un modo que no se entiende: {}",
    ),
    (
        "the service cut the response off: its content is not allowed there",
        "el servicio ha cortado la respuesta: allí no se permite lo que dice",
    ),
    (
        "the response is longer than the service allows, and was cut off",
        "la respuesta es más larga de lo que el servicio permite, y se ha cortado",
    ),
    ("the service cancelled the response, which nobody asked for", "el servicio ha cancelado la respuesta sin que nadie lo pidiera"),
    ("the service says that the response is {}, and not why", "el servicio dice que la respuesta está {}, y no por qué"),
    ("the service says that the response is {}: {}", "el servicio dice que la respuesta está {}: {}"),
    ("the service goes on with another response that nobody asked for", "el servicio sigue con otra respuesta que nadie ha pedido"),
    // The parts of a cascade.
    ("the service's host `{}` can't be found: {}", "no se encuentra el servidor `{}` del servicio: {}"),
    ("the service's host `{}` does not answer to a connection", "el servidor `{}` del servicio no responde a una conexión"),
    ("no connection to the service's host `{}`: {}", "no hay conexión con el servidor `{}` del servicio: {}"),
    ("the service did not answer within {} ms", "el servicio no ha respondido en {} ms"),
    ("the service began no answer within {} ms", "el servicio no ha empezado ninguna respuesta en {} ms"),
    ("the service sent nothing more within {} ms", "el servicio no ha enviado nada más en {} ms"),
    ("the service did not send its whole answer within {} ms", "el servicio no ha enviado toda su respuesta en {} ms"),
    (
        "the service's answer ended before the words were complete",
        "la respuesta del servicio ha terminado antes de que las palabras estuvieran completas",
    ),
    ("the service's answer broke off before its end", "la respuesta del servicio se ha cortado antes de su final"),
    ("the service sent what can't be read: {}", "el servicio ha enviado algo que no se puede leer: {}"),
    (
        "the answer is longer than the service or tokens_max allows, and was cut off",
        "la respuesta es más larga de lo que permiten el servicio o tokens_max, y se ha cortado",
    ),
    (
        "the service cut the answer off: its content is not allowed there",
        "el servicio ha cortado la respuesta: allí no se permite lo que dice",
    ),
];

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::cognition::models::transport::TransportError;
    use crate::outward::ServiceSetupError;

    #[test]
    fn a_reason_is_said_in_spanish_and_what_the_service_says_stays_its_own() {
        for (english, spanish) in [
            ("the service refuses the key (401): Incorrect API key: ***", "el servicio rechaza la clave (401): Incorrect API key: ***"),
            ("127.0.0.1:9 can't be reached: Connection refused (os error 111)", "no se llega a 127.0.0.1:9: rechaza la conexión"),
            ("the service closed the connection (1006)", "el servicio ha cerrado la conexión (1006)"),
            ("the service has ended the session: it does not say why", "el servicio ha terminado la sesión y no dice por qué"),
            ("the service has ended the session: expired", "el servicio ha terminado la sesión: expired"),
            ("Kaputt.", "Kaputt."),
        ] {
            assert_eq!(reason(english), spanish);
        }
    }

    #[test]
    fn each_fault_of_a_connection_has_its_words() {
        let text = String::new;
        for error in [
            ServiceSetupError::Url { table: "cloud.live", reason: text() }.into(),
            ServiceSetupError::Header { table: "cloud.live", header: "x".into(), reason: "" }.into(),
            ServiceSetupError::NoAuthorities { table: "cloud.live", scheme: "wss", detail: text() }.into(),
            ServiceSetupError::Client { table: "cloud.live", reason: text() }.into(),
            TransportError::Unreachable { host: "h:1".into(), reason: text() },
            TransportError::TooSlow { host: "h:1".into(), ms: 1 },
            TransportError::Unauthorised { status: 401, detail: text() },
            TransportError::NotFound { status: 404, detail: text() },
            TransportError::RateLimited { status: 429, after: None, detail: text() },
            TransportError::Answered { status: 500, detail: text() },
            TransportError::NoWebSocket { host: "h:1".into(), reason: text() },
            TransportError::Closed { code: 1000, reason: text() },
            TransportError::TooLarge(1),
            TransportError::Broken(text()),
            TransportError::Silent(1),
            TransportError::Stuck(1),
        ] {
            let english = error.to_string();
            assert_ne!(reason(&english), english);
        }
    }

    /// A sentence that is said otherwise now would go on in English without anybody noticing.
    #[test]
    fn each_sentence_is_one_that_the_program_says() {
        let mut said = String::new();
        for folder in ["src/cognition", "src/outward", "src/config"] {
            read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut said);
        }
        // The system says these.
        for (english, _) in SENTENCES.iter().filter(|(english, _)| !english.contains("(os error ")) {
            // It says some of them in pieces.
            let pieces = [" within ", "the service", ": "].iter().fold(english.replace(GAP, "\n"), |text, cut| text.replace(cut, "\n"));
            for piece in pieces.lines().map(|piece| piece.trim_matches(|c: char| c.is_ascii_digit() || c == ' ')) {
                assert!(piece.len() < 8 || said.contains(piece), "nothing says {piece:?}, of {english:?}");
            }
        }
    }

    fn read(folder: &Path, said: &mut String) {
        let entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        for path in entries {
            match path.is_dir() {
                true => read(&path, said),
                false => said.push_str(&std::fs::read_to_string(&path).unwrap()),
            }
        }
    }
}
