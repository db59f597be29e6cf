//! What serde says, in the words of the file that it was said about.

/// A message of serde's for people who have never heard of it; others are left as they are, on one line.
pub(crate) fn plainly(message: &str) -> String {
    let message = message.trim().replace('\n', ", ");
    let among = |rest: &str| rest.split_once(", expected ").map(|(found, expected)| (found.to_owned(), expected.to_owned()));
    if let Some((found, expected)) = message.strip_prefix("unknown field ").and_then(among) {
        format!("there is no {found} here; write {expected}")
    } else if let Some((found, expected)) = message.strip_prefix("unknown variant ").and_then(among) {
        format!("{found} is not a choice; write {expected}")
    } else if let Some(field) = message.strip_prefix("missing field ") {
        format!("{field} is missing")
    } else if let Some(field) = message.strip_prefix("duplicate field ") {
        format!("{field} stands here twice; remove one")
    } else if let Some((found, expected)) = mistyped(&message) {
        format!("expected {}, found {}", type_of(expected), thing(found))
    } else {
        message
    }
}

/// What serde calls a value, in the words of the file.
pub(super) fn thing(found: &str) -> String {
    match found {
        "sequence" => "a list".to_owned(),
        "map" => "a table".to_owned(),
        value => value
            .replacen("string ", "the text ", 1)
            .replacen("integer ", "the number ", 1)
            .replacen("floating point ", "the number ", 1)
            .replacen("boolean ", "", 1)
            .replace('`', ""),
    }
}

/// The largest number of a type that serde names; none for what is no number.
pub(super) fn number_max(expected: &str) -> Option<u64> {
    match expected {
        "u8" => Some(u8::MAX.into()),
        "u16" => Some(u16::MAX.into()),
        "u32" => Some(u32::MAX.into()),
        "u64" | "usize" | "a nonzero usize" => Some(u64::MAX),
        _ => None,
    }
}

/// Whether serde names a table.
pub(super) fn is_table(expected: &str) -> bool {
    expected.starts_with("struct") || expected == "a map"
}

fn mistyped(message: &str) -> Option<(&str, &str)> {
    let rest = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "))?;
    rest.rsplit_once(", expected ")
}

fn type_of(expected: &str) -> &str {
    match expected {
        "a boolean" => "true or false",
        "a string" => "text in quotes",
        "a sequence" => "a list",
        number if number_max(number).is_some() => "a whole number, zero or more",
        table if is_table(table) => "a table",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_serde_says_is_said_in_the_words_of_the_file() {
        for (said, plain) in [
            ("unknown field `sya`, expected one of `say`, `call`", "there is no `sya` here; write one of `say`, `call`"),
            ("unknown field `fr`, expected `es` or `en`", "there is no `fr` here; write `es` or `en`"),
            ("unknown variant `x`, expected `a` or `b`", "`x` is not a choice; write `a` or `b`"),
            ("missing field `tool`", "`tool` is missing"),
            ("invalid type: string \"x\", expected a sequence", "expected a list, found the text \"x\""),
            ("invalid type: integer `5`, expected struct Step", "expected a table, found the number 5"),
            ("invalid type: map, expected a boolean", "expected true or false, found a table"),
            ("invalid value: integer `-1`, expected u32", "expected a whole number, zero or more, found the number -1"),
            ("string values must be quoted\nexpected literal string", "string values must be quoted, expected literal string"),
        ] {
            assert_eq!(plainly(said), plain);
        }
    }
}
