//! Functions that others have described, and calls of them that others accept: each is a tool as it stands, each accepted call is what it takes, and what models
//! get wrong is refused with a reason that names the field.
//!
//! `functions.jsonl` holds functions of the Berkeley Function Calling Leaderboard (github.com/ShishirPatil/gorilla, commit 6ea57973c7, Apache-2.0):
//! the first 80 of `BFCL_v4_simple_python.json` with the calls that are accepted for them, of `possible_answer/`, and those of the message, ticket and
//! vehicle APIs of `multi_turn_func_doc/`. What they give back, and what was asked, is left out.

use std::process::Command;

use recado::cognition::tools::Schemas;
use recado::config::Tool;
use serde_json::{Map, Value, json};

/// A function, and for each of its parameters the values that are accepted; an empty text among them: it may be left out.
struct Function {
    tool: Tool,
    accepted: Option<Map<String, Value>>,
}

fn functions() -> Vec<Function> {
    include_str!("functions.jsonl").lines().enumerate().map(|(number, line)| function(number, line)).collect()
}

fn function(number: usize, line: &str) -> Function {
    let mut described: Value = serde_json::from_str(line).expect("JSON");
    // Some have one name, and a tool's has no dot.
    let name = format!("{}_{number}", described["name"].as_str().expect("a name").replace('.', "_"));
    let mut parameters = described["parameters"].take();
    translate(&mut parameters);
    let tool = json!({
        "name": name,
        "description": described["description"],
        "url": "http://127.0.0.1:9000/",
        "parameters": parameters,
    });
    let accepted = described.get("accepted").and_then(Value::as_object).cloned();
    Function { tool: serde_json::from_value(tool).expect("a tool"), accepted }
}

/// Their names of types are Python's; and what is not described is not taken.
fn translate(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    match fields.get("type").and_then(Value::as_str) {
        Some("dict") => {
            fields.insert("type".to_owned(), json!("object"));
            if fields.contains_key("properties") {
                fields.insert("additionalProperties".to_owned(), json!(false));
            }
        }
        Some("float") => drop(fields.insert("type".to_owned(), json!("number"))),
        _ => {}
    }
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(translate);
    }
    if let Some(items) = fields.get_mut("items") {
        translate(items);
    }
}

impl Function {
    /// The calls that are accepted: in each, one parameter has another of its values than in the first. What the function itself requires is not left
    /// out, as some of the calls there do.
    fn right(&self) -> Vec<Value> {
        let Some(accepted) = &self.accepted else { return Vec::new() };
        let given = |value: &Value| (value != "").then(|| value.clone());
        let options = |name: &str| accepted[name].as_array().expect("a list").clone();
        let first: Map<String, Value> =
            accepted.keys().filter_map(|name| options(name).iter().find_map(given).map(|value| (name.clone(), value))).collect();
        let mut right = vec![Value::Object(first.clone())];
        for name in accepted.keys() {
            for value in options(name) {
                let mut call = first.clone();
                match given(&value) {
                    Some(value) => drop(call.insert(name.clone(), value)),
                    None if self.required().contains(name) => continue,
                    None => drop(call.remove(name)),
                }
                right.push(Value::Object(call));
            }
        }
        right
    }

    fn required(&self) -> Vec<String> {
        let required = self.tool.parameters["required"].as_array().into_iter().flatten();
        required.map(|name| name.as_str().expect("a name").to_owned()).collect()
    }
}

/// What a model gives in place of something of this type.
fn wrong(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("string") => json!(7),
        Some("integer") => json!(2.5),
        Some("number") => json!("seven"),
        Some("boolean") => json!("yes"),
        Some("array") => json!("one, two"),
        _ => json!("a, b"),
    }
}

#[test]
fn every_function_is_a_tool_of_a_box() {
    let functions = functions();
    assert_eq!(functions.len(), 121);
    let room = tempfile::tempdir().unwrap();
    let tables = functions.iter().map(|Function { tool, .. }| {
        toml::toml! { say_done.es = "Hecho." }.into_iter().chain([
            ("name".to_owned(), toml::Value::from(tool.name.clone())),
            ("description".to_owned(), toml::Value::from(tool.description.clone())),
            ("url".to_owned(), toml::Value::from(tool.url.clone().unwrap())),
            ("parameters".to_owned(), toml::Value::try_from(&tool.parameters).unwrap()),
        ])
    });
    let tools: Vec<toml::Value> = tables.map(|table| toml::Value::Table(table.collect())).collect();
    let document = toml::Table::from_iter([("tools".to_owned(), toml::Value::Array(tools))]);
    std::fs::write(room.path().join("recado.toml"), document.to_string()).unwrap();
    std::fs::write(room.path().join("dialogue.toml"), "").unwrap();
    let recado = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_recado")).current_dir(room.path()).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        output.stdout
    };
    let listed: Value = serde_json::from_slice(&recado(&["tools", "--json", "-c", "recado.toml"])).unwrap();
    for (listed, Function { tool, .. }) in listed.as_array().unwrap().iter().zip(&functions) {
        assert_eq!((&listed["name"], &listed["parameters"]), (&json!(tool.name), &tool.parameters));
    }
    // What is made up as an example is what the tool takes: the ledger has taken it.
    for Function { tool, .. } in functions.iter().step_by(10) {
        recado(&["tools", "explain", &tool.name, "-c", "recado.toml"]);
    }
}

#[test]
fn every_call_that_is_accepted_there_is_taken() {
    let functions = functions();
    let tools: Vec<Tool> = functions.iter().map(|function| function.tool.clone()).collect();
    let schemas = Schemas::compile(&tools).unwrap();
    let mut calls = 0;
    for function in &functions {
        for right in function.right() {
            assert_eq!(schemas.check(&function.tool.name, &right), Ok(()), "{right}");
            calls += 1;
        }
    }
    assert!(calls >= 80, "{calls}");
}

#[test]
fn what_models_get_wrong_is_refused_with_a_reason_that_names_the_field() {
    let functions = functions();
    let tools: Vec<Tool> = functions.iter().map(|function| function.tool.clone()).collect();
    let schemas = Schemas::compile(&tools).unwrap();
    let (mut missing, mut mistaken, mut unknown) = (0, 0, 0);
    for function in &functions {
        let Some(Value::Object(right)) = function.right().into_iter().next() else { continue };
        let refusal = |call: Map<String, Value>| {
            let refused = schemas.check(&function.tool.name, &Value::Object(call.clone()));
            refused.map_or_else(|refused| refused.reason().to_owned(), |()| panic!("{}: {call:?}", function.tool.name))
        };
        for name in function.required() {
            let mut call = right.clone();
            call.remove(&name).unwrap();
            let reason = refusal(call);
            assert!(reason.contains(&format!("\"{name}\" is a required property")), "{reason}");
            missing += 1;
        }
        for name in right.keys() {
            let schema = &function.tool.parameters["properties"][name];
            let mut call = right.clone();
            call.insert(name.clone(), wrong(schema));
            let reason = refusal(call);
            let kind = format!("/{name}: this is not of type \"{}\"", schema["type"].as_str().unwrap());
            assert!(reason.contains(&kind), "{kind}: {reason}");
            mistaken += 1;
        }
        let mut call = right.clone();
        call.insert("because_the_model_likes_it".to_owned(), json!("so"));
        let reason = refusal(call);
        assert!(reason.contains("because_the_model_likes_it"), "{reason}");
        unknown += 1;
    }
    assert!(missing >= 80 && mistaken > missing && unknown == 80, "{missing} {mistaken} {unknown}");
}
