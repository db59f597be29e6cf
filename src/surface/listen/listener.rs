//! The caller's acoustic clock.

use recado_core::conversation::{Acoustic, AcousticEdge, AcousticEpoch};
use recado_core::time::Time;

use super::confirm::Confirm;
use super::profile::Profile;
use super::reflex::{Reflex, frames};

/// Turns the caller's audio into edges of the acoustic clock.
///
/// Feed each packet's samples to [`Listener::arrived`] as it comes and each 20 ms frame behind the jitter buffer to
/// [`Listener::ordered`]; each call yields at most one edge. Without packets `ordered` still has to be called: time
/// passes in silence too, and no state may latch.
pub struct Listener {
    profile: Profile,
    reflex: Reflex,
    confirm: Confirm,
    state: Acoustic,
    epoch: AcousticEpoch,
    /// When the suspicion was raised.
    suspected: Time,
    /// Voiced sound in a row (ms), when it began, and when voiced sound was last heard.
    run_ms: u32,
    run_began: Time,
    last_voiced: Time,
    /// When confirmed speech was last heard.
    last_speech: Time,
    /// When the sound of the last edge happened: dates never go back.
    last_edge: Time,
    /// A sound that goes on was judged not to be speech: the reflex is not asked about it again until it ends.
    dismissed: bool,
}

impl Listener {
    /// A listener in `Quiet`, epoch 0.
    pub fn new(profile: Profile) -> Self {
        Self {
            confirm: Confirm::new(profile.confirm_score),
            profile,
            reflex: Reflex::new(),
            state: Acoustic::Quiet,
            epoch: AcousticEpoch::default(),
            suspected: Time::default(),
            run_ms: 0,
            run_began: Time::default(),
            last_voiced: Time::default(),
            last_speech: Time::default(),
            last_edge: Time::default(),
            dismissed: false,
        }
    }

    /// The state now.
    pub fn state(&self) -> Acoustic {
        self.state
    }

    /// The epoch now.
    pub fn epoch(&self) -> AcousticEpoch {
        self.epoch
    }

    /// A packet of caller audio arrived: 8 kHz samples, in order of arrival.
    pub fn arrived(&mut self, at: Time, samples: &[i16]) -> Option<AcousticEdge> {
        let may_suspect = self.state == Acoustic::Quiet && !self.dismissed;
        for frame in frames(samples) {
            if self.reflex.voiced(frame, may_suspect) {
                if self.run_ms == 0 {
                    self.run_began = at;
                }
                self.run_ms = self.run_ms.saturating_add(frame.len() as u32 / SAMPLES_PER_MS);
                self.last_voiced = at;
            } else {
                self.run_ms = 0;
            }
        }
        let raise = may_suspect && self.run_ms >= self.profile.suspect_voiced_ms;
        raise.then(|| self.suspect(at, self.run_began))
    }

    /// The next 20 ms of ordered caller audio; `heard` is when they arrived, before the jitter buffer held them.
    pub fn ordered(&mut self, now: Time, heard: Time, frame: &[i16; 160]) -> Option<AcousticEdge> {
        let wanted = self.state != Acoustic::Quiet || self.dismissed;
        let sounding = heard.since(self.last_voiced) < SOUNDING_MS;
        let fresh_ms = self.confirm.frame(frame, wanted, sounding);
        let confirmed = self.confirm.speech_ms(self.profile.confirm_window_ms) >= self.profile.confirm_voiced_ms;
        let goes_on = fresh_ms > 0 && self.confirm.speech_ms(GOES_ON_WINDOW_MS) >= GOES_ON_VOICED_MS;
        if goes_on && matches!(self.state, Acoustic::Speaking | Acoustic::Trailing) {
            self.last_speech = self.last_speech.max(heard);
        }
        match self.state {
            Acoustic::Quiet if self.dismissed && self.confirm.speech_ms(DISMISSED_WINDOW_MS) >= DISMISSED_VOICED_MS => {
                self.dismissed = false;
                Some(self.suspect(now, heard))
            }
            Acoustic::Quiet => {
                self.dismissed &= now.since(self.last_voiced) < DISMISSED_UNTIL_SILENT_MS;
                None
            }
            Acoustic::Suspected if confirmed => {
                self.last_speech = heard;
                Some(self.enter(Acoustic::Speaking, heard))
            }
            Acoustic::Suspected => self.retraction(now),
            Acoustic::Speaking => {
                let pause_ms = heard.since(self.last_speech);
                (pause_ms >= u64::from(self.profile.trail_ms)).then(|| self.enter(Acoustic::Trailing, self.last_speech))
            }
            Acoustic::Trailing => {
                if goes_on && self.confirm.speech_ms(RESUME_WINDOW_MS) >= self.profile.resume_voiced_ms {
                    return Some(self.enter(Acoustic::Speaking, heard));
                }
                let pause_ms = heard.since(self.last_speech);
                (pause_ms >= u64::from(self.profile.end_silence_ms)).then(|| self.quiet(now, self.last_speech))
            }
        }
    }

    /// The source of the audio changed: what was heard of the old one counts for nothing. States run out as in silence.
    pub fn restarted(&mut self) {
        self.run_ms = 0;
        self.confirm.forget();
    }

    fn retraction(&mut self, now: Time) -> Option<AcousticEdge> {
        let silent_ms = now.since(self.last_voiced);
        let doubtful = self.confirm.speech_ms(self.profile.retract_silence_ms.min(RESUME_WINDOW_MS)) > 0;
        let faded = silent_ms >= u64::from(self.profile.retract_silence_ms) && !doubtful;
        let late = now.since(self.suspected) >= u64::from(self.profile.retract_ms);
        (faded || late).then(|| self.quiet(now, self.last_voiced))
    }

    fn suspect(&mut self, now: Time, began: Time) -> AcousticEdge {
        self.suspected = now;
        self.enter(Acoustic::Suspected, began)
    }

    /// Back to `Quiet`. A sound that goes on regardless is dismissed.
    fn quiet(&mut self, now: Time, at: Time) -> AcousticEdge {
        self.dismissed = now.since(self.last_voiced) < DISMISSED_UNTIL_SILENT_MS;
        self.confirm.forget();
        self.enter(Acoustic::Quiet, at)
    }

    fn enter(&mut self, to: Acoustic, at: Time) -> AcousticEdge {
        self.state = to;
        self.epoch = AcousticEpoch(self.epoch.0 + 1);
        self.last_edge = self.last_edge.max(at);
        AcousticEdge { to, epoch: self.epoch, at: self.last_edge }
    }
}

const SAMPLES_PER_MS: u32 = 8;
/// The reflex misses no speech for longer than this, however credulous it is: what it calls silence is silence.
const SOUNDING_MS: u64 = 120;
/// A dismissed sound has ended when nothing voiced was heard for this long.
const DISMISSED_UNTIL_SILENT_MS: u64 = 200;
/// One hop alone is a crackle: speech that goes on is two of the last three.
const GOES_ON_WINDOW_MS: u32 = 48;
const GOES_ON_VOICED_MS: u32 = 32;
/// A sound that was dismissed needs better proof: music is taken for speech for a while every few seconds.
const DISMISSED_WINDOW_MS: u32 = 480;
const DISMISSED_VOICED_MS: u32 = 320;
/// Speech that resumes is looked for in the last few hops.
const RESUME_WINDOW_MS: u32 = 96;
