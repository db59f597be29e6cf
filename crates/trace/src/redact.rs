//! What people and tools say is made unreadable before it is written, in such a way that the core decides the same about it.
//!
//! | what | becomes |
//! | --- | --- |
//! | words that are said, whatever is not known to be something else | the same text with `x` and `0` for letters and digits |
//! | digits that the caller pressed | `0`; `*` and `#` stay |
//! | arguments, results and errors of tools | other letters and digits (pseudonyms under the box's key), the same length; field names, `true`, `false`, `null` and the versions of results stay |
//! | parties | a pseudonym |
//! | identifiers, times, states, the names of tools and prompts, the tools' policies | stay |
//!
//! The core cuts and counts words and never reads them, so a conversation decides the same about redacted ones. The ledger
//! compares arguments and results, which pseudonyms allow, and puts results into the templates of the policies, whose
//! text is left out of the digests. What can't be kept: a template that says something longer or shorter depending on a
//! value, so that a closing of more than 200 characters is cut into more or fewer clauses.

use recado_core::PartyId;
use std::collections::BTreeSet;

use recado_core::ids::IntentKey;
use recado_core::ledger::{OperationRecord, intent_key, occurrence};
use recado_core::policy::ToolPolicy;
use serde_json::Value;

use crate::place::{Holds, change_data, visit};
pub use crate::pseudonym::Key;

/// Makes inputs unreadable.
#[derive(Debug, Clone)]
pub struct Redactor {
    key: Key,
    versions: BTreeSet<String>,
}

impl Redactor {
    /// A redactor with the box's key. `versions` are the policies' `version_field`s, which tell newer from older results: the
    /// order of the whole numbers that results hold there decides, so they stay.
    pub fn new(key: Key, versions: BTreeSet<String>) -> Self {
        Self { key, versions }
    }

    /// A redactor for these tools.
    pub fn of<'a>(key: Key, policies: impl IntoIterator<Item = &'a ToolPolicy>) -> Self {
        Self::new(key, policies.into_iter().filter_map(|policy| policy.version_field.clone()).collect())
    }

    /// Redacts an input, or what a machine began with.
    pub fn redact(&self, value: &mut Value) {
        visit(value, &mut |holds, value| match (holds, &*value) {
            (Holds::Words, Value::String(text)) => *value = Value::String(blank(text)),
            (Holds::Data, _) => self.data(value),
            (Holds::Result, _) => self.result(value),
            (Holds::Party | Holds::IntentKey, Value::String(name)) => *value = Value::String(self.key.party(name)),
            _ => {}
        });
    }

    fn data(&self, value: &mut Value) {
        change_data(value, &mut |value| match &*value {
            Value::String(text) => *value = Value::String(self.key.text(text)),
            Value::Number(number) => *value = self.key.number(number),
            _ => {}
        });
    }

    /// An answer does not name its tool: a whole number stays where any of the policies looks for one.
    fn result(&self, result: &mut Value) {
        let version = |path: &String| path.split('.').try_fold(&*result, |value, field| value.get(field))?.as_i64();
        let versions: Vec<(&String, i64)> = self.versions.iter().filter_map(|path| Some((path, version(path)?))).collect();
        self.data(result);
        for (path, version) in versions {
            if let Some(place) = path.split('.').try_fold(&mut *result, |value, field| value.get_mut(field)) {
                *place = version.into();
            }
        }
    }

    /// The key that a redacted operation has: what was asked for again is recognised by the redacted request too.
    pub(crate) fn intent_key(&self, record: &OperationRecord, policy: Option<&ToolPolicy>) -> IntentKey {
        let occurrence = occurrence(&record.intent_key).unwrap_or_default();
        let key = |policy: &ToolPolicy, party: Option<&PartyId>, arguments: &Value| {
            intent_key(party, record.session, &record.tool, policy, arguments, occurrence)
        };
        match policy {
            Some(policy) if key(policy, record.party.as_ref(), &record.arguments) == record.intent_key => {
                let mut arguments = serde_json::json!({ "arguments": record.arguments });
                self.redact(&mut arguments);
                let party = record.party.as_ref().map(|party| PartyId(self.key.party(&party.0)));
                key(policy, party.as_ref(), &arguments["arguments"])
            }
            // Made under another policy: no request of today has it.
            _ => IntentKey(format!("{}|{occurrence}", self.key.party(&record.intent_key.0))),
        }
    }
}

/// The same text with `x` and `0` for letters and digits; letters of several bytes become others of as many.
pub(crate) fn blank(text: &str) -> String {
    let letter = |letter: char| match letter {
        '0'..='9' => '0',
        letter if !letter.is_alphanumeric() => letter,
        letter => match letter.len_utf8() {
            1 => 'x',
            2 => 'é',
            3 => '字',
            _ => '𠀀',
        },
    };
    text.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redacted(mut value: Value) -> Value {
        Redactor::new(Key::derive(&[1; 32]), BTreeSet::from(["revision".to_owned(), "meta.version".to_owned()])).redact(&mut value);
        value
    }

    #[test]
    fn words_and_keys_become_blank_and_what_is_known_stays() {
        assert_eq!(
            redacted(json!({"Model": {"Clause": {"response": "rsp_00000000000000000000000000000001",
                "content": {"Text": {"text": "¿A las 9, señor?", "language": "es"}}}}})),
            json!({"Model": {"Clause": {"response": "rsp_00000000000000000000000000000001",
                "content": {"Text": {"text": "¿x xxx 0, xxéxx?", "language": "es"}}}}})
        );
        assert_eq!(redacted(json!({"Digit": "7"})), json!({"Digit": "0"}));
        assert_eq!(redacted(json!({"Digit": "#"})), json!({"Digit": "#"}));
        assert_eq!(redacted(json!("Wake")), json!("Wake"));
    }

    #[test]
    fn what_is_not_known_is_taken_for_words() {
        assert_eq!(redacted(json!({"Whatever": {"comes": "next year"}})), json!({"Whatever": {"comes": "xxxx xxxx"}}));
    }

    #[test]
    fn arguments_and_results_get_pseudonyms_whatever_they_look_like() {
        let secret = json!({"Accept": {"party": "box/34612345678", "call": {"tool": "pay", "arguments": {
            "to": "Ana", "state": "ses_00000000000000000000000000000001", "amount": 120, "sure": true, "revision": 4711}}}});
        let text = redacted(secret.clone()).to_string();
        for word in ["34612345678", "Ana", "ses_0000", "120", "4711"] {
            assert!(!text.contains(word), "{word} in {text}");
        }
        assert!(text.contains("pay") && text.contains("true"), "{text}");
        let again = redacted(secret);
        assert_eq!(again.to_string(), text, "the same becomes the same");
    }

    #[test]
    fn versions_stay_in_results_where_the_policies_look_for_them_and_nowhere_else() {
        let result = json!({"revision": 4_711, "meta": {"version": 4_712, "revision": 4_713}, "version": 4_714, "meta.version": 4_715,
            "list": [{"revision": 4_716}]});
        for input in [
            json!({"Attempted": {"outcome": {"Succeeded": result}}}),
            json!({"Callback": {"result": {"succeeded": result}}}),
            json!({"CancelAttempted": {"outcome": {"too_late": {"result": result}}}}),
            json!({"snapshot": {"operations": [{"result": result}]}}),
        ] {
            let text = redacted(input).to_string();
            let stays = |number: u32| text.contains(&number.to_string());
            assert!(stays(4_711) && stays(4_712), "{text}");
            assert!(!(4_713..=4_716).any(stays), "{text}");
        }
        let text = redacted(json!({"Attempted": {"outcome": {"Succeeded": {"revision": "Ana", "meta": 4_717}}}})).to_string();
        assert!(!text.contains("Ana") && !text.contains("4717"), "only a whole number is a version: {text}");
        let text = redacted(json!({"Progress": {"progress": {"revision": 4_718}}})).to_string();
        assert!(!text.contains("4718"), "{text}");
    }

    #[test]
    fn a_failure_of_a_tool_is_its_own_words_and_an_attempts_failure_has_fields() {
        let said = redacted(json!({"Callback": {"result": {"failed": "no table for Ana"}}}));
        assert!(!said.to_string().contains("Ana"), "{said}");
        let failed = redacted(
            json!({"Attempted": {"attempt": 1, "outcome": {"Failed": {"error": "HTTP 500", "executed": "maybe", "retryable": true, "retry_after_ms": 7}}}}),
        );
        assert_eq!(failed["Attempted"]["outcome"]["Failed"]["executed"], "maybe");
        assert_eq!(failed["Attempted"]["outcome"]["Failed"]["retry_after_ms"], 7);
        assert_ne!(failed["Attempted"]["outcome"]["Failed"]["error"], "HTTP 500");
    }
}
