//! The measures of the service that leads calls.

use metrics::{Counter, Gauge};

use super::measures::Register;

/// What is known of the service that leads calls. What is counted only grows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceMeasures {
    /// Whether it can't be reached, where that is known.
    pub away: Option<bool>,
    /// Connections that were lost or given up in a call, for another one.
    pub reconnects: u64,
    /// Responses that the dialogue that stands by gave in its place.
    pub takeovers: u64,
}

pub(super) struct Instruments {
    away: Gauge,
    reconnects: Counter,
    takeovers: Counter,
}

impl Instruments {
    pub fn new(register: &Register<'_>) -> Self {
        Self {
            away: register.gauge("recado_service_away", "Whether the service that leads calls can't be reached", &[]),
            reconnects: register
                .counter("recado_service_reconnects_total", "Connections to the service that were lost or given up in a call"),
            takeovers: register
                .counter("recado_service_takeovers_total", "Responses that the dialogue that stands by gave in the service's place"),
        }
    }

    pub fn show(&self, known: &ServiceMeasures) {
        if let Some(away) = known.away {
            self.away.set(f64::from(u8::from(away)));
        }
        self.reconnects.absolute(known.reconnects);
        self.takeovers.absolute(known.takeovers);
    }
}
