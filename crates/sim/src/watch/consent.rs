//! Consent: an operation of a tool that needs it is on record only where its read-back has been said to its end, word for word, in an earlier
//! turn of the same conversation.

use std::collections::BTreeMap;

use recado_core::conversation::{Content, SegmentRef};
use recado_core::ids::{SessionId, TurnId};
use recado_core::ledger::OperationRecord;
use serde_json::Value;

use crate::violation::{Findings, Invariant};

/// What was read back.
#[derive(Debug, Default)]
pub struct Consents {
    /// What each read-back says, whole.
    texts: BTreeMap<(SessionId, u64), String>,
    /// The segments of which the last frame has not left.
    sounding: BTreeMap<(SessionId, SegmentRef), u64>,
    /// What has been said to its end, and in which turns.
    said: Vec<(SessionId, String, TurnId)>,
}

impl Consents {
    /// The voice is given a read-back, or what is left of it.
    pub fn speaks(&mut self, session: SessionId, segment: SegmentRef, read_back: u64, content: &Content) {
        self.texts.entry((session, read_back)).or_insert_with(|| content.text().to_owned());
        self.sounding.insert((session, segment), read_back);
    }

    /// The last frame of a segment has left.
    pub fn sent(&mut self, session: SessionId, segment: SegmentRef, turn: TurnId) {
        let read_back = self.sounding.remove(&(session, segment));
        if let Some(text) = read_back.and_then(|read_back| self.texts.get(&(session, read_back))) {
            self.said.push((session, text.clone(), turn));
        }
    }

    /// An operation of a tool that needs consent is about to be on record.
    pub fn accepts(&self, record: &OperationRecord, findings: &mut Findings) {
        let text = question(&record.tool, &record.arguments);
        let consented = self.said.iter().any(|(session, said, turn)| *session == record.session && *said == text && *turn != record.turn);
        findings.check(consented, Invariant::Consent, || format!("nobody was asked {text:?} before {record:?}"));
    }
}

/// What is read back of a call, by the box's own words.
fn question(tool: &str, arguments: &Value) -> String {
    let said: Vec<String> = arguments.as_object().into_iter().flatten().map(|(name, value)| format!("{name} {value}")).collect();
    format!("Voy a hacer esto: {tool}, {}. ¿Lo hago?", said.join(", "))
}
