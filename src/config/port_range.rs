//! A range of UDP ports for RTP.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

use super::wording::WRITE_INSTEAD;

/// Ports from first to last, both included. RTP takes an even one, RTCP the next odd one (RFC 3550 §11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortRange {
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

impl PortRange {
    /// Whether `port` is one of them.
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// How many pairs of an even port and the next one are in it: each call takes one.
    pub fn pairs(self) -> u32 {
        let first_even = u32::from(self.first).next_multiple_of(2);
        (u32::from(self.last) + 1).saturating_sub(first_even) / 2
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for PortRange {
    type Err = String;

    /// Reads `20000-20999`. Says what is wrong and what to write instead.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str, instead: &str| Err(format!("{text:?} {what}{WRITE_INSTEAD}\"{instead}\""));
        let bounds =
            text.split_once('-').and_then(|(first, last)| Some((first.trim().parse::<u16>().ok()?, last.trim().parse::<u16>().ok()?)));
        match bounds {
            None => wrong("is not a range of ports from 1024 to 65535", "20000-20999"),
            Some((first, last)) if first.min(last) < PORT_LEAST => wrong("has ports below 1024, which belong to the system", "20000-20999"),
            Some((first, last)) if first > last => wrong("ends before it begins", &format!("{last}-{first}")),
            Some((first, last)) => Ok(Self { first, last }),
        }
    }
}

impl<'de> Deserialize<'de> for PortRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Ports below need privileges, and other services expect them.
const PORT_LEAST: u16 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_begins_at_an_even_port() {
        let pairs = |first, last| PortRange { first, last }.pairs();
        assert_eq!(pairs(20_000, 20_999), 500);
        assert_eq!(pairs(20_001, 20_004), 1);
        assert_eq!(pairs(20_001, 20_002), 0);
        assert_eq!(pairs(20_000, 20_000), 0);
        assert_eq!(pairs(65_534, 65_535), 1);
        assert_eq!(pairs(65_535, 65_535), 0);
    }

    #[test]
    fn what_is_no_range_is_refused_with_a_remedy() {
        for (text, message) in [
            ("20000", r#""20000" is not a range of ports from 1024 to 65535; write instead: "20000-20999""#),
            ("30000-70000", r#""30000-70000" is not a range of ports from 1024 to 65535; write instead: "20000-20999""#),
            ("20999-20000", r#""20999-20000" ends before it begins; write instead: "20000-20999""#),
            ("5000-80", r#""5000-80" has ports below 1024, which belong to the system; write instead: "20000-20999""#),
            ("80-90", r#""80-90" has ports below 1024, which belong to the system; write instead: "20000-20999""#),
        ] {
            assert_eq!(text.parse::<PortRange>().unwrap_err(), message);
        }
        assert_eq!("20000-20999".parse(), Ok(PortRange { first: 20_000, last: 20_999 }));
    }
}
