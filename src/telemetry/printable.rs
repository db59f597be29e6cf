//! Text for a terminal: what callers and tools chose must not command it.

/// The text with its control characters written as JSON writes them (`\\u001b`), line ends apart; so are the marks that change the
/// direction of what follows.
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for ch in text.chars() {
        let commands = ch != '\n' && (ch.is_control() || matches!(ch, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'));
        if commands {
            printable += &format!("\\u{:04x}", u32::from(ch));
        } else {
            printable.push(ch);
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn a_caller_who_calls_himself_an_escape_sequence_moves_no_cursor() {
        assert_eq!(printable("ana\u{1b}[2J\r\u{9b}1m\u{202e}\n¡sí!\n"), "ana\\u001b[2J\\u000d\\u009b1m\\u202e\n¡sí!\n");
        let json = serde_json::to_string("a\u{1b}\u{9b}\u{7f}").unwrap();
        assert_eq!(serde_json::from_str::<String>(&printable(&json)).unwrap(), "a\u{1b}\u{9b}\u{7f}", "JSON stays JSON");
    }
}
