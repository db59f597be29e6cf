//! The contract's invariants, checked after every step from what left the box, what the store holds and what the far end
//! got: never from the conversation's own state.
//!
//! | invariant | where it is checked |
//! | --- | --- |
//! | I1, I6, I9, I10, I14, I19, R4, R5, I17 | [`told`]: every frame of a delivery, and what counts as heard |
//! | I4 | [`honest`]: every sentence of a delivery |
//! | I2, I12, R3, R6, edges of operations, batches and deliveries | [`commits`]: every transaction |
//! | I3, R1, R2 | [`crate::tools`]: the tools' own ledger |
//! | R1, R3, R6 for what is said and answered | [`crate::rig`], where it leaves the box |
//! | I5, I11, I18, edges of the clocks | [`call`]: what an input may lead to |
//! | I7 | [`history`]: what counts as heard, in both directions |
//! | I8, I11 for samples, I20 | [`frames`]: every frame |
//! | I13 | [`idle`]: in a quiet call, what waits begins; and [`crate::liveness`]: without faults everything ends |
//! | consent | [`consent`]: what was said to its end before an operation is on record |
//! | I15 | [`crate::play::twice`] |

pub mod call;
pub mod commits;
pub mod consent;
pub mod frames;
pub mod history;
mod honest;
pub mod idle;
pub mod told;

use std::collections::hash_map::DefaultHasher;
use std::fmt::Debug;
use std::hash::Hash;

pub use call::{CallWatch, May};
use recado_core::conversation::Identity;
use recado_core::ids::BootId;
use recado_core::ledger::DeliveryRecord;
use recado_core::policy::Audience;
use recado_core::time::Wall;

use self::commits::Commits;
use self::consent::Consents;
use self::told::Told;
use crate::call::Call;

/// What the far end's jitter buffer holds (ms).
pub const FAR_BUFFER: u64 = 100;

/// When something is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Virtual time (ms).
    pub now: u64,
    /// The box's wall clock.
    pub wall: Wall,
    /// The life of the box's process.
    pub boot: BootId,
}

/// What was seen of the whole box, over all calls and boots.
#[derive(Debug, Default)]
pub struct Watch {
    /// What was told.
    pub told: Told,
    /// What was committed.
    pub commits: Commits,
    /// What was read back before it was done.
    pub consents: Consents,
    /// When the store last failed or was slow (ms).
    pub unwell: Option<u64>,
    /// Everything that was wanted, as one number (I15); only where it is asked for.
    pub digest: Option<DefaultHasher>,
}

impl Watch {
    /// Takes what was wanted into the digest.
    pub fn trace(&mut self, effects: &impl Debug) {
        if let Some(digest) = &mut self.digest {
            format!("{effects:?}").hash(digest);
        }
    }
}

/// I14: whether what belongs to a party or a conversation is for this call's ears.
pub fn may_be_told(call: &Call, record: &DeliveryRecord) -> bool {
    let theirs = record.session == call.session || (record.party.is_some() && record.party == call.party);
    match record.audience {
        _ if call.voicemail => false,
        Audience::SameCall => record.session == call.session,
        Audience::SameParty => theirs && (call.party.is_none() || call.identity != Identity::Unknown),
        Audience::VerifiedParty => theirs && call.identity == Identity::Verified,
    }
}
