//! Who is on the line: what can be wrong with `[identity]`.

use std::os::unix::fs::PermissionsExt;

use recado_core::conversation::Verification;

use super::*;

/// A PIN file with one PIN.
pub const PINS: &str = "alice $argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0$MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE\n";

fn room(toml: &str, pins: &str) -> Room {
    let room = Room::with(toml);
    room.write("pins", pins);
    std::fs::set_permissions(room.path("pins"), PermissionsExt::from_mode(0o600)).unwrap();
    room
}

#[test]
fn without_pins_nobody_is_asked_for_one() {
    let (config, _) = Room::with("[identity]\nattempts_max = 2\n").load().unwrap();
    assert_eq!(config.identity.verification(), None);
    assert!(!config.identity.verifies());
}

#[test]
fn with_pins_callers_are_asked_in_the_boxs_own_words_but_for_those_that_are_written() {
    let (config, warnings) = room("[identity]\npins_file = \"pins\"\nsay_ask.en = \"Your PIN, please.\"\n", PINS).load().unwrap();
    assert!(warnings.is_empty(), "{warnings}");
    let (usual, verification) = (Verification::default(), config.identity.verification().unwrap());
    assert_eq!(verification.say_ask.en.as_deref(), Some("Your PIN, please."));
    assert_eq!(verification.say_ask.es, usual.say_ask.es);
    assert_eq!(Verification { say_ask: usual.say_ask.clone(), ..verification }, usual);
}

#[test]
fn what_is_wrong_is_named_with_its_place_and_a_remedy() {
    for (toml, said) in [
        ("[identity]\ndigits_min = 3\n", "recado.toml:2:14: identity.digits_min: 3 is outside of 4 to 12; write instead: digits_min = 4"),
        (
            "[identity]\ndigits_min = 8\ndigits_max = 6\n",
            "recado.toml:2:14: identity.digits_min: no PIN has 8 digits or more and 6 at most; write instead: digits_min = 6",
        ),
        (
            "[identity]\nlock_out_ms = 10\n",
            "recado.toml:2:15: identity.lock_out_ms: 10 is outside of 60000 to 86400000; write instead: lock_out_ms = 60000",
        ),
        (
            "[identity]\ntrusted_peers = [\"0.0.0.0/0\"]\n",
            "recado.toml:2:17: identity.trusted_peers: anybody at all could assert who is calling; write instead: trusted_peers = [\"192.0.2.10\"], the SIP servers that know their callers",
        ),
        (
            "[identity]\nasserted_is_verified = true\n",
            "recado.toml:2:24: warning: identity.asserted_is_verified: nobody is trusted to assert who is calling: trusted_peers names no SIP server; write instead: asserted_is_verified = false",
        ),
        (
            "[identity]\npins_file = \"none\"\n",
            "recado.toml:2:13: warning: identity.pins_file: the PIN file none can't be read: No such file or directory (os error 2); write instead: a file that recado pin set USER -c FILE has written",
        ),
        (
            "[identity]\nsay_ask.es = \" \"\n",
            "recado.toml:2:14: identity.say_ask.es: it is empty; write instead: say_ask.es = \"…\", or nothing for the box's own words",
        ),
    ] {
        assert_eq!(said_of(toml).trim_end(), said, "{toml}");
    }
}

#[test]
fn a_pin_file_is_the_boxs_alone_and_holds_hashes() {
    let toml = "[identity]\npins_file = \"pins\"\n";
    let said = |room: &Room| room.problems(&room.sources());
    let plain = room(toml, "alice 4715\n");
    assert!(said(&plain).contains("line 1 of the PIN file pins is no user and hash") && !said(&plain).contains("4715"), "{}", said(&plain));
    let empty = room(toml, "");
    assert!(said(&empty).contains("it holds no PIN, so nobody can be verified"), "{}", said(&empty));
    let open = room(toml, PINS);
    std::fs::set_permissions(open.path("pins"), PermissionsExt::from_mode(0o644)).unwrap();
    assert!(said(&open).contains("others than its owner may read the PIN file pins"), "{}", said(&open));
}

#[test]
fn without_a_good_pin_file_the_box_starts_and_a_check_fails() {
    for pins in [None, Some("alice 4715\n")] {
        let room = room("[identity]\npins_file = \"pins\"\n", pins.unwrap_or_default());
        if pins.is_none() {
            std::fs::remove_file(room.path("pins")).unwrap();
        }
        let (config, warnings) = room.load().unwrap();
        assert!(warnings.to_string().contains("identity.pins_file"), "{warnings}");
        assert!(config.identity.verification().is_some(), "it may be there by the time of a call");
        let checked = Depth::Engine { answers_within: std::time::Duration::from_millis(1) };
        let problems = Config::load(&room.sources(), checked).unwrap_err().to_string();
        assert!(problems.contains("identity.pins_file: ") && !problems.contains("warning: identity.pins_file"), "{problems}");
    }
}

#[test]
fn a_result_for_a_verified_caller_needs_somebody_who_verifies() {
    let told = tool("audience = \"verified_party\"");
    assert!(said_of(&told).contains("audience: nothing verifies who calls"), "{}", said_of(&told));
    let by_pin = room(&format!("[identity]\npins_file = \"pins\"\n{told}"), PINS);
    assert_eq!(by_pin.problems(&by_pin.sources()), "");
    assert_eq!(said_of(&format!("[identity]\ntrusted_peers = [\"192.0.2.10\"]\nasserted_is_verified = true\n{told}")), "");
}
