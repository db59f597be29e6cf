//! A credential as whoever was sent it may repeat it: as it is, escaped, or encoded.

use base64::Engine;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};

/// `text` with `***` in each place that repeats `secret`: as it is, escaped as in JSON, percent-encoded, as HTML writes it, any of these for some
/// of its characters alone, or in base64, alone or after something else.
/// No more than the beginning of a text that is longer than anybody reads is looked at, and given back.
pub(super) fn without(text: &str, secret: &str) -> String {
    let mut text = hide(&text.replace(secret, HIDDEN), secret, |_| false);
    for core in [STANDARD, URL_SAFE].iter().flat_map(|alphabet| cores(secret, alphabet)) {
        // What stands around it is part of the same: the user's name, `Bearer`, the last bits.
        text = hide(&text, &core, |c| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '-' | '_' | '='));
    }
    text
}

/// `text` with `***` for each place that repeats `secret`, and for what stands `beside` it.
fn hide(text: &str, secret: &str, beside: impl Fn(char) -> bool) -> String {
    let mut hidden = String::with_capacity(text.len());
    let mut rest = text;
    while text.len() - rest.len() < LOOKED_AT_BYTES_MAX
        && let Some(next) = rest.chars().next()
    {
        rest = match after(rest, secret) {
            Some(after) => {
                hidden.truncate(hidden.trim_end_matches(&beside).len());
                hidden.push_str(HIDDEN);
                after.trim_start_matches(&beside)
            }
            None => {
                hidden.push(next);
                rest.get(next.len_utf8()..).unwrap_or_default()
            }
        };
    }
    hidden
}

/// What follows `secret` in `text`, where that begins with it.
fn after<'t>(text: &'t str, secret: &str) -> Option<&'t str> {
    let mut bytes = secret.bytes().peekable();
    let mut rest = text;
    while let Some(byte) = bytes.next() {
        rest = after_one(rest, byte)?;
        // Of several backslashes, as many as there are: each may be escaped by another one.
        while byte == b'\\' && bytes.next_if_eq(&byte).is_some() {}
        while byte == b'\\'
            && let Some(after) = after_one(rest, byte)
        {
            rest = after;
        }
    }
    Some(rest)
}

/// What follows one printable ASCII character.
fn after_one(text: &str, byte: u8) -> Option<&str> {
    let escapes = text.bytes().take(ESCAPES_MAX).take_while(|byte| *byte == b'\\').count();
    let unescaped = text.get(escapes..)?;
    let is_escaped = escapes > 0;
    let coded = |digits: &str| u8::from_str_radix(digits, 16).ok() == Some(byte);
    let percent = text.strip_prefix('%');
    let codes = [
        unescaped.strip_prefix("u00").filter(|_| is_escaped),
        percent,
        // Encoded more than once.
        percent.map(|code| code.trim_start_matches("25")),
    ];
    for (digits, rest) in codes.into_iter().flatten().filter_map(|code| code.split_at_checked(2)) {
        if coded(digits) {
            return Some(rest);
        }
    }
    if let Some(code) = text.strip_prefix('&')
        && let Some(end) = code.bytes().take(ENTITY_BYTES_MAX).position(|byte| byte == b';')
        && let (Some(entity), Some(rest)) = (code.get(..end), code.get(end + 1..))
    {
        let number = entity.strip_prefix('#').map(|number| match number.strip_prefix(['x', 'X']) {
            Some(digits) => coded(digits.trim_start_matches('0')),
            None => number.parse() == Ok(byte),
        });
        if number == Some(true) || ENTITIES.contains(&(entity, byte)) {
            return Some(rest);
        }
    }
    match byte {
        b'\\' => {
            // One that begins the code of the next character is no part of this one.
            let is_code = |code: &str| code.get(..2).is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
            let end = escapes.checked_sub(usize::from(unescaped.strip_prefix("u00").is_some_and(is_code)))?;
            if end > 0 { text.get(end..) } else { None }
        }
        b' ' if text.starts_with('+') => text.strip_prefix('+'),
        _ => unescaped.strip_prefix(char::from(byte)),
    }
}

/// What base64 makes of `secret` alone, without the characters at its ends that something else beside it may change: for each of the places where
/// it may begin.
fn cores(secret: &str, alphabet: &Alphabet) -> impl Iterator<Item = String> {
    let base64 = GeneralPurpose::new(alphabet, NO_PAD);
    (0..3).filter_map(move |before| {
        let bytes: Vec<u8> = std::iter::repeat_n(0, before).chain(secret.bytes()).collect();
        let encoded = base64.encode(&bytes);
        let core = encoded.get((before * 8).div_ceil(6)..bytes.len() * 8 / 6)?;
        (core.len() >= CORE_CHARS_MIN).then(|| core.to_owned())
    })
}

const HIDDEN: &str = "***";
/// Whoever is told a text is told much less of it.
const LOOKED_AT_BYTES_MAX: usize = 64 * 1024;
/// Nobody escapes anything more often than five times.
const ESCAPES_MAX: usize = 32;
/// The longest number of a character, with zeros before it.
const ENTITY_BYTES_MAX: usize = 10;
/// What is shorter may be anything.
const CORE_CHARS_MIN: usize = 8;
/// Characters that HTML has a name for.
const ENTITIES: [(&str, u8); 5] = [("amp", b'&'), ("lt", b'<'), ("gt", b'>'), ("quot", b'"'), ("apos", b'\'')];

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

    use super::*;

    const KEY: &str = r#"sk-/a+b&"\\q 9?>"#;

    #[test]
    fn a_key_is_found_in_whatever_form_it_is_repeated() {
        let json = serde_json::to_string(KEY).unwrap();
        let twice = serde_json::to_string(&json).unwrap();
        let every = |form: &dyn Fn(u8) -> String| KEY.bytes().map(form).collect::<String>();
        let percent = every(&|byte| format!("%{byte:02X}"));
        let form: String = reqwest::Url::parse_with_params("http://h/", [("k", KEY)]).unwrap().query().unwrap()[2..].to_owned();
        for repeated in [
            KEY.to_owned(),
            json.trim_matches('"').replace('/', r"\/"),
            twice.trim_matches(['"', '\\']).to_owned(),
            every(&|byte| format!("\\u{byte:04x}")),
            every(&|byte| format!("\\u{byte:04X}")),
            percent.clone(),
            percent.replace('%', "%25"),
            form,
            every(&|byte| format!("&#{byte};")),
            every(&|byte| format!("&#x{byte:x};")),
            KEY.replace('&', "&amp;").replace('"', "&quot;").replace('>', "&gt;"),
        ] {
            assert_eq!(without(&format!("é key {repeated}, and {repeated}!"), KEY), "é key ***, and ***!", "{repeated}");
        }
    }

    #[test]
    fn a_key_in_base64_is_hidden_with_all_that_it_was_encoded_with() {
        for before in ["", "x", "Bearer ", "user:", "another:"] {
            for after in ["", "1", "22", "333"] {
                let text = format!("{before}{KEY}{after}");
                for encoded in [STANDARD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                    for escaped in [encoded.clone(), encoded.replace('=', "%3D")] {
                        let hidden = without(&format!("Basic {escaped}."), KEY);
                        assert!(hidden.starts_with("Basic ***") && hidden.len() <= "Basic ***%3D%3D.".len(), "{text}: {hidden}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_text_without_end_is_looked_at_as_far_as_anybody_reads_it() {
        for endless in ["\\", "&", "%25", "\\u005c", "sk-"] {
            let hidden = without(&format!("{KEY}{}{KEY}", endless.repeat(1 << 20)), KEY);
            assert!(hidden.starts_with(&format!("***{endless}")) && hidden.len() <= LOOKED_AT_BYTES_MAX + 8, "{endless}");
        }
        let across = format!("{}{KEY}{}", "x".repeat(LOOKED_AT_BYTES_MAX - 3), "x".repeat(100));
        assert!(without(&across, KEY).ends_with("x***"));
    }

    #[test]
    fn what_is_not_the_key_stays() {
        for text in ["", "sk-", r"C:\new\u0041\", "100 % &amp; more; é", "c2s=", r#"sk-/a+b&"\\q 9?"#] {
            assert_eq!(without(text, KEY), text);
        }
        assert_eq!(without("the letters of a short one", "rs"), "the lette*** of a short one");
        assert_eq!(without(r"u0075 and \u0075s, \u0075\u0073", "us"), "u0075 and ***, ***");
        assert_eq!(without("a 100%25 b and a%25b", "%25"), "a 100*** b and a***b");
        assert_eq!(without("a%25b a%b", "a%b"), "*** ***");
    }
}
