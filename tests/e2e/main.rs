//! The box as it is used: `recado run` as a process, called over real SIP and RTP by telephones that are not ours.
//!
//! Judged by what the caller's own recording holds, by the tools' own count of effects, and by the store; never by what the
//! box says of itself. The box's log is only waited for. Skipped with a message where the telephones are not installed.

mod caller;
mod conflicts;
mod deliveries;
mod flood;
mod identity;
mod instances;
mod restarts;
mod seven_days;
mod sound;
mod stage;
mod talk;
mod telephones;
mod traces;
mod week;
