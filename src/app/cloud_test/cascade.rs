//! A cascade tried out: a sentence is written down, a question answered, a tool called, and an answer given after it.

use std::fmt::Write as _;

use recado_core::conversation::effect::ToolStatus;
use recado_core::policy;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::kind::Kind;
use super::remedy::remedy_of_part;
use super::report::{Unknown, Verdict};
use super::{spanish, words};
use crate::cognition::language::http::{Endpoint, Fault, Language, Transcription};
use crate::cognition::language::wire::{AnswerEvent, AskedCall, Line, MadeCall, Tokens};
use crate::cognition::models::cascade::session::Setup;
use crate::cognition::models::{Role, call_output};

/// What came of a cascade that was tried.
#[derive(Debug)]
pub struct CascadeReport {
    language: policy::Language,
    /// Where each part is, and its model.
    subject: String,
    /// Each thing that was tried, in order.
    steps: Vec<(Step, Result<Works, Trouble>)>,
    tokens: Tokens,
}

/// Something that is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Transcription,
    Answer,
    Call,
    AnswerAfter,
}

/// Something that works.
#[derive(Debug)]
struct Works {
    /// How long it took until it was of use.
    ms: u64,
    said: String,
}

/// Why something does not work.
#[derive(Debug)]
enum Trouble {
    /// The request failed.
    Request(Fault),
    /// Other words were written down.
    OtherWords(String),
    /// The model called no tool; it said this.
    NoCall(String),
    /// It said nothing.
    Nothing,
}

/// What came of a question.
#[derive(Default)]
struct Answered {
    words: String,
    calls: Vec<AskedCall>,
    first_word_ms: Option<u64>,
    end_ms: u64,
    tokens: Tokens,
}

/// The parts that are tried, in the language of the box.
pub(super) struct Trial<'a> {
    pub transcription: &'a Transcription,
    pub language_model: &'a Language,
    pub setup: &'a Setup,
    pub language: policy::Language,
}

impl Trial<'_> {
    /// Tries them with a sentence as a caller's voice would bring it. What does not work does not keep the rest from being tried.
    pub async fn run(&self, subject: String, sentence: &[i16]) -> CascadeReport {
        let mut report = CascadeReport { language: self.language, subject, steps: Vec::new(), tokens: Tokens::default() };
        let began = Instant::now();
        let written = self.transcription.write_down(sentence).await.map_err(Trouble::Request).and_then(|transcript| {
            report.tokens.add(transcript.usage);
            let said = transcript.text.trim().to_owned();
            let arrived = expected(self.language).iter().filter(|word| said.to_lowercase().contains(**word)).count();
            if arrived * 2 > expected(self.language).len() { Ok(Works { ms: ms(began), said }) } else { Err(Trouble::OtherWords(said)) }
        });
        report.steps.push((Step::Transcription, written));

        let question = Line::message(Role::User, question(self.language));
        let answered = self.ask(&[question], &mut report.tokens).await.and_then(Answered::in_words);
        report.steps.push((Step::Answer, answered));

        let request = Line::message(Role::User, words::sentence(self.language));
        let called = self.ask(std::slice::from_ref(&request), &mut report.tokens).await;
        let call = called.and_then(|answered| match answered.calls.first() {
            Some(call) if call.name == words::TOOL => Ok((call.clone(), answered.end_ms)),
            _ => Err(Trouble::NoCall(answered.words)),
        });
        let call = match call {
            Ok((call, ms)) => {
                report.steps.push((Step::Call, Ok(Works { ms, said: call.arguments.clone() })));
                call
            }
            Err(trouble) => {
                report.steps.push((Step::Call, Err(trouble)));
                return report;
            }
        };
        let made =
            MadeCall { call_id: "call_1".to_owned(), name: call.name, arguments: call.arguments, output: call_output(ToolStatus::Running) };
        let news = Line::message(Role::System, words::news(self.language));
        let after = [request, Line::Calls(vec![made]), news, Line::message(Role::User, follow_up(self.language))];
        let answered = self.ask(&after, &mut report.tokens).await.and_then(Answered::in_words);
        report.steps.push((Step::AnswerAfter, answered));
        report
    }

    async fn ask(&self, lines: &[Line], tokens: &mut Tokens) -> Result<Answered, Trouble> {
        let began = Instant::now();
        let (says, mut came) = mpsc::channel(EVENTS_MAX);
        let asking = async move {
            // What comes ends with this.
            let says = says;
            self.language_model.answer(self.setup.instructions(), self.setup.offered(), lines, &says, |event| event).await
        };
        let hearing = async {
            let mut answered = Answered::default();
            while let Some(event) = came.recv().await {
                match event {
                    AnswerEvent::Text(text) => {
                        answered.first_word_ms.get_or_insert_with(|| ms(began));
                        answered.words.push_str(&text);
                    }
                    AnswerEvent::WasThought => {
                        answered.first_word_ms = None;
                        answered.words.clear();
                    }
                    AnswerEvent::Ended { calls } => (answered.calls, answered.end_ms) = (calls, ms(began)),
                    AnswerEvent::Usage(usage) => answered.tokens.add(usage),
                }
            }
            answered
        };
        let (result, answered) = tokio::join!(asking, hearing);
        tokens.add(answered.tokens);
        result.map(|()| answered).map_err(Trouble::Request)
    }
}

impl Answered {
    fn in_words(self) -> Result<Works, Trouble> {
        let ms = self.first_word_ms.ok_or(Trouble::Nothing)?;
        Ok(Works { ms, said: self.words.trim().to_owned() })
    }
}

impl CascadeReport {
    /// What all of it comes to.
    pub(super) fn verdict(&self) -> Verdict {
        if self.steps.iter().all(|(_, result)| result.is_ok()) { Verdict::Well } else { Verdict::Unwell }
    }

    /// The report for people.
    pub(super) fn text(&self) -> String {
        let spanish = self.language == policy::Language::Es;
        let mut text = format!("{}:\n", self.subject);
        for (step, result) in &self.steps {
            let name = step.name(spanish);
            // Writing to a string never fails.
            let _ = match result {
                Ok(Works { ms, said }) if spanish => writeln!(text, "  {name}: a los {ms} ms ({said})"),
                Ok(Works { ms, said }) => writeln!(text, "  {name}: after {ms} ms ({said})"),
                Err(trouble) if spanish => writeln!(text, "  {name}: no funciona: {}", trouble.words(*step, self.language)),
                Err(trouble) => writeln!(text, "  {name}: does not work: {}", trouble.words(*step, self.language)),
            };
        }
        if !self.steps.iter().any(|(step, _)| *step == Step::AnswerAfter) {
            let line = words::not_known(self.language, Step::AnswerAfter.name(spanish), Unknown::NotTried);
            let _ = writeln!(text, "  {line}");
        }
        let Tokens { input, cached, output } = self.tokens;
        let _ = match spanish {
            true => writeln!(text, "Tokens: {input} de entrada ({cached} ya conocidos) y {output} de salida."),
            false => writeln!(text, "Tokens: {input} in ({cached} of them cached) and {output} out."),
        };
        text + words::verdict(self.language, self.verdict()) + "\n"
    }
}

impl Step {
    fn name(self, spanish: bool) -> &'static str {
        match (self, spanish) {
            (Self::Transcription, true) => "transcripción",
            (Self::Transcription, false) => "transcription",
            (Self::Answer, true) => "primera palabra de una respuesta",
            (Self::Answer, false) => "first word of an answer",
            (Self::Call, true) => "herramienta",
            (Self::Call, false) => "tool",
            (Self::AnswerAfter, true) => "primera palabra tras la herramienta",
            (Self::AnswerAfter, false) => "first word after the tool",
        }
    }

    fn part(self) -> Kind {
        match self {
            Self::Transcription => Kind::Transcription,
            Self::Answer | Self::Call | Self::AnswerAfter => Kind::Language,
        }
    }
}

impl Trouble {
    /// What is wrong, and what mends it.
    fn words(&self, step: Step, language: policy::Language) -> String {
        let (part, spanish) = (step.part(), language == policy::Language::Es);
        let table = format!("[{}]", part.table());
        match (self, spanish) {
            (Self::Request(fault), _) => {
                let reason = if spanish { spanish::reason(&fault.reason) } else { fault.reason.clone() };
                format!("{}. {}", reason.trim_end_matches('.'), remedy_of_part(fault).sentence(language, part))
            }
            (Self::OtherWords(said), true) => format!("ha escrito {said:?}. Pruebe otro model o mire language en {table}."),
            (Self::OtherWords(said), false) => format!("it wrote {said:?}. Try another model, or look at language in {table}."),
            (Self::NoCall(said), true) => {
                format!("el modelo no la ha llamado; ha dicho {said:?}. Elija en {table} un model que llame a funciones.")
            }
            (Self::NoCall(said), false) => {
                format!("the model has not called it; it said {said:?}. Choose a model in {table} that calls functions.")
            }
            (Self::Nothing, true) => format!("el modelo no ha dicho nada. Pruebe otro model en {table}, o suba tokens_max."),
            (Self::Nothing, false) => format!("the model said nothing. Try another model in {table}, or raise tokens_max."),
        }
    }
}

/// Who is tried.
pub(super) fn subject(language: policy::Language, hears: (&str, &Endpoint), answers: (&str, &Endpoint)) -> String {
    let ((ear, ear_at), (mind, mind_at)) = ((hears.0, hears.1.host()), (answers.0, answers.1.host()));
    match language {
        policy::Language::Es => format!("El modelo {mind} de {mind_at}, que lee lo que {ear} de {ear_at} escribe"),
        policy::Language::En => format!("The model {mind} at {mind_at}, which reads what {ear} at {ear_at} writes down"),
    }
}

/// Words of the sentence that every model writes alike.
fn expected(language: policy::Language) -> [&'static str; 3] {
    match language {
        policy::Language::Es => ["buenos", "mirar", "pedido"],
        policy::Language::En => ["good", "look", "order"],
    }
}

fn question(language: policy::Language) -> &'static str {
    match language {
        policy::Language::Es => "Buenos días. ¿Con quién hablo?",
        policy::Language::En => "Good morning. Who am I talking to?",
    }
}

fn follow_up(language: policy::Language) -> &'static str {
    match language {
        policy::Language::Es => "¿Y qué se sabe del pedido?",
        policy::Language::En => "And what is known of the order?",
    }
}

fn ms(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// They are taken as they come.
const EVENTS_MAX: usize = 64;
