//! The digest of an input's effects: equal digests, equal decisions.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::line::Mode;
use crate::place::{Holds, change_data, visit};
use crate::redact::blank;
use crate::subject::SubjectKind;

/// The digest of effects, and their kinds; both are empty where there is no effect.
///
/// In a redacted trace it is taken over what redaction leaves as it is. The words that the ledger makes from templates are
/// left out of it, as they depend on what was redacted.
pub fn digest(mode: Mode, of: SubjectKind, mut effects: Value) -> (String, Vec<String>) {
    let kinds: Vec<String> = effects.as_array().map(|effects| effects.iter().map(kind).collect()).unwrap_or_default();
    if kinds.is_empty() {
        return (String::new(), kinds);
    }
    if mode == Mode::Redacted {
        shape(of, &mut effects);
    }
    let hash = Sha256::digest(effects.to_string().as_bytes());
    let digest = hash.iter().take(DIGEST_BYTES).fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    (digest, kinds)
}

/// What redaction leaves of effects.
fn shape(of: SubjectKind, effects: &mut Value) {
    visit(effects, &mut |holds, value| match (holds, &*value) {
        (Holds::Words, Value::String(text)) => {
            *value = Value::String(if of == SubjectKind::Ledger { String::new() } else { blank(text) });
        }
        (Holds::Data | Holds::Result, _) => change_data(value, &mut |value| {
            *value = value.as_str().map_or_else(|| Value::from(0), |text| Value::String(blank(text)));
        }),
        (Holds::Party, Value::String(_)) => *value = Value::String("party".to_owned()),
        (Holds::IntentKey, Value::String(key)) => {
            let occurrence = key.rsplit_once('|').map_or("", |(_, occurrence)| occurrence);
            *value = Value::String(occurrence.to_owned());
        }
        _ => {}
    });
}

/// The kind of an effect: its name, and that of what it carries to another machine.
fn kind(effect: &Value) -> String {
    match effect {
        Value::String(name) => name.clone(),
        Value::Object(fields) => match fields.iter().next() {
            Some((name, carried)) if name == "Ledger" => format!("{name}.{}", kind(carried)),
            Some((name, carried)) if name == "Tell" => format!("{name}.{}", kind(&carried["news"])),
            Some((name, _)) => name.clone(),
            None => String::new(),
        },
        _ => String::new(),
    }
}

/// Of SHA-256: no trace has so many inputs that two would meet by chance.
const DIGEST_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn effects_are_named_by_kind() {
        let effects = json!(["HangUp", {"Ledger": {"Claim": {"route": "ride"}}}, {"Tell": {"session": "s", "news": {"Claimed": {}}}}]);
        assert_eq!(digest(Mode::Full, SubjectKind::Conversation, effects).1, ["HangUp", "Ledger.Claim", "Tell.Claimed"]);
    }

    #[test]
    fn redacted_words_have_the_digest_of_the_words() {
        let said = |text: &str| json!([{"Speak": {"content": {"Text": {"text": text, "language": "es"}}}}]);
        let of = |mode, text| digest(mode, SubjectKind::Conversation, said(text)).0;
        assert_eq!(of(Mode::Redacted, "Sí, a las 9"), of(Mode::Redacted, "xé, x xxx 0"));
        assert_ne!(of(Mode::Redacted, "Sí, a las 9"), of(Mode::Redacted, "Sí, a las 99"));
        assert_ne!(of(Mode::Full, "Sí, a las 9"), of(Mode::Full, "xé, x xxx 0"));
    }
}
