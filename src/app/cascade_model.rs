//! A cascade as the model of calls: what its parts are known by, and how they are looked at.

use std::sync::Arc;
use std::time::Instant;

use super::services::{Service, Services};
use crate::cognition::models::cascade::session::Part;
use crate::cognition::models::cascade::{Cascade, CascadeError, Observer};
use crate::cognition::models::{Availability, Usage, instructions};
use crate::config::Config;

/// What is known of the parts.
#[derive(Debug, Clone)]
struct Parts {
    transcription: Services,
    language: Services,
}

/// The cascade that leads the calls of a box with this configuration, and its parts.
///
/// # Errors
/// What of the configuration can't be used.
pub fn cascade(config: &Config) -> Result<(Cascade, Vec<Service>), CascadeError> {
    let cloud = &config.cloud;
    let prices = cloud.language.as_ref().and_then(|service| service.prices.clone());
    let language = Services::new("cloud.language", prices);
    let prices = cloud.transcription.as_ref().and_then(|service| service.prices.clone());
    let transcription = language.beside("cloud.transcription", prices);
    let parts = Parts { transcription, language };
    let told = config.model.instructions.clone().unwrap_or_else(|| instructions(config.this_box.language).to_owned());
    let model = Cascade::new(config, told, Some(Arc::new(parts.clone())))?;
    let services = [Part::Language, Part::Transcription].map(|part| {
        let looked_at = model.clone();
        Service::new(parts.of(part).clone(), move || looked_at.look(part))
    });
    Ok((model, services.into()))
}

impl Parts {
    fn of(&self, part: Part) -> &Services {
        match part {
            Part::Transcription => &self.transcription,
            Part::Language => &self.language,
        }
    }
}

impl Observer for Parts {
    fn stands(&self, part: Part, availability: &Availability) {
        self.of(part).stands(availability);
    }

    fn known(&self, part: Part) -> Availability {
        self.of(part).availability(Instant::now())
    }

    fn took(&self, part: Part, usage: &Usage) {
        self.of(part).took(usage);
    }
}
