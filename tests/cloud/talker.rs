//! The client's end of a conversation in a test.

use std::ops::Deref;
use std::time::Duration;

use recado::cognition::models::realtime::session::{Said, Session, Setup};
use recado::cognition::models::realtime::{Link, News, Told, Totals};
use recado::cognition::models::transport::{Endpoint, TransportError};
use recado::cognition::models::{Command, Output};
use recado::config::{Realtime, Tool};
use recado_core::conversation::effect::Cause;
use recado_core::conversation::input::{Acoustic, AcousticEdge, AcousticEpoch, ModelEvent};
use recado_core::policy::Language;
use recado_core::{ResponseId, Time, TurnId};

pub const A: ResponseId = ResponseId(1);
pub const B: ResponseId = ResponseId(2);
pub const TURN: Cause = Cause::Turn { turn: TurnId(1) };

/// A session with a service.
pub struct Talker(pub Link);

/// The settings of a service, with what else a test wants.
pub fn settings(url: &str, more: &str) -> Realtime {
    toml::from_str(&format!("url = '{url}'\nmodel = 'speaks'\n{more}")).unwrap()
}

/// The tool that the model may ask for.
fn tool() -> Tool {
    let parameters = "{ type = 'object', required = ['item'], properties = { item = { type = 'string' } } }";
    toml::from_str(&format!("name = 'order'\nurl = 'http://127.0.0.1/'\nparameters = {parameters}")).unwrap()
}

impl Talker {
    pub fn open(url: &str, more: &str) -> Self {
        let settings = settings(url, more);
        let setup = Setup::new(&settings, Language::Es, "Sé breve.".into(), &[tool()], false).unwrap();
        Self(Link::open(Endpoint::new(&settings).unwrap(), Session::new(setup)))
    }

    pub fn tell(&self, command: Command) {
        self.0.handle.tell(Told::Command(command)).unwrap();
    }

    pub fn respond(&self, response: ResponseId, cause: Cause) {
        self.tell(Command::Respond { response, cause });
    }

    /// The caller says something for half a second.
    pub fn speak(&self) {
        for to in [Acoustic::Suspected, Acoustic::Speaking] {
            self.tell(Command::Acoustic(AcousticEdge { to, epoch: AcousticEpoch(0), at: Time(0) }));
        }
        for _ in 0..25 {
            self.0.handle.tell(Told::Caller(vec![0x55; 160])).unwrap();
        }
        for to in [Acoustic::Trailing, Acoustic::Quiet] {
            self.tell(Command::Acoustic(AcousticEdge { to, epoch: AcousticEpoch(0), at: Time(0) }));
        }
    }

    /// The next news. A test that waits for what never comes fails here.
    pub async fn next(&mut self) -> News {
        let next = tokio::time::timeout(Duration::from_secs(60), self.0.news.recv()).await;
        next.expect("news within a minute").expect("a session that goes on")
    }

    /// Goes on to the first news of which `what` makes something.
    pub async fn until<T>(&mut self, what: impl Fn(&News) -> Option<T>) -> T {
        loop {
            if let Some(found) = what(&self.next().await) {
                return found;
            }
        }
    }

    pub async fn ready(&mut self) {
        self.until(|news| matches!(news, News::Said(Said::Ready)).then_some(())).await;
    }

    /// Why the connection is gone, and when another one is tried.
    pub async fn disconnected(&mut self) -> (TransportError, Option<Duration>) {
        loop {
            if let News::Disconnected { error, again_in } = self.next().await {
                return (error, again_in);
            }
        }
    }

    /// All that comes until the end of a response: its events, its end the last, with the words; and how much sound of it.
    pub async fn response(&mut self, wanted: ResponseId) -> (Answer, usize) {
        let (mut answer, mut bytes) = (Answer::default(), 0);
        loop {
            match self.next().await {
                News::Said(Said::Output(Output::Audio { response, bytes: sound })) if response == wanted => bytes += sound.len(),
                News::Said(Said::Output(Output::Words { response, text })) => answer.words.push((response, text)),
                News::Said(Said::Output(Output::Event(event))) => {
                    let over =
                        matches!(&event, ModelEvent::Complete { response } | ModelEvent::Failed { response, .. } if *response == wanted);
                    answer.events.push(event);
                    if over {
                        return (answer, bytes);
                    }
                }
                _ => {}
            }
        }
    }

    /// Ends the session, and says what it took.
    pub async fn end(self) -> Totals {
        let Link { handle, mut news } = self.0;
        drop(handle);
        loop {
            match tokio::time::timeout(Duration::from_secs(60), news.recv()).await.expect("an end within a minute") {
                Some(News::Ended(totals)) => return totals,
                Some(_) => {}
                None => panic!("a session says what it took"),
            }
        }
    }
}

/// What came until the end of a response: the events, and the words of its speech beside them.
#[derive(Debug, Default)]
pub struct Answer {
    events: Vec<ModelEvent>,
    words: Vec<(ResponseId, String)>,
}

impl Deref for Answer {
    type Target = [ModelEvent];

    fn deref(&self) -> &[ModelEvent] {
        &self.events
    }
}

impl Answer {
    /// Whether any of the words were of this response.
    pub fn has_words_of(&self, of: ResponseId) -> bool {
        self.words.iter().any(|(response, _)| *response == of)
    }
}

/// The words of what was said.
pub fn words(answer: &Answer) -> String {
    answer.words.iter().map(|(_, text)| text.as_str()).collect()
}

/// Why the response failed.
pub fn failure(events: &[ModelEvent]) -> &str {
    match events.last() {
        Some(ModelEvent::Failed { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}
