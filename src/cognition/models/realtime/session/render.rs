//! Texts that the model only reads aloud: responses that belong to no conversation, told apart by their metadata.

use std::collections::BTreeMap;

use recado_core::Time;

use super::outbox::{About, Outbox};
use super::{RenderId, Said, Session};
use crate::cognition::models::notes::{self, Role};
use crate::cognition::models::realtime::wire::{ClientBody, Item, Modality, ResponseFacts, ResponseSettings, ToolChoice};

#[derive(Debug, Default)]
pub(super) struct Renders {
    open: BTreeMap<RenderId, Render>,
}

#[derive(Debug)]
struct Render {
    /// The service's name for the response, once it has one.
    id: Option<String>,
    any_audio: bool,
    until: Time,
}

impl Renders {
    pub fn deadline(&self) -> Option<Time> {
        self.open.values().map(|render| render.until).min()
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether the response that begins is one of these.
    pub fn created(&mut self, response: &ResponseFacts) -> bool {
        let named = response.metadata.get(METADATA).and_then(|name| name.parse().ok()).map(RenderId);
        match named.and_then(|render| self.open.get_mut(&render)) {
            Some(render) => {
                render.id = Some(response.id.clone());
                true
            }
            None => named.is_some(),
        }
    }

    /// Whether the audio is of one of these.
    pub fn audio(&mut self, response_id: &str, delta: &[u8], outbox: &mut Outbox) -> bool {
        let Some((id, render)) = self.open.iter_mut().find(|(_, render)| render.id.as_deref() == Some(response_id)) else { return false };
        render.any_audio = true;
        outbox.say(Said::Rendered { render: *id, bytes: delta.to_vec() });
        true
    }

    /// Whether the response that has ended is one of these.
    pub fn done(&mut self, response: &ResponseFacts, outbox: &mut Outbox) -> bool {
        let Some((id, render)) = self.open.iter().find(|(_, render)| render.id.as_ref() == Some(&response.id)) else { return false };
        let (id, result) = (
            *id,
            match response.failure() {
                None if !render.any_audio => Err("the service spoke nothing of it".to_owned()),
                None => Ok(()),
                Some(reason) => Err(reason),
            },
        );
        self.end(id, result, outbox);
        true
    }

    pub fn fail(&mut self, render: RenderId, reason: String, outbox: &mut Outbox) {
        self.end(render, Err(reason), outbox);
    }

    pub fn fail_all(&mut self, reason: &str, outbox: &mut Outbox) {
        for render in std::mem::take(&mut self.open).into_keys() {
            outbox.say(Said::RenderEnded { render, result: Err(reason.to_owned()) });
        }
    }

    pub fn give_up(&mut self, now: Time, outbox: &mut Outbox) {
        let late: Vec<RenderId> = self.open.iter().filter(|(_, render)| now >= render.until).map(|(id, _)| *id).collect();
        for render in late {
            let name = self.open.get(&render).and_then(|render| render.id.clone());
            if name.is_some() {
                outbox.send(About::Cancel, ClientBody::ResponseCancel { response_id: name });
            }
            self.end(render, Err("the service has not read it aloud in time".to_owned()), outbox);
        }
    }

    fn end(&mut self, render: RenderId, result: Result<(), String>, outbox: &mut Outbox) {
        if self.open.remove(&render).is_some() {
            outbox.say(Said::RenderEnded { render, result });
        }
    }
}

impl Session {
    pub(super) fn render(&mut self, now: Time, render: RenderId, text: String) {
        let refused = if !self.ready() {
            Some("there is no connection to the service")
        } else if self.renders.open.len() == RENDERS_MAX || self.renders.open.contains_key(&render) {
            Some("the service is reading others aloud")
        } else {
            None
        };
        if let Some(reason) = refused {
            return self.outbox.say(Said::RenderEnded { render, result: Err(reason.to_owned()) });
        }
        // A text is read aloud faster than it is spoken, and a long one all the same takes longer than an answer begins.
        let until = now.plus(self.setup.answer_timeout_ms.saturating_mul(2));
        self.renders.open.insert(render, Render { id: None, any_audio: false, until });
        let response = ResponseSettings {
            metadata: [(METADATA, render.0.to_string())].into(),
            conversation: Some("none"),
            output_modalities: Some([Modality::Audio]),
            input: Some(vec![Item::message(Role::User, text)]),
            instructions: Some(notes::READ_ALOUD.to_owned()),
            tool_choice: Some(ToolChoice::None),
        };
        self.outbox.send(About::Render(render), ClientBody::ResponseCreate { response });
    }
}

/// A delivery has a few clauses, and the service's rate limits hold for these too.
const RENDERS_MAX: usize = 8;
/// Where the response's metadata name the text.
const METADATA: &str = "recado_render";
