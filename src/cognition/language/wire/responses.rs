//! The other interface: `POST …/responses`, its answer as events.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::chat::{Fault, InputDetails};
use super::line::Line;
use super::reader::{ANSWER_BYTES_MAX, AnswerEvent, AskedCall, CALLS_MAX, CUT_BY_FILTER, CUT_BY_LENGTH, ServiceFault, Unusable, text};
use super::tokens::Tokens;
use crate::cognition::models::FunctionTool;
use crate::cognition::models::Role;
use crate::cognition::models::or_default;
use crate::config::LanguageModel;

/// What asks for an answer to `lines`, of a model that is told `instructions` and offered `functions`. Nothing is kept at the service.
pub fn responses_request(model: &LanguageModel, instructions: &str, functions: &[FunctionTool], lines: &[Line]) -> Value {
    let mut input = Vec::new();
    for line in lines {
        match line {
            Line::Message { role, text } => input.push(json!({ "type": "message", "role": role, "content": text })),
            Line::Calls(calls) => {
                input.extend(calls.iter().map(|call| {
                    let arguments = call.arguments_as_json();
                    json!({ "type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": arguments })
                }));
                let output =
                    |(call_id, output): (&String, &String)| json!({ "type": "function_call_output", "call_id": call_id, "output": output });
                input.extend(calls.iter().map(|call| output((&call.call_id, &call.output))));
            }
        }
    }
    if input.is_empty() {
        // The interface asks for something that is to be answered.
        input.push(json!({ "type": "message", "role": Role::System, "content": "" }));
    }
    let mut request = json!({ "model": model.model, "instructions": instructions, "input": input, "stream": true, "store": false });
    if !functions.is_empty() {
        let described = functions.iter().map(|function| {
            let FunctionTool { name, description, parameters } = function;
            // Strictly, a schema would have to require every property.
            json!({ "type": "function", "name": name, "description": description, "parameters": parameters, "strict": false })
        });
        request["tools"] = described.collect();
    }
    if let Some(tokens) = model.tokens_max {
        request["max_output_tokens"] = json!(tokens);
    }
    if let Some(temperature) = model.temperature {
        request["temperature"] = json!(temperature);
    }
    request
}

/// Reads the events of an answer.
#[derive(Debug, Default)]
pub struct ResponsesReader {
    /// By the place of the item.
    calls: BTreeMap<u64, AskedCall>,
    any_text: bool,
    bytes: usize,
    ended: bool,
}

impl ResponsesReader {
    /// What an event carries, or the whole answer of a service that does not stream.
    pub fn read(&mut self, data: &str) -> Result<Vec<AnswerEvent>, Unusable> {
        if data.trim() == "[DONE]" || self.ended {
            return Ok(Vec::new());
        }
        let event: Event = serde_json::from_str(data).map_err(|error| Unusable::Unreadable(error.to_string()))?;
        let Event { kind, object, status, delta, output_index, item, arguments, name, response, code, message, error, output, usage } =
            event;
        match kind.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => return Ok(self.text(delta)?.into_iter().collect()),
            "response.output_item.added" | "response.output_item.done" => self.item(output_index, item)?,
            "response.function_call_arguments.done" => {
                let call = AskedCall { name: name.unwrap_or_default(), arguments: arguments.unwrap_or_default() };
                self.call(output_index, call)?;
            }
            "response.completed" | "response.incomplete" | "response.failed" => return self.whole(response),
            "error" => {
                let said = ServiceFault { code, message, ..ServiceFault::default() };
                return Err(Unusable::Service(error.map_or(said, Into::into)));
            }
            "" if object == "response" => return self.whole(Response { status, output, usage, error, ..response }),
            "" if error.is_some() => return Err(Unusable::Service(error.map(Into::into).unwrap_or_default())),
            _ => {}
        }
        Ok(Vec::new())
    }

    fn whole(&mut self, response: Response) -> Result<Vec<AnswerEvent>, Unusable> {
        let Response { status, incomplete_details, error, output, usage } = response;
        match (status.as_str(), incomplete_details.reason.as_str()) {
            ("failed" | "cancelled", _) => return Err(Unusable::Service(error.map(Into::into).unwrap_or_default())),
            ("incomplete", "content_filter") => return Err(Unusable::CutOff(CUT_BY_FILTER)),
            ("incomplete", _) => return Err(Unusable::CutOff(CUT_BY_LENGTH)),
            _ => {}
        }
        let mut events = Vec::new();
        let said_before = self.any_text;
        for (place, item) in (0..).zip(output) {
            if !said_before {
                for part in &item.content {
                    events.extend(self.text(part.text.clone().or_else(|| part.refusal.clone()).unwrap_or_default())?);
                }
            }
            self.item(place, item)?;
        }
        self.ended = true;
        let calls = std::mem::take(&mut self.calls).into_values().filter(|call| !call.name.is_empty()).collect();
        events.push(AnswerEvent::Ended { calls });
        events.extend(usage.map(|usage| AnswerEvent::Usage(usage.into())));
        Ok(events)
    }

    fn text(&mut self, text: String) -> Result<Option<AnswerEvent>, Unusable> {
        self.count(text.len())?;
        self.any_text |= !text.is_empty();
        Ok((!text.is_empty()).then_some(AnswerEvent::Text(text)))
    }

    fn item(&mut self, place: u64, item: Item) -> Result<(), Unusable> {
        if item.kind != "function_call" {
            return Ok(());
        }
        self.call(place, AskedCall { name: item.name, arguments: item.arguments })
    }

    /// What is known of a call; what comes later is more.
    fn call(&mut self, place: u64, known: AskedCall) -> Result<(), Unusable> {
        self.count(known.arguments.len())?;
        if !self.calls.contains_key(&place) && self.calls.len() == CALLS_MAX {
            return Err(Unusable::TooManyCalls(CALLS_MAX));
        }
        let call = self.calls.entry(place).or_default();
        if !known.name.is_empty() {
            call.name = known.name;
        }
        if !known.arguments.is_empty() {
            call.arguments = known.arguments;
        }
        Ok(())
    }

    /// Arguments come up to three times.
    fn count(&mut self, bytes: usize) -> Result<(), Unusable> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > 3 * ANSWER_BYTES_MAX { Err(Unusable::TooLong(ANSWER_BYTES_MAX)) } else { Ok(()) }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    #[serde(rename = "type", deserialize_with = "or_default")]
    kind: String,
    #[serde(deserialize_with = "or_default")]
    object: String,
    #[serde(deserialize_with = "or_default")]
    status: String,
    #[serde(deserialize_with = "text")]
    delta: String,
    #[serde(deserialize_with = "or_default")]
    output_index: u64,
    #[serde(deserialize_with = "or_default")]
    item: Item,
    arguments: Option<String>,
    name: Option<String>,
    #[serde(deserialize_with = "or_default")]
    response: Response,
    #[serde(deserialize_with = "text")]
    code: String,
    #[serde(deserialize_with = "text")]
    message: String,
    error: Option<Fault>,
    #[serde(deserialize_with = "or_default")]
    output: Vec<Item>,
    usage: Option<ResponsesUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Response {
    #[serde(deserialize_with = "or_default")]
    status: String,
    #[serde(deserialize_with = "or_default")]
    incomplete_details: Incomplete,
    error: Option<Fault>,
    #[serde(deserialize_with = "or_default")]
    output: Vec<Item>,
    usage: Option<ResponsesUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Incomplete {
    #[serde(deserialize_with = "or_default")]
    reason: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Item {
    #[serde(rename = "type", deserialize_with = "or_default")]
    kind: String,
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(deserialize_with = "or_default")]
    arguments: String,
    #[serde(deserialize_with = "or_default")]
    content: Vec<Part>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Part {
    text: Option<String>,
    refusal: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponsesUsage {
    #[serde(deserialize_with = "or_default")]
    input_tokens: u64,
    #[serde(deserialize_with = "or_default")]
    output_tokens: u64,
    #[serde(deserialize_with = "or_default")]
    input_tokens_details: InputDetails,
}

impl From<ResponsesUsage> for Tokens {
    fn from(usage: ResponsesUsage) -> Self {
        Self { input: usage.input_tokens, cached: usage.input_tokens_details.cached_tokens, output: usage.output_tokens }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cognition::language::wire::MadeCall;
    use crate::config::LanguageService;

    fn model(more: &str) -> LanguageModel {
        let service: LanguageService =
            toml::from_str(&format!("url = 'http://127.0.0.1/v1'\nmodel = 'm'\napi = 'responses'\n{more}")).unwrap();
        service.language_model()
    }

    fn read(reader: &mut ResponsesReader, event: Value) -> Vec<AnswerEvent> {
        reader.read(&event.to_string()).unwrap()
    }

    fn call(name: &str, arguments: &str) -> AskedCall {
        AskedCall { name: name.into(), arguments: arguments.into() }
    }

    #[test]
    fn a_request_tells_the_conversation_and_keeps_nothing_at_the_service() {
        let made = MadeCall { call_id: "call_1".into(), name: "order".into(), arguments: "{no".into(), output: "wrong".into() };
        let lines = [Line::message(Role::User, "Hola"), Line::Calls(vec![made]), Line::message(Role::Assistant, "Diga")];
        let functions = [FunctionTool { name: "order".into(), description: "Orders".into(), parameters: json!({ "type": "object" }) }];
        let request = responses_request(&model("tokens_max = 99\ntemperature = 0.5"), "Be brief.", &functions, &lines);
        let input = json!([
            { "type": "message", "role": "user", "content": "Hola" },
            { "type": "function_call", "call_id": "call_1", "name": "order", "arguments": "{\"unreadable\":\"{no\"}" },
            { "type": "function_call_output", "call_id": "call_1", "output": "wrong" },
            { "type": "message", "role": "assistant", "content": "Diga" },
        ]);
        let tools =
            json!([{ "type": "function", "name": "order", "description": "Orders", "parameters": { "type": "object" }, "strict": false }]);
        assert_eq!(
            request,
            json!({
                "model": "m", "instructions": "Be brief.", "input": input, "stream": true, "store": false, "tools": tools,
                "max_output_tokens": 99, "temperature": 0.5,
            })
        );
    }

    #[test]
    fn words_calls_and_cost_are_read_and_what_else_comes_is_ignored() {
        let mut reader = ResponsesReader::default();
        for ignored in [
            json!({ "type": "response.created", "response": { "id": "r", "status": "in_progress", "output": [], "usage": null } }),
            json!({ "type": "response.new", "delta": { "not": "a text" }, "item": null }),
            json!({ "type": "response.output_item.added", "output_index": 1, "item": { "type": "function_call", "name": "order", "arguments": "" } }),
            json!({ "type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{\"a\"" }),
            json!({ "type": "response.function_call_arguments.done", "output_index": 1, "arguments": "{\"a\":1}" }),
            json!({ "type": "response.reasoning_summary_text.delta", "delta": "I think" }),
        ] {
            assert_eq!(read(&mut reader, ignored.clone()), [], "{ignored}");
        }
        assert_eq!(read(&mut reader, json!({ "type": "response.output_text.delta", "delta": "Ho" })), [AnswerEvent::Text("Ho".into())]);
        let usage = json!({ "input_tokens": 5, "output_tokens": 3, "input_tokens_details": { "cached_tokens": 2 }, "total_tokens": 8 });
        let message = json!({ "type": "message", "content": [{ "type": "output_text", "text": "Ho" }] });
        let completed = json!({ "type": "response.completed", "response": { "status": "completed", "output": [message], "usage": usage } });
        let events = read(&mut reader, completed.clone());
        assert_eq!(events[0], AnswerEvent::Ended { calls: vec![call("order", "{\"a\":1}")] });
        assert!(matches!(events[1], AnswerEvent::Usage(usage) if usage.input == 5 && usage.cached == 2));
        assert_eq!(read(&mut reader, completed), [], "once");
    }

    #[test]
    fn a_service_that_does_not_stream_is_read_whole() {
        let whole = json!({ "object": "response", "status": "completed", "usage": { "input_tokens": 1 }, "output": [
            { "type": "message", "content": [{ "type": "output_text", "text": "Hola." }] },
            { "type": "function_call", "name": "order", "arguments": "{}" },
        ] });
        let events = read(&mut ResponsesReader::default(), whole);
        assert_eq!(events[..2], [AnswerEvent::Text("Hola.".into()), AnswerEvent::Ended { calls: vec![call("order", "{}")] }]);
    }

    #[test]
    fn an_answer_that_failed_or_was_cut_off_is_none() {
        for (event, said, passes) in [
            (
                json!({ "type": "response.incomplete", "response": { "status": "incomplete", "incomplete_details": { "reason": "max_output_tokens" } } }),
                CUT_BY_LENGTH,
                false,
            ),
            (
                json!({ "type": "response.incomplete", "response": { "status": "incomplete", "incomplete_details": { "reason": "content_filter" } } }),
                CUT_BY_FILTER,
                false,
            ),
            (
                json!({ "type": "response.failed", "response": { "status": "failed", "error": { "code": "server_error", "message": "Oh." } } }),
                "the service says: server_error: Oh.",
                true,
            ),
            (
                json!({ "type": "error", "code": "invalid_prompt", "message": "No.", "param": null }),
                "the service says: invalid_prompt: No.",
                false,
            ),
            (json!({ "error": { "message": "Slow down.", "code": 529 } }), "the service says: 529: Slow down.", true),
        ] {
            let fault = ResponsesReader::default().read(&event.to_string()).unwrap_err();
            assert_eq!((fault.to_string().as_str(), fault.passes()), (said, passes), "{event}");
        }
        assert!(ResponsesReader::default().read("{\"type\":").unwrap_err().passes());
    }
}
