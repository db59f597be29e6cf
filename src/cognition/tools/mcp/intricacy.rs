//! Whether a schema that a server has written is plain enough to be compiled and followed: what it refers to counts once for each way that leads there,
//! since it is followed as often with each call.

use serde_json::Value;

/// Judges a schema that is not nested deeper than a stack allows, before anything is made of it.
///
/// # Errors
/// What is too much of it, in words.
pub(super) fn judge(schema: &Value) -> Result<(), String> {
    let mut counts = Counts::default();
    counts.add(schema, true);
    if counts.named > 0 {
        return Err("it refers to parts of itself by names, and not by their places (`#/…`)".to_owned());
    }
    if counts.patterns > PATTERNS_MAX {
        return Err(format!("it has {} patterns; at most {PATTERNS_MAX} are taken", counts.patterns));
    }
    if counts.unevaluated > UNEVALUATED_MAX {
        return Err(format!("it speaks of what is unevaluated {} times; at most {UNEVALUATED_MAX} are taken", counts.unevaluated));
    }
    Unfolding { root: schema, open: vec!["#"], left: PLACES_MAX }.go(schema)
}

#[derive(Default)]
struct Counts {
    patterns: usize,
    unevaluated: usize,
    /// Ways to refer that are not by place, or that change what a place is.
    named: usize,
}

impl Counts {
    fn add(&mut self, value: &Value, is_root: bool) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.add(item, false)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    match (key.as_str(), value) {
                        ("pattern", Value::String(_)) => self.patterns += 1,
                        ("patternProperties", Value::Object(patterns)) => self.patterns += patterns.len(),
                        ("unevaluatedProperties" | "unevaluatedItems", _) => self.unevaluated += 1,
                        ("$dynamicRef" | "$recursiveRef", Value::String(_)) => self.named += 1,
                        ("$ref", Value::String(place)) if place != "#" && (!place.starts_with("#/") || place.contains('%')) => {
                            self.named += 1
                        }
                        ("$id" | "$schema", Value::String(_)) if !is_root => self.named += 1,
                        // In which `id` is what `$id` is now.
                        ("$schema", Value::String(draft)) if draft.contains("draft-03") || draft.contains("draft-04") => self.named += 1,
                        _ => {}
                    }
                    self.add(value, false);
                }
            }
            _ => {}
        }
    }
}

/// A schema as it is followed.
struct Unfolding<'s> {
    root: &'s Value,
    /// The places that led here.
    open: Vec<&'s str>,
    /// How many more are taken.
    left: usize,
}

impl<'s> Unfolding<'s> {
    fn go(&mut self, value: &'s Value) -> Result<(), String> {
        self.left = self.left.checked_sub(1).ok_or_else(|| format!("its references lead to more than {PLACES_MAX} places"))?;
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.go(item)),
            Value::Object(fields) => {
                if let Some(Value::String(place)) = fields.get("$ref") {
                    if self.open.contains(&place.as_str()) {
                        return Err("it refers to itself, and would have no end".to_owned());
                    }
                    let target = self.root.pointer(place.trim_start_matches('#')).ok_or("it refers to what is not there")?;
                    if self.open.len() > REFERENCES_DEEP_MAX {
                        return Err(format!("its references lead on more than {REFERENCES_DEEP_MAX} times, one after another"));
                    }
                    self.open.push(place);
                    self.go(target)?;
                    self.open.pop();
                }
                fields.values().try_for_each(|value| self.go(value))
            }
            _ => Ok(()),
        }
    }
}

/// Unfolded; more than any form that is filled in by voice (values of any kind).
const PLACES_MAX: usize = 8 * 1024;

/// Beyond it nobody has written it by hand.
const REFERENCES_DEEP_MAX: usize = 16;

/// Each is compiled, and kept as long as the box runs.
const PATTERNS_MAX: usize = 16;

/// What each means is found by following again what stands beside it.
const UNEVALUATED_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn why(schema: Value) -> String {
        judge(&schema).expect_err("judged")
    }

    #[test]
    fn a_schema_that_leads_to_itself_again_and_again_is_refused_before_it_is_followed() {
        let twice = |place: String| json!({ "allOf": [{ "$ref": place }, { "$ref": place }] });
        let chain = |length: usize| {
            let mut levels: serde_json::Map<String, Value> =
                (0..length).map(|level| (format!("a{level}"), twice(format!("#/$defs/a{}", level + 1)))).collect();
            levels.insert(format!("a{length}"), json!({ "type": "object" }));
            json!({ "type": "object", "$defs": levels, "$ref": "#/$defs/a0" })
        };
        assert_eq!(judge(&chain(3)), Ok(()));
        assert!(why(chain(40)).contains("lead"), "{}", why(chain(40)));
        assert!(why(chain(14)).contains("places"), "{}", why(chain(14)));
        let node = json!({ "properties": { "next": { "$ref": "#/$defs/node" } } });
        for endless in [
            json!({ "type": "object", "$ref": "#" }),
            json!({ "$defs": { "node": node }, "$ref": "#/$defs/node" }),
            json!({ "properties": { "a": { "items": { "$ref": "#/properties/a" } } } }),
        ] {
            assert!(why(endless).contains("refers to itself"));
        }
    }

    #[test]
    fn what_can_not_be_followed_here_or_is_too_much_is_refused() {
        for named in [
            json!({ "$dynamicRef": "#node" }),
            json!({ "$ref": "#node", "$defs": { "node": { "$anchor": "node" } } }),
            json!({ "$ref": "#/%24defs/a", "$defs": { "a": {} } }),
            json!({ "$defs": { "a": { "$id": "http://x.example/", "$ref": "#/b" } } }),
            json!({ "$schema": "http://json-schema.org/draft-04/schema#" }),
        ] {
            assert!(why(named).contains("by names"));
        }
        assert!(why(json!({ "$ref": "#/$defs/none" })).contains("not there"));
        let patterns: serde_json::Map<String, Value> = (0..17).map(|n| (format!("p{n}"), json!({ "pattern": "a" }))).collect();
        assert!(why(json!({ "properties": patterns })).contains("17 patterns"));
        let deep = (0..5).fold(json!({}), |inner, _| json!({ "allOf": [inner], "unevaluatedProperties": false }));
        assert!(why(deep).contains("unevaluated"));
    }

    #[test]
    fn what_servers_write_is_taken() {
        let day = json!({ "$ref": "#/$defs/Day" });
        let written = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": { "from": day, "to": day, "$ref": { "type": "string" }, "id": { "type": "string" }, "pattern": { "type": "string" } },
            "$defs": { "Day": { "type": "string", "pattern": r"^\d{4}-\d\d-\d\d$" } },
        });
        assert_eq!(judge(&written), Ok(()));
    }
}
