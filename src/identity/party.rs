//! What a party is called.

use recado_core::PartyId;

/// The party of who has the user part `user` at `host`: the account and the number, however it is written. Anonymous callers have none.
pub fn party(account: &str, user: Option<&str>, host: &str) -> Option<PartyId> {
    let normal = self::user(user?);
    let anonymous = ["", "anonymous", "unknown", "unavailable", "restricted", "private"].contains(&normal.as_str())
        || host.eq_ignore_ascii_case("anonymous.invalid");
    (!anonymous).then(|| PartyId(format!("{account}/{normal}")))
}

/// A user part or telephone number in one spelling.
pub fn user(written: &str) -> String {
    written.chars().filter(|ch| !matches!(ch, ' ' | '-' | '.' | '(' | ')')).collect::<String>().to_lowercase()
}
