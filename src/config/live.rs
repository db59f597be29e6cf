//! `[cloud.live]`: a speech model that hears and speaks at all times, in a network.

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use super::Tool;
use super::check::Checker;
use super::cloud::renew_after_ms;
use super::endpoint::{Kind, ReachedBy, check_name};
use super::speech_model::{SpeechModel, speech_model_table};

speech_model_table! {
    /// A service that speaks the OpenAI Live protocol.
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    pub struct Live in "cloud.live", key_header = "Default::default", renew_after_ms = "renew_after_ms", {
        /// The format of the audio, both ways.
        #[serde(default)]
        pub format: LiveAudio,
        /// The tool that does what the model delegates. Where there is one tool, it need not be named.
        #[serde(default)]
        pub delegate_tool: Option<String>,
        /// The parameter of that tool which takes, as text, what is to be done. Where it takes one text, it need not be named.
        #[serde(default)]
        pub delegate_parameter: Option<String>,
        /// How long the model waits before it says of itself that it has delegated something (ms): the box says that it is accepted, and
        /// with that the model need not.
        #[serde(default = "acknowledgement_delay_ms")]
        pub acknowledgement_delay_ms: u64,
    }
}

/// A format of audio that the Live protocol knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LiveAudio {
    /// G.711 μ-law at 8 kHz: the telephone's own.
    #[default]
    Pcmu,
    /// G.711 A-law at 8 kHz: the telephone's own.
    Pcma,
    /// 16-bit little-endian samples at 16 kHz.
    Pcm16k,
    /// 16-bit little-endian samples at 24 kHz.
    Pcm24k,
}

/// What does what the model delegates: it names no tool, and gives no arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegate {
    /// The tool.
    pub tool: String,
    /// The parameter that takes, as text, what is to be done.
    pub parameter: String,
}

/// Why what a model delegates can't be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cloud.live.{setting}: {what}; write instead: {instead}")]
pub struct NoDelegate {
    setting: &'static str,
    what: String,
    instead: String,
}

impl Live {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        SpeechModel::from(self).check(checker, &KIND);
        let place = self.endpoint().place();
        for (key, name) in [("delegate_tool", &self.delegate_tool), ("delegate_parameter", &self.delegate_parameter)] {
            if let Some(name) = name {
                check_name(checker, &place, key, name);
            }
        }
        checker.within(&place.join("acknowledgement_delay_ms"), self.acknowledgement_delay_ms, 0..=ACKNOWLEDGEMENT_DELAY_MS_MOST);
    }

    /// Checks that something does what the model delegates, where it leads calls.
    pub(super) fn check_delegate(&self, checker: &mut Checker<'_>, tools: &[Tool]) {
        if let Err(NoDelegate { setting, what, instead }) = self.delegate(tools) {
            checker.error(&self.endpoint().place().join(setting), what, instead);
        }
    }

    /// Where it is reached; none where the URL is none.
    pub fn address(&self) -> Option<Url> {
        Url::parse(&self.url).ok()
    }

    /// What does what the model delegates; none where there are no tools, and nothing can be done.
    ///
    /// # Errors
    /// Which of these tools it is can't be told, or it needs more than one text.
    pub fn delegate(&self, tools: &[Tool]) -> Result<Option<Delegate>, NoDelegate> {
        let no_delegate = |setting, what: String, instead: String| Err(NoDelegate { setting, what, instead });
        // What a server offers beside them is not what a task was meant for.
        let declared: Vec<&Tool> = tools.iter().filter(|tool| !tool.discovered).collect();
        let tools = declared.as_slice();
        let one_that_can = match choice(tools.iter().filter(|tool| takes_a_task(&tool.parameters)).map(|tool| tool.name.as_str())) {
            none if none.is_empty() => NEEDED.to_owned(),
            names => format!("delegate_tool = {names}"),
        };
        let tool = match (&self.delegate_tool, tools) {
            (None, []) => return Ok(None),
            (None, [tool]) => tool,
            (None, _) => {
                let what = "the model delegates a task without saying to which tool, and there are several";
                return no_delegate("delegate_tool", what.to_owned(), one_that_can);
            }
            (Some(name), tools) => match tools.iter().find(|tool| tool.name == *name) {
                Some(tool) => tool,
                None if tools.is_empty() => {
                    let instead = format!("a table [[tools]] with name = {name:?}, or leave it out");
                    return no_delegate("delegate_tool", format!("there is no tool {name:?}"), instead);
                }
                None => return no_delegate("delegate_tool", format!("there is no tool {name:?}"), one_that_can),
            },
        };
        if tool.confirm {
            let what = format!("the tool {:?} needs the caller's consent, which can't be taken of a model that delegates", tool.name);
            return no_delegate("delegate_tool", what, "another tool, or confirm = false for it".to_owned());
        }
        let Tool { name, parameters, .. } = tool;
        let texts: Vec<&str> = properties(parameters).filter(|(_, schema)| takes_text(schema)).map(|(name, _)| name).collect();
        let parameter = match (&self.delegate_parameter, texts.as_slice()) {
            (Some(parameter), texts) if texts.contains(&parameter.as_str()) => parameter.as_str(),
            (None, [parameter]) => parameter,
            (Some(_) | None, []) => {
                let what = format!("the tool {name:?} has no parameter that takes the task as text");
                return no_delegate("delegate_tool", what, NEEDED.to_owned());
            }
            (Some(parameter), texts) => {
                let what = format!("the tool {name:?} has no parameter {parameter:?} that takes any text");
                return no_delegate("delegate_parameter", what, format!("delegate_parameter = {}", choice(texts.iter().copied())));
            }
            (None, texts) => {
                let what = format!("the tool {name:?} takes several texts, and a task is one");
                return no_delegate("delegate_parameter", what, format!("delegate_parameter = {}", choice(texts.iter().copied())));
            }
        };
        if let Some(further) = required(parameters).find(|required| *required != parameter) {
            let what = format!("the tool {name:?} requires {further:?} too, which nobody can fill in: a task is one text");
            let instead = format!("a tool that requires {parameter:?} alone");
            return no_delegate("delegate_tool", what, instead);
        }
        Ok(Some(Delegate { tool: name.clone(), parameter: parameter.to_owned() }))
    }
}

/// The properties of a schema, by name.
fn properties(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    schema["properties"].as_object().into_iter().flatten().map(|(name, schema)| (name.as_str(), schema))
}

/// What a schema requires.
fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Whether a tool with these parameters can do a task that is one text.
fn takes_a_task(parameters: &Value) -> bool {
    properties(parameters).any(|(name, schema)| takes_text(schema) && required(parameters).all(|required| required == name))
}

/// Whether a schema takes whatever is said.
fn takes_text(schema: &Value) -> bool {
    schema["type"] == "string" && ["enum", "const", "format", "pattern"].iter().all(|limit| schema.get(limit).is_none())
}

/// Names to choose from, as they are written.
fn choice<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.take(NAMES_SHOWN_MAX).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(" or ")
}

/// With this, what the box says is there first.
fn acknowledgement_delay_ms() -> u64 {
    2_000
}

/// A service that leads calls.
const KIND: Kind = Kind {
    reached_by: ReachedBy::WebSocket,
    url: "wss://api.openai.com/v1/live/sessions",
    key_file: "live-key",
    key_header: "authorization",
    carries: "what callers say",
};
/// Nobody waits longer for a word.
const ACKNOWLEDGEMENT_DELAY_MS_MOST: u64 = 60_000;
/// What does a task.
const NEEDED: &str = "a tool with a parameter such as request = { type = \"string\" }";
/// More names than these are not read in a message.
const NAMES_SHOWN_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn live(more: &str) -> Live {
        toml::from_str(&format!("url = 'wss://127.0.0.1/'\nmodel = 'm'\n{more}")).unwrap()
    }

    fn tool(name: &str, parameters: &str) -> Tool {
        toml::from_str(&format!("name = '{name}'\nurl = 'http://127.0.0.1/'\nparameters = {{ type = 'object', {parameters} }}")).unwrap()
    }

    #[test]
    fn what_does_a_task_is_the_one_tool_that_takes_one_text_or_what_is_named() {
        let text = "properties = { request = { type = 'string' }, day = { type = 'string', format = 'date' }, n = { type = 'integer' } }";
        let two = "required = ['what'], properties = { what = { type = 'string' }, whose = { type = 'string' } }";
        let delegate = |more: &str, tools: &[Tool]| live(more).delegate(tools).map_err(|no| no.to_string());
        let expected = |tool: &str, parameter: &str| Ok(Some(Delegate { tool: tool.into(), parameter: parameter.into() }));
        assert_eq!(delegate("", &[]), Ok(None));
        assert_eq!(delegate("", &[tool("ask", text)]), expected("ask", "request"));
        let both = [tool("ask", text), tool("do", two)];
        assert_eq!(delegate("delegate_tool = 'ask'", &both), expected("ask", "request"));
        assert_eq!(delegate("delegate_tool = 'do'\ndelegate_parameter = 'what'", &both), expected("do", "what"));
        for (more, tools, said) in [
            (
                "",
                &both[..],
                "cloud.live.delegate_tool: the model delegates a task without saying to which tool, and there are several; write instead: delegate_tool = \"ask\" or \"do\"",
            ),
            (
                "delegate_tool = 'no'",
                &both,
                "cloud.live.delegate_tool: there is no tool \"no\"; write instead: delegate_tool = \"ask\" or \"do\"",
            ),
            (
                "",
                &[
                    tool("book", "required = ['day', 'n'], properties = { day = { type = 'string' }, n = { type = 'integer' } }"),
                    tool("ask", text),
                ],
                "cloud.live.delegate_tool: the model delegates a task without saying to which tool, and there are several; write instead: delegate_tool = \"ask\"",
            ),
            (
                "delegate_tool = 'no'",
                &[tool("n", "properties = { n = { type = 'integer' } }")],
                "cloud.live.delegate_tool: there is no tool \"no\"; write instead: a tool with a parameter such as request = { type = \"string\" }",
            ),
            (
                "delegate_tool = 'no'",
                &[],
                "cloud.live.delegate_tool: there is no tool \"no\"; write instead: a table [[tools]] with name = \"no\", or leave it out",
            ),
            (
                "delegate_tool = 'do'",
                &both,
                "cloud.live.delegate_parameter: the tool \"do\" takes several texts, and a task is one; write instead: delegate_parameter = \"what\" or \"whose\"",
            ),
            (
                "delegate_tool = 'do'\ndelegate_parameter = 'whose'",
                &both,
                "cloud.live.delegate_tool: the tool \"do\" requires \"what\" too, which nobody can fill in: a task is one text; write instead: a tool that requires \"whose\" alone",
            ),
            (
                "delegate_tool = 'ask'\ndelegate_parameter = 'day'",
                &both,
                "cloud.live.delegate_parameter: the tool \"ask\" has no parameter \"day\" that takes any text; write instead: delegate_parameter = \"request\"",
            ),
            (
                "",
                &[tool("n", "properties = { n = { type = 'integer' } }")],
                "cloud.live.delegate_tool: the tool \"n\" has no parameter that takes the task as text; write instead: a tool with a parameter such as request = { type = \"string\" }",
            ),
        ] {
            assert_eq!(delegate(more, tools), Err(said.to_owned()));
        }
    }
}
