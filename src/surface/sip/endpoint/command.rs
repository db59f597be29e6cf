//! What the application tells the endpoint.

use std::fmt;

use crate::surface::sip::media_plan::LocalMedia;

/// Identifies a call within its endpoint; never reused. (The `Call-ID` header is the far end's and may repeat.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallHandle(pub(in crate::surface::sip) u64);

impl fmt::Display for CallHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A command of the application.
#[derive(Debug, Clone)]
pub enum Command {
    /// Answer 180: the far end hears ringing.
    Ring {
        /// An incoming call.
        call: CallHandle,
    },
    /// Answer 200 with our media.
    Accept {
        /// An incoming call.
        call: CallHandle,
        /// Where our media is.
        local: LocalMedia,
    },
    /// Answer with a final status.
    Reject {
        /// An incoming call.
        call: CallHandle,
        /// 400 to 699; anything else is sent as 480.
        status: u16,
    },
    /// End the call, whatever its state. It is over for the application at once; BYE and its repetitions follow below.
    Bye {
        /// Any call.
        call: CallHandle,
    },
    /// Take new calls, or refuse them.
    SetAdmission(Admission),
    /// Refuse new calls and end all that there are, those without ACK included: nobody would be there to end them later.
    Shutdown,
}

/// Whether new calls are taken. Calls that are up are not touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Up to the call limit.
    Open,
    /// None: 503, for INVITE and for OPTIONS.
    Refuse {
        /// Seconds, for `Retry-After`.
        retry_after_s: u32,
    },
}
