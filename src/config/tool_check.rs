//! What must be true of a `[[tools]]` table.

use recado_core::ledger::template_environment;
use recado_core::policy::{Audience, DuplicatePolicy, INQUIRY_MS_MAX, IdempotencyScope, Language, Localised, ProgressPolicy, WhenUnheard};
use reqwest::Url;
use serde_json::Value as Json;

use super::check::{Checker, NO_URL};
use super::gate::MIN_QUIET_MS;
use super::headers;
use super::identity::Identity;
use super::meant::nearest;
use super::store::Store;
use super::template;
use super::tool::{Tool, Way};
use super::tree::Path;

impl Tool {
    pub(super) fn check(&self, checker: &mut Checker<'_>, place: &Path, language: Language) {
        self.check_name(checker, &place.join("name"));
        match self.way() {
            Some(Way::Http(url)) => self.check_url(checker, place, "url", url),
            Some(Way::Command(command)) => command.check(checker, self, place),
            Some(Way::Mcp(_)) => self.check_mcp(checker, place),
            // Looked at where the other tools are known.
            Some(Way::Delegate(_)) => {}
            None => checker.error(place, "it does not say where the tool is", "url = \"https://crm.example/recado/tickets\""),
        }
        self.check_one_way(checker, place);
        if let (Some(url), Some(Way::Http(_))) = (&self.cancel_url, self.way()) {
            self.check_url(checker, place, "cancel_url", url);
        }
        self.check_endpoints(checker, place);
        let credential = "bearer_file = \"crm-token\", a file that holds the token";
        headers::check(checker, &place.join("headers"), &self.headers, &OWN_HEADERS, credential);
        self.check_limits(checker, place);
        self.check_parameters(checker, place);
        if let Some(file) = &self.ca_file {
            checker.file_exists(&place.join("ca_file"), file);
        }
        if let Some(file) = &self.bearer_file {
            let instead = "a file in $CREDENTIALS_DIRECTORY, or the path of one that holds the token";
            checker.holds_credential(&place.join("bearer_file"), file, instead);
        }
        if let Some(file) = &self.sign_secret_file {
            let instead = "a file in $CREDENTIALS_DIRECTORY, or the path of one that holds the secret";
            checker.holds_credential(&place.join("sign_secret_file"), file, instead);
        }
        if self.mcp_tool.is_some() && self.mcp.is_none() {
            checker.error(&place.join("mcp_tool"), "it does not say which server has it", "mcp = \"NAME\", of a table [mcp.NAME]");
        }
        if self.say_done.is_empty() {
            let what = "without a text the caller only hears that it is done, not what came of it";
            checker.warning(&place.join("say_done"), what, format!("say_done.{} = \"… {{{{ result.… }}}} …\"", code_of(language)));
        }
        for saying in self.sayings() {
            saying.check(checker, place, language, &self.properties());
        }
    }

    fn check_name(&self, checker: &mut Checker<'_>, path: &Path) {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX || !self.name.chars().all(plain) {
            let repaired: String = self.name.trim().chars().map(|c| if plain(c) { c } else { '_' }).take(NAME_BYTES_MAX).collect();
            let repaired = if repaired.is_empty() { "open_ticket".to_owned() } else { repaired };
            let what = format!("a name is 1 to {NAME_BYTES_MAX} letters, digits, `_` and `-`, for models take no other");
            checker.error(path, what, format!("name = {repaired:?}"));
        }
    }

    /// What a tool of a server has none of: the server has it for all its tools.
    fn check_mcp(&self, checker: &mut Checker<'_>, place: &Path) {
        for key in self.http_keys() {
            checker.error(&place.join(key), "a tool of an MCP server has none of its own", "this in the server's table, or nothing");
        }
    }

    /// The keys written that only a tool behind an address of its own has.
    pub(super) fn http_keys(&self) -> impl Iterator<Item = &'static str> {
        let written = [
            ("url", self.url.is_some()),
            ("cancel_url", self.cancel_url.is_some()),
            ("compensate_url", self.compensate_url.is_some()),
            ("status_url", self.status_url.is_some()),
            ("headers", !self.headers.is_empty()),
            ("bearer_file", self.bearer_file.is_some()),
            ("sign_secret_file", self.sign_secret_file.is_some()),
            ("ca_file", self.ca_file.is_some()),
            ("proxy", self.proxy.is_some()),
        ];
        written.into_iter().filter_map(|(key, written)| written.then_some(key))
    }

    /// A tool is one thing: a program, a larger model, or a server's.
    fn check_one_way(&self, checker: &mut Checker<'_>, place: &Path) {
        let written = [("command", self.command.is_some()), ("delegate", self.delegate.is_some()), ("mcp", self.mcp.is_some())];
        let mut written = written.into_iter().filter_map(|(key, written)| written.then_some(key));
        let Some(first) = written.next() else { return };
        for key in written {
            checker.error(
                &place.join(key),
                format!("a tool is one thing, and this one has {first} too"),
                format!("{first} or {key} alone"),
            );
        }
    }

    fn check_url(&self, checker: &mut Checker<'_>, place: &Path, key: &str, text: &str) {
        let path = place.join(key);
        // What is asked about stands in the one URL that is asked how something stands.
        let about = if key == "status_url" { "/{operation_id}" } else { "" };
        let instead = format!("{key} = \"https://crm.example/recado/tickets{about}\"");
        let url = match Url::parse(text) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => url,
            _ => {
                return checker.error(&path, NO_URL, instead);
            }
        };
        if url.port() == Some(0) {
            checker.error(&path, "nobody can be reached at port 0", instead);
        }
        if url.password().is_some() || !url.username().is_empty() {
            checker.error(&path, "a URL is logged, and this one holds a credential", "the URL without it, and bearer_file = \"crm-token\"");
        }
        let on_this_machine = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        if url.scheme() == "http" && !on_this_machine && self.bearer_file.is_some() {
            checker.warning(&path, "the bearer token travels unencrypted", format!("{key} = \"https://…\""));
        }
        if url.scheme() == "http" && self.ca_file.is_some() {
            checker.warning(&place.join("ca_file"), "an http:// URL uses no certificates", "an https:// URL, or no ca_file");
        }
    }

    /// What else it may be asked, and through what.
    fn check_endpoints(&self, checker: &mut Checker<'_>, place: &Path) {
        if let Some(url) = &self.compensate_url {
            self.check_url(checker, place, "compensate_url", url);
        }
        if let Some(url) = &self.status_url {
            self.check_url(checker, place, "status_url", url);
            self.check_status_url(checker, &place.join("status_url"), url);
        }
        checker.within(&place.join("status_after_ms"), self.status_after_ms, STATUS_AFTER_MS_LEAST..=INQUIRY_MS_MAX);
        let Some(proxy) = &self.proxy else { return };
        let path = place.join("proxy");
        let instead = "proxy = \"http://proxy.example:3128\"";
        match Url::parse(proxy) {
            Ok(url) if url.password().is_some() || !url.username().is_empty() => {
                checker.error(&path, "a URL is logged, and this one holds a credential", "a proxy that lets this box in without one");
            }
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() && url.port() != Some(0) => {
                if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
                    checker.error(&path, "a proxy is a scheme, a host and a port", instead);
                }
            }
            _ => checker.error(&path, NO_URL, instead),
        }
    }

    fn check_status_url(&self, checker: &mut Checker<'_>, path: &Path, text: &str) {
        let instead = "status_url = \"https://crm.example/recado/tickets/{operation_id}\"";
        // Of what is written, only where its host ends is looked at: the rest may be replaced.
        let authority_end = text.find("://").map_or(0, |at| text[at + 3..].find(['/', '?', '#']).map_or(text.len(), |end| at + 3 + end));
        if text[..authority_end].contains(['{', '}']) {
            checker.error(path, "whom to ask is not replaced, only what stands behind the host", instead);
        }
        let rest = STATUS_PLACES.iter().fold(text.to_owned(), |rest, place| rest.replace(place, ""));
        if rest == text {
            checker.error(path, "it does not say which operation is asked about: {operation_id} or {idempotency_key} is missing", instead);
        } else if rest.contains(['{', '}']) {
            checker.error(path, "only {operation_id} and {idempotency_key} are replaced in it", instead);
        }
    }

    fn check_limits(&self, checker: &mut Checker<'_>, place: &Path) {
        checker.within_and_fit(&place.join("timeout_ms"), self.timeout_ms, TIMEOUT_MS_LEAST..=TIMEOUT_MS_MOST, self.deadline_ms);
        let concurrency = u64::try_from(self.concurrency.get()).unwrap_or(u64::MAX);
        checker.within(&place.join("concurrency"), concurrency, 1..=CONCURRENCY_MOST);
        checker.within(&place.join("deadline_ms"), self.deadline_ms, TIMEOUT_MS_LEAST..=DEADLINE_MS_MOST);
        if self.timeout_ms > self.deadline_ms && self.timeout_ms <= TIMEOUT_MS_MOST {
            let what =
                format!("one attempt may take {} ms, and the whole operation only deadline_ms = {}", self.timeout_ms, self.deadline_ms);
            let fits = self.deadline_ms.clamp(TIMEOUT_MS_LEAST, TIMEOUT_MS_MOST);
            checker.error(&place.join("timeout_ms"), what, format!("timeout_ms = {fits}"));
        }
        let retry = place.join("retry");
        checker.within(&retry.join("attempts_max"), self.retry.attempts_max.into(), 1..=ATTEMPTS_MOST);
        checker.within_and_fit(&retry.join("backoff_ms"), self.retry.backoff_ms, 0..=DEADLINE_MS_MOST, self.retry.backoff_ms_max);
        checker.within(&retry.join("backoff_ms_max"), self.retry.backoff_ms_max, 0..=DEADLINE_MS_MOST);
        if self.retry.backoff_ms > self.retry.backoff_ms_max && self.retry.backoff_ms <= DEADLINE_MS_MOST {
            let what = format!("the first wait is longer than the longest, backoff_ms_max = {}", self.retry.backoff_ms_max);
            checker.error(&retry.join("backoff_ms"), what, format!("backoff_ms = {}", self.retry.backoff_ms_max));
        }
        if !self.idempotent && !self.hinted && self.retry.attempts_max > 1 && checker.written(&retry) {
            let what = "this tool is not idempotent, so only attempts that provably did not execute are repeated";
            checker.warning(&retry, what, "idempotent = true, if the same request may safely be sent twice");
        }
        if self.topic.as_ref().is_some_and(|topic| topic.trim().is_empty()) {
            checker.error(&place.join("topic"), "it is empty", "topic = \"table\", or nothing");
        }
        self.check_telling(checker, place);
    }

    fn check_telling(&self, checker: &mut Checker<'_>, place: &Path) {
        checker.within(&place.join("max_wait_ms"), self.max_wait_ms, 0..=DEADLINE_MS_MOST);
        checker.within(&place.join("hand_off_after_ms"), self.hand_off_after_ms, 0..=KEPT_MS_MOST);
        if let Some(min_quiet_ms) = self.min_quiet_ms {
            checker.within(&place.join("min_quiet_ms"), min_quiet_ms, MIN_QUIET_MS);
        }
        if self.version_field.is_some() && self.topic.is_none() {
            let what = "versions are compared on a topic, and this tool has none";
            checker.error(&place.join("version_field"), what, "topic = \"price\", or no version_field");
        }
        if self.version_field.as_ref().is_some_and(|field| field.split('.').any(|part| part.trim().is_empty())) {
            checker.error(&place.join("version_field"), "it does not name a field", "version_field = \"version\"");
        }
        if self.duplicate == DuplicatePolicy::Replace && self.idempotency_fields.is_empty() {
            let what = "requests that differ in any argument are two, so there is never one to be replaced";
            checker.warning(&place.join("duplicate"), what, "idempotency_fields = [\"…\"], the arguments that name what is asked for");
        }
        if self.confirm && self.properties().contains(&CONFIRMED) {
            let what = format!("the box's own {CONFIRMED:?} says that the caller agrees, and parameters have a property of that name");
            checker.error(&place.join("confirm"), what, format!("another name for the property {CONFIRMED}, or confirm = false"));
        }
        if !self.say_confirm.is_empty() && !self.confirm {
            checker.warning(&place.join("say_confirm"), "this is never said", "confirm = true");
        }
        if self.duplicate == DuplicatePolicy::Replace && self.idempotency_scope == IdempotencyScope::Global {
            let what = "nobody's request cancels another's";
            checker.error(&place.join("idempotency_scope"), what, "idempotency_scope = \"party\"");
        }
        if !self.say_progress.is_empty() && self.progress != ProgressPolicy::Say {
            checker.warning(&place.join("say_progress"), "this is never said", "progress = \"say\"");
        }
        if self.when_unheard == WhenUnheard::Webhook && self.stale_after_ms.is_some_and(|stale| stale <= self.hand_off_after_ms) {
            let what = format!("a result is stale before that, after stale_after_ms = {}", self.stale_after_ms.unwrap_or_default());
            checker.error(&place.join("hand_off_after_ms"), what, "less than stale_after_ms");
        }
        match self.stale_after_ms {
            Some(0) => {
                checker.error(&place.join("stale_after_ms"), "every result would be stale at once", "stale_after_ms = 600000");
            }
            Some(stale_after_ms) => checker.within(&place.join("stale_after_ms"), stale_after_ms, 1..=KEPT_MS_MOST),
            None => {}
        }
    }

    /// Neither shorter than what runs may take, nor longer than what the store remembers.
    pub(super) fn check_window(&self, checker: &mut Checker<'_>, place: &Path, store: &Store) {
        let Some(window_ms) = self.idempotency_window_ms else { return };
        let path = place.join("idempotency_window_ms");
        let kept_ms = store.keep().map_or(u64::MAX, |keep| u64::try_from(keep.as_millis()).unwrap_or(u64::MAX));
        checker.within_and_fit(&path, window_ms, 1..=KEPT_MS_MOST, kept_ms);
        if window_ms > kept_ms && window_ms <= KEPT_MS_MOST {
            let what =
                format!("the store forgets what is over after store.keep_days = {}, and it would be done once more", store.keep_days);
            checker.error(&path, what, format!("idempotency_window_ms = {kept_ms}, or a larger store.keep_days"));
        }
        if window_ms < self.deadline_ms {
            let what = format!("the same request is a new one while the first may still run, up to deadline_ms = {}", self.deadline_ms);
            checker.warning(&path, what, format!("idempotency_window_ms = {}", self.deadline_ms));
        }
    }

    /// What only a verified caller may hear needs a way to verify one.
    pub(super) fn check_audience(&self, checker: &mut Checker<'_>, place: &Path, identity: &Identity) {
        if self.audience == Audience::VerifiedParty && !identity.verifies() {
            let what = "nothing verifies who calls: a result waits until something does, or until it is stale or handed off";
            let instead = "a table [identity] with pins_file, or audience = \"same_party\" or \"same_call\"";
            checker.warning(&place.join("audience"), what, instead);
        }
    }

    fn check_parameters(&self, checker: &mut Checker<'_>, place: &Path) {
        let path = place.join("parameters");
        match jsonschema::validator_for(&self.parameters) {
            Err(error) => {
                let inner = error.instance_path().as_str().split('/').skip(1).fold(path.clone(), |path, key| path.join(key));
                let instead = if inner.key() == "type" {
                    "type = \"string\", \"number\", \"integer\", \"boolean\", \"array\" or \"object\""
                } else {
                    "JSON Schema, as in { type = \"object\", properties = { name = { type = \"string\" } } }"
                };
                checker.error(&inner, format!("this is not JSON Schema: {error}"), instead);
            }
            Ok(_) if self.parameters.get("type").and_then(Json::as_str) != Some("object") => {
                checker.error(&path, "arguments come as one object", "type = \"object\"");
            }
            Ok(_) => {}
        }
        let properties = self.properties();
        for (key, fields) in [
            ("idempotency_fields", self.idempotency_fields.iter().map(String::as_str).collect::<Vec<_>>()),
            ("parameters.required", self.required()),
        ] {
            let path = key.split('.').fold(place.clone(), |path, key| path.join(key));
            for (index, field) in fields.iter().enumerate() {
                if !properties.contains(field) {
                    let instead = match nearest(field, &properties) {
                        Some(near) => format!("{near:?}"),
                        None if properties.is_empty() => format!("properties.{field} = {{ type = \"string\" }} in parameters"),
                        None => format!("one of {}", properties.join(", ")),
                    };
                    checker.error(&path.join(index), format!("{field:?} is not among the properties in parameters"), instead);
                }
            }
        }
    }

    /// The names of its arguments.
    pub(super) fn properties(&self) -> Vec<&str> {
        let properties = self.parameters.get("properties").and_then(Json::as_object);
        properties.map(|properties| properties.keys().map(String::as_str).collect()).unwrap_or_default()
    }

    fn required(&self) -> Vec<&str> {
        let required = self.parameters.get("required").and_then(Json::as_array);
        required.map(|required| required.iter().filter_map(Json::as_str).collect()).unwrap_or_default()
    }

    fn sayings(&self) -> [Saying<'_>; 11] {
        [
            Saying { key: "say_accepted", text: &self.say_accepted, variables: &["arguments"] },
            Saying { key: "say_done", text: &self.say_done, variables: &["arguments", "result"] },
            Saying { key: "say_short", text: &self.say_short, variables: &["arguments", "result"] },
            Saying { key: "say_failed", text: &self.say_failed, variables: &["arguments", "error"] },
            Saying { key: "say_unknown", text: &self.say_unknown, variables: &["arguments"] },
            Saying { key: "say_cancelled", text: &self.say_cancelled, variables: &["arguments"] },
            Saying { key: "say_compensated", text: &self.say_compensated, variables: &["arguments"] },
            Saying { key: "say_too_late", text: &self.say_too_late, variables: &["arguments", "result"] },
            Saying { key: "say_confirm", text: &self.say_confirm, variables: &["arguments"] },
            Saying { key: "say_waiting", text: &self.say_waiting, variables: &["arguments"] },
            Saying { key: "say_progress", text: &self.say_progress, variables: &["arguments", "progress"] },
        ]
    }
}

/// One of a tool's sayings, and what its template may use.
struct Saying<'a> {
    key: &'static str,
    text: &'a Localised,
    variables: &'static [&'static str],
}

impl Saying<'_> {
    fn check(&self, checker: &mut Checker<'_>, place: &Path, language: Language, properties: &[&str]) {
        let path = place.join(self.key);
        let code = code_of(language);
        let text = match language {
            Language::Es => &self.text.es,
            Language::En => &self.text.en,
        };
        if text.is_none() && !self.text.is_empty() {
            let what = format!("there is no text in the box's language, {code:?}");
            checker.error(&path, what, format!("{}.{code} = \"…\"", self.key));
        }
        for (code, text) in [("es", &self.text.es), ("en", &self.text.en)] {
            if let Some(text) = text {
                self.check_template(checker, &path.join(code), code, text, properties);
            }
        }
    }

    fn check_template(&self, checker: &mut Checker<'_>, path: &Path, code: &str, text: &str, properties: &[&str]) {
        let setting = format!("{}.{code}", self.key);
        if text.trim().is_empty() {
            return checker.error(path, "an empty text would be silence", format!("{setting} = \"…\""));
        }
        if text.chars().count() > TEXT_CHARS_MAX {
            let what = format!("{} characters are more than {TEXT_CHARS_MAX}, a minute of speech", text.chars().count());
            checker.error(path, what, format!("a shorter {setting}"));
        }
        check_template(checker, path, &setting, text, self.variables, properties);
    }
}

/// Checks the template `text` of a `setting`, which may use these variables; `properties` are those of `arguments`.
pub(super) fn check_template(checker: &mut Checker<'_>, path: &Path, setting: &str, text: &str, variables: &[&str], properties: &[&str]) {
    let environment = template_environment();
    let template = match environment.template_from_str(text) {
        Ok(template) => template,
        Err(error) => {
            let what = format!("this template can't be read: {}", template::reason(&error));
            return checker.error(path, what, format!("{setting} = \"… {{{{ arguments.name }}}} …\""));
        }
    };
    for fault in template::faults(&environment, &template, variables) {
        checker.error(path, fault.what, fault.instead);
    }
    let globals: Vec<_> = environment.globals().map(|(name, _)| name.to_owned()).collect();
    let called = template::called(&template);
    let mut used: Vec<_> = template.undeclared_variables(true).into_iter().filter(|name| !called.contains(name)).collect();
    used.sort();
    for name in used {
        let mut keys = name.split('.');
        let variable = keys.next().unwrap_or_default();
        if !variables.contains(&variable) && !globals.iter().any(|global| global == variable) {
            let instead = match nearest(variable, variables) {
                Some(near) => format!("{{{{ {} }}}}", name.replacen(variable, near, 1)),
                None if properties.contains(&variable) => format!("{{{{ arguments.{variable} }}}}"),
                None => format!("{} and what is in it", variables.join(", ")),
            };
            checker.error(path, format!("there is no `{variable}` to be said here"), instead);
        } else if variable == "error" && name != variable {
            checker.error(path, "`error` is a text and has no fields", "{{ error }}");
        } else if let ("arguments", Some(field)) = (variable, keys.next())
            && !properties.is_empty()
            && !properties.contains(&field)
        {
            let instead = nearest(field, properties)
                .map_or_else(|| format!("one of {}", properties.join(", ")), |near| format!("{{{{ arguments.{near} }}}}"));
            checker.error(path, format!("`arguments.{field}` is not among the properties in parameters"), instead);
        }
    }
}

/// The key that texts in a language stand under.
pub(crate) fn code_of(language: Language) -> &'static str {
    match language {
        Language::Es => "es",
        Language::En => "en",
    }
}

/// The property by which a model says that the caller has confirmed a call: that it is to be done at all, or once more.
pub const CONFIRMED: &str = "caller_confirmed";
/// What the common models allow for the name of a function.
pub const NAME_BYTES_MAX: usize = 64;
/// Below, no connection over a mobile network comes to be.
const TIMEOUT_MS_LEAST: u64 = 100;
/// Ten minutes: what takes longer answers 202 and calls back.
const TIMEOUT_MS_MOST: u64 = 600_000;
/// Thirty days.
const DEADLINE_MS_MOST: u64 = 30 * 86_400_000;
/// Ten years, as long as the store keeps anything.
const KEPT_MS_MOST: u64 = 3_650 * 86_400_000;
/// With doubling waits, more attempts than this never fit into a deadline.
const ATTEMPTS_MOST: u64 = 50;
/// A box has few descriptors, and a tool that needs more is a queue of its own.
const CONCURRENCY_MOST: u64 = 64;
/// A minute of speech: nobody listens longer to a result.
const TEXT_CHARS_MAX: usize = 900;
/// Headers that attempts carry anyway: they say what the request is, or how it is framed.
pub const OWN_HEADERS: [&str; 9] = [
    "idempotency-key",
    "content-type",
    "content-length",
    "transfer-encoding",
    "host",
    "connection",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
];
/// What is replaced in a `status_url`.
pub const STATUS_PLACES: [&str; 2] = ["{operation_id}", "{idempotency_key}"];
/// No tool is asked more often how an operation stands.
const STATUS_AFTER_MS_LEAST: u64 = 250;
