//! Scenarios of one call in virtual time, by subject.

use recado_core::conversation::{AcousticEpoch, Generation};
use recado_core::ids::PlaybackId;
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
