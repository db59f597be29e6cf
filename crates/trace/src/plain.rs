//! Text from outside, as a terminal may be given it.

/// `text` with nothing in it that a terminal obeys instead of showing it: control characters other than the line feed, and the
/// marks that turn the direction of writing, are written as JSON writes them (`\u001b`), so that JSON stays JSON.
///
/// A caller's name, a tool's words and a file of somebody else's may hold anything.
pub fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if obeyed(letter) {
            shown += &format!("\\u{:04x}", u32::from(letter));
        } else {
            shown.push(letter);
        }
    }
    shown
}

fn obeyed(letter: char) -> bool {
    let turns = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (letter.is_control() && letter != '\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown_instead() {
        assert_eq!(plain("Ana\u{1b}[2J\u{9b}31m\r\u{7f}\u{202e}\n¿Sí? 王 🙂"), "Ana\\u001b[2J\\u009b31m\\u000d\\u007f\\u202e\n¿Sí? 王 🙂");
        let json = serde_json::to_string(&"\u{1b}\u{9b}\u{7f}\u{202e}").unwrap();
        assert_eq!(serde_json::from_str::<String>(&plain(&json)).unwrap(), "\u{1b}\u{9b}\u{7f}\u{202e}");
    }
}
