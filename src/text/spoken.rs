//! What a text looks like that is read aloud.

/// `text` without what is written for the eye: Markdown's marks and the addresses behind its links, and pictures among the letters. Empty
/// where nothing is left that could be spoken.
pub fn spoken(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut line_begins = true;
    while let Some(c) = rest.chars().next() {
        if line_begins && let Some(after) = after_mark(rest) {
            (rest, line_begins) = (after, false);
            continue;
        }
        line_begins = c == '\n' || line_begins && c.is_whitespace();
        let after = &rest[c.len_utf8()..];
        if c == '['
            && let Some((words, behind)) = link(after)
        {
            out.push_str(words);
            rest = behind;
            continue;
        }
        if let Some((read, behind)) = between_digits(&out, rest) {
            out.push_str(read);
            rest = behind;
            continue;
        }
        // What joins words, as in a name, is no mark.
        let joins = c == '_' && out.ends_with(char::is_alphanumeric) && after.starts_with(char::is_alphanumeric);
        if !(is_picture(c) || is_mark(c) && !joins) {
            out.push(c);
        }
        rest = after;
    }
    if out.contains(char::is_alphanumeric) { out } else { String::new() }
}

/// How what stands between two numbers is read, and what follows it: what would be a mark among words parts them here, and is read as a range or
/// as it is.
fn between_digits<'a>(before: &str, text: &'a str) -> Option<(&'a str, &'a str)> {
    let mark = text.chars().next().filter(|c| matches!(c, '~' | '*'))?;
    let behind = text.trim_start_matches(mark);
    let parts = before.ends_with(|c: char| c.is_ascii_digit()) && behind.starts_with(|c: char| c.is_ascii_digit());
    let read = if mark == '~' { "-" } else { &text[..text.len() - behind.len()] };
    parts.then_some((read, behind))
}

/// What follows a mark that stands at the beginning of a line: of a heading, a quotation or a list.
fn after_mark(line: &str) -> Option<&str> {
    let bare = line.trim_start_matches(['#', '>']);
    let bare = if bare.len() < line.len() { Some(bare) } else { None };
    let item = || ["-", "*", "+", "•"].iter().find_map(|mark| line.strip_prefix(mark));
    bare.or_else(item).filter(|after| after.starts_with([' ', '\t'])).map(str::trim_start)
}

/// The words of a link whose bracket has opened, and what follows its address.
fn link(text: &str) -> Option<(&str, &str)> {
    let (words, address) = text.split_once("](")?;
    let (address, behind) = address.split_once(')')?;
    (!words.contains(['[', ']', '\n']) && !address.contains(char::is_whitespace)).then_some((words, behind))
}

fn is_mark(c: char) -> bool {
    matches!(c, '*' | '_' | '`' | '~')
}

/// Emoji, the pictures before them (dingbats, arrows), and what joins and colours them.
fn is_picture(c: char) -> bool {
    matches!(u32::from(c), 0x2190..=0x21FF | 0x2300..=0x23FF | 0x2600..=0x27BF | 0x2B00..=0x2BFF | 0x1F000..=0x1FAFF
        | 0x200D | 0x20E3 | 0xFE0E..=0xFE0F | 0xE0020..=0xE007F)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_pictures_are_left_out_and_words_are_not() {
        for (written, read) in [
            ("**Hecho**: su _mesa_ está `lista`.", "Hecho: su mesa está lista."),
            ("# Pedidos\n- Uno\n  * Dos\n> Tres", "Pedidos\nUno\n  Dos\nTres"),
            ("Mire [nuestra carta](https://x.example/a?b=c). Gracias 😀👍🏽", "Mire nuestra carta. Gracias "),
            ("El fichero mi_mesa_1 cuesta 3 - 2 euros, o -5 [sic].", "El fichero mi_mesa_1 cuesta 3 - 2 euros, o -5 [sic]."),
            ("Tarda 5~10 minutos, o ~20 como mucho.", "Tarda 5-10 minutos, o 20 como mucho."),
            ("Son 3*4 = 12, y 2**10 = 1024; **5** y *6*.", "Son 3*4 = 12, y 2**10 = 1024; 5 y 6."),
            ("```", ""),
            ("🙂 ", ""),
            ("a [b", "a [b"),
        ] {
            assert_eq!(spoken(written), read, "{written}");
        }
    }
}
