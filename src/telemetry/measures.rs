//! The contract's measures, and a few gauges, in the text format that Prometheus reads.
//!
//! Names are the contract's after `recado_`. What is a time is a histogram in milliseconds. What is a rate is three series:
//!
//! * `recado_duplicate_delivery_rate`: a gauge, the rate since the box was started;
//! * `recado_duplicate_delivery_rate_numerator_total` and `…_denominator_total`: counters, for the rate over any window:
//!   `increase(…_numerator_total[1d]) / increase(…_denominator_total[1d])`.
//!
//! | rate | numerator: one for each | denominator: one for each |
//! | --- | --- | --- |
//! | `duplicate_side_effect_rate` | effect known to have happened twice | operation that was settled, in whatever boot it was accepted |
//! | `duplicate_delivery_rate` | telling, begun after doubt, of a closing | closing that was heard |
//! | `stale_delivery_rate` | telling, begun after it was stale, of a closing | closing that was heard |
//! | `next_turn_resync_rate` | closing that was heard and had ridden on a response | closing that was heard |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use recado_core::conversation::{Doubt, Measure, MeasureName};
use recado_core::ledger::{DeliveryState, LedgerMeasure};

use super::{ServiceMeasures, TelemetryError, ToolMeasures, service, tools};

/// Something that was measured.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// By a conversation.
    Conversation(Measure),
    /// By a conversation: evidence for a segment is doubted.
    Doubted(Doubt),
    /// By the ledger.
    Ledger(LedgerMeasure),
    /// By the store: how long a commit took, from its request to being durable.
    StoreCommit(Duration),
    /// A trace was begun.
    TraceBegun,
    /// An input is missing in its trace: the disk is too slow for it, or fails.
    TraceInputMissed,
    /// A trace has become as long as it may be.
    TraceTruncated,
}

impl From<Measure> for Observation {
    fn from(measure: Measure) -> Self {
        Self::Conversation(measure)
    }
}

impl From<Doubt> for Observation {
    fn from(doubt: Doubt) -> Self {
        Self::Doubted(doubt)
    }
}

impl From<LedgerMeasure> for Observation {
    fn from(measure: LedgerMeasure) -> Self {
        Self::Ledger(measure)
    }
}

/// The box's measures. Clones share them; recording takes no lock that rendering holds.
#[derive(Clone)]
pub struct Measures(Arc<Instruments>);

struct Instruments {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    speech_stop_to_acceptance_audio: Histogram,
    barge_in_to_playback_stop: Histogram,
    operation_accept_to_start: Histogram,
    operation_duration: Histogram,
    operation_complete_to_delivery_ready: Histogram,
    delivery_ready_to_first_audio: Histogram,
    generated_to_played_gap: Histogram,
    cancelled_response_unheard: Histogram,
    turn: [(MeasureName, Histogram); 5],
    duplicate_side_effect: Rate,
    duplicate_delivery: Rate,
    stale_delivery: Rate,
    next_turn_resync: Rate,
    repeated_results: Counter,
    evidence_doubted: Counter,
    uncertain_deliveries: Counter,
    suppressed_deliveries: Counter,
    handed_off_deliveries: Counter,
    store_commit: Histogram,
    traces: Counter,
    trace_inputs_missed: Counter,
    traces_truncated: Counter,
    calls_active: Gauge,
    service: service::Instruments,
    tools: tools::Instruments,
    deliveries: BTreeMap<DeliveryState, Gauge>,
}

impl std::fmt::Debug for Measures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Measures(..)")
    }
}

impl Measures {
    /// All measures, each at zero: what has not happened yet is shown too.
    ///
    /// # Errors
    /// When a measure can't be described.
    pub fn new() -> Result<Self, TelemetryError> {
        let mut builder = PrometheusBuilder::new();
        for (name, buckets) in BUCKETS.into_iter().chain(TURN.map(|(_, name, buckets, _)| (name, buckets))) {
            builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)?;
        }
        let recorder = builder.build_recorder();
        let register = Register { recorder: &recorder };
        let build = [("version", env!("CARGO_PKG_VERSION")), ("arch", std::env::consts::ARCH)];
        register.gauge("recado_build_info", "Which build this is; always one", &build).set(1.0);
        Ok(Self(Arc::new(Instruments {
            handle: recorder.handle(),
            speech_stop_to_acceptance_audio: register.time(ACCEPTANCE, "End of the caller's speech to the first acceptance audio"),
            barge_in_to_playback_stop: register.time(BARGE_IN, "Caller's speech suspected to our voice stopped"),
            operation_accept_to_start: register.time(ACCEPT_TO_START, "Operation accepted to its first attempt"),
            operation_duration: register.time(OPERATION, "Operation accepted to its end"),
            operation_complete_to_delivery_ready: register.time(COMPLETE_TO_READY, "Operation complete to its delivery ready"),
            delivery_ready_to_first_audio: register.time(READY_TO_AUDIO, "Delivery ready to its first audio: the wait for room"),
            generated_to_played_gap: register.time(PLAYED_GAP, "Audio generated to audio played"),
            cancelled_response_unheard: register.time(UNHEARD, "Generated audio of a cancelled response that was kept out of the history"),
            turn: TURN.map(|(measured, name, _, what)| (measured, register.time(name, what))),
            duplicate_side_effect: register
                .rate("recado_duplicate_side_effect_rate", "Effects that happened twice, per operation that finished"),
            duplicate_delivery: register.rate("recado_duplicate_delivery_rate", "Closings told again after doubt, per closing heard"),
            stale_delivery: register.rate("recado_stale_delivery_rate", "Closings told after they were stale, per closing heard"),
            next_turn_resync: register.rate("recado_next_turn_resync_rate", "Closings that rode on a response, per closing heard"),
            repeated_results: register
                .counter("recado_repeated_results_total", "Results that came again, or another for the same operation"),
            evidence_doubted: register
                .counter("recado_evidence_doubted_total", "Segments for which the evidence of having been heard is doubted"),
            uncertain_deliveries: register
                .counter("recado_uncertain_deliveries_total", "Deliveries of which it became unknown whether they were heard"),
            suppressed_deliveries: register
                .counter("recado_suppressed_deliveries_total", "Deliveries that were kept and not told, being stale"),
            handed_off_deliveries: register
                .counter("recado_handed_off_deliveries_total", "Deliveries that another way than a call acknowledged"),
            store_commit: register.time(STORE_COMMIT, "A commit requested to a commit durable"),
            traces: register.counter("recado_traces_total", "Traces that were begun"),
            trace_inputs_missed: register.counter("recado_trace_inputs_missed_total", "Inputs that are missing in their traces"),
            traces_truncated: register.counter("recado_traces_truncated_total", "Traces that became as long as they may be"),
            calls_active: register.gauge("recado_calls_active", "Calls that are up", &[]),
            service: service::Instruments::new(&register),
            tools: tools::Instruments::new(&register),
            deliveries: DELIVERY_STATES
                .into_iter()
                .map(|(state, label)| {
                    (state, register.gauge("recado_deliveries", "Deliveries in the store, by state", &[("state", label)]))
                })
                .collect(),
            recorder,
        })))
    }

    /// Records what was measured.
    pub fn record(&self, observation: impl Into<Observation>) {
        match observation.into() {
            Observation::Conversation(measure) => self.record_conversation(measure),
            Observation::Doubted(_) => self.0.evidence_doubted.increment(1),
            Observation::Ledger(measure) => self.record_ledger(&measure),
            Observation::StoreCommit(took) => self.0.store_commit.record(took.as_secs_f64() * 1_000.0),
            Observation::TraceBegun => self.0.traces.increment(1),
            Observation::TraceInputMissed => self.0.trace_inputs_missed.increment(1),
            Observation::TraceTruncated => self.0.traces_truncated.increment(1),
        }
    }

    /// Says how many calls are up.
    pub fn calls_active(&self, calls: u32) {
        self.0.calls_active.set(calls);
    }

    /// Says what is known of the service that leads calls.
    pub fn service(&self, known: &ServiceMeasures) {
        self.0.service.show(known, &Register { recorder: &self.0.recorder });
    }

    /// Says what the tools have to do.
    pub fn tools(&self, now: &ToolMeasures) {
        self.0.tools.show(now, &Register { recorder: &self.0.recorder });
    }

    /// Says how many deliveries the store holds in each state; none in those that are left out.
    pub fn deliveries(&self, counts: &BTreeMap<DeliveryState, u64>) {
        for (state, gauge) in &self.0.deliveries {
            gauge.set(counts.get(state).copied().unwrap_or_default() as f64);
        }
    }

    /// Everything, as text in the Prometheus exposition format 0.0.4.
    pub fn render(&self) -> String {
        self.0.handle.render()
    }

    /// Folds what was recorded into the histograms, which rendering does too: memory stays bounded where nobody asks.
    /// Runs until it is dropped.
    pub async fn keep_up(&self) {
        let mut ticks = tokio::time::interval(UPKEEP_EVERY);
        loop {
            ticks.tick().await;
            self.0.handle.run_upkeep();
        }
    }

    fn record_conversation(&self, measure: Measure) {
        let (instruments, value) = (&*self.0, measure.value as f64);
        match measure.name {
            MeasureName::SpeechStopToAcceptanceAudioMs => instruments.speech_stop_to_acceptance_audio.record(value),
            MeasureName::BargeInToPlaybackStopMs => instruments.barge_in_to_playback_stop.record(value),
            MeasureName::DeliveryReadyToFirstAudioMs => instruments.delivery_ready_to_first_audio.record(value),
            MeasureName::GeneratedToPlayedGapMs => instruments.generated_to_played_gap.record(value),
            MeasureName::CancelledResponseUnheardMs => instruments.cancelled_response_unheard.record(value),
            stage => instruments.turn.iter().filter(|(name, _)| *name == stage).for_each(|(_, histogram)| histogram.record(value)),
        }
    }

    fn record_ledger(&self, measure: &LedgerMeasure) {
        let instruments = &*self.0;
        match *measure {
            LedgerMeasure::AcceptToStartMs(ms) => instruments.operation_accept_to_start.record(ms as f64),
            LedgerMeasure::OperationDurationMs(ms) => instruments.operation_duration.record(ms as f64),
            LedgerMeasure::OperationSettled => instruments.duplicate_side_effect.could_have(),
            LedgerMeasure::CompleteToDeliveryReadyMs(ms) => instruments.operation_complete_to_delivery_ready.record(ms as f64),
            LedgerMeasure::RepeatedResult => instruments.repeated_results.increment(1),
            LedgerMeasure::DuplicateSideEffect => instruments.duplicate_side_effect.happened(1),
            LedgerMeasure::DuplicateDelivery => instruments.duplicate_delivery.happened(1),
            LedgerMeasure::StaleDelivery => instruments.stale_delivery.happened(1),
            LedgerMeasure::NextTurnResync => instruments.next_turn_resync.happened(1),
            LedgerMeasure::Spoken => {
                instruments.duplicate_delivery.could_have();
                instruments.stale_delivery.could_have();
                instruments.next_turn_resync.could_have();
            }
            LedgerMeasure::Uncertain => instruments.uncertain_deliveries.increment(1),
            LedgerMeasure::Suppressed => instruments.suppressed_deliveries.increment(1),
            LedgerMeasure::HandedOff => instruments.handed_off_deliveries.increment(1),
        }
    }
}

/// How often something happened of the times that it could have.
struct Rate {
    gauge: Gauge,
    numerator: (Counter, AtomicU64),
    denominator: (Counter, AtomicU64),
}

impl Rate {
    fn happened(&self, times: u64) {
        self.count(&self.numerator, times);
    }

    fn could_have(&self) {
        self.count(&self.denominator, 1);
    }

    fn count(&self, (counter, count): &(Counter, AtomicU64), times: u64) {
        counter.increment(times);
        count.fetch_add(times, Ordering::Relaxed);
        let of = self.denominator.1.load(Ordering::Relaxed);
        // Before anything could have happened there is no rate: a numerator without one counts whole, so that it is seen.
        self.gauge.set(self.numerator.1.load(Ordering::Relaxed) as f64 / of.max(1) as f64);
    }
}

/// Registers and describes.
pub(super) struct Register<'a> {
    recorder: &'a PrometheusRecorder,
}

impl Register<'_> {
    fn time(&self, name: &'static str, what: &'static str) -> Histogram {
        self.recorder.describe_histogram(KeyName::from(name), Some(Unit::Milliseconds), what.into());
        self.recorder.register_histogram(&Key::from_static_name(name), &METADATA)
    }

    pub(super) fn counter(&self, name: &'static str, what: &'static str) -> Counter {
        self.recorder.describe_counter(KeyName::from(name), None, what.into());
        self.recorder.register_counter(&Key::from_static_name(name), &METADATA)
    }

    pub(super) fn labelled(&self, name: &'static str, what: &'static str, labels: Vec<Label>) -> Counter {
        self.recorder.describe_counter(KeyName::from(name), None, what.into());
        self.recorder.register_counter(&Key::from_parts(name, labels), &METADATA)
    }

    pub(super) fn gauge(&self, name: &'static str, what: &'static str, labels: &[(&'static str, &'static str)]) -> Gauge {
        self.recorder.describe_gauge(KeyName::from(name), None, what.into());
        let labels: Vec<_> = labels.iter().map(|(key, value)| Label::from_static_parts(key, value)).collect();
        self.recorder.register_gauge(&Key::from_parts(name, labels), &METADATA)
    }

    pub(super) fn labelled_gauge(&self, name: &'static str, what: &'static str, labels: Vec<Label>) -> Gauge {
        self.recorder.describe_gauge(KeyName::from(name), None, what.into());
        self.recorder.register_gauge(&Key::from_parts(name, labels), &METADATA)
    }

    fn rate(&self, name: &'static str, what: &'static str) -> Rate {
        let counter = |part: &str| {
            let name = format!("{name}_{part}_total");
            self.recorder.describe_counter(KeyName::from(name.clone()), None, format!("The {part} of {what}").into());
            (self.recorder.register_counter(&Key::from_name(name), &METADATA), AtomicU64::new(0))
        };
        Rate { gauge: self.gauge(name, what, &[]), numerator: counter("numerator"), denominator: counter("denominator") }
    }
}

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

const ACCEPTANCE: &str = "recado_speech_stop_to_acceptance_audio_ms";
const BARGE_IN: &str = "recado_barge_in_to_playback_stop_ms";
const ACCEPT_TO_START: &str = "recado_operation_accept_to_start_ms";
const OPERATION: &str = "recado_operation_duration_ms";
const COMPLETE_TO_READY: &str = "recado_operation_complete_to_delivery_ready_ms";
const READY_TO_AUDIO: &str = "recado_delivery_ready_to_first_audio_ms";
const PLAYED_GAP: &str = "recado_generated_to_played_gap_ms";
const UNHEARD: &str = "recado_cancelled_response_unheard_ms";
const STORE_COMMIT: &str = "recado_store_commit_ms";

const BUCKETS: [(&str, &[f64]); 9] = [
    (ACCEPTANCE, HEARD_MS),
    (BARGE_IN, REFLEX_MS),
    (ACCEPT_TO_START, INTERNAL_MS),
    (OPERATION, LONG_MS),
    (COMPLETE_TO_READY, INTERNAL_MS),
    (READY_TO_AUDIO, LONG_MS),
    (PLAYED_GAP, LONG_MS),
    (UNHEARD, LONG_MS),
    (STORE_COMMIT, INTERNAL_MS),
];

/// The latency budget of a turn: each stage between the end of the caller's speech and the first frame of the answer, and all of them.
const TURN: [(MeasureName, &str, &[f64], &str); 5] = [
    (
        MeasureName::SpeechStopToTurnEndMs,
        "recado_speech_stop_to_turn_end_ms",
        HEARD_MS,
        "End of the caller's speech to the response asked for",
    ),
    (MeasureName::TurnEndToFirstPieceMs, "recado_turn_end_to_first_piece_ms", HEARD_MS, "Response asked for to the first thing to say"),
    (MeasureName::FirstPieceToReadyMs, "recado_first_piece_to_ready_ms", HEARD_MS, "The first thing to say to its audio there"),
    (MeasureName::ReadyToFirstAudioMs, "recado_ready_to_first_audio_ms", INTERNAL_MS, "Audio there to its first frame released"),
    (
        MeasureName::SpeechStopToFirstAudioMs,
        "recado_speech_stop_to_first_audio_ms",
        HEARD_MS,
        "End of the caller's speech to the first frame of the answer",
    ),
];

/// What people notice: a turn of conversation takes 200 ms, a pause is noticed at 700 ms.
const HEARD_MS: &[f64] = &[100.0, 200.0, 300.0, 400.0, 500.0, 650.0, 800.0, 1_000.0, 1_500.0, 2_000.0, 3_000.0, 5_000.0, 10_000.0];
/// Frames of 20 ms.
const REFLEX_MS: &[f64] = &[20.0, 40.0, 60.0, 80.0, 100.0, 140.0, 200.0, 300.0, 500.0, 1_000.0, 2_000.0];
/// Work within the box, from a flash disk that is quick to one that stalls.
const INTERNAL_MS: &[f64] = &[0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 5_000.0];
/// From an answer at once to one on another day.
const LONG_MS: &[f64] =
    &[50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0, 30_000.0, 60_000.0, 300_000.0, 900_000.0, 3_600_000.0, 86_400_000.0];

/// The states and the words that the store has for them.
const DELIVERY_STATES: [(DeliveryState, &str); 9] = [
    (DeliveryState::Ready, "ready"),
    (DeliveryState::Claimed, "claimed"),
    (DeliveryState::Speaking, "speaking"),
    (DeliveryState::Spoken, "spoken"),
    (DeliveryState::Uncertain, "uncertain"),
    (DeliveryState::Superseded, "superseded"),
    (DeliveryState::Suppressed, "suppressed"),
    (DeliveryState::Withdrawn, "withdrawn"),
    (DeliveryState::HandedOff, "handed_off"),
];

/// The exporter's own advice.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    const CONTRACT: [&str; 12] = [
        "speech_stop_to_acceptance_audio_ms",
        "barge_in_to_playback_stop_ms",
        "operation_accept_to_start_ms",
        "operation_duration_ms",
        "operation_complete_to_delivery_ready_ms",
        "delivery_ready_to_first_audio_ms",
        "generated_to_played_gap_ms",
        "duplicate_side_effect_rate",
        "duplicate_delivery_rate",
        "stale_delivery_rate",
        "next_turn_resync_rate",
        "cancelled_response_unheard_ms",
    ];

    fn conversation(name: MeasureName, value: u64) -> Measure {
        Measure { name, value }
    }

    /// The value of the series that `line` names.
    fn value(text: &str, series: &str) -> f64 {
        let found = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
    }

    #[test]
    fn every_measure_of_the_contract_is_described_and_shown_before_anything_happened() {
        let text = Measures::new().unwrap().render();
        for name in CONTRACT {
            assert!(text.contains(&format!("# HELP recado_{name} ")), "{name} is not described in\n{text}");
            let series = if name.ends_with("_ms") { format!("recado_{name}_count") } else { format!("recado_{name}") };
            assert_eq!(value(&text, &series), 0.0, "{name}");
        }
    }

    #[test]
    fn each_time_is_recorded_under_its_own_name() {
        let measures = Measures::new().unwrap();
        let times = [
            (MeasureName::SpeechStopToAcceptanceAudioMs, 1),
            (MeasureName::BargeInToPlaybackStopMs, 2),
            (MeasureName::DeliveryReadyToFirstAudioMs, 3),
            (MeasureName::GeneratedToPlayedGapMs, 4),
            (MeasureName::CancelledResponseUnheardMs, 5),
            (MeasureName::SpeechStopToTurnEndMs, 10),
            (MeasureName::TurnEndToFirstPieceMs, 11),
            (MeasureName::FirstPieceToReadyMs, 12),
            (MeasureName::ReadyToFirstAudioMs, 13),
            (MeasureName::SpeechStopToFirstAudioMs, 14),
        ];
        for (name, ms) in times {
            measures.record(conversation(name, ms));
        }
        measures.record(LedgerMeasure::AcceptToStartMs(6));
        measures.record(LedgerMeasure::OperationDurationMs(7));
        measures.record(LedgerMeasure::CompleteToDeliveryReadyMs(8));
        measures.record(Observation::StoreCommit(Duration::from_micros(9_500)));
        let text = measures.render();
        for (name, ms) in times {
            assert_eq!(value(&text, &format!("recado_{}_sum", name.as_str())), ms as f64);
        }
        assert_eq!(value(&text, "recado_operation_accept_to_start_ms_sum"), 6.0);
        assert_eq!(value(&text, "recado_operation_duration_ms_sum"), 7.0);
        assert_eq!(value(&text, "recado_operation_complete_to_delivery_ready_ms_sum"), 8.0);
        assert_eq!(value(&text, "recado_store_commit_ms_sum"), 9.5);
        assert_eq!(value(&text, "recado_store_commit_ms_bucket{le=\"5\"}"), 0.0);
        assert_eq!(value(&text, "recado_store_commit_ms_bucket{le=\"10\"}"), 1.0);
    }

    #[test]
    fn a_rate_is_its_numerator_over_its_denominator() {
        let measures = Measures::new().unwrap();
        for _ in 0..4 {
            measures.record(LedgerMeasure::Spoken);
            measures.record(LedgerMeasure::OperationSettled);
        }
        measures.record(LedgerMeasure::DuplicateDelivery);
        measures.record(LedgerMeasure::DuplicateSideEffect);
        measures.record(LedgerMeasure::DuplicateSideEffect);
        for _ in 0..3 {
            measures.record(LedgerMeasure::NextTurnResync);
        }
        let text = measures.render();
        assert_eq!(value(&text, "recado_duplicate_delivery_rate"), 0.25);
        assert_eq!(value(&text, "recado_duplicate_side_effect_rate"), 0.5);
        assert_eq!(value(&text, "recado_next_turn_resync_rate"), 0.75);
        assert_eq!(value(&text, "recado_stale_delivery_rate"), 0.0);
        assert_eq!(value(&text, "recado_duplicate_side_effect_rate_numerator_total"), 2.0);
        assert_eq!(value(&text, "recado_stale_delivery_rate_denominator_total"), 4.0);
    }

    #[test]
    fn a_stale_closing_is_seen_even_where_none_was_heard() {
        let measures = Measures::new().unwrap();
        measures.record(LedgerMeasure::StaleDelivery);
        assert_eq!(value(&measures.render(), "recado_stale_delivery_rate"), 1.0);
    }

    #[test]
    fn gauges_and_counters_show_what_they_were_told() {
        let measures = Measures::new().unwrap();
        measures.calls_active(3);
        measures.deliveries(&BTreeMap::from([(DeliveryState::HandedOff, 2)]));
        measures.record(LedgerMeasure::RepeatedResult);
        measures.record(LedgerMeasure::Uncertain);
        measures.record(LedgerMeasure::Suppressed);
        let text = measures.render();
        assert_eq!(value(&text, "recado_calls_active"), 3.0);
        assert_eq!(value(&text, "recado_deliveries{state=\"handed_off\"}"), 2.0);
        assert_eq!(value(&text, "recado_deliveries{state=\"ready\"}"), 0.0);
        assert_eq!(value(&text, "recado_repeated_results_total"), 1.0);
        assert_eq!(value(&text, "recado_uncertain_deliveries_total"), 1.0);
        assert_eq!(value(&text, "recado_suppressed_deliveries_total"), 1.0);
        measures.record(LedgerMeasure::HandedOff);
        assert_eq!(value(&measures.render(), "recado_handed_off_deliveries_total"), 1.0);
        assert!(text.contains(&format!("version=\"{}\"", env!("CARGO_PKG_VERSION"))), "{text}");
    }

    #[test]
    fn states_are_named_as_the_core_names_them() {
        for (state, label) in DELIVERY_STATES {
            assert_eq!(serde_json::to_value(state).unwrap(), label);
        }
    }
}
