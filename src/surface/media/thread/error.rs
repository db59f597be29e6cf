//! What may go wrong around the media thread.

use std::io;

/// Why media can't be had.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// The operating system refused what the thread needs: look at its limits of open files and threads.
    #[error("the media thread can't be started: {0}")]
    Start(#[source] io::Error),
    /// The configured range holds no even port with an odd one after it: widen it to two ports a call.
    #[error("the RTP port range {first}-{last} has room for no call")]
    Range {
        /// First port of the range.
        first: u16,
        /// Last port of the range.
        last: u16,
    },
    /// Every pair of ports is in use, rests, or is taken by another program: widen the range, or refuse the call (503).
    #[error("no RTP port is free: {busy} in use, {resting} rest after use")]
    NoPort {
        /// Pairs in use by calls.
        busy: usize,
        /// Pairs that rest.
        resting: usize,
    },
    /// As many calls as configured are up: refuse the call (486 or 503).
    #[error("{0} calls are up, as many as configured")]
    Full(usize),
    /// The media thread has ended: restart the box.
    #[error("the media thread has ended")]
    Ended,
}
