//! The measures of the service that leads calls.

use metrics::{Counter, Gauge, Label};

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
    /// Tokens that its sessions took, by kind.
    pub tokens: Vec<(&'static str, u64)>,
    /// Audio that it charges for by its length (ms).
    pub audio_ms: u64,
    /// What they cost, in millionths of the unit of this currency; none where prices are not known.
    pub cost: Option<(u64, String)>,
}

pub(super) struct Instruments {
    away: Gauge,
    reconnects: Counter,
    takeovers: Counter,
    tokens: [(&'static str, Counter); 7],
    audio: Counter,
}

impl Instruments {
    pub fn new(register: &Register<'_>) -> Self {
        Self {
            away: register.gauge("recado_service_away", "Whether the service that leads calls can't be reached, or does not answer", &[]),
            reconnects: register
                .counter("recado_service_reconnects_total", "Connections to the service that were lost or given up in a call"),
            takeovers: register
                .counter("recado_service_takeovers_total", "Responses that the dialogue that stands by gave in the service's place"),
            tokens: KINDS.map(|kind| {
                let labels = vec![Label::new("kind", kind)];
                (kind, register.labelled("recado_service_tokens_total", "Tokens that calls took, by kind", labels))
            }),
            audio: register.counter("recado_service_audio_ms_total", "Audio that the service charges for by its length"),
        }
    }

    /// Shows what is known; a currency that has not been shown before gets its counter with `register`.
    pub fn show(&self, known: &ServiceMeasures, register: &Register<'_>) {
        if let Some(away) = known.away {
            self.away.set(f64::from(u8::from(away)));
        }
        self.reconnects.absolute(known.reconnects);
        self.takeovers.absolute(known.takeovers);
        for (kind, counter) in &self.tokens {
            let taken = known.tokens.iter().find(|(of, _)| of == kind);
            counter.absolute(taken.map_or(0, |(_, count)| *count));
        }
        self.audio.absolute(known.audio_ms);
        if let Some((millionths, currency)) = &known.cost {
            let labels = vec![Label::new("currency", currency.clone())];
            let what = "What calls cost, in millionths of the currency's unit";
            register.labelled("recado_service_cost_millionths_total", what, labels).absolute(*millionths);
        }
    }
}

/// The kinds of tokens that services charge for differently.
const KINDS: [&str; 7] = ["input_text", "input_audio", "cached_text", "cached_audio", "output_text", "output_audio", "transcription"];
