//! `recado messages`: what callers have left, listed, found and deleted beside a running box.

use std::fmt::Write as _;

use recado_trace::plain;

use super::UNDER_SYSTEMD;
use super::message_keeper::shelf;
use crate::config::Config;
use crate::messages::{Kept, MessageId, ShelfError};
use crate::telemetry::utc;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessagesAsked {
    /// Which there are.
    List,
    /// Where this one's file is.
    Path(MessageId),
    /// That this one is deleted.
    Delete(MessageId),
}

/// Why messages can't be shown or deleted: it says what to do.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct MessagesError(#[from] ShelfError);

/// Does what is asked, and says what came of it.
///
/// # Errors
/// Where the messages can't be read, or there is no such one.
pub fn messages(config: &Config, asked: MessagesAsked) -> Result<String, MessagesError> {
    let shelf = shelf(config);
    Ok(match asked {
        MessagesAsked::Path(id) => format!("{}\n", shelf.find(id)?.display()),
        MessagesAsked::Delete(id) => {
            shelf.delete(id)?;
            format!("{id} is deleted.\n")
        }
        MessagesAsked::List => {
            let all = shelf.all()?;
            let directory = config.this_box.messages();
            let shown = std::path::absolute(&directory).unwrap_or(directory);
            let mut text = format!("In {}:\n", shown.display());
            if all.is_empty() {
                let _ = writeln!(text, "No messages. A box that runs under systemd keeps them elsewhere: {UNDER_SYSTEMD}.");
            }
            all.iter().for_each(|kept| line(&mut text, kept));
            plain(&text)
        }
    })
}

fn line(text: &mut String, kept: &Kept) {
    let _ = match &kept.label {
        Ok((label, ms)) => {
            let party = label.party.as_ref().map_or("an anonymous caller", |party| party.0.as_str());
            let by_wrong_clock = || written_ms(kept).map(|at| format!("{} by a clock that was not synchronised", utc(at)));
            let at = label.unix_ms.map(utc).or_else(by_wrong_clock).unwrap_or_else(|| "at a time that is not known".to_owned());
            writeln!(text, "{} {at}, {} s, from {party}, {}", kept.id, ms.div_ceil(1_000), label.session)
        }
        Err(error) => writeln!(text, "{} can't be read: {error}", kept.id),
    };
}

/// When its file was written, by the clock as it was then.
fn written_ms(kept: &Kept) -> Option<i64> {
    let written = kept.path.metadata().and_then(|found| found.modified()).ok()?;
    i64::try_from(written.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use recado_core::SessionId;

    use super::*;
    use crate::messages::Label;

    #[test]
    fn a_message_is_shown_with_the_time_of_its_file_where_the_clock_was_not_synchronised() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.this_box.data_dir = Some(directory.path().to_owned());
        let label = |unix_ms| Label { session: SessionId(1), party: None, unix_ms };
        let kept = shelf(&config);
        kept.keep(MessageId(1), &label(Some(0)), &[7; 8_000]).unwrap();
        kept.keep(MessageId(2), &label(None), &[7; 8_000]).unwrap();
        let file = std::fs::File::options().append(true).open(kept.find(MessageId(2)).unwrap()).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(86_400)).unwrap();
        let said = messages(&config, MessagesAsked::List).unwrap();
        let [_, first, second] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
        assert!(first.contains(&format!(" {}, 1 s, ", utc(0))), "{first}");
        assert!(second.contains(&format!(" {} by a clock that was not synchronised, 1 s, ", utc(86_400_000))), "{second}");
    }
}
