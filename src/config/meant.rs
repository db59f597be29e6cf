//! What was meant by a setting that there is not.

/// The word that was most likely meant.
pub(super) fn nearest<'w>(written: &str, words: &[&'w str]) -> Option<&'w str> {
    let written = written.to_lowercase().replace('-', "_");
    words
        .iter()
        .map(|word| (strsim::damerau_levenshtein(&written, &word.replace('-', "_")), *word))
        .filter(|(distance, word)| *distance <= word.len().max(3) / 3)
        .min()
        .map(|(_, word)| word)
}

/// The setting that was most likely meant. Where a credential was to be written, it is the one that names the credential's file.
pub(super) fn setting<'w>(written: &str, settings: &[&'w str]) -> Option<&'w str> {
    let plain = written.to_lowercase().replace(['-', '_'], "");
    let file = settings.iter().copied().find(|setting| is_credential_file(setting)).filter(|_| CREDENTIALS.contains(&plain.as_str()));
    file.or_else(|| nearest(written, settings))
}

/// Whether a setting names the file of a credential.
pub(super) fn is_credential_file(setting: &str) -> bool {
    ["key_file", "bearer_file", "secret_file", "sign_secret_file"].contains(&setting)
}

/// What people call a credential, without hyphens and underscores.
const CREDENTIALS: [&str; 12] = [
    "key",
    "apikey",
    "token",
    "apitoken",
    "accesstoken",
    "authtoken",
    "bearer",
    "bearertoken",
    "secret",
    "password",
    "credential",
    "authorization",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_matched_and_another_word_is_not() {
        let words = ["listen", "advertised", "calls_max", "ring_ms"];
        assert_eq!(nearest("lisen", &words), Some("listen"));
        assert_eq!(nearest("calls-max", &words), Some("calls_max"));
        assert_eq!(nearest("max_calls", &words), None);
        assert_eq!(nearest("colour", &words), None);
    }

    #[test]
    fn whoever_writes_a_credential_is_shown_where_its_file_is_named() {
        for written in ["key", "api_key", "apikey", "api-key", "API_KEY", "token", "secret"] {
            assert_eq!(setting(written, &["url", "key_file", "key_header"]), Some("key_file"), "{written}");
        }
        assert_eq!(setting("bearer", &["url", "bearer_file"]), Some("bearer_file"));
        assert_eq!(setting("secret", &["url", "secret_file"]), Some("secret_file"));
        assert_eq!(setting("key_heder", &["url", "key_file", "key_header"]), Some("key_header"));
        assert_eq!(setting("key", &["url", "listen"]), None);
    }
}
