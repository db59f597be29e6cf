//! What the annotated default writes: an example of a setting, right for its table.

/// The setting `key` of `table` (its keys with dots between them) as the annotated default writes it, commented out or not; none where it
/// has no such line.
pub(super) fn line(table: &str, key: &str) -> Option<&'static str> {
    let mut current = "";
    for line in ANNOTATED.lines() {
        let content = line.strip_prefix("# ").unwrap_or(line);
        if let Some(name) = header(content) {
            current = name;
        } else if current == table && content.split_once(" = ").is_some_and(|(written, _)| written == key) {
            return without_remark(content);
        }
    }
    None
}

/// The table that a line begins.
fn header(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix('[')?.trim_start_matches('[').split_once(']')?;
    let ends = rest.trim_start_matches(']').trim();
    (ends.is_empty() || ends.starts_with('#')).then_some(name)
}

/// A setting without the remark behind it; none where more lines belong to it.
fn without_remark(line: &str) -> Option<&str> {
    let ends = line.match_indices('#').map(|(at, _)| at).chain([line.len()]);
    let mut settings = ends.map(|end| line.split_at(end).0.trim_end());
    settings.find(|setting| toml::de::DeTable::parse(setting).is_ok())
}

const ANNOTATED: &str = include_str!("../../config/recado.toml");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_found_in_its_own_table_and_without_the_remark_behind_it() {
        for (table, key, expected) in [
            ("cloud.realtime", "url", Some("url = \"wss://api.openai.com/v1/realtime\"")),
            ("cloud.language", "url", Some("url = \"https://api.openai.com/v1\"")),
            ("cloud.language", "model", Some("model = \"gpt-5.2-mini\"")),
            ("hand_off", "url", Some("url = \"https://crm.example/recado/unheard\"")),
            ("tools", "headers", Some("headers = { X-Branch = \"12\" }")),
            ("speech.voices", "es", Some("es = \"es-419\"")),
            ("cloud.realtime", "stream", None),
            ("nothing", "url", None),
        ] {
            assert_eq!(line(table, key), expected, "{table}.{key}");
        }
        assert_eq!(without_remark("colour = \"#fff\"  # white"), Some("colour = \"#fff\""));
        assert_eq!(without_remark("list = ["), None);
    }
}
