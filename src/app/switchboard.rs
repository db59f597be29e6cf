//! The switchboard: turns what the signalling says into calls, and what calls want into signalling.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use recado_core::SessionId;
use recado_core::ids::PartyId;
use recado_core::ledger::Input as LedgerInput;
use tokio::sync::mpsc;
use tokio::task::{self, JoinSet};
use tracing::{error, info, warn};

use super::call::{self, Call, House, Signal};
use super::clock::random;
use super::ledger_task::FromCalls;
use super::watch::{self, Pulse};
use crate::admin::HealthState;
use crate::config::Identity;
use crate::identity::party;
use crate::surface::Network;
use crate::surface::media::{MediaError, MediaHandle, Plan, PortPair, Remote, Taps};
use crate::surface::sip::{Admission, CallHandle, Command, Counters, Event, Incoming, LocalMedia, MediaPlan, Party, Server};
use crate::telemetry::{Measures, Seldom};

/// What the switchboard is set to.
pub struct Settings {
    /// The address that phones send media to.
    pub advertised: std::net::IpAddr,
    /// How long a call rings before it is answered.
    pub ring: Duration,
    /// Calls belong to this account.
    pub account: String,
    /// Whose word is taken about who calls.
    pub identity: Identity,
    /// Time without RTP after which a call is ended, hold apart (s).
    pub silent_after_s: u32,
    /// Networks that media is taken from besides where a call's signalling says or comes from.
    pub also_from: Arc<[Network]>,
    /// How the caller is listened to.
    pub profile: crate::surface::listen::Profile,
    /// Where calls are recorded; they are not, where there is none.
    pub recordings: Option<std::path::PathBuf>,
}

/// The switchboard's ends.
pub struct Switchboard {
    pub house: Arc<House>,
    pub settings: Settings,
    pub sip: Server,
    pub media: MediaHandle,
    pub health: HealthState,
    /// Whether the signalling refuses new calls.
    pub refuses: bool,
    pub measures: Measures,
    pub pulse: Pulse,
}

/// A call as the signalling knows it.
enum Line {
    /// Rings, or is answered and not yet acknowledged.
    Rings { incoming: Box<Incoming>, ports: PortPair },
    /// Is up.
    Up { signals: mpsc::Sender<Signal>, party: Option<PartyId> },
}

/// What comes back to the switchboard from its own tasks.
enum Errand {
    /// It has rung for long enough.
    Answer(CallHandle),
    /// The call wants to end.
    HangUp(CallHandle),
}

/// The tasks of calls.
#[derive(Default)]
struct Tasks {
    calls: JoinSet<()>,
    /// Whose task it is.
    owners: HashMap<task::Id, (CallHandle, SessionId)>,
    /// Calls that ring. Nobody waits for them when the box stops.
    rings: JoinSet<()>,
}

/// What the signalling turned away, told now and then in one line: anybody can cause it.
#[derive(Default)]
struct Refused {
    seldom: Seldom,
    told: Counters,
}

impl Refused {
    fn tell(&mut self, counters: Counters) {
        let told = self.told;
        let malformed = counters.malformed_answered + counters.malformed_dropped - told.malformed_answered - told.malformed_dropped;
        let forbidden = counters.forbidden - told.forbidden;
        let overload = counters.over_total + counters.over_source - told.over_total - told.over_source;
        let calls = counters.calls_refused - told.calls_refused;
        if malformed + forbidden + overload + calls > 0 && self.seldom.happened(Instant::now()).is_some() {
            self.told = counters;
            info!(malformed, forbidden, overload, calls, "SIP was turned away");
        }
    }
}

/// Lets a call end itself.
pub struct HangUp {
    call: CallHandle,
    errand: mpsc::Sender<Errand>,
}

impl HangUp {
    /// Asks for the end of the call.
    pub fn ask(&self) {
        // There is room for every call's end; it is closed only when the signalling has ended, and the call with it.
        let _ = self.errand.try_send(Errand::HangUp(self.call));
    }
}

impl Switchboard {
    /// Takes calls until `stop` is told, then ends those that are up and waits for them to be settled.
    pub async fn run(mut self, mut stop: tokio::sync::oneshot::Receiver<()>) {
        let mut lines: BTreeMap<CallHandle, Line> = BTreeMap::new();
        let mut tasks = Tasks::default();
        let (errand, mut errands) = mpsc::channel::<Errand>(ERRANDS_MAX);
        let (mut beats, mut refused) = (watch::beats(), Refused::default());
        let mut stopping = false;
        loop {
            let calls = u32::try_from(tasks.calls.len()).unwrap_or(u32::MAX);
            self.health.calls(calls);
            self.measures.calls_active(calls);
            tokio::select! {
                event = self.sip.events.recv() => match event {
                    Some(event) => self.event(event, &mut lines, &mut tasks, &errand).await,
                    None => break,
                },
                Some(errand) = errands.recv() => match errand {
                    Errand::Answer(call) => self.answer(call, &mut lines).await,
                    Errand::HangUp(call) => self.command(Command::Bye { call }).await,
                },
                Some(ended) = tasks.calls.join_next_with_id(), if !tasks.calls.is_empty() => self.ended(ended, &mut tasks.owners).await,
                Some(_) = tasks.rings.join_next(), if !tasks.rings.is_empty() => {}
                _ = beats.tick() => {
                    self.pulse.beat();
                    refused.tell(*self.sip.counters.borrow());
                    if self.health.refuses() != self.refuses && !stopping {
                        self.refuses = !self.refuses;
                        info!(refuses = self.refuses, "new calls, by the box's health");
                        // Only where a service manager listens.
                        let _ = sd_notify::notify(&[sd_notify::NotifyState::Status(&watch::status(&self.health))]);
                        self.command(Command::SetAdmission(admission(self.refuses))).await;
                    }
                    if !self.media.is_alive() && !stopping {
                        error!("the media thread has ended: no call can be heard any more");
                        stopping = true;
                        self.command(Command::Shutdown).await;
                    }
                }
                _ = &mut stop, if !stopping => {
                    stopping = true;
                    info!(calls = lines.len(), "stopping: calls are ended");
                    self.command(Command::Shutdown).await;
                }
            }
        }
        // The signalling has ended; what is said about the calls is still settled.
        lines.clear();
        let settled = async {
            while let Some(ended) = tasks.calls.join_next_with_id().await {
                self.ended(ended, &mut tasks.owners).await;
            }
        };
        if tokio::time::timeout(SETTLE_MAX, settled).await.is_err() {
            warn!("calls were not settled in time: what is doubtful will be found uncertain at the next start");
        }
        self.sip.ended().await;
    }

    /// A call's task has ended. One that broke off leaves a caller on a silent line, and what it had claimed, to be seen to.
    async fn ended(&self, ended: Result<(task::Id, ()), task::JoinError>, owners: &mut HashMap<task::Id, (CallHandle, SessionId)>) {
        let owner = owners.remove(&ended.as_ref().map_or_else(task::JoinError::id, |(id, ())| *id));
        if let (Err(error), Some((call, session))) = (ended, owner) {
            error!(session_id = %session, %error, "a call's task ended abnormally: the call is ended");
            self.command(Command::Bye { call }).await;
            // The ledger is gone only when the box stops.
            let _ = self.house.to_ledger.send(FromCalls::Input(LedgerInput::SessionOver { session })).await;
        }
    }

    async fn event(&mut self, event: Event, lines: &mut BTreeMap<CallHandle, Line>, tasks: &mut Tasks, errand: &mpsc::Sender<Errand>) {
        match event {
            Event::Incoming(incoming) => self.incoming(incoming, lines, tasks, errand).await,
            Event::Established { call, media, source } => {
                let Some(Line::Rings { incoming, ports }) = lines.remove(&call) else { return };
                match self.begin(call, &incoming, ports, remote(&media, source), errand) {
                    Ok((up, signals)) => {
                        lines.insert(call, Line::Up { signals, party: up.party.clone() });
                        let session = up.session;
                        let task = tasks.calls.spawn(call::run(Arc::clone(&self.house), up));
                        tasks.owners.insert(task.id(), (call, session));
                    }
                    Err(error) => {
                        warn!(call_id = incoming.call_id, %error, "no media: the call is ended");
                        self.command(Command::Bye { call }).await;
                    }
                }
            }
            Event::Renegotiated { call, media, source } => signal(lines, call, Signal::Renegotiated(remote(&media, source))),
            Event::Asserted { call, party, source } => self.asserted(call, party, source.ip(), lines),
            Event::Digit { call, digit, .. } => signal(lines, call, Signal::Digit(digit)),
            Event::Ended { call, cause } => {
                info!(?cause, "call ended");
                signal(lines, call, Signal::Ended);
                lines.remove(&call);
            }
        }
    }

    async fn incoming(
        &mut self,
        incoming: Incoming,
        lines: &mut BTreeMap<CallHandle, Line>,
        tasks: &mut Tasks,
        errand: &mpsc::Sender<Errand>,
    ) {
        let call = incoming.call;
        let ports = match self.media.reserve() {
            Ok(ports) => ports,
            Err(error) => {
                warn!(call_id = incoming.call_id, %error, "no media for a call: it is refused");
                return self.command(Command::Reject { call, status: TEMPORARILY_UNAVAILABLE }).await;
            }
        };
        info!(call_id = incoming.call_id, source = %incoming.source, "call comes in");
        lines.insert(call, Line::Rings { incoming: Box::new(incoming), ports });
        if self.settings.ring.is_zero() {
            return self.answer(call, lines).await;
        }
        self.command(Command::Ring { call }).await;
        let (ring, errand) = (self.settings.ring, errand.clone());
        tasks.rings.spawn(async move {
            tokio::time::sleep(ring).await;
            let _ = errand.send(Errand::Answer(call)).await;
        });
    }

    async fn answer(&self, call: CallHandle, lines: &mut BTreeMap<CallHandle, Line>) {
        // The caller may have given up while it rang.
        let Some(Line::Rings { ports, .. }) = lines.get_mut(&call) else { return };
        ports.tell();
        let local =
            LocalMedia { address: self.settings.advertised, rtp_port: ports.rtp_port(), rtcp_port: ports.rtcp_port(), rtcp_mux: true };
        self.command(Command::Accept { call, local }).await;
    }

    fn begin(
        &mut self,
        handle: CallHandle,
        incoming: &Incoming,
        ports: PortPair,
        remote: Remote,
        errand: &mpsc::Sender<Errand>,
    ) -> Result<(Call, mpsc::Sender<Signal>), MediaError> {
        let (random_a, random_b) = (random(), random());
        let [a, b, c, d] = [random_a as u64, (random_a >> 64) as u64, random_b as u64, (random_b >> 64) as u64];
        let plan = Plan {
            remote,
            ssrc: a as u32,
            first_sequence: (a >> 32) as u16,
            first_timestamp: b as u32,
            seed: c,
            // Names nobody: RFC 7022's short-term persistent name.
            cname: format!("{d:016x}"),
            ntp_at_origin: ntp(self.house.clock.origin()),
            profile: self.settings.profile.clone(),
            silent_after_s: self.settings.silent_after_s,
            also_from: Arc::clone(&self.settings.also_from),
        };
        let session = SessionId(random());
        let taps = Taps { record: self.settings.recordings.is_some(), hear: self.house.model.capabilities().hears_audio };
        let mut media = self.media.open_call(ports, plan, taps)?;
        if let (Some(recording), Some(folder)) = (media.recording.take(), &self.settings.recordings) {
            let file = folder.join(format!("{session}.wav"));
            // It ends with the call, and waits for the disk: that is a thread's business.
            tokio::task::spawn_blocking(move || match recording.write_wav(&file) {
                Ok(recorded) => info!(file = %file.display(), ?recorded, "call recorded"),
                Err(error) => warn!(file = %file.display(), %error, "a call could not be recorded"),
            });
        }
        let (signals, signalling) = mpsc::channel(SIGNALS_MAX);
        let hang_up = HangUp { call: handle, errand: errand.clone() };
        let Incoming { from, asserted, source, .. } = incoming;
        let (party, verified) = who(&self.settings.account, &self.settings.identity, from, asserted.as_ref(), source.ip());
        Ok((Call { session, party, verified, media, remote, signalling, hang_up }, signals))
    }

    /// A call's caller is asserted anew, as after a transfer: whoever is on the line now is not who was known before.
    fn asserted(&self, call: CallHandle, asserted: Party, source: IpAddr, lines: &mut BTreeMap<CallHandle, Line>) {
        if !self.settings.identity.trusts(source) {
            return;
        }
        match lines.get_mut(&call) {
            Some(Line::Rings { incoming, .. }) => incoming.asserted = Some(asserted),
            Some(Line::Up { signals, party }) if is_another(&self.settings.account, &asserted, party.as_ref()) => {
                info!("another caller is asserted in a call: who is on the line is not known any more");
                give(signals, Signal::AnotherCaller);
            }
            _ => {}
        }
    }

    async fn command(&self, command: Command) {
        if self.sip.commands.send(command).await.is_err() {
            warn!("the signalling has ended");
        }
    }
}

fn signal(lines: &BTreeMap<CallHandle, Line>, call: CallHandle, signal: Signal) {
    if let Some(Line::Up { signals, .. }) = lines.get(&call) {
        give(signals, signal);
    }
}

fn give(signals: &mpsc::Sender<Signal>, signal: Signal) {
    // Keys leave room for what must be obeyed, such as a hold: a flood of them is dropped.
    if matches!(signal, Signal::Digit(_)) && signals.capacity() <= SIGNALS_MAX / 2 {
        return;
    }
    // Full only when the call's task is stuck; closed when it has ended. Its end is seen by the channel closing.
    let _ = signals.try_send(signal);
}

/// The far end of a plan that was signalled from `source`.
fn remote(media: &MediaPlan, source: std::net::SocketAddr) -> Remote {
    Remote {
        rtp: media.remote_rtp,
        signalled_from: source.ip(),
        rtcp: media.remote_rtcp,
        codec: media.codec,
        telephone_event: media.telephone_event,
        direction: media.direction,
    }
}

/// The party of a call, and whether it is verified. Who a trusted peer asserts it is, is the party (RFC 3325); what anybody else asserts is
/// not looked at, and the party is the caller's own word of who they are.
fn who(account: &str, identity: &Identity, from: &Party, asserted: Option<&Party>, source: IpAddr) -> (Option<PartyId>, bool) {
    let of = |from: &Party| party(account, from.user.as_deref(), &from.host);
    match asserted.filter(|_| identity.trusts(source)).and_then(of) {
        Some(asserted) => (Some(asserted), identity.asserted_is_verified),
        None => (of(from), false),
    }
}

/// Whether this is another than the party of a call.
fn is_another(account: &str, asserted: &Party, of_call: Option<&PartyId>) -> bool {
    party(account, asserted.user.as_deref(), &asserted.host).as_ref() != of_call
}

/// The NTP time of an instant (RFC 3550 4): seconds since 1900, in 32.32 fixed point.
fn ntp(instant: std::time::Instant) -> u64 {
    let unix_ms = i128::from(super::clock::wall().unix_ms) - instant.elapsed().as_millis() as i128;
    let ntp_ms = (unix_ms + NTP_UNIX_MS).max(0) as u128;
    (((ntp_ms / 1_000) << 32) | (((ntp_ms % 1_000) << 32) / 1_000)) as u64
}

/// From 1900 to 1970 (ms).
const NTP_UNIX_MS: i128 = 2_208_988_800_000;

/// Whether new calls are taken by a box that `refuses` them or does not.
pub fn admission(refuses: bool) -> Admission {
    if refuses { Admission::Refuse { retry_after_s: RETRY_AFTER_S } } else { Admission::Open }
}

/// What a box that refuses calls asks for: a disk is seldom mended sooner (s).
const RETRY_AFTER_S: u32 = 30;

/// RFC 3261 21.4.18.
const TEMPORARILY_UNAVAILABLE: u16 = 480;

/// Answers and hang-ups that may wait; each call has at most two.
const ERRANDS_MAX: usize = 1_024;

/// What the signalling may have told a call that it has not read: a hold and a resume a second for half a minute.
const SIGNALS_MAX: usize = 64;

/// How long calls may take to settle when the box stops: evidence is waited for a second.
const SETTLE_MAX: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_keys_leaves_room_for_a_hold() {
        let (signals, mut told) = mpsc::channel(SIGNALS_MAX);
        for _ in 0..SIGNALS_MAX * 2 {
            give(&signals, Signal::Digit('1'));
        }
        give(&signals, Signal::Ended);
        let all: Vec<Signal> = std::iter::from_fn(|| told.try_recv().ok()).collect();
        assert_eq!(all.len(), SIGNALS_MAX / 2 + 1);
        assert!(matches!(all.last(), Some(Signal::Ended)));
    }

    fn from(user: Option<&str>, host: &str) -> Option<PartyId> {
        called(user, host, None, "192.0.2.1:5060").0
    }

    /// Who it is that calls so, where 192.0.2.10 is trusted.
    fn called(user: Option<&str>, host: &str, asserted: Option<&str>, source: &str) -> (Option<PartyId>, bool) {
        let party = |user: Option<&str>, host: &str| Party { display: None, user: user.map(str::to_owned), host: host.into() };
        let asserted = asserted.map(|user| party(Some(user), "pbx.example"));
        let source: std::net::SocketAddr = source.parse().unwrap();
        let trusted_peers = vec!["192.0.2.10".parse().unwrap()];
        let identity = Identity { trusted_peers, asserted_is_verified: true, ..Identity::default() };
        who("main", &identity, &party(user, host), asserted.as_ref(), source.ip())
    }

    #[test]
    fn a_party_is_the_account_and_the_callers_number_however_it_is_written() {
        let ana = Some(PartyId("main/+34600123456".into()));
        assert_eq!(from(Some("+34 600-123.456"), "pbx.example"), ana);
        assert_eq!(from(Some("+34600123456"), "other.example"), ana);
    }

    #[test]
    fn an_anonymous_caller_has_no_party() {
        assert_eq!(from(None, "pbx.example"), None);
        assert_eq!(from(Some("Anonymous"), "pbx.example"), None);
        assert_eq!(from(Some("+34600123456"), "anonymous.invalid"), None);
        assert_eq!(from(Some(" "), "pbx.example"), None);
    }

    #[test]
    fn who_is_asserted_in_a_call_is_the_same_or_another() {
        let named = |user: &str| Party { display: None, user: Some(user.to_owned()), host: "pbx.example".into() };
        let ana = PartyId("main/+34600123456".into());
        assert!(!is_another("main", &named("+34 600-123.456"), Some(&ana)));
        assert!(is_another("main", &named("bob"), Some(&ana)));
        assert!(is_another("main", &named("anonymous"), Some(&ana)));
        assert!(!is_another("main", &named("anonymous"), None));
    }

    #[test]
    fn who_a_trusted_peer_asserts_it_is_is_the_party_and_what_anybody_else_asserts_is_not_looked_at() {
        let party = |name: &str| Some(PartyId(format!("main/{name}")));
        let called = |asserted, source| called(Some("mallory"), "pbx.example", asserted, source);
        assert_eq!(called(Some("ana"), "192.0.2.10:5060"), (party("ana"), true));
        assert_eq!(called(Some("ana"), "192.0.2.11:5060"), (party("mallory"), false));
        assert_eq!(called(None, "192.0.2.10:5060"), (party("mallory"), false));
        assert_eq!(called(Some("anonymous"), "192.0.2.10:5060"), (party("mallory"), false));
    }
}
