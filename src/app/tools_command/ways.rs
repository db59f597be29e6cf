//! How a tool is asked, told how it stands, and asked to stop: by what carries it out.

use recado_core::policy::Language;

use super::list::{origin, place};
use super::{duration, either};
use crate::cognition::tools::FAULTS_MAX;
use crate::config::{Config, OnTerminate, Tool, Way};

/// A sentence for each thing that is asked of the tool, or that it is asked with.
pub(super) fn ways(config: &Config, tool: &Tool, language: Language) -> Vec<String> {
    let t = |es: &'static str, en: &'static str| either(language, es, en);
    let mut said = vec![format!("{} {}.", t("Lo hace:", "It is done by:"), place(config, tool))];
    if matches!(tool.way(), Some(Way::Http(_))) {
        said.push(format!("{}.", credentials(tool, language).join("; ")));
    }
    said.push(format!("{} {}.", t("A la vez, como mucho:", "At the same time, at most:"), tool.concurrency));
    said.extend(standing(tool, language));
    said.push(cancelling(tool, language));
    said.push(match language {
        Language::Es => format!(
            "Si lo que hay detrás falla {FAULTS_MAX} veces seguidas, se deja en paz y se prueba de vez en cuando; entre tanto se espera, sin gastar intentos."
        ),
        Language::En => format!(
            "Where what is behind it fails {FAULTS_MAX} times in a row, it is left alone and tried now and then; what is asked meanwhile waits, and spends no attempt."
        ),
    });
    said
}

fn credentials(tool: &Tool, language: Language) -> Vec<String> {
    let t = |es: &'static str, en: &'static str| either(language, es, en);
    let mut with = vec![t("Con cada petición va una Idempotency-Key", "Each request has an Idempotency-Key").to_owned()];
    if tool.bearer_file.is_some() {
        with.push(t("una clave (bearer)", "a bearer token").to_owned());
    }
    if tool.sign_secret_file.is_some() {
        with.push(t("una firma (Standard Webhooks)", "a signature (Standard Webhooks)").to_owned());
    }
    if let Some(proxy) = &tool.proxy {
        with.push(format!("{} {}", t("por el proxy", "by way of the proxy"), origin(proxy)));
    }
    if tool.ca_file.is_some() {
        with.push(t("se acepta una autoridad propia", "an authority of its own is trusted").to_owned());
    }
    with
}

/// How it is known what became of what it took.
fn standing(tool: &Tool, language: Language) -> Option<String> {
    let t = |es: &'static str, en: &'static str| either(language, es, en);
    Some(match tool.way()? {
        Way::Http(_) => match &tool.status_url {
            Some(url) => format!(
                "{} {}, {} {}.",
                t("Lo que queda pendiente o dudoso se le pregunta en", "What it has taken, and what is in doubt, is asked for at"),
                origin(url),
                t("la primera vez tras", "first after"),
                duration(tool.status_after_ms)
            ),
            None => t(
                "Un resultado posterior (202) llega por callback, o se pregunta donde la herramienta diga; lo dudoso no se puede preguntar.",
                "A result that comes later (202) comes by callback, or is asked for where the tool says; what is in doubt can't be asked for.",
            )
            .to_owned(),
        },
        Way::Mcp(_) => t(
            "De lo que el servidor convierte en tarea se pregunta cómo va.",
            "Of what its server makes a task it is asked how that stands.",
        )
        .to_owned(),
        Way::Command(_) | Way::Delegate(_) => return None,
    })
}

fn cancelling(tool: &Tool, language: Language) -> String {
    let t = |es: &'static str, en: &'static str| either(language, es, en);
    let sent = match tool.way() {
        Some(Way::Command(command)) => match command.on_terminate {
            OnTerminate::Undone => t("se termina el programa, y no queda nada", "the program is terminated, and leaves nothing").to_owned(),
            OnTerminate::Unknown => {
                t("se termina el programa, y no se sabe qué queda", "the program is terminated, and nobody knows what it leaves").to_owned()
            }
        },
        Some(Way::Mcp(_)) => {
            t("se pide al servidor que acabe la tarea, si lo es", "its server is asked to end the task, where it is one").to_owned()
        }
        Some(Way::Delegate(delegate)) if delegate.tools.is_empty() => t("se deja la pregunta", "the question is given up").to_owned(),
        Some(Way::Delegate(_)) => {
            t("se deja la pregunta, mientras no ha usado nada", "the question is given up, as long as it has used nothing").to_owned()
        }
        Some(Way::Http(_)) | None => match (&tool.cancel_url, &tool.compensate_url) {
            (Some(cancel), None) => format!("{} {}", t("se pide en", "that is asked for at"), origin(cancel)),
            (None, Some(undo)) => format!("{} {}", t("se pide deshacerlo en", "it is asked to undo it at"), origin(undo)),
            (Some(cancel), Some(undo)) => format!(
                "{} {}{} {}",
                t("se pide en", "that is asked for at"),
                origin(cancel),
                t("; si es tarde, deshacerlo en", "; where it is too late, to undo it at"),
                origin(undo)
            ),
            (None, None) => t("no se puede: sigue", "that can't be: it goes on").to_owned(),
        },
    };
    format!("{} {sent}.", t("Cancelar lo que ya ha salido:", "To cancel what has left:"))
}
