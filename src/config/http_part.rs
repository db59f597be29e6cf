//! What the parts of a cascade have in common: each is a service behind HTTP.

use std::ops::RangeInclusive;

use reqwest::Url;

use super::Prices;
use super::check::Checker;
use super::endpoint::{EndpointSettings, Kind, ReachedBy};

/// Declares the table of a part of a cascade: what all of them say, and what it says beside that.
macro_rules! cascade_part_table {
    ($(#[$about:meta])* pub struct $Service:ident in $table:literal, { $($own:tt)* }) => {
        $crate::config::endpoint::service_table! {
            $(#[$about])*
            pub struct $Service in $table, key_header = "Default::default", {
                /// What the service charges; costs are not counted where that is not known.
                #[serde(default)]
                pub prices: Option<$crate::config::Prices>,
                /// How long a connection may take until it stands (ms).
                #[serde(default = "super::http_part::connect_timeout_ms")]
                pub connect_timeout_ms: u64,
                /// How long the service may take until the first of its answer comes (ms).
                #[serde(default = "super::http_part::answer_timeout_ms")]
                pub answer_timeout_ms: u64,
                /// How long its answer may pause (ms).
                #[serde(default = "super::http_part::stall_timeout_ms")]
                pub stall_timeout_ms: u64,
                /// How long all of it may take (ms).
                #[serde(default = "super::http_part::whole_timeout_ms")]
                pub whole_timeout_ms: u64,
                $($own)*
            }
        }

        impl $Service {
            /// How it is reached.
            pub fn part(&self) -> $crate::config::HttpPart<'_> {
                $crate::config::HttpPart {
                    endpoint: self.endpoint(),
                    prices: self.prices.as_ref(),
                    connect_timeout_ms: self.connect_timeout_ms,
                    answer_timeout_ms: self.answer_timeout_ms,
                    stall_timeout_ms: self.stall_timeout_ms,
                    whole_timeout_ms: self.whole_timeout_ms,
                }
            }
        }
    };
}
pub(super) use cascade_part_table;

/// A part of a cascade, behind HTTP: how it is reached.
#[derive(Debug, Clone, Copy)]
pub struct HttpPart<'a> {
    /// Where it is, and with what it is asked.
    pub endpoint: EndpointSettings<'a>,
    /// What it charges, where that is known.
    pub prices: Option<&'a Prices>,
    /// How long a connection may take until it stands (ms).
    pub connect_timeout_ms: u64,
    /// How long the first of an answer may take, with the connection that may be needed for it (ms).
    pub answer_timeout_ms: u64,
    /// How long an answer may pause (ms).
    pub stall_timeout_ms: u64,
    /// How long all of it may take (ms).
    pub whole_timeout_ms: u64,
}

impl HttpPart<'_> {
    /// Checks what all of them say; a file like `key_file` may hold the key.
    pub(super) fn check(&self, checker: &mut Checker<'_>, key_file: &'static str) {
        let kind = Kind {
            reached_by: ReachedBy::Http,
            url: "https://api.openai.com/v1",
            key_file,
            key_header: "api-key",
            carries: "what callers say",
        };
        self.endpoint.check(checker, &kind);
        let place = self.endpoint.place();
        // An answer that has to be connected for is begun within the same time.
        let (least, most) = TIMEOUT_MS.into_inner();
        let connects = match self.connect_timeout_ms {
            // What nobody has written is bounded by it.
            ms if ms == connect_timeout_ms() => TIMEOUT_MS,
            _ => least..=self.answer_timeout_ms.clamp(ANSWER_MS_LEAST, most) - 1,
        };
        let timeouts = [
            ("connect_timeout_ms", self.connect_timeout_ms, connects),
            ("answer_timeout_ms", self.answer_timeout_ms, ANSWER_MS_LEAST..=most),
            ("stall_timeout_ms", self.stall_timeout_ms, TIMEOUT_MS),
            ("whole_timeout_ms", self.whole_timeout_ms, TIMEOUT_MS),
        ];
        timeouts.into_iter().for_each(|(key, ms, range)| checker.within(&place.join(key), ms, range));
        if let Some(prices) = self.prices {
            prices.check(checker, &place.join("prices"));
        }
    }

    /// The address of what the service calls `name`; none where its own is none.
    pub fn address(&self, name: &str) -> Option<Url> {
        self.endpoint.address(name)
    }
}

pub(super) fn connect_timeout_ms() -> u64 {
    3_000
}

/// Conversations wait for 5 s, and some services answer before that with a reason.
pub(super) fn answer_timeout_ms() -> u64 {
    10_000
}

pub(super) fn stall_timeout_ms() -> u64 {
    5_000
}

pub(super) fn whole_timeout_ms() -> u64 {
    60_000
}

/// Below, no connection over a mobile network comes to be; beyond, no caller waits.
const TIMEOUT_MS: RangeInclusive<u64> = 500..=60_000;
/// A connection, and a moment more.
const ANSWER_MS_LEAST: u64 = 600;
