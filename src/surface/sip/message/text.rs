//! Small readers over bytes: tokens, quoted strings, lists.

use super::Malformed;

/// Is `byte` a token character (RFC 3261 section 25.1)?
pub fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte)
}

/// Is `bytes` a non-empty token?
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().copied().all(is_token_byte)
}

/// Finds the first byte for which `wanted` holds, outside of quoted strings and of `<...>`.
///
/// # Errors
/// A quoted string or an angle bracket that is not closed.
pub fn find_outside(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> Result<Option<usize>, Malformed> {
    let mut quoted = false;
    let mut angled = false;
    let mut escaped = false;
    for (at, &byte) in bytes.iter().enumerate() {
        if escaped {
            escaped = false;
        } else if quoted {
            match byte {
                b'\\' => escaped = true,
                b'"' => quoted = false,
                _ => {}
            }
        } else if angled {
            angled = byte != b'>';
        } else if wanted(byte) {
            return Ok(Some(at));
        } else if byte == b'"' {
            quoted = true;
        } else if byte == b'<' {
            angled = true;
        }
    }
    match (quoted, angled) {
        (true, _) => Err(Malformed("Unterminated quoted string")),
        (_, true) => Err(Malformed("Unterminated angle bracket")),
        _ => Ok(None),
    }
}

/// Splits at every `separator` outside of quoted strings and angle brackets; pieces are trimmed.
///
/// # Errors
/// As [`find_outside`].
pub fn split_outside(bytes: &[u8], separator: u8) -> Result<Vec<&[u8]>, Malformed> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while let Some(at) = find_outside(rest, |byte| byte == separator)? {
        let (piece, tail) = rest.split_at(at);
        pieces.push(piece.trim_ascii());
        rest = tail.get(1..).unwrap_or_default();
    }
    pieces.push(rest.trim_ascii());
    Ok(pieces)
}

/// Splits once at the first `separator`; neither half is trimmed.
pub fn split_once(bytes: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|&byte| byte == separator)?;
    Some((bytes.get(..at)?, bytes.get(at + 1..)?))
}

/// A decimal number without sign.
pub fn number<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    if bytes.is_empty() || !bytes.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Text for people: UTF-8 where it is, else read as Latin-1, which is what phones that send no UTF-8 send.
pub fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    }
}

/// Decodes `%xx` escapes; what is no escape stays as it is.
pub fn percent_decoded(text: &str) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escape = (first == b'%').then(|| Some((hex_digit(*tail.first()?)?, hex_digit(*tail.get(1)?)?))).flatten();
        if let Some((high, low)) = escape {
            decoded.push(high << 4 | low);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            decoded.push(first);
            rest = tail;
        }
    }
    readable(&decoded)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_inside_quotes_or_brackets_does_not_split() {
        let pieces = split_outside(br#""a, \"b" <sip:x,y@z> , c"#, b',').expect("balanced");
        assert_eq!(pieces, [&br#""a, \"b" <sip:x,y@z>"#[..], b"c"]);
        assert!(split_outside(br#""open"#.get(..4).unwrap_or_default(), b',').is_err());
    }

    #[test]
    fn latin_1_is_read_as_what_it_is() {
        assert_eq!(readable(b"Jos\xe9"), "José");
        assert_eq!(percent_decoded("a%20%zz%4"), "a %zz%4");
    }
}
