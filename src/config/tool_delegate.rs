//! `[tools.delegate]`: a tool that is a larger model, asked over HTTP.

use std::ops::RangeInclusive;
use std::path::{Path as FilePath, PathBuf};

use serde::Deserialize;

use super::check::Checker;
use super::cloud_language::{LanguageApi, LanguageModel};
use super::endpoint::{Kind, ReachedBy, service_table};
use super::http_part::{self, HttpPart};
use super::meant::nearest;
use super::tool::Tool;
use super::tool_check::check_template;
use super::tree::Path;

service_table! {
    /// A larger model behind the OpenAI interface (`POST …/chat/completions` or `POST …/responses`), and what it may use.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    pub struct DelegateService in "delegate", key_header = "Default::default", {
        /// Which of its interfaces is used.
        #[serde(default)]
        pub api: LanguageApi,
        /// How long an answer may be (tokens); one that is cut off there has failed. The service's own limit where none is given.
        #[serde(default)]
        pub tokens_max: Option<u64>,
        /// How freely the model chooses its words (0 to 2); the service's own where none is given. Some models take none.
        #[serde(default)]
        pub temperature: Option<f64>,
        /// What it is told of its task, a template over `arguments`; short instructions of the box's own where there are none.
        #[serde(default)]
        pub instructions: Option<String>,
        /// The argument that is the question; all arguments, as JSON, where none is named.
        #[serde(default)]
        pub question: Option<String>,
        /// The tools that it may use itself, by their names.
        #[serde(default)]
        pub tools: Vec<String>,
        /// How often it may be asked in one attempt: once, and once more each time after it has used its tools.
        #[serde(default = "rounds_max")]
        pub rounds_max: u32,
        /// How long a connection may take until it stands (ms).
        #[serde(default = "http_part::connect_timeout_ms")]
        pub connect_timeout_ms: u64,
        /// How long the service may take until the first of an answer comes (ms).
        #[serde(default = "answer_timeout_ms")]
        pub answer_timeout_ms: u64,
        /// How long an answer may pause (ms), as while the model thinks.
        #[serde(default = "answer_timeout_ms")]
        pub stall_timeout_ms: u64,
    }
}

impl DelegateService {
    /// How it is reached, where one attempt may take `whole_timeout_ms` in all.
    pub fn part(&self, whole_timeout_ms: u64) -> HttpPart<'_> {
        HttpPart {
            endpoint: self.endpoint(),
            prices: None,
            connect_timeout_ms: self.connect_timeout_ms,
            answer_timeout_ms: self.answer_timeout_ms,
            stall_timeout_ms: self.stall_timeout_ms,
            whole_timeout_ms,
        }
    }

    /// What it is asked for.
    pub fn language_model(&self) -> LanguageModel {
        let Self { model, api, tokens_max, temperature, .. } = self;
        LanguageModel { model: model.clone(), api: *api, tokens_max: *tokens_max, temperature: *temperature }
    }
}

impl Tool {
    /// Its settings that depend on what kind of tool it is, where they are not written: asking a model once more does nothing twice, and it thinks
    /// for longer than a service takes.
    pub(super) fn default_by_kind(&mut self, checker: &Checker<'_>, place: &Path) {
        self.hinted = self.mcp.is_some() && !checker.written(&place.join("idempotent"));
        if self.delegate.is_some() {
            self.idempotent |= !checker.written(&place.join("idempotent"));
            if !checker.written(&place.join("timeout_ms")) {
                self.timeout_ms = TIMEOUT_MS;
            }
        }
    }

    pub(super) fn resolve_delegate(&mut self, base: &FilePath, credential: impl Fn(&PathBuf) -> PathBuf) {
        if let Some(delegate) = &mut self.delegate {
            delegate.resolve(base, credential);
        }
    }

    /// Checks what makes it a delegate, where it is one: `properties` are those of its arguments, `others` all tools.
    pub(super) fn check_delegate(&self, checker: &mut Checker<'_>, place: &Path, others: &[Tool]) {
        let Some(delegate) = &self.delegate else { return };
        self.check_is_delegate_alone(checker, place);
        let properties = self.properties();
        let place = &place.join("delegate");
        delegate.endpoint().check_at(checker, place, &KIND);
        delegate.language_model().check(checker, place);
        for (key, ms) in [
            ("connect_timeout_ms", delegate.connect_timeout_ms),
            ("answer_timeout_ms", delegate.answer_timeout_ms),
            ("stall_timeout_ms", delegate.stall_timeout_ms),
        ] {
            checker.within(&place.join(key), ms, TIMEOUTS_MS);
        }
        checker.within(&place.join("rounds_max"), delegate.rounds_max.into(), ROUNDS);
        if let Some(question) = &delegate.question
            && !properties.contains(&question.as_str())
        {
            let instead = match (nearest(question, &properties), properties.first()) {
                (Some(near), _) => format!("question = {near:?}"),
                (None, Some(first)) => format!("question = {first:?}, or another one of the properties in parameters"),
                (None, None) => "nothing: all arguments are the question then".to_owned(),
            };
            checker.error(&place.join("question"), format!("{question:?} is not among the properties in parameters"), instead);
        }
        if let Some(instructions) = &delegate.instructions {
            let path = place.join("instructions");
            if instructions.trim().is_empty() {
                checker.error(&path, "a model that is told nothing", "instructions = \"…\", or leave it out for the box's own");
            } else if instructions.len() > INSTRUCTIONS_BYTES_MAX {
                let what = format!("{} bytes are more than the {INSTRUCTIONS_BYTES_MAX} that a service takes", instructions.len());
                checker.error(&path, what, "shorter instructions");
            } else {
                check_template(checker, &path, "instructions", instructions, &["arguments"], &properties);
            }
        }
        self.check_its_tools(checker, &place.join("tools"), delegate, others);
    }

    /// What says where another kind of tool is has no meaning here.
    fn check_is_delegate_alone(&self, checker: &mut Checker<'_>, place: &Path) {
        for key in self.http_keys() {
            let instead = match key {
                "cancel_url" => "no cancel_url: a question that has changed nothing is cancelled by giving it up",
                "bearer_file" => "key_file in [tools.delegate], or no [tools.delegate]",
                "compensate_url" | "status_url" | "sign_secret_file" | "proxy" => "nothing: leave it out",
                _ => "the same in [tools.delegate], or no [tools.delegate]",
            };
            checker.error(&place.join(key), "this tool is a larger model, whose service is named in [tools.delegate]", instead);
        }
        if !self.idempotent {
            let what = "what broke off is asked again, which does nothing twice: a larger model is idempotent";
            checker.error(&place.join("idempotent"), what, "idempotent = true; with retry.attempts_max = 1 it is asked once all the same");
        }
    }

    fn check_its_tools(&self, checker: &mut Checker<'_>, place: &Path, delegate: &DelegateService, others: &[Tool]) {
        let usable: Vec<&str> = others.iter().filter(|other| other.may_be_used()).map(|other| other.name.as_str()).collect();
        let instead = |name: &str| match nearest(name, &usable) {
            Some(near) => format!("{near:?}"),
            None if usable.is_empty() => "no tools: none here can be used".to_owned(),
            None => format!("some of {}", usable.join(", ")),
        };
        for (index, name) in delegate.tools.iter().enumerate() {
            let path = place.join(index);
            match others.iter().find(|other| other.name == *name) {
                None => checker.error(&path, format!("there is no tool {name:?}"), instead(name)),
                Some(other) if other.delegate.is_some() => {
                    checker.error(
                        &path,
                        format!("{name:?} is a larger model itself, and such are not asked by one another"),
                        instead(name),
                    );
                }
                Some(other) if other.mcp.is_some() => {
                    let what =
                        format!("{name:?} is of an MCP server, which may make a task of it: a larger model waits for no tool's result");
                    checker.error(&path, what, instead(name));
                }
                Some(other) if !other.idempotent => {
                    let what = format!("{name:?} is not idempotent: an attempt of the model that is repeated would do it twice");
                    checker.error(
                        &path,
                        what,
                        format!("idempotent = true in {name:?}, if the same request may safely be sent twice; or leave it out"),
                    );
                }
                Some(_) if delegate.tools.iter().take(index).any(|earlier| earlier == name) => {
                    checker.error(&path, format!("{name:?} stands here twice"), "once is enough");
                }
                Some(_) => {}
            }
        }
    }

    /// Whether a larger model may use it.
    fn may_be_used(&self) -> bool {
        self.delegate.is_none() && self.mcp.is_none() && self.idempotent
    }
}

fn rounds_max() -> u32 {
    8
}

/// A larger model thinks before it writes, and some services send nothing meanwhile.
fn answer_timeout_ms() -> u64 {
    60_000
}

/// How long one attempt may take where nothing is written: some rounds of a model that thinks.
const TIMEOUT_MS: u64 = 120_000;
/// As long as an attempt of any tool may take.
const TIMEOUTS_MS: RangeInclusive<u64> = 500..=600_000;
/// A model that has not come to an end by then does not.
const ROUNDS: RangeInclusive<u64> = 1..=64;
/// As many as for the model that leads calls.
const INSTRUCTIONS_BYTES_MAX: usize = 32 * 1024;
/// A service that is asked hard questions.
const KIND: Kind = Kind {
    reached_by: ReachedBy::Http,
    url: "https://api.openai.com/v1",
    key_file: "language-key",
    key_header: "api-key",
    carries: "what callers ask for",
};
