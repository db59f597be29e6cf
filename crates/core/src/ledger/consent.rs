//! Consent: what a tool with `confirm` is asked to do is read back to the caller first, and done only where they say so.
//!
//! Consent is a call of the same tool with the same arguments, all of them, that the model has marked as confirmed, in a later turn
//! than the one in which the read-back was heard to its end. Whether it was heard, and until when it counts, the conversation says.
//! Nothing of it outlives the conversation: after a restart the caller is asked again.

use std::collections::VecDeque;

use super::intent::{Digest, arguments_digest_of};
use crate::conversation::input::ToolCall;
use crate::faults::{Fault, fault};
use crate::ids::{ResponseId, TurnId};

/// What one conversation has been asked to read back.
#[derive(Debug, Clone, Default)]
pub(super) struct Consents {
    next: u64,
    /// Oldest first.
    asked: VecDeque<ReadBack>,
}

#[derive(Debug, Clone)]
struct ReadBack {
    name: u64,
    response: ResponseId,
    tool: String,
    /// All of its arguments.
    arguments: Digest,
    /// In which turn it was heard to its end, once it was.
    heard_in: Option<TurnId>,
}

impl ReadBack {
    fn is_of(&self, call: &ToolCall, arguments: &Digest) -> bool {
        self.tool == call.tool && self.arguments == *arguments
    }
}

impl Consents {
    /// Whether the caller has consented to this call, in this turn. It is consent to one operation: asked for again, they are asked again.
    pub fn given(&mut self, call: &ToolCall, turn: TurnId) -> bool {
        if !call.confirmed {
            return false;
        }
        if fault(Fault::ConsentAssumed) {
            return true;
        }
        let arguments = arguments_digest_of(&call.arguments);
        let given = |asked: &ReadBack| asked.is_of(call, &arguments) && asked.heard_in.is_some_and(|heard_in| heard_in != turn);
        let Some(place) = self.asked.iter().position(given) else { return false };
        self.asked.remove(place);
        true
    }

    /// A call is to be read back, under the name that is returned: the same one where the same response has asked for just that. What another response asked of the same tool is not meant any more.
    pub fn ask(&mut self, call: &ToolCall, response: ResponseId) -> u64 {
        let arguments = arguments_digest_of(&call.arguments);
        if let Some(again) = self.asked.iter().find(|asked| asked.response == response && asked.is_of(call, &arguments)) {
            return again.name;
        }
        self.asked.retain(|asked| asked.tool != call.tool || asked.response == response);
        if self.asked.len() >= READ_BACKS_MAX {
            self.asked.pop_front();
        }
        let name = self.next;
        self.next = name.saturating_add(1);
        self.asked.push_back(ReadBack { name, response, tool: call.tool.clone(), arguments, heard_in: None });
        name
    }

    /// A read-back has been heard to its end.
    pub fn heard(&mut self, read_back: u64, turn: TurnId) {
        self.asked.iter_mut().filter(|asked| asked.name == read_back).for_each(|asked| asked.heard_in = Some(turn));
    }

    /// What is said from now on is no consent to it any more.
    pub fn over(&mut self, read_back: u64) {
        self.asked.retain(|asked| asked.name != read_back);
    }
}

/// Read-backs of one conversation that consent is waited for at once: more than a caller can keep apart.
const READ_BACKS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ASKED: ResponseId = ResponseId(1);
    const THEN: TurnId = TurnId(1);
    const LATER: TurnId = TurnId(2);

    fn call(arguments: Value, confirmed: bool) -> ToolCall {
        ToolCall { call_id: "c".into(), tool: "pay".into(), arguments, confirmed }
    }

    #[test]
    fn only_what_was_heard_and_confirmed_in_a_later_turn_is_consent_and_once() {
        let mut consents = Consents::default();
        let name = consents.ask(&call(json!({"of": 1, "to": "ana"}), false), ASKED);
        let yes = call(json!({"to": "ana", "of": 1.0}), true);
        assert!(!consents.given(&yes, LATER), "nobody has heard it");
        consents.heard(name, THEN);
        assert!(!consents.given(&yes, THEN), "the caller has not said anything since");
        assert!(!consents.given(&call(json!({"of": 1, "to": "ana"}), false), LATER), "the model does not say that they did");
        assert!(!consents.given(&call(json!({"of": 2, "to": "ana"}), true), LATER), "that is something else");
        assert!(consents.given(&yes, LATER));
        assert!(!consents.given(&yes, LATER), "it is consent to one operation");
    }

    #[test]
    fn what_is_read_back_later_takes_the_place_of_what_another_response_asked_of_the_same_tool() {
        let mut consents = Consents::default();
        for (response, of) in [(1, 1), (1, 2), (2, 3)] {
            let name = consents.ask(&call(json!({"of": of}), false), ResponseId(response));
            consents.heard(name, THEN);
            let held: Vec<u64> = consents.asked.iter().map(|asked| asked.name).collect();
            assert_eq!(held.len(), if of == 2 { 2 } else { 1 }, "{held:?}");
        }
        assert!(!consents.given(&call(json!({"of": 1}), true), LATER));
        assert!(consents.given(&call(json!({"of": 3}), true), LATER));
    }

    #[test]
    fn the_same_call_twice_in_one_response_is_one_question() {
        let mut consents = Consents::default();
        let same = call(json!({"of": 1}), false);
        assert_eq!(consents.ask(&same, ASKED), consents.ask(&same, ASKED));
        assert_ne!(consents.ask(&same, ASKED), consents.ask(&same, ResponseId(2)), "asked again later, it is asked anew");
    }

    #[test]
    fn so_many_are_waited_for_and_none_that_is_over() {
        let mut consents = Consents::default();
        let names: Vec<u64> = (0..=READ_BACKS_MAX).map(|of| consents.ask(&call(json!({"of": of}), false), ASKED)).collect();
        assert_eq!(consents.asked.len(), READ_BACKS_MAX);
        names.iter().for_each(|name| consents.heard(*name, THEN));
        assert!(!consents.given(&call(json!({"of": 0}), true), LATER));
        consents.over(names[1]);
        assert!(!consents.given(&call(json!({"of": 1}), true), LATER));
        assert!(consents.given(&call(json!({"of": 2}), true), LATER));
    }
}
