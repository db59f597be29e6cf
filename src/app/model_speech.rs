//! The speech that a model makes itself, on its way to the voice: cut into pieces, response by response.

use recado_core::ids::ResponseId;
use tracing::warn;

use crate::cognition::models::{AudioFormat, OutputKind};
use crate::g711::Codec;
use crate::surface::speech::pieces::{Pace, Piece, Pieces, Source};

/// Where a model's speech stands.
#[derive(Debug)]
pub struct ModelSpeech {
    format: Option<AudioFormat>,
    pace: Pace,
    /// The response that is coming.
    coming: Option<(ResponseId, Pieces)>,
}

impl ModelSpeech {
    /// That of a model whose responses are made of `output`.
    pub fn new(output: OutputKind) -> Self {
        let (format, pace) = match output {
            OutputKind::Text => (None, Pace::Ahead),
            OutputKind::Audio(format) => (Some(format), Pace::Ahead),
            OutputKind::PacedAudio(format) => (Some(format), Pace::AsSpoken),
        };
        Self { format, pace, coming: None }
    }

    /// More words of a response, for a telephone that takes `codec`.
    pub fn words(&mut self, response: ResponseId, text: &str, codec: Codec) {
        if let Some(pieces) = self.pieces(response, codec) {
            pieces.words(text);
        }
    }

    /// More speech of a response, and the pieces that are whole with that; where it pauses, with what there is.
    pub fn audio(&mut self, response: ResponseId, bytes: &[u8], codec: Codec) -> Vec<Piece> {
        let Some(pieces) = self.pieces(response, codec) else { return Vec::new() };
        if bytes.is_empty() { pieces.pause().into_iter().collect() } else { pieces.audio(bytes) }
    }

    /// Something else comes next: what there is of the response, as its last piece so far.
    pub fn end(&mut self) -> Option<(ResponseId, Piece)> {
        let (response, pieces) = self.coming.as_mut()?;
        let response = *response;
        pieces.end().map(|piece| (response, piece))
    }

    /// The pieces of a response. What is left of the one before it was given up.
    fn pieces(&mut self, response: ResponseId, codec: Codec) -> Option<&mut Pieces> {
        let Some(format) = self.format else {
            warn!(response_id = %response, "a model of clauses has sent speech: it is dropped");
            return None;
        };
        if self.coming.as_ref().is_none_or(|(coming, _)| *coming != response) {
            let source = match format {
                AudioFormat::Pcmu => Ok(Source::Law(Codec::Pcmu)),
                AudioFormat::Pcma => Ok(Source::Law(Codec::Pcma)),
                AudioFormat::Linear16 { rate_hz } => Source::linear(rate_hz, codec),
            };
            match source {
                Ok(source) => self.coming = Some((response, Pieces::new(source, self.pace))),
                Err(error) => {
                    warn!(response_id = %response, %error, "the model's speech can't be brought to the telephone: it is dropped");
                    return None;
                }
            }
        }
        self.coming.as_mut().map(|(_, pieces)| pieces)
    }
}
