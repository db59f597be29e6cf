//! Scenarios of one call in virtual time, by subject.

use recado_core::conversation::{Acoustic, AcousticEpoch, Generation, SegmentRef};
use recado_core::ids::PlaybackId;
use recado_voice::PlaybackCommand;
use rtcp_types::{Compound, Packet};

use super::*;
use crate::surface::listen::Profile;
use crate::surface::listen::voice::voice;
use crate::surface::media::plan::Direction;

mod captures;
mod playback;
mod reports;
mod rig;
mod stream;
