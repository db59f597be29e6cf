//! From, To, Contact, Route and Record-Route values: `"display" <uri>;params`.

use super::params::Params;
use super::text::{find_outside, readable};
use super::{Malformed, Uri};

/// A name-addr or addr-spec with its header parameters (RFC 3261 section 20.10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameAddr {
    /// The display name without quotes and escapes, for people: UTF-8, or read as Latin-1.
    pub display: Option<String>,
    /// The address.
    pub uri: Uri,
    params: Params,
}

impl NameAddr {
    /// Reads one value (comma lists are split before).
    ///
    /// # Errors
    /// Unbalanced quotes or brackets, white space within the address, bad parameters.
    pub fn parse(value: &[u8]) -> Result<Self, Malformed> {
        let value = value.trim_ascii();
        let Some(open) = find_bracket(value)? else {
            return Self::parse_addr_spec(value);
        };
        let (display, rest) = value.split_at(open);
        let rest = rest.get(1..).unwrap_or_default();
        let close = rest.iter().position(|&byte| byte == b'>').ok_or(Malformed("Unterminated angle bracket"))?;
        let (uri, tail) = rest.split_at(close);
        let params = match tail.get(1..).unwrap_or_default().trim_ascii() {
            b"" => Params::default(),
            [b';', params @ ..] => Params::parse(params)?,
            _ => return Err(Malformed("Text behind an address")),
        };
        Ok(Self { display: display_name(display.trim_ascii())?, uri: Uri::parse(uri)?, params })
    }

    /// The `tag` parameter.
    pub fn tag(&self) -> Option<&str> {
        self.params.value("tag").filter(|tag| !tag.is_empty())
    }

    /// Without brackets every `;` belongs to the header (RFC 3261 section 20).
    fn parse_addr_spec(value: &[u8]) -> Result<Self, Malformed> {
        let (uri, params) = match value.iter().position(|&byte| byte == b';') {
            None => (value, Params::default()),
            Some(at) => {
                let (uri, params) = value.split_at(at);
                (uri, Params::parse(params.get(1..).unwrap_or_default())?)
            }
        };
        Ok(Self { display: None, uri: Uri::parse(uri.trim_ascii())?, params })
    }
}

fn find_bracket(value: &[u8]) -> Result<Option<usize>, Malformed> {
    find_outside(value, |byte| byte == b'<')
}

fn display_name(bytes: &[u8]) -> Result<Option<String>, Malformed> {
    let Some(quoted) = bytes.strip_prefix(b"\"") else {
        if bytes.contains(&b'"') {
            return Err(Malformed("Stray quote in a display name"));
        }
        return Ok((!bytes.is_empty()).then(|| readable(bytes)));
    };
    let mut name = Vec::with_capacity(quoted.len());
    let mut rest = quoted.iter();
    while let Some(&byte) = rest.next() {
        match byte {
            b'"' if rest.as_slice().is_empty() => return Ok(Some(readable(&name))),
            b'"' => return Err(Malformed("Text behind a quoted display name")),
            b'\\' => name.extend(rest.next()),
            _ => name.push(byte),
        }
    }
    Err(Malformed("Unterminated quoted string"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(value: &str) -> NameAddr {
        NameAddr::parse(value.as_bytes()).expect(value)
    }

    #[test]
    fn display_names_with_escapes_brackets_and_no_white_space_are_read() {
        let address = parsed(r#""J \\\"R\"" <sip:a@b>  ;  tag = x1 ;+sip.instance="<urn:uuid:1>""#);
        assert_eq!(address.display.as_deref(), Some(r#"J \"R""#));
        assert_eq!(address.tag(), Some("x1"));
        assert_eq!(parsed("caller<sip:caller@example.com>;tag=323").display.as_deref(), Some("caller"));
        assert_eq!(parsed("sip:a@b;tag=9").tag(), Some("9"));
        assert_eq!(parsed("<tel:+34>;tag=1").uri, Uri::Tel("+34".into()));
        assert_eq!(NameAddr::parse(b"\"Jos\xe9\" <sip:j@b>").expect("tolerated").display.as_deref(), Some("José"));
    }

    #[test]
    fn broken_addresses_are_refused() {
        for value in [
            r#""Mr. J. User <sip:j.user@example.com>"#,
            r#""Watson, Thomas" < sip:t.watson@example.org >"#,
            r#""Joe" <sip:joe@example.org>;;;;"#,
            r#""Joe" sip:joe@example.org"#,
            "<sip:joe@example.org",
            "<sip:joe@example.org>x",
            "",
        ] {
            assert!(NameAddr::parse(value.as_bytes()).is_err(), "{value}");
        }
    }
}
