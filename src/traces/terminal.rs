//! What the terminal can show.

use std::io::IsTerminal;

use recado_trace::draw::Look;

/// How to draw on stdout. `ascii` asks for nothing beyond ASCII, which is also what a locale without UTF-8 gets.
pub fn terminal(ascii: bool) -> Look {
    let is_terminal = std::io::stdout().is_terminal();
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_lowercase();
    let utf8 = locale.contains("utf-8") || locale.contains("utf8");
    let columns = set("COLUMNS").and_then(|columns| columns.parse().ok()).or_else(|| is_terminal.then(columns).flatten());
    Look {
        columns: columns.unwrap_or(COLUMNS).min(COLUMNS_MAX),
        colour: is_terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb"),
        ascii: ascii || !utf8,
    }
}

#[allow(unsafe_code)]
fn columns() -> Option<usize> {
    // SAFETY: `winsize` is plain data for which zeroes are valid; the call writes nothing else.
    let (result, size) = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        (libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size), size)
    };
    (result == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Where nothing says how wide it is.
const COLUMNS: usize = 80;

/// Wider rows can't be followed by eye.
const COLUMNS_MAX: usize = 200;
