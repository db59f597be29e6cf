//! `[identity]`: how the box finds out who is on the line, for results that only a verified caller may hear.

use std::net::IpAddr;
use std::path::PathBuf;

use recado_core::conversation::Verification;
use recado_core::policy::Localised;
use serde::Deserialize;

use super::check::Checker;
use super::tree::Path;
use crate::identity::{LockOut, PIN_DIGITS_LEAST, PIN_DIGITS_MOST, PinRules, Pins};
use crate::surface::Network;

/// How callers are verified, and whose word about them is taken.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Identity {
    /// The file with the PINs' hashes, which `recado pin` writes; without one nobody is asked for a PIN.
    pub pins_file: Option<PathBuf>,
    /// The fewest digits of a PIN.
    pub digits_min: u8,
    /// The most digits of a PIN: with so many it is complete, with fewer `#` ends it.
    pub digits_max: u8,
    /// How often a caller may try in a call.
    pub attempts_max: u8,
    /// How long a pause may be while a PIN is keyed in (ms).
    pub wait_ms: u64,
    /// After so many failures, over all calls of a party, no PIN of it is looked at.
    pub lock_out_after: u32,
    /// For how long (ms); each further time twice as long, a day at most.
    pub lock_out_ms: u64,
    /// Whether somebody who is not known well enough, or a machine, is told that there is a message.
    pub announce_waiting: bool,
    /// Networks of SIP servers that know who calls: who they assert it is, is the party.
    pub trusted_peers: Vec<Network>,
    /// Whether a caller whom one of them vouches for is verified.
    pub asserted_is_verified: bool,
    /// Says that there is a message, and asks for the PIN.
    pub say_ask: Localised,
    /// That PIN was not right: asks again.
    pub say_again: Localised,
    /// The caller could not be verified.
    pub say_not_verified: Localised,
    /// Says to a machine that there is a message.
    pub say_waiting: Localised,
}

impl Default for Identity {
    fn default() -> Self {
        let Verification { announce_waiting, attempts_max, wait_ms, say_ask, say_again, say_not_verified, say_waiting, .. } =
            Verification::default();
        let LockOut { after, lasts_ms } = LockOut::default();
        Self {
            pins_file: None,
            digits_min: PIN_DIGITS_LEAST,
            digits_max: PIN_DIGITS_MOST,
            attempts_max,
            wait_ms,
            lock_out_after: after,
            lock_out_ms: lasts_ms,
            announce_waiting,
            trusted_peers: Vec::new(),
            asserted_is_verified: false,
            say_ask,
            say_again,
            say_not_verified,
            say_waiting,
        }
    }
}

impl Identity {
    /// How a conversation verifies callers; not at all without PINs.
    pub fn verification(&self) -> Option<Verification> {
        let or =
            |written: &Localised, usual: Localised| Localised { es: written.es.clone().or(usual.es), en: written.en.clone().or(usual.en) };
        let usual = Verification::default();
        self.pins_file.is_some().then(|| Verification {
            announce_waiting: self.announce_waiting,
            digits_min: self.digits_min,
            digits_max: self.digits_max,
            attempts_max: self.attempts_max,
            wait_ms: self.wait_ms,
            say_ask: or(&self.say_ask, usual.say_ask),
            say_again: or(&self.say_again, usual.say_again),
            say_not_verified: or(&self.say_not_verified, usual.say_not_verified),
            say_waiting: or(&self.say_waiting, usual.say_waiting),
        })
    }

    /// Whether any caller can be verified.
    pub fn verifies(&self) -> bool {
        self.pins_file.is_some() || (self.asserted_is_verified && !self.trusted_peers.is_empty())
    }

    /// Whether what this SIP peer asserts of a caller is taken for true.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted_peers.iter().any(|network| network.contains(peer))
    }

    /// When nothing of a party is looked at any more.
    pub fn lock_out(&self) -> LockOut {
        LockOut { after: self.lock_out_after, lasts_ms: self.lock_out_ms }
    }

    /// What a PIN may be.
    pub fn pin_rules(&self) -> PinRules {
        PinRules { digits_min: self.digits_min, digits_max: self.digits_max }
    }

    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let at = |key| Path::of("identity").join(key);
        let digits = u64::from(PIN_DIGITS_LEAST)..=u64::from(PIN_DIGITS_MOST);
        checker.within(&at("digits_min"), self.digits_min.into(), digits.clone());
        checker.within(&at("digits_max"), self.digits_max.into(), digits);
        if self.digits_min > self.digits_max {
            let what = format!("no PIN has {} digits or more and {} at most", self.digits_min, self.digits_max);
            checker.error(&at("digits_min"), what, format!("digits_min = {}", self.digits_max));
        }
        checker.within(&at("attempts_max"), self.attempts_max.into(), 1..=ATTEMPTS_MOST);
        checker.within(&at("wait_ms"), self.wait_ms, WAIT_MS);
        checker.within(&at("lock_out_after"), self.lock_out_after.into(), 1..=LOCK_OUT_AFTER_MOST);
        checker.within(&at("lock_out_ms"), self.lock_out_ms, LOCK_OUT_MS);
        if self.trusted_peers.iter().any(Network::is_everybody) {
            let what = "anybody at all could assert who is calling";
            checker.error(&at("trusted_peers"), what, "trusted_peers = [\"192.0.2.10\"], the SIP servers that know their callers");
        }
        if self.asserted_is_verified && self.trusted_peers.is_empty() {
            let what = "nobody is trusted to assert who is calling: trusted_peers names no SIP server";
            checker.warning(&at("asserted_is_verified"), what, "asserted_is_verified = false");
        }
        self.check_pins(checker, &at("pins_file"));
        self.check_texts(checker);
    }

    fn check_pins(&self, checker: &mut Checker<'_>, path: &Path) {
        let Some(file) = self.pins_file.as_ref().filter(|_| checker.looks_at_files()) else { return };
        match Pins::read(file) {
            Ok(pins) if pins.is_empty() => {
                checker.warning(path, "it holds no PIN, so nobody can be verified", "recado pin set USER -c FILE");
            }
            Ok(_) => {}
            // The box takes calls all the same, and verifies nobody: the file is read again at each try.
            Err(error) if checker.engine_answers_within().is_none() => checker.warning(path, error, INSTEAD_OF_PINS),
            Err(error) => checker.error(path, error, INSTEAD_OF_PINS),
        }
    }

    fn check_texts(&self, checker: &mut Checker<'_>) {
        let texts = [
            ("say_ask", &self.say_ask),
            ("say_again", &self.say_again),
            ("say_not_verified", &self.say_not_verified),
            ("say_waiting", &self.say_waiting),
        ];
        for (key, text) in texts {
            for (language, written) in [("es", &text.es), ("en", &text.en)] {
                if written.as_ref().is_some_and(|text| text.trim().is_empty()) {
                    let path = Path::of("identity").join(key).join(language);
                    checker.error(&path, "it is empty", format!("{key}.{language} = \"…\", or nothing for the box's own words"));
                }
            }
        }
    }
}

const INSTEAD_OF_PINS: &str = "a file that recado pin set USER -c FILE has written";
/// More tries in one call than this are guesses.
const ATTEMPTS_MOST: u64 = 10;
/// A pause shorter than this is between two keys; a longer one is somebody who has gone (ms).
const WAIT_MS: std::ops::RangeInclusive<u64> = 2_000..=30_000;
/// With more, a PIN of four digits is guessed within weeks.
const LOCK_OUT_AFTER_MOST: u64 = 100;
/// A minute, which a machine that guesses minds; a day (ms).
const LOCK_OUT_MS: std::ops::RangeInclusive<u64> = 60_000..=86_400_000;
