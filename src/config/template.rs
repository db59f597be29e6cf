//! What is known of a template before anything is said with it: what it calls that there is not, and whether it renders where
//! nothing has to be filled in.

use std::collections::BTreeSet;

use minijinja::machinery::{Instruction, get_compiled_template};
use minijinja::{Environment, ErrorKind, State, Template, Value, context};

use super::meant::nearest;

/// What is wrong with a template, and what to write instead.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub what: String,
    pub instead: String,
}

/// What of a template can't be rendered, whatever it is filled in with. `variables` are those that it may use.
pub(super) fn faults<'a>(environment: &'a Environment<'a>, template: &Template<'a, 'a>, variables: &[&str]) -> Vec<Fault> {
    let undeclared = template.undeclared_variables(false);
    let compiled = get_compiled_template(template);
    let instructions: Vec<&Instruction<'_>> = (0..).map_while(|at| compiled.instructions.get(at)).collect();
    // What a macro is called by may stand in any value.
    let macros = instructions.iter().any(|instruction| matches!(instruction, Instruction::BuildMacro(..)));
    let mut faults = Vec::new();
    for instruction in instructions {
        let fault = match instruction {
            Instruction::ApplyFilter(name, count, _) => {
                let alone = |state: &mut State<'_, '_>, value: Value| state.apply_filter(name, &[value]).err();
                unknown("filter", name, &FILTERS)
                    .or_else(|| (*count == Some(1)).then(|| lacks_argument(environment, "filter", name, alone)).flatten())
            }
            Instruction::PerformTest(name, count, _) => {
                let alone = |state: &mut State<'_, '_>, value: Value| state.perform_test(name, &[value]).err();
                unknown("test", name, &TESTS)
                    .or_else(|| (*count == Some(1)).then(|| lacks_argument(environment, "test", name, alone)).flatten())
            }
            Instruction::CallFunction(name, _) if undeclared.contains(*name) => no_function(environment, name, variables),
            Instruction::CallMethod(name, _) if !macros && !LOOP_METHODS.contains(name) => Some(Fault {
                what: format!("values have no function `{name}`"),
                instead: if FILTERS.contains(name) { format!("{{{{ … | {name} }}}}") } else { one_of("a filter: ", &FILTERS) },
            }),
            _ => None,
        };
        faults.extend(fault.filter(|fault| !faults.contains(fault)));
    }
    let globals: BTreeSet<&str> = environment.globals().map(|(name, _)| name).collect();
    if faults.is_empty() && undeclared.iter().all(|name| globals.contains(name.as_str())) {
        faults.extend(constant_fault(template));
    }
    faults
}

/// The names that a template calls as functions.
pub(super) fn called(template: &Template<'_, '_>) -> BTreeSet<String> {
    let instructions = &get_compiled_template(template).instructions;
    let name = |instruction: &Instruction<'_>| match instruction {
        Instruction::CallFunction(name, _) => Some((*name).to_owned()),
        _ => None,
    };
    (0..).map_while(|at| instructions.get(at)).filter_map(name).collect()
}

fn unknown(kind: &str, name: &str, known: &[&str]) -> Option<Fault> {
    if known.contains(&name) {
        return None;
    }
    let meant = nearest(name, known).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    Some(Fault { what: format!("there is no {kind} `{name}`{meant}"), instead: one_of("", known) })
}

fn no_function(environment: &Environment<'_>, name: &str, variables: &[&str]) -> Option<Fault> {
    if environment.globals().any(|(global, _)| global == name) {
        return None;
    }
    if variables.contains(&name) {
        return Some(Fault { what: format!("`{name}` is a value, which can't be called"), instead: format!("{{{{ {name}.… }}}}") });
    }
    let instead = if FILTERS.contains(&name) { format!("{{{{ … | {name} }}}}") } else { one_of("", &FUNCTIONS) };
    Some(Fault { what: format!("there is no function `{name}`"), instead })
}

/// Whether a filter or a test that is given nothing but its value needs more than that, whatever the value is.
fn lacks_argument<'a>(
    environment: &'a Environment<'a>,
    kind: &str,
    name: &str,
    mut alone: impl FnMut(&mut State<'_, '_>, Value) -> Option<minijinja::Error>,
) -> Option<Fault> {
    let values = [Value::from("a"), Value::from(1), Value::from(vec![1, 2]), context! { a => 1 }];
    let mut state = environment.empty_state();
    let failed: Vec<ErrorKind> = values.into_iter().map_while(|value| alone(&mut state, value)).map(|error| error.kind()).collect();
    let lacks = failed.len() == VALUES && failed.contains(&ErrorKind::MissingArgument);
    lacks.then(|| Fault { what: format!("the {kind} `{name}` needs an argument"), instead: format!("{name}(…)") })
}

/// Why a template that needs no values does not render.
fn constant_fault(template: &Template<'_, '_>) -> Option<Fault> {
    match template.render(context! {}) {
        Ok(text) if text.trim().is_empty() => {
            Some(Fault { what: "it says nothing, which would be silence".to_owned(), instead: "words to be said".to_owned() })
        }
        Ok(_) => None,
        Err(error) => {
            Some(Fault { what: format!("this template can't be rendered: {}", reason(&error)), instead: "words to be said".to_owned() })
        }
    }
}

/// What the engine says of an error.
pub(super) fn reason(error: &minijinja::Error) -> String {
    error.detail().map_or_else(|| error.kind().to_string(), str::to_owned)
}

fn one_of(before: &str, words: &[&str]) -> String {
    format!("{before}one of {}", words.join(", "))
}

/// How many kinds of values a filter is tried with.
const VALUES: usize = 4;

/// The filters that the engine has.
const FILTERS: [&str; 47] = [
    "abs",
    "attr",
    "batch",
    "bool",
    "capitalize",
    "chain",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "trim",
    "unique",
    "upper",
    "zip",
];

/// Its tests, which stand behind `is`.
const TESTS: [&str; 36] = [
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "int",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "safe",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];

/// Its functions that say something.
const FUNCTIONS: [&str; 3] = ["dict", "namespace", "range"];

/// What `loop` can be asked.
const LOOP_METHODS: [&str; 2] = ["cycle", "changed"];

#[cfg(test)]
mod tests {
    use recado_core::ledger::template_environment;

    use super::*;

    fn said(text: &str) -> Vec<String> {
        let environment = template_environment();
        let template = environment.template_from_str(text).unwrap();
        let faults = faults(&environment, &template, &["arguments", "result"]);
        faults.into_iter().map(|fault| format!("{}; {}", fault.what, fault.instead)).collect()
    }

    /// The engine lists what it has in its debug output, and nowhere else.
    #[test]
    fn the_filters_and_tests_that_are_named_are_those_that_the_engine_has() {
        let shown = format!("{:?}", template_environment());
        let listed = |key: &str| -> Vec<String> {
            let (_, rest) = shown.split_once(&format!("{key}: [")).unwrap_or_else(|| panic!("{key} in {shown}"));
            let names = rest.split(']').next().unwrap().split(", ").map(|name| name.trim_matches('"').to_owned());
            names.filter(|name| name.chars().all(|c| c.is_ascii_alphabetic())).collect()
        };
        assert_eq!(listed("filters"), FILTERS);
        assert_eq!(listed("tests"), TESTS);
    }

    #[test]
    fn what_can_be_said_is_let_through() {
        for text in [
            "Hecho.",
            "{{ result.x | upper | default('nada') }} {{ result.list | join(', ') }}",
            "{% if result.n is divisibleby(2) and result.s is string %}a{% elif result.x is defined %}b{% endif %}",
            "{% for item in result.list %}{{ loop.cycle('a', 'b') }}{{ item }}{% endfor %}",
            "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(result.a) }}",
            "{% for n in range(3) %}{{ n }}{% endfor %}",
            "{{ '%s de %s' | format(result.a, result.b) }} {{ result.f | format }}",
            "{{ result.list | sort | first }} {{ result.list | map(attribute='a') | list }} {{ result.list | select }}",
            "{% filter upper %}{{ result.x }}{% endfilter %}",
        ] {
            assert_eq!(said(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn what_is_called_and_is_not_there_is_named_wherever_it_stands() {
        let filters = one_of("", &FILTERS);
        for text in [
            "{{ result.x | nosuch }}",
            "{% if result.y %}{{ result.x | nosuch(1) }}{% endif %}Hecho",
            "{% for x in result.list %}{{ x | nosuch | nosuch }}{% endfor %}Hecho",
            "{% filter nosuch %}{{ result.x }}{% endfilter %}",
            "{% macro m(x) %}{{ x | nosuch }}{% endmacro %}{{ result.x }}",
            "{% set y = result.x | nosuch %}{{ y }}",
        ] {
            assert_eq!(said(text), [format!("there is no filter `nosuch`; {filters}")], "{text}");
        }
        assert_eq!(said("{{ result.x | uper }}"), [format!("there is no filter `uper`; did you mean `upper`?; {filters}")]);
        assert_eq!(said("{% if result is nosuch %}a{% endif %}b"), [format!("there is no test `nosuch`; {}", one_of("", &TESTS))]);
        assert_eq!(said("{{ upper(result.x) }}"), ["there is no function `upper`; {{ … | upper }}"]);
        assert_eq!(said("{{ nosuch(result.x) }}"), ["there is no function `nosuch`; one of dict, namespace, range"]);
        assert_eq!(said("{{ result() }}"), ["`result` is a value, which can't be called; {{ result.… }}"]);
        assert_eq!(said("{{ result.x.upper() }}"), ["values have no function `upper`; {{ … | upper }}"]);
        assert_eq!(said("{{ result.x | replace }}"), ["the filter `replace` needs an argument; replace(…)"]);
        assert_eq!(said("{% if result.x is divisibleby %}a{% endif %}b"), ["the test `divisibleby` needs an argument; divisibleby(…)"]);
    }

    #[test]
    fn what_needs_no_value_is_rendered() {
        assert_eq!(said("{# nada #} "), ["it says nothing, which would be silence; words to be said"]);
        let endless = said("{% for a in range(9000) %}{% for b in range(9000) %}a{% endfor %}{% endfor %}");
        assert!(matches!(&endless[..], [one] if one.starts_with("this template can't be rendered: ")), "{endless:?}");
        let nothing = said("{{ 'a' + 1 }}");
        assert!(matches!(&nothing[..], [one] if one.starts_with("this template can't be rendered: ")), "{nothing:?}");
    }
}
