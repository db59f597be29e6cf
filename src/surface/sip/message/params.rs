//! Parameters behind a header value or in a URI: `;name=value;flag`.

use super::Malformed;
use super::text::{is_token, split_once, split_outside};

/// Parameters in the order in which they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params(Vec<(String, Option<String>)>);

impl Params {
    /// Reads what follows the first `;` of a header value.
    ///
    /// # Errors
    /// An empty parameter (`;;`), a name that is no token, an unterminated quote, text that is not UTF-8.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut params = Vec::new();
        let mut pieces = split_outside(bytes, b';')?;
        // One `;` too many at the very end is common enough in the field to be let through.
        if pieces.len() > 1 && pieces.last().is_some_and(|piece| piece.is_empty()) {
            pieces.pop();
        }
        for piece in pieces {
            let (name, value) = match split_once(piece, b'=') {
                Some((name, value)) => (name.trim_ascii(), Some(value.trim_ascii())),
                None => (piece, None),
            };
            if !is_token(name) {
                return Err(Malformed("Bad parameter name"));
            }
            params.push((text(name)?, value.map(text).transpose()?));
        }
        Ok(Self(params))
    }

    /// The value of `name`: `None` if it is missing, `Some("")` for a flag.
    pub fn value(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(value.as_deref().unwrap_or_default())
    }

    /// Sets `name` to `value`, in place if it is there.
    pub fn set(&mut self, name: &str, value: String) {
        match self.0.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, current)) => *current = Some(value),
            None => self.0.push((name.to_owned(), Some(value))),
        }
    }
}

impl std::fmt::Display for Params {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, value) in &self.0 {
            match value {
                Some(value) => write!(formatter, ";{name}={value}")?,
                None => write!(formatter, ";{name}")?,
            }
        }
        Ok(())
    }
}

fn text(bytes: &[u8]) -> Result<String, Malformed> {
    let text = std::str::from_utf8(bytes).map_err(|_| Malformed("Parameter is not UTF-8"))?;
    let quoted = text.starts_with('"') && text.ends_with('"') && text.len() > 1;
    if !quoted && text.bytes().any(|byte| byte.is_ascii_whitespace() || byte == b'"') {
        return Err(Malformed("White space in a parameter"));
    }
    Ok(text.to_owned())
}
