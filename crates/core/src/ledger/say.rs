//! What is said of an operation: the tool's templates rendered over `{arguments, result, error}`, with plain phrases
//! where there are none or where they can't be rendered. A closing is never lost to a missing field.
//!
//! Text is made for a voice: control and formatting characters are dropped, nothing is HTML-escaped, length is bounded.

use std::sync::Arc;

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, context, escape_formatter};
use serde_json::Value;

use super::input::{RepeatAnswer, Standing};
use super::listing::{plain_read_back, whole};
use super::record::{Contradiction, OperationRecord, OperationState};
use crate::faults::{Fault, fault};
use crate::policy::{Language, Localised, ToolPolicy};

/// What the caller hears when nothing could be accepted.
pub fn say_refused(language: Language) -> String {
    phrase(Phrase::Refused, None).text(language).unwrap_or_default().to_owned()
}

/// Renders sayings.
#[derive(Debug, Clone)]
pub(super) struct Sayer {
    environment: Arc<Environment<'static>>,
}

impl Sayer {
    pub fn new() -> Self {
        Self { environment: Arc::new(template_environment()) }
    }

    /// What the caller hears when an operation has been accepted.
    pub fn accepted(&self, policy: &ToolPolicy, record: &OperationRecord, language: Language) -> String {
        let said = self.localised(&policy.say.accepted, record, &[], phrase(Phrase::Accepted, None));
        said.text(language).unwrap_or_default().to_owned()
    }

    /// What the caller hears when an operation has been accepted, or goes on waiting, while its tool can't be reached.
    pub fn waiting(&self, policy: &ToolPolicy, record: &OperationRecord, language: Language) -> String {
        let said = self.localised(&policy.say.waiting, record, &[], phrase(Phrase::Waiting, None));
        said.text(language).unwrap_or_default().to_owned()
    }

    /// What a tool would do, read back to the caller, and whether they want that.
    pub fn read_back(&self, policy: &ToolPolicy, tool: &str, arguments: &Value, language: Language) -> String {
        let own = policy.say.confirm.text(language).and_then(|template| self.render(template, context! { arguments => Serde(arguments) }));
        own.unwrap_or_else(|| plain_read_back(&whole(policy, tool, arguments, language), language))
    }

    /// What the caller hears when the same thing had been asked before.
    pub fn repeated(&self, standing: Standing, answer: RepeatAnswer, language: Language) -> String {
        let which = match (answer, standing) {
            (RepeatAnswer::NeedsConfirmation, Standing::Running) => Phrase::RunningConfirm,
            (RepeatAnswer::NeedsConfirmation, Standing::AboutToBeTold | Standing::Told) => Phrase::AskedConfirm,
            (RepeatAnswer::AskedByAnother, _) => Phrase::AskedByAnother,
            (_, Standing::Running) => Phrase::AlreadyRunning,
            (_, Standing::AboutToBeTold) => Phrase::ResultWaits,
            (_, Standing::Told) => Phrase::AlreadyTold,
        };
        phrase(which, None).text(language).unwrap_or_default().to_owned()
    }

    /// What the caller hears when nothing could be accepted.
    pub fn refused(&self, language: Language) -> String {
        say_refused(language)
    }

    /// The long form for an operation that is settled. `named` says that the batch holds others, so that a plain phrase
    /// has to say which one it is about.
    pub fn long(&self, policy: &ToolPolicy, record: &OperationRecord, named: bool) -> Localised {
        let name = named.then(|| record.tool.replace(['_', '-'], " "));
        let plain = |which| phrase(which, name.as_deref());
        let say = &policy.say;
        match record.state {
            _ if fault(Fault::EverythingSucceeded) => self.localised(&say.done, record, &[], plain(Phrase::Done)),
            OperationState::Succeeded => self.localised(&say.done, record, &[], plain(Phrase::Done)),
            OperationState::TooLate if fault(Fault::TooLateToldAsCancelled) => {
                self.localised(&say.cancelled, record, &[], plain(Phrase::Cancelled))
            }
            OperationState::TooLate => {
                let record = &OperationRecord { result: record.known_result().cloned(), ..record.clone() };
                let done = self.localised(&say.done, record, &[], plain(Phrase::Done));
                let too_late = self.localised(&say.too_late, record, &[], Localised::default());
                if too_late.is_empty() { lead(&phrase(Phrase::TooLate, None), &done) } else { too_late }
            }
            OperationState::Failed => self.localised(&say.failed, record, &[], plain(Phrase::Failed)),
            OperationState::Cancelled => self.localised(&say.cancelled, record, &[], plain(Phrase::Cancelled)),
            OperationState::Compensated => self.localised(&say.compensated, record, &[], plain(Phrase::Compensated)),
            // Not settled never comes here; should it, "not known" is the truth.
            _ => self.localised(&say.unknown, record, &[], plain(Phrase::Unknown)),
        }
    }

    /// What a result that contradicts the one on record, or that came when there was none, says, where that makes a difference to
    /// who hears it.
    pub fn contradiction(&self, policy: &ToolPolicy, record: &OperationRecord, named: bool) -> Option<Localised> {
        let (state, result, error) = match record.contradiction.clone()? {
            Contradiction::Succeeded(value) => (OperationState::Succeeded, Some(value), None),
            Contradiction::Failed(error) => (OperationState::Failed, None, Some(error)),
            Contradiction::Undone => (OperationState::Compensated, None, None),
        };
        let other = self.long(policy, &OperationRecord { state, result, error, ..record.clone() }, named);
        let before = self.long(policy, &OperationRecord { contradiction: None, ..record.clone() }, named);
        let now = if record.late_result().is_some() { &self.long(policy, record, named) } else { &other };
        (*now != before).then_some(other)
    }

    /// How far an operation is, by what its tool says of it.
    pub fn progress(&self, policy: &ToolPolicy, record: &OperationRecord, progress: &Value, language: Language) -> String {
        let values = context! { arguments => Serde(&record.arguments), progress => Serde(progress) };
        let own = policy.say.progress.text(language).and_then(|template| self.render(template, values));
        own.unwrap_or_else(|| phrase(Phrase::Progress, None).text(language).unwrap_or_default().to_owned())
    }

    /// What the caller hears when operations are being cancelled, can't be now, or when there is nothing left to cancel.
    pub fn cancelling(&self, cancelling: bool, ended: bool, refused: bool, language: Language) -> String {
        let which = match (cancelling, ended, refused) {
            (true, _, false) => Phrase::Cancelling,
            (true, _, true) => Phrase::CancellingSome,
            (false, _, true) => Phrase::NoCancelNow,
            (false, true, false) => Phrase::EndedBefore,
            (false, false, false) => Phrase::NothingToCancel,
        };
        phrase(which, None).text(language).unwrap_or_default().to_owned()
    }

    /// The short form: the tool's own where it succeeded and has one, otherwise the long form.
    pub fn short(&self, policy: &ToolPolicy, record: &OperationRecord, named: bool) -> Localised {
        let own = &policy.say.short;
        if record.state != OperationState::Succeeded || own.is_empty() {
            return self.long(policy, record, named);
        }
        let name = named.then(|| record.tool.replace(['_', '-'], " "));
        self.localised(own, record, &[&policy.say.done], phrase(Phrase::Done, name.as_deref()))
    }

    /// Each language that has a template is rendered; one that can't be falls back to the same language of `others`, then to
    /// `plain`. No template at all: `plain` in both.
    fn localised(&self, own: &Localised, record: &OperationRecord, others: &[&Localised], plain: Localised) -> Localised {
        if own.is_empty() {
            return plain;
        }
        let one = |pick: fn(&Localised) -> Option<&String>| {
            let mine = pick(own)?;
            let candidates = std::iter::once(mine).chain(others.iter().filter_map(|other| pick(other)));
            candidates.into_iter().find_map(|template| self.render(template, of(record))).or_else(|| pick(&plain).cloned())
        };
        Localised { es: one(|said| said.es.as_ref()), en: one(|said| said.en.as_ref()) }
    }

    fn render(&self, template: &str, values: minijinja::Value) -> Option<String> {
        let text = clean(&self.environment.render_str(template, values).ok()?);
        (!text.is_empty()).then_some(text)
    }
}

/// What a template may say of an operation.
fn of(record: &OperationRecord) -> minijinja::Value {
    context! {
        arguments => Serde(&record.arguments),
        result => Serde(&record.result),
        error => record.error.as_deref(),
    }
}

/// The hedge before a closing that may have been heard already.
pub(super) fn hedge(language: Language) -> String {
    phrase(Phrase::Hedge, None).text(language).unwrap_or_default().to_owned()
}

/// The text as one that may have been heard already.
pub(super) fn hedged(text: &Localised) -> Localised {
    let hedge = phrase(Phrase::Hedge, None);
    let is = |text: &Option<String>, hedge: &Option<String>| {
        text.as_ref().zip(hedge.as_ref()).is_some_and(|(text, hedge)| text.starts_with(hedge.as_str()))
    };
    if is(&text.es, &hedge.es) || is(&text.en, &hedge.en) { text.clone() } else { lead(&hedge, text) }
}

/// The text without the hedge that [`hedged`] put before it, in whichever language there is a text.
pub(super) fn unhedged(text: &str) -> &str {
    let bare = |language| text.strip_prefix(hedge(language).as_str());
    bare(Language::Es).or_else(|| bare(Language::En)).map_or(text, str::trim_start)
}

/// The text as a correction of what was, or may have been, told.
pub(super) fn correction(text: &Localised) -> Localised {
    lead(&phrase(Phrase::Correction, None), text)
}

/// The text as a result that came after another one.
pub(super) fn contradicting(text: &Localised) -> Localised {
    lead(&phrase(Phrase::AnotherAnswer, None), text)
}

/// Cuts a text that is too long for one segment at its sentence ends, alike in both languages.
pub(super) fn pieces(text: Localised) -> Vec<Localised> {
    let split = |text: Option<String>| text.map(|text| sentences(&text)).unwrap_or_default();
    let (mut es, mut en) = (split(text.es), split(text.en));
    if !es.is_empty() && !en.is_empty() {
        let count = es.len().min(en.len());
        join_tail(&mut es, count);
        join_tail(&mut en, count);
    }
    let count = es.len().max(en.len());
    let (mut es, mut en) = (es.into_iter(), en.into_iter());
    (0..count).map(|_| Localised { es: es.next(), en: en.next() }).collect()
}

/// The short form that says all of these texts; none where one of its languages would be too long for it: what is cut tells nobody
/// everything, and the clauses are told instead.
pub(super) fn short_form(texts: &[Localised]) -> Localised {
    let whole = join(texts);
    let fits = |text: &Option<String>| text.as_ref().is_none_or(|text| text.chars().count() <= SHORT_CHARS_MAX);
    if fits(&whole.es) && fits(&whole.en) { whole } else { Localised::default() }
}

/// One text after the other, whole, in every language that any of them is written in.
pub(super) fn join(texts: &[Localised]) -> Localised {
    let one = |language| {
        let native = |text: &Localised| match language {
            Language::Es => text.es.is_some(),
            Language::En => text.en.is_some(),
        };
        texts.iter().any(native).then(|| {
            let all: Vec<&str> = texts.iter().filter_map(|text| text.text(language)).collect();
            all.join(" ")
        })
    };
    Localised { es: one(Language::Es), en: one(Language::En) }
}

/// A text from outside as a voice can say it, and as a log line can hold it.
pub(super) fn clean(text: &str) -> String {
    let speakable = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().filter(|&c| !formatting(c)).map(speakable).take(RAW_CHARS_MAX).collect();
    bounded(&text.split_whitespace().collect::<Vec<_>>().join(" "), TEXT_CHARS_MAX)
}

#[derive(Debug, Clone, Copy)]
enum Phrase {
    Accepted,
    Waiting,
    AlreadyRunning,
    AskedByAnother,
    ResultWaits,
    AlreadyTold,
    Refused,
    Done,
    Failed,
    Unknown,
    Cancelled,
    Compensated,
    TooLate,
    Correction,
    AnotherAnswer,
    Hedge,
    Progress,
    RunningConfirm,
    AskedConfirm,
    Cancelling,
    CancellingSome,
    NoCancelNow,
    EndedBefore,
    NothingToCancel,
}

/// The plain phrases. `name` is what a phrase is about, where several could be meant.
fn phrase(which: Phrase, name: Option<&str>) -> Localised {
    let (es, en) = match which {
        Phrase::Accepted => ("De acuerdo, me pongo con ello.", "All right, I'm on it."),
        Phrase::Waiting => (
            "Queda anotado. Ahora mismo no puedo hacerlo llegar; lo haré en cuanto pueda y te aviso.",
            "I've noted it. I can't get it through just now; I'll do it as soon as I can and let you know.",
        ),
        Phrase::AlreadyRunning => ("Ya estoy con ello.", "I'm already on it."),
        Phrase::AskedByAnother => ("Eso ya está pedido.", "That has been asked for already."),
        Phrase::ResultWaits => {
            ("Ya está en marcha; enseguida te cuento cómo ha ido.", "That's under way already; I'll tell you how it went in a moment.")
        }
        Phrase::AlreadyTold => ("Eso ya te lo he contado.", "I've told you about that already."),
        Phrase::Refused => ("Ahora mismo no puedo hacerlo. No se ha hecho nada.", "I can't do that right now. Nothing has been done."),
        Phrase::Done => ("Lo que pediste está hecho.", "What you asked for is done."),
        Phrase::Failed => ("No he podido hacer lo que pediste.", "I couldn't do what you asked for."),
        Phrase::Unknown => ("No sé si lo que pediste llegó a hacerse.", "I don't know whether what you asked for was done."),
        Phrase::Cancelled => ("He cancelado lo que pediste.", "I've cancelled what you asked for."),
        Phrase::Compensated => ("Lo que pediste se hizo y se ha deshecho.", "What you asked for was done and has been undone."),
        Phrase::TooLate => ("No ha dado tiempo a cancelarlo.", "It was too late to cancel it."),
        Phrase::Correction => ("Una corrección:", "A correction:"),
        Phrase::AnotherAnswer => ("Después ha llegado otra respuesta:", "Another answer came afterwards:"),
        Phrase::Progress => ("Sigo con lo que pediste.", "What you asked for is still under way."),
        Phrase::RunningConfirm => {
            ("Ya estoy con ello. ¿Quieres que lo haga otra vez?", "I'm already on it. Do you want it done once more?")
        }
        Phrase::AskedConfirm => {
            ("Eso ya lo habías pedido. ¿Quieres que lo haga otra vez?", "You've asked for that before. Do you want it done once more?")
        }
        Phrase::Cancelling => ("Intento cancelarlo; te digo cómo queda.", "I'm trying to cancel it; I'll tell you how it ends."),
        Phrase::CancellingSome => (
            "Intento cancelar lo que puedo, y te digo cómo queda; el resto ahora mismo no puedo cancelarlo.",
            "I'm trying to cancel what I can, and I'll tell you how it ends; the rest I can't cancel right now.",
        ),
        Phrase::NoCancelNow => ("Ahora mismo no puedo cancelarlo; sigue en marcha.", "I can't cancel it right now; it's still under way."),
        Phrase::EndedBefore => {
            ("Ya ha terminado; enseguida te cuento cómo ha ido.", "It has ended already; I'll tell you how it went in a moment.")
        }
        Phrase::NothingToCancel => ("No hay nada en marcha que cancelar.", "There's nothing under way to cancel."),
        Phrase::Hedge => ("Puede que ya te lo haya dicho:", "I may have told you already:"),
    };
    let named = |text: &str| match name {
        Some(name) => format!(
            "{name}: {}{}",
            text.chars().next().map(|c| c.to_lowercase().to_string()).unwrap_or_default(),
            text.chars().skip(1).collect::<String>()
        ),
        None => text.to_owned(),
    };
    // "I" keeps its capital.
    let en = match name {
        Some(name) if en.starts_with('I') => format!("{name}: {en}"),
        _ => named(en),
    };
    Localised { es: Some(named(es)), en: Some(en) }
}

fn lead(before: &Localised, text: &Localised) -> Localised {
    let one = |first: &Option<String>, then: &Option<String>| match (first, then) {
        (Some(first), Some(then)) => Some(bounded(&format!("{first} {then}"), TEXT_CHARS_MAX)),
        _ => None,
    };
    Localised { es: one(&before.es, &text.es), en: one(&before.en, &text.en) }
}

/// Characters that direct or join text without being said: bidirectional marks, zero-width ones, byte-order marks.
fn formatting(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// The text, cut at a word where it is longer than `max` characters.
fn bounded(text: &str, max: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(max) else { return text.to_owned() };
    let kept = text.get(..end).unwrap_or_default();
    let cut = kept.rfind(char::is_whitespace).unwrap_or(end);
    format!("{}…", kept.get(..cut).unwrap_or_default().trim_end())
}

fn sentences(text: &str) -> Vec<String> {
    if text.chars().count() <= CLAUSE_CHARS_MAX {
        return vec![text.to_owned()];
    }
    let mut pieces: Vec<String> = Vec::new();
    let mut piece = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        piece.push(c);
        // A stop ends a sentence only before white space: "3.50" is one word.
        if matches!(c, '.' | '!' | '?' | '…' | ';') && chars.peek().is_none_or(|next| next.is_whitespace()) {
            pieces.push(piece.trim().to_owned());
            piece.clear();
        }
    }
    if !piece.trim().is_empty() {
        pieces.push(piece.trim().to_owned());
    }
    join_tail(&mut pieces, CLAUSES_PER_OPERATION_MAX);
    pieces
}

fn join_tail(pieces: &mut Vec<String>, count: usize) {
    if pieces.len() > count.max(1) {
        let tail = pieces.split_off(count.max(1) - 1).join(" ");
        pieces.push(tail);
    }
}

/// What sayings are rendered in: whoever takes one from outside checks it against this before it is needed.
pub fn template_environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    // What is not there is nothing to be said.
    environment.set_formatter(|out, state, value| match value.is_none() {
        true => Err(minijinja::Error::new(ErrorKind::UndefinedError, "it is null")),
        false => escape_formatter(out, state, value),
    });
    environment.set_fuel(Some(TEMPLATE_FUEL));
    environment
}

/// Instructions that one template may take: far beyond any sentence, and a loop over a huge result ends in milliseconds.
const TEMPLATE_FUEL: u64 = 20_000;

/// Characters of a rendered text that are looked at before white space is collapsed.
const RAW_CHARS_MAX: usize = 8_000;

/// Longest text of one operation: about a minute of speech.
pub(super) const TEXT_CHARS_MAX: usize = 900;

/// Longest short form of a delivery, in characters: about 40 s of speech.
const SHORT_CHARS_MAX: usize = 600;

/// A text up to this length is one segment: about 13 s, which is short enough to be told again whole.
const CLAUSE_CHARS_MAX: usize = 200;

/// Most segments of one operation's text.
const CLAUSES_PER_OPERATION_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ids::{BatchId, IntentKey, OperationId, SessionId, TurnId};
    use crate::policy::Sayings;
    use crate::time::Wall;

    fn record(state: OperationState, result: Option<Value>) -> OperationRecord {
        OperationRecord {
            id: OperationId(1),
            intent_key: IntentKey("a|t|d|1".into()),
            batch: BatchId(1),
            ordinal: 0,
            party: None,
            session: SessionId(1),
            turn: TurnId(1),
            tool: "create_ticket".into(),
            arguments: json!({"subject": "<router> & co"}),
            state,
            attempt: 1,
            unreached: 0,
            handle: None,
            maybe_executed: false,
            result,
            error: Some("HTTP 500".into()),
            contradiction: None,
            accepted: Wall::default(),
        }
    }

    fn done(template: &str) -> ToolPolicy {
        let say = Sayings { done: Localised { es: Some(template.into()), en: None }, ..Sayings::default() };
        ToolPolicy { say, ..ToolPolicy::default() }
    }

    fn spanish(template: &str, result: Value) -> String {
        Sayer::new().long(&done(template), &record(OperationState::Succeeded, Some(result)), false).es.unwrap()
    }

    #[test]
    fn a_template_sees_arguments_and_result_and_nothing_is_escaped_for_html() {
        assert_eq!(spanish("{{ arguments.subject }}: {{ result.id }}.", json!({"id": 7})), "<router> & co: 7.");
    }

    #[test]
    fn a_missing_field_falls_back_to_the_plain_phrase_in_the_same_language() {
        assert_eq!(spanish("Tu número es {{ result.number }}.", json!({})), "Lo que pediste está hecho.");
        assert_eq!(spanish("{{ result.a.b.c }}", json!(null)), "Lo que pediste está hecho.");
        assert_eq!(spanish("{{ broken", json!({})), "Lo que pediste está hecho.");
        assert_eq!(spanish("   ", json!({})), "Lo que pediste está hecho.");
    }

    #[test]
    fn a_language_without_a_template_is_told_in_the_other_one() {
        let long = Sayer::new().long(&done("Hecho."), &record(OperationState::Succeeded, None), false);
        assert_eq!(long.text(Language::En), Some("Hecho."));
    }

    #[test]
    fn what_comes_from_outside_is_cleaned_and_bounded() {
        assert_eq!(spanish("{{ result }}", json!("a\u{7}b\u{202e}\n\tc")), "a bc".replace("bc", "b c"));
        let long = spanish("{{ result }}", json!("palabra ".repeat(5_000)));
        assert!(long.chars().count() <= TEXT_CHARS_MAX + 1 && long.ends_with('…'), "{long}");
    }

    #[test]
    fn a_template_that_never_ends_is_stopped() {
        let big: Vec<u32> = (0..100_000).collect();
        assert_eq!(
            spanish("{% for x in result %}{% for y in result %}{{ x }}{% endfor %}{% endfor %}", json!(big)),
            "Lo que pediste está hecho."
        );
    }

    #[test]
    fn every_outcome_has_words_in_both_languages() {
        use OperationState::*;
        for state in [Succeeded, Failed, Unknown, Cancelled, Compensated, TooLate] {
            let long = Sayer::new().long(&ToolPolicy::default(), &record(state, None), true);
            assert!(long.es.is_some_and(|text| text.len() > 10) && long.en.is_some_and(|text| text.len() > 10), "{state:?}");
        }
    }

    #[test]
    fn a_plain_phrase_says_which_operation_where_several_close_together() {
        let long = Sayer::new().long(&ToolPolicy::default(), &record(OperationState::Failed, None), true);
        assert_eq!(long.en.unwrap(), "create ticket: I couldn't do what you asked for.");
        assert_eq!(long.es.unwrap(), "create ticket: no he podido hacer lo que pediste.");
    }

    #[test]
    fn a_long_text_is_cut_at_sentence_ends_alike_in_both_languages() {
        let es = "Son 3.50 euros. ".repeat(20);
        let en = "It costs something which is quite a lot of money. ".repeat(5);
        let cut = pieces(Localised { es: Some(es.trim().into()), en: Some(en.trim().into()) });
        assert_eq!(cut.len(), 5);
        assert!(cut.iter().all(|piece| piece.es.is_some() && piece.en.is_some()));
        assert_eq!(cut[0].es.as_deref(), Some("Son 3.50 euros."));
        assert_eq!(join(&cut).en.unwrap(), en.trim());
    }

    #[test]
    fn a_short_form_that_cannot_be_rendered_falls_back_to_the_long_one() {
        let mut policy = done("Pedido {{ result.id }} hecho.");
        policy.say.short = Localised { es: Some("{{ result.gone }}".into()), en: None };
        let short = Sayer::new().short(&policy, &record(OperationState::Succeeded, Some(json!({"id": 7}))), false);
        assert_eq!(short.es.as_deref(), Some("Pedido 7 hecho."));
    }

    #[test]
    fn a_plain_phrase_keeps_its_capital_only_where_it_is_the_word_i() {
        let english = |state| Sayer::new().long(&ToolPolicy::default(), &record(state, None), true).en.unwrap();
        assert_eq!(english(OperationState::Succeeded), "create ticket: what you asked for is done.");
        assert_eq!(english(OperationState::Cancelled), "create ticket: I've cancelled what you asked for.");
    }

    #[test]
    fn a_text_is_hedged_once_whatever_language_it_is_written_in() {
        for text in [
            Localised { es: Some("Hecho.".into()), en: None },
            Localised { es: None, en: Some("Done.".into()) },
            Localised { es: Some("Hecho.".into()), en: Some("Done.".into()) },
        ] {
            let once = hedged(&text);
            assert_ne!(once, text);
            assert_eq!(hedged(&once), once);
        }
    }

    #[test]
    fn a_failure_that_contradicts_says_its_own_reason() {
        let mut policy = done("Hecho.");
        policy.say.failed = Localised { es: Some("Falló: {{ error }}.".into()), en: None };
        let record = OperationRecord {
            contradiction: Some(Contradiction::Failed("sin fondos".into())),
            error: Some("HTTP 500".into()),
            ..record(OperationState::Succeeded, Some(json!(1)))
        };
        assert_eq!(Sayer::new().contradiction(&policy, &record, false).unwrap().es.unwrap(), "Falló: sin fondos.");
    }

    #[test]
    fn a_refusal_says_in_the_language_of_the_call_that_nothing_was_done() {
        for (language, text) in [
            (Language::Es, "Ahora mismo no puedo hacerlo. No se ha hecho nada."),
            (Language::En, "I can't do that right now. Nothing has been done."),
        ] {
            assert_eq!((Sayer::new().refused(language).as_str(), say_refused(language).as_str()), (text, text));
        }
    }

    #[test]
    fn a_hedge_comes_off_again_in_whichever_language_it_is() {
        let text = hedged(&Localised { es: Some("Hecho.".to_owned()), en: Some("Done.".to_owned()) });
        assert_ne!(text.es.as_deref(), Some("Hecho."));
        assert_eq!((text.es.as_deref().map(unhedged), text.en.as_deref().map(unhedged)), (Some("Hecho."), Some("Done.")));
        assert_eq!(unhedged("Hecho."), "Hecho.");
    }
}
