//! What the speech models that lead calls have in common: each is a service on a connection that stands as long as the call.

use std::ops::RangeInclusive;

use recado_core::policy::Language;
use reqwest::Url;

use super::Prices;
use super::check::Checker;
use super::endpoint::{EndpointSettings, Kind, check_name};

/// Declares the table of a speech model: what all of them say, and what it says beside that. The URL of the connection is what its own
/// `address` says.
macro_rules! speech_model_table {
    (
        $(#[$about:meta])*
        pub struct $Service:ident in $table:literal, key_header = $key_header:literal, renew_after_ms = $renew_after_ms:literal, { $($own:tt)* }
    ) => {
        $crate::config::endpoint::service_table! {
            $(#[$about])*
            pub struct $Service in $table, key_header = $key_header, {
                /// The voice, by the service's name for it; the service's default where none is given.
                #[serde(default)]
                pub voice: Option<String>,
                /// The language that is spoken, and that the model is instructed in where `model.instructions` says nothing; the box's own where
                /// none is given.
                #[serde(default)]
                pub language: Option<recado_core::policy::Language>,
                /// How long a connection may take until it stands, TLS included (ms).
                #[serde(default = "super::speech_model::timeout_ms")]
                pub connect_timeout_ms: u64,
                /// How long the service may take to answer what it is asked (ms).
                #[serde(default = "super::speech_model::timeout_ms")]
                pub answer_timeout_ms: u64,
                /// After how long a connection is replaced by a new one, between two turns, before the service ends it (ms). Where the
                /// service says that it ends it sooner, sooner.
                #[serde(default = $renew_after_ms)]
                pub renew_after_ms: u64,
                /// What the service charges; costs are not counted where that is not known.
                #[serde(default)]
                pub prices: Option<$crate::config::Prices>,
                $($own)*
            }
        }

        impl<'a> From<&'a $Service> for $crate::config::SpeechModel<'a> {
            fn from(service: &'a $Service) -> Self {
                Self {
                    endpoint: service.endpoint(),
                    address: service.address(),
                    voice: service.voice.as_deref(),
                    language: service.language,
                    connect_timeout_ms: service.connect_timeout_ms,
                    answer_timeout_ms: service.answer_timeout_ms,
                    renew_after_ms: service.renew_after_ms,
                    prices: service.prices.as_ref(),
                }
            }
        }
    };
}
pub(super) use speech_model_table;

/// A speech model in a network, whatever its protocol.
#[derive(Debug, Clone)]
pub struct SpeechModel<'a> {
    /// Where it is, and with what it is asked.
    pub endpoint: EndpointSettings<'a>,
    /// What is connected to; none where the URL is none.
    pub address: Option<Url>,
    /// The voice, by the service's name for it.
    pub voice: Option<&'a str>,
    /// The language that is spoken, where it is not the box's own.
    pub language: Option<Language>,
    /// How long a connection may take until it stands (ms).
    pub connect_timeout_ms: u64,
    /// How long the service may take to answer what it is asked (ms).
    pub answer_timeout_ms: u64,
    /// After how long a connection is replaced by a new one (ms).
    pub renew_after_ms: u64,
    /// What it charges, where that is known.
    pub prices: Option<&'a Prices>,
}

impl SpeechModel<'_> {
    /// Checks what all of them say.
    pub(super) fn check(&self, checker: &mut Checker<'_>, kind: &Kind) {
        self.endpoint.check(checker, kind);
        let place = self.endpoint.place();
        if let Some(voice) = self.voice {
            check_name(checker, &place, "voice", voice);
        }
        checker.within(&place.join("connect_timeout_ms"), self.connect_timeout_ms, TIMEOUT_MS);
        checker.within(&place.join("answer_timeout_ms"), self.answer_timeout_ms, TIMEOUT_MS);
        checker.within(&place.join("renew_after_ms"), self.renew_after_ms, RENEW_AFTER_MS);
        if let Some(prices) = self.prices {
            prices.check(checker, &place.join("prices"));
        }
    }
}

pub(super) fn timeout_ms() -> u64 {
    10_000
}

/// Below, no connection over a mobile network comes to be; no caller waits for a minute.
const TIMEOUT_MS: RangeInclusive<u64> = 500..=60_000;
/// More often, connecting would be all that is done; no service keeps one for longer than a day.
const RENEW_AFTER_MS: RangeInclusive<u64> = 60_000..=24 * 3_600_000;
