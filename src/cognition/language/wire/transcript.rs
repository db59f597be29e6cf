//! What a transcription answers: whole, as JSON, or in pieces, as events.

use serde::Deserialize;
use serde_json::Value;

use super::reader::{ServiceFault, Unusable};
use super::tokens::Tokens;
use crate::cognition::models::or_default;

/// What was written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    /// The words; empty where there were none.
    pub text: String,
    /// What it took, where the service counts tokens for it.
    pub usage: Tokens,
}

/// Reads the events of a transcription.
#[derive(Debug, Default)]
pub struct TranscriptReader {
    done: Option<Transcript>,
}

impl TranscriptReader {
    /// The whole answer of a service that does not stream.
    pub fn whole(body: &str) -> Result<Transcript, Unusable> {
        let whole: Whole = serde_json::from_str(body).map_err(|error| Unusable::Unreadable(error.to_string()))?;
        if let Some(error) = whole.error {
            return Err(Unusable::Service(fault(error)));
        }
        let text = whole.text.ok_or_else(|| Unusable::Unreadable("it holds no text".to_owned()))?;
        bounded(text, whole.usage)
    }

    /// What an event carries.
    pub fn read(&mut self, data: &str) -> Result<(), Unusable> {
        if data == "[DONE]" {
            return Ok(());
        }
        let event: Event = serde_json::from_str(data).map_err(|error| Unusable::Unreadable(error.to_string()))?;
        match (event.kind.as_str(), event.text, event.error) {
            ("transcript.text.done", Some(text), _) => self.done = Some(bounded(text, event.usage)?),
            (_, _, Some(error)) => return Err(Unusable::Service(fault(error))),
            _ => {}
        }
        Ok(())
    }

    /// All the words, once they have come.
    pub fn done(&mut self) -> Option<Transcript> {
        self.done.take()
    }
}

fn bounded(text: String, usage: TranscriptUsage) -> Result<Transcript, Unusable> {
    if text.len() > TRANSCRIPT_BYTES_MAX {
        return Err(Unusable::TooLong(TRANSCRIPT_BYTES_MAX));
    }
    Ok(Transcript { text, usage: Tokens { input: usage.input_tokens, output: usage.output_tokens, cached: 0 } })
}

fn fault(error: Value) -> ServiceFault {
    match error {
        Value::String(message) => ServiceFault { message, ..ServiceFault::default() },
        error => serde_json::from_value(error).unwrap_or_default(),
    }
}

#[derive(Deserialize)]
struct Whole {
    #[serde(default)]
    text: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    usage: TranscriptUsage,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    usage: TranscriptUsage,
    #[serde(default)]
    error: Option<Value>,
}

/// Some count tokens, and others time.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TranscriptUsage {
    #[serde(deserialize_with = "or_default")]
    input_tokens: u64,
    #[serde(deserialize_with = "or_default")]
    output_tokens: u64,
}

/// A minute of speech is a tenth of it (bytes).
const TRANSCRIPT_BYTES_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_comes_whole_or_in_pieces_and_what_else_comes_is_ignored() {
        let whole = TranscriptReader::whole(r#"{"text":" Hola.","usage":{"type":"duration","seconds":2},"words":[]}"#).unwrap();
        assert_eq!((whole.text.as_str(), whole.usage), (" Hola.", Tokens::default()));
        let mut reader = TranscriptReader::default();
        for data in
            [r#"{"type":"transcript.text.delta","delta":"Ho"}"#, r#"{"type":"transcript.text.segment","text":"Ho"}"#, r#"{"new":1}"#]
        {
            reader.read(data).unwrap();
            assert_eq!(reader.done(), None, "{data}");
        }
        let usage = r#"{"type":"tokens","input_tokens":14,"output_tokens":3,"total_tokens":17}"#;
        reader.read(&format!(r#"{{"type":"transcript.text.done","text":"Hola.","usage":{usage}}}"#)).unwrap();
        let done = reader.done().unwrap();
        assert_eq!((done.text.as_str(), done.usage.input, done.usage.output), ("Hola.", 14, 3));
    }

    #[test]
    fn what_is_no_transcript_is_said_to_be_none() {
        for body in ["", "{}", "[]", "Hola", r#"{"text":null}"#, r#"{"text":7}"#] {
            assert!(matches!(TranscriptReader::whole(body), Err(Unusable::Unreadable(_))), "{body}");
        }
        let refused = TranscriptReader::whole(r#"{"error":{"message":"No.","code":"model_not_found"}}"#).unwrap_err();
        assert_eq!(refused.to_string(), "the service says: model_not_found: No.");
        assert!(TranscriptReader::whole(&format!(r#"{{"text":"{}"}}"#, "a".repeat(20_000))).is_err());
        assert!(TranscriptReader::default().read("{\"type\":").is_err());
    }
}
