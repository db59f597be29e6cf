//! Logs on stderr: for people, or one JSON object a line.

use std::io::IsTerminal;

use tracing::Subscriber;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;

use super::TelemetryError;
use crate::config::{Log, LogFormat};

/// Sends the logs of this process to stderr, as `[log]` says. Once, before anything else.
///
/// # Errors
/// When the level can't be read, or logs have been set up before.
pub fn init(log: &Log) -> Result<(), TelemetryError> {
    let subscriber = subscriber(log, std::io::stderr().is_terminal(), std::io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| TelemetryError::LogsTwice)
}

/// A subscriber that writes to `writer`; `colour` is for terminals.
fn subscriber<W>(log: &Log, colour: bool, writer: W) -> Result<Box<dyn Subscriber + Send + Sync>, TelemetryError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let mut level: Targets = log.level.parse().map_err(|error| TelemetryError::Level { level: log.level.clone(), error })?;
    for silent in SILENT {
        if level.iter().all(|(target, _)| target != silent) {
            level = level.with_target(silent, LevelFilter::OFF);
        }
    }
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    Ok(match log.format {
        LogFormat::Human => Box::new(tracing_subscriber::registry().with(lines.with_ansi(colour)).with(level)),
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_current_span(true).with_span_list(false);
            Box::new(tracing_subscriber::registry().with(lines).with(level))
        }
    })
}

/// Parts of the house that write nothing unless `[log]` names them: what servers of tools send would be written whole, however often, whatever is in
/// it. What somebody should know of them the box says itself.
const SILENT: [&str; 1] = ["rmcp"];

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::telemetry::fields::{DELIVERY_ID, SESSION_ID};

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What is written when one line of each level is logged.
    fn written(format: LogFormat, level: &str) -> String {
        let page = Page::default();
        let target = page.clone();
        let log = Log { format, level: level.into() };
        let subscriber = subscriber(&log, false, move || target.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            let call = tracing::info_span!("call", { SESSION_ID } = "s-1");
            let _in_call = call.enter();
            tracing::debug!(target: "recado::surface::sip", "parsed");
            tracing::info!({ DELIVERY_ID } = "d-1", heard_ms = 1200, "told");
            tracing::error!(target: "rmcp::service", notification = "Ana Ruiz", "received notification");
        });
        String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_json_line_is_one_object_with_the_contracts_ids() {
        let lines = written(LogFormat::Json, "info");
        let line: serde_json::Value = serde_json::from_str(lines.trim()).unwrap();
        assert_eq!(line["delivery_id"], "d-1");
        assert_eq!(line["heard_ms"], 1200);
        assert_eq!(line["message"], "told");
        assert_eq!(line["span"]["session_id"], "s-1");
    }

    #[test]
    fn a_line_for_people_has_the_ids_and_no_colours() {
        let lines = written(LogFormat::Human, "info");
        assert!(lines.contains("told delivery_id=\"d-1\" heard_ms=1200") && lines.contains("session_id=\"s-1\""), "{lines}");
        assert!(!lines.contains('\u{1b}'), "{lines}");
    }

    #[test]
    fn a_part_of_the_house_can_have_a_level_of_its_own() {
        assert!(!written(LogFormat::Human, "info").contains("parsed"));
        let both = written(LogFormat::Human, "warn,recado::surface::sip=debug");
        assert!(both.contains("parsed") && !both.contains("told"), "{both}");
    }

    #[test]
    fn what_servers_of_tools_send_is_written_only_where_somebody_has_named_it() {
        for level in ["info", "trace", "warn,rmcp::transport=debug"] {
            assert!(!written(LogFormat::Human, level).contains("Ana Ruiz"), "{level}");
        }
        for level in ["rmcp=info", "info,rmcp::service=warn"] {
            assert!(written(LogFormat::Human, level).contains("Ana Ruiz"), "{level}");
        }
    }

    #[test]
    fn a_level_that_is_none_is_an_error_that_names_it() {
        let log = Log { level: "recado=loud".into(), ..Log::default() };
        let error = subscriber(&log, false, std::io::sink).err().unwrap();
        assert!(error.to_string().starts_with("the log level \"recado=loud\" can't be read"), "{error}");
    }
}
