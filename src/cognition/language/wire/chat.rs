//! The interface that most servers have: `POST …/chat/completions`, its answer as events.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::line::Line;
use super::reader::{ANSWER_BYTES_MAX, AnswerEvent, AskedCall, CALLS_MAX, CUT_BY_FILTER, CUT_BY_LENGTH, ServiceFault, Unusable};
use super::tokens::Tokens;
use crate::cognition::models::FunctionTool;
use crate::cognition::models::Role;
use crate::cognition::models::or_default;
use crate::config::LanguageModel;

/// What asks for an answer to `lines`, of a model that is told `instructions` and offered `functions`.
pub fn chat_request(model: &LanguageModel, instructions: &str, functions: &[FunctionTool], lines: &[Line]) -> Value {
    let mut messages = vec![json!({ "role": "system", "content": instructions })];
    for line in lines {
        match line {
            Line::Message { role, text } => messages.push(json!({ "role": role, "content": text })),
            Line::Calls(calls) => {
                let made = calls.iter().map(|call| {
                    let function = json!({ "name": call.name, "arguments": call.arguments_as_json() });
                    json!({ "id": call.call_id, "type": "function", "function": function })
                });
                messages.push(json!({ "role": Role::Assistant, "content": null, "tool_calls": made.collect::<Vec<_>>() }));
                messages.extend(calls.iter().map(|call| json!({ "role": "tool", "tool_call_id": call.call_id, "content": call.output })));
            }
        }
    }
    let mut request = json!({
        "model": model.model,
        "messages": messages,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if !functions.is_empty() {
        let described = functions.iter().map(|function| {
            let FunctionTool { name, description, parameters } = function;
            json!({ "type": "function", "function": { "name": name, "description": description, "parameters": parameters } })
        });
        request["tools"] = described.collect();
    }
    if let Some(tokens) = model.tokens_max {
        request["max_completion_tokens"] = json!(tokens);
    }
    if let Some(temperature) = model.temperature {
        request["temperature"] = json!(temperature);
    }
    request
}

/// Reads the events of an answer.
#[derive(Debug, Default)]
pub struct ChatReader {
    calls: BTreeMap<u64, PartialCall>,
    bytes: usize,
    ended: bool,
}

#[derive(Debug, Default)]
struct PartialCall {
    id: String,
    name: String,
    arguments: String,
}

impl ChatReader {
    /// What an event carries, or the whole answer of a service that does not stream.
    pub fn read(&mut self, data: &str) -> Result<Vec<AnswerEvent>, Unusable> {
        if data.trim() == "[DONE]" {
            return Ok(Vec::new());
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(|error| Unusable::Unreadable(error.to_string()))?;
        if let Some(error) = chunk.error {
            return Err(Unusable::Service(error.into()));
        }
        let mut events = Vec::new();
        // Others are not asked for.
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            if self.ended {
                break;
            }
            let Delta { content, refusal, tool_calls } = choice.delta;
            for text in [content, refusal].into_iter().flatten().filter(|text| !text.is_empty()) {
                self.count(text.len())?;
                events.push(AnswerEvent::Text(text));
            }
            for call in tool_calls {
                self.call(call)?;
            }
            match choice.finish_reason.as_deref() {
                // Some say with every piece that it is not the last one.
                None | Some("" | "null") => {}
                Some("length") => return Err(Unusable::CutOff(CUT_BY_LENGTH)),
                Some("content_filter") => return Err(Unusable::CutOff(CUT_BY_FILTER)),
                Some(reason) if !GOOD_ENDS.contains(&reason) => {
                    return Err(Unusable::Unreadable(format!("an answer that ended with {reason:?}")));
                }
                Some(_) => {
                    self.ended = true;
                    let calls = std::mem::take(&mut self.calls).into_values();
                    let calls = calls.map(|PartialCall { name, arguments, .. }| AskedCall { name, arguments }).collect();
                    events.push(AnswerEvent::Ended { calls });
                }
            }
        }
        events.extend(chunk.usage.map(|usage| AnswerEvent::Usage(usage.into())));
        Ok(events)
    }

    fn call(&mut self, delta: CallDelta) -> Result<(), Unusable> {
        let CallDelta { index, id, function } = delta;
        // Where a service counts none, a new name for a call is a new call.
        let index = index.unwrap_or_else(|| match (self.calls.last_key_value(), &id) {
            (Some((last, call)), Some(id)) if !call.id.is_empty() && call.id != *id => last + 1,
            (Some((last, _)), _) => *last,
            (None, _) => 0,
        });
        let FunctionDelta { name, arguments } = function;
        let arguments = match arguments {
            Some(Value::String(text)) => text,
            Some(Value::Null) | None => String::new(),
            Some(whole) => whole.to_string(),
        };
        self.count(name.len() + arguments.len())?;
        if !self.calls.contains_key(&index) && self.calls.len() == CALLS_MAX {
            return Err(Unusable::TooManyCalls(CALLS_MAX));
        }
        let call = self.calls.entry(index).or_default();
        if let Some(id) = id.filter(|_| call.id.is_empty()) {
            call.id = id;
        }
        // Some repeat it with every piece.
        if call.name != name {
            call.name.push_str(&name);
        }
        call.arguments.push_str(&arguments);
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> Result<(), Unusable> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > ANSWER_BYTES_MAX { Err(Unusable::TooLong(ANSWER_BYTES_MAX)) } else { Ok(()) }
    }
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default, deserialize_with = "or_default")]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<ChatUsage>,
    #[serde(default)]
    error: Option<Fault>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default, deserialize_with = "or_default")]
    index: u64,
    #[serde(default, alias = "message", deserialize_with = "or_default")]
    delta: Delta,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta {
    content: Option<String>,
    refusal: Option<String>,
    #[serde(deserialize_with = "or_default")]
    tool_calls: Vec<CallDelta>,
}

#[derive(Deserialize)]
struct CallDelta {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    function: FunctionDelta,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FunctionDelta {
    #[serde(deserialize_with = "or_default")]
    name: String,
    arguments: Option<Value>,
}

/// As an object, or as words alone.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Fault {
    Words(String),
    Whole(ServiceFault),
}

impl From<Fault> for ServiceFault {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Words(message) => Self { message, ..Self::default() },
            Fault::Whole(fault) => fault,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ChatUsage {
    #[serde(deserialize_with = "or_default")]
    prompt_tokens: u64,
    #[serde(deserialize_with = "or_default")]
    completion_tokens: u64,
    #[serde(deserialize_with = "or_default")]
    prompt_tokens_details: InputDetails,
}

/// Of what went in.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct InputDetails {
    #[serde(deserialize_with = "or_default")]
    pub cached_tokens: u64,
}

impl From<ChatUsage> for Tokens {
    fn from(usage: ChatUsage) -> Self {
        Self { input: usage.prompt_tokens, cached: usage.prompt_tokens_details.cached_tokens, output: usage.completion_tokens }
    }
}

/// How an answer ends that the model has brought to its end; `eos` is what servers of open models call `stop`.
const GOOD_ENDS: [&str; 5] = ["stop", "tool_calls", "function_call", "eos", "eos_token"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cognition::language::wire::MadeCall;
    use crate::config::LanguageService;

    fn model(more: &str) -> LanguageModel {
        let service: LanguageService = toml::from_str(&format!("url = 'http://127.0.0.1/v1'\nmodel = 'm'\n{more}")).unwrap();
        service.language_model()
    }

    fn delta(delta: Value) -> Value {
        json!({ "id": "c", "object": "chat.completion.chunk", "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] })
    }

    fn finish(reason: &str) -> Value {
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] })
    }

    fn read(events: &[Value]) -> Result<Vec<AnswerEvent>, Unusable> {
        let mut reader = ChatReader::default();
        let mut all = Vec::new();
        for event in events {
            all.extend(reader.read(&event.to_string())?);
        }
        assert_eq!(reader.read("[DONE]"), Ok(Vec::new()));
        Ok(all)
    }

    fn calls(events: &[Value]) -> Vec<(String, String)> {
        match read(events).unwrap().pop() {
            Some(AnswerEvent::Ended { calls }) => calls.into_iter().map(|call| (call.name, call.arguments)).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_pairs_every_call_with_its_output() {
        let made = |id: &str, arguments: &str| MadeCall {
            call_id: id.into(),
            name: "order".into(),
            arguments: arguments.into(),
            output: format!("output of {id}"),
        };
        let lines = [Line::message(Role::User, "Hola"), Line::Calls(vec![made("call_1", "{\"a\":1}"), made("call_2", "")])];
        let functions = [FunctionTool { name: "order".into(), description: "Orders".into(), parameters: json!({ "type": "object" }) }];
        let request = chat_request(&model("tokens_max = 99\ntemperature = 0.5"), "Be brief.", &functions, &lines);
        let function = |arguments: &str| json!({ "name": "order", "arguments": arguments });
        let expected = json!({
            "model": "m", "stream": true, "stream_options": { "include_usage": true }, "max_completion_tokens": 99, "temperature": 0.5,
            "messages": [
                { "role": "system", "content": "Be brief." },
                { "role": "user", "content": "Hola" },
                { "role": "assistant", "content": null, "tool_calls": [
                    { "id": "call_1", "type": "function", "function": function("{\"a\":1}") },
                    { "id": "call_2", "type": "function", "function": function("{}") },
                ] },
                { "role": "tool", "tool_call_id": "call_1", "content": "output of call_1" },
                { "role": "tool", "tool_call_id": "call_2", "content": "output of call_2" },
            ],
            "tools": [{ "type": "function", "function": { "name": "order", "description": "Orders", "parameters": { "type": "object" } } }],
        });
        assert_eq!(request, expected);
        let bare = chat_request(&model(""), "Be brief.", &[], &[]);
        assert!(["tools", "temperature", "max_completion_tokens"].iter().all(|key| bare.get(key).is_none()), "{bare}");
    }

    #[test]
    fn words_end_and_cost_are_read_and_what_else_comes_is_ignored() {
        let usage =
            json!({ "prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": { "cached_tokens": 5, "audio_tokens": null } });
        let events = [
            delta(json!({ "role": "assistant", "content": "", "refusal": null, "reasoning_content": "I think" })),
            delta(json!({ "content": "Ho" })),
            json!({ "choices": [{ "index": 1, "delta": { "content": "another choice" } }] }),
            json!({ "object": "ping" }),
            delta(json!({ "content": "la.", "annotations": [] })),
            finish("stop"),
            json!({ "choices": [], "usage": usage }),
        ];
        let usage = Tokens { input: 9, cached: 5, output: 4 };
        let text = |text: &str| AnswerEvent::Text(text.into());
        assert_eq!(read(&events).unwrap(), [text("Ho"), text("la."), AnswerEvent::Ended { calls: vec![] }, AnswerEvent::Usage(usage)]);
    }

    #[test]
    fn only_an_end_that_a_model_comes_to_by_itself_is_one() {
        let said = |reason: &str| json!({ "choices": [{ "index": 0, "delta": { "content": "Hola." }, "finish_reason": reason }] });
        let text = || AnswerEvent::Text("Hola.".into());
        for none in ["", "null"] {
            let events = read(&[said(none), said(none), finish("stop")]).unwrap();
            assert_eq!(events, [text(), text(), AnswerEvent::Ended { calls: vec![] }], "{none:?}");
        }
        for good in ["stop", "tool_calls", "function_call", "eos"] {
            assert_eq!(read(&[said(good)]).unwrap(), [text(), AnswerEvent::Ended { calls: vec![] }], "{good}");
        }
        for bad in ["error", "abort", "insufficient_system_resource"] {
            let Err(Unusable::Unreadable(why)) = read(&[said(bad)]) else { panic!("{bad} is no good end") };
            assert!(why.contains(bad), "{why}");
        }
    }

    #[test]
    fn a_call_is_put_together_wherever_it_was_split() {
        let piece = |index: u64, id: Value, name: Value, arguments: Value| {
            delta(
                json!({ "tool_calls": [{ "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": arguments } }] }),
            )
        };
        let none = || Value::Null;
        let whole = [("order".to_owned(), "{\"a\":\"ñ\"}".to_owned()), ("cancel_work".to_owned(), "{}".to_owned())];
        let split = [
            piece(0, json!("x"), json!("or"), json!("")),
            piece(0, none(), json!("der"), json!("{\"a")),
            piece(1, json!("y"), json!("cancel_work"), none()),
            piece(0, none(), none(), json!("\":\"ñ")),
            piece(1, none(), none(), json!("{}")),
            piece(0, none(), none(), json!("\"}")),
            finish("tool_calls"),
        ];
        assert_eq!(calls(&split), whole);
        let repeats =
            [piece(0, json!("x"), json!("order"), json!("{\"a\"")), piece(0, json!("x"), json!("order"), json!(":1}")), finish("stop")];
        assert_eq!(calls(&repeats), [("order".to_owned(), "{\"a\":1}".to_owned())]);
        let uncounted = |id: &str, arguments: Value| {
            delta(json!({ "tool_calls": [{ "id": id, "function": { "name": "order", "arguments": arguments } }] }))
        };
        let two = calls(&[uncounted("x", json!({ "a": 1 })), uncounted("y", json!({ "a": 2 })), finish("tool_calls")]);
        assert_eq!(two, [("order".to_owned(), "{\"a\":1}".to_owned()), ("order".to_owned(), "{\"a\":2}".to_owned())]);
    }

    #[test]
    fn a_service_that_does_not_stream_is_read_whole() {
        let message = json!({ "role": "assistant", "content": "Hola.", "tool_calls": null });
        let whole = json!({ "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }], "usage": { "prompt_tokens": 1 } });
        assert_eq!(read(&[whole]).unwrap()[..2], [AnswerEvent::Text("Hola.".into()), AnswerEvent::Ended { calls: vec![] }]);
    }

    #[test]
    fn an_answer_that_failed_was_cut_off_or_has_no_end_is_none() {
        for (event, said, passes) in [
            (finish("length"), CUT_BY_LENGTH, false),
            (finish("content_filter"), CUT_BY_FILTER, false),
            (json!({ "error": { "message": "Oh.", "type": "server_error" } }), "the service says: server_error: Oh.", true),
            (json!({ "error": "No more money." }), "the service says: No more money.", false),
        ] {
            let fault = read(std::slice::from_ref(&event)).unwrap_err();
            assert_eq!((fault.to_string().as_str(), fault.passes()), (said, passes), "{event}");
        }
        assert!(ChatReader::default().read("{\"choices\":[{").unwrap_err().passes());
        let endless = delta(json!({ "content": "palabra ".repeat(1_000) }));
        assert!(matches!(read(&vec![endless; 10]), Err(Unusable::TooLong(_))));
        let calls: Vec<Value> = (0..100).map(|n| delta(json!({ "tool_calls": [{ "index": n, "function": { "name": "a" } }] }))).collect();
        assert!(matches!(read(&calls), Err(Unusable::TooManyCalls(64))));
    }
}
