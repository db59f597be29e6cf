//! The box in trouble: the real binary, killed at random moments of a story that a real caller tells it over SIP and RTP.
//!
//! Judged by what the caller's ear holds, by what the tools were asked, and by the store; never by what the box says of
//! itself, but for where it stopped in the silence that ends a phrase, which nobody can hear.

mod cuts;
mod hang;
mod judge;
mod kills;
mod machine;
mod random;
mod reboot;
mod reports;
mod story;
mod watchdog;
