//! The measures of the tools: what waits, what runs, and which endpoints are left alone.

use metrics::{Gauge, Label};

use super::measures::Register;

/// What the tools have to do at a moment. What is counted only grows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolMeasures {
    /// Each tool, with its attempts that wait for room, and those that are under way.
    pub attempts: Vec<(String, usize, usize)>,
    /// Cancels that are under way.
    pub cancels: usize,
    /// Inquiries that are under way.
    pub inquiries: usize,
    /// Each endpoint, whether it is left alone, and how many attempts and inquiries were handed back because it was.
    pub endpoints: Vec<(String, bool, u64)>,
}

pub(super) struct Instruments {
    waiting: Gauge,
    running: Gauge,
    cancels: Gauge,
    inquiries: Gauge,
}

impl Instruments {
    pub fn new(register: &Register<'_>) -> Self {
        let all =
            |state| register.gauge("recado_attempts", "Attempts of all tools that wait for room, or are under way", &[("state", state)]);
        Self {
            waiting: all(WAITING),
            running: all(RUNNING),
            cancels: register.gauge("recado_tool_cancels", "Cancels that tools are being asked for", &[]),
            inquiries: register.gauge("recado_tool_inquiries", "Inquiries that tools are being asked", &[]),
        }
    }

    /// Shows it; a tool or an endpoint that has not been shown before gets its measures with `register`.
    pub fn show(&self, now: &ToolMeasures, register: &Register<'_>) {
        let (mut all_waiting, mut all_running) = (0, 0);
        for (tool, waiting, running) in &now.attempts {
            for (state, count) in [(WAITING, *waiting), (RUNNING, *running)] {
                let labels = vec![Label::new("tool", tool.clone()), Label::from_static_parts("state", state)];
                let what = "Attempts of a tool that wait for room, or are under way";
                register.labelled_gauge("recado_tool_attempts", what, labels).set(count as f64);
            }
            all_waiting += waiting;
            all_running += running;
        }
        self.waiting.set(all_waiting as f64);
        self.running.set(all_running as f64);
        self.cancels.set(now.cancels as f64);
        self.inquiries.set(now.inquiries as f64);
        for (endpoint, left_alone, turned_away) in &now.endpoints {
            let labels = || vec![Label::new("endpoint", endpoint.clone())];
            let what = "Whether an endpoint of tools is down, and left alone but for a probe now and then";
            register.labelled_gauge("recado_endpoint_left_alone", what, labels()).set(f64::from(u8::from(*left_alone)));
            let what = "Attempts and inquiries that were handed back because their endpoint was left alone";
            register.labelled("recado_endpoint_turned_away_total", what, labels()).absolute(*turned_away);
        }
    }
}

const WAITING: &str = "waiting";
const RUNNING: &str = "running";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Measures;

    #[test]
    fn what_waits_and_runs_is_shown_for_each_tool_and_in_all() {
        let measures = Measures::new().unwrap();
        assert!(measures.render().contains("recado_attempts{state=\"waiting\"} 0"));
        let mut now = ToolMeasures {
            attempts: vec![("order".to_owned(), 3, 4), ("look_up".to_owned(), 0, 1)],
            cancels: 1,
            inquiries: 2,
            endpoints: vec![("https://crm.example".to_owned(), true, 7)],
        };
        measures.tools(&now);
        let text = measures.render();
        for line in [
            "recado_attempts{state=\"waiting\"} 3",
            "recado_attempts{state=\"running\"} 5",
            "recado_tool_attempts{tool=\"order\",state=\"waiting\"} 3",
            "recado_tool_attempts{tool=\"look_up\",state=\"running\"} 1",
            "recado_tool_cancels 1",
            "recado_tool_inquiries 2",
            "recado_endpoint_left_alone{endpoint=\"https://crm.example\"} 1",
            "recado_endpoint_turned_away_total{endpoint=\"https://crm.example\"} 7",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        now.attempts[0] = ("order".to_owned(), 0, 0);
        now.endpoints[0].1 = false;
        measures.tools(&now);
        let text = measures.render();
        assert!(
            text.contains("recado_attempts{state=\"waiting\"} 0\n") && text.contains("{endpoint=\"https://crm.example\"} 0\n"),
            "{text}"
        );
    }
}
