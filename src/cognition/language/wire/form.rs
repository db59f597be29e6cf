//! What a transcription is asked for with: `multipart/form-data` (RFC 7578) around a WAV file.

use recado_core::policy::Language;

use crate::config::TranscriptionService;

/// A form, as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// Its `Content-Type`.
    pub content_type: String,
    /// Its bytes.
    pub body: Vec<u8>,
}

/// The form that asks `service` for the words of `samples` (16 bits, 8 kHz), spoken in `language`.
pub fn transcription_form(service: &TranscriptionService, language: Language, samples: &[i16]) -> Form {
    let language = match language {
        Language::Es => "es",
        Language::En => "en",
    };
    let mut fields = vec![("model", service.model.as_str()), ("language", language), ("response_format", "json")];
    fields.extend(service.prompt.as_deref().map(|prompt| ("prompt", prompt)));
    fields.extend(service.keywords.iter().map(|word| ("keywords[]", word.as_str())));
    fields.extend(service.stream.then_some(("stream", "true")));
    let audio = wav(samples);
    let boundary = boundary(&fields, &audio);
    let mut body = Vec::with_capacity(audio.len() + 2_048);
    for (name, value) in fields {
        part(&mut body, &boundary, &format!("name=\"{name}\""), None, value.as_bytes());
    }
    part(&mut body, &boundary, "name=\"file\"; filename=\"speech.wav\"", Some("audio/wav"), &audio);
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Form { content_type: format!("multipart/form-data; boundary={boundary}"), body }
}

/// A WAV file of `samples` (16 bits, one channel, 8 kHz).
pub fn wav(samples: &[i16]) -> Vec<u8> {
    let data_bytes = u32::try_from(samples.len().saturating_mul(2)).unwrap_or(u32::MAX);
    let mut file = Vec::with_capacity(44 + samples.len() * 2);
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&data_bytes.saturating_add(36).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    file.extend_from_slice(&16u32.to_le_bytes());
    // PCM, one channel; rate, bytes a second, bytes a sample, bits a sample.
    file.extend([1u16, 1].into_iter().flat_map(u16::to_le_bytes));
    file.extend([SAMPLE_HZ, SAMPLE_HZ * 2].into_iter().flat_map(u32::to_le_bytes));
    file.extend([2u16, 16].into_iter().flat_map(u16::to_le_bytes));
    file.extend_from_slice(b"data");
    file.extend_from_slice(&data_bytes.to_le_bytes());
    file.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    file
}

fn part(body: &mut Vec<u8>, boundary: &str, disposition: &str, content_type: Option<&str>, content: &[u8]) {
    body.extend_from_slice(format!("--{boundary}\r\nContent-Disposition: form-data; {disposition}\r\n").as_bytes());
    if let Some(content_type) = content_type {
        body.extend_from_slice(format!("Content-Type: {content_type}\r\n").as_bytes());
    }
    body.extend_from_slice(b"\r\n");
    body.extend_from_slice(content);
    body.extend_from_slice(b"\r\n");
}

/// A line that none of the parts holds.
fn boundary(fields: &[(&str, &str)], audio: &[u8]) -> String {
    let mut number = 0u64;
    loop {
        let boundary = format!("recado-part-{number:016x}");
        let holds = |content: &[u8]| content.windows(boundary.len()).any(|window| window == boundary.as_bytes());
        if !fields.iter().any(|(_, value)| holds(value.as_bytes())) && !holds(audio) {
            return boundary;
        }
        number += 1;
    }
}

const SAMPLE_HZ: u32 = 8_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_holds_its_fields_and_a_file_that_is_read_as_it_was_said() {
        let service: TranscriptionService = toml::from_str(
            "url = 'http://127.0.0.1/v1'\nmodel = 'm'\nprompt = 'recado-part-0000000000000000'\nkeywords = ['Aranjuez', 'Teo']\nstream = true",
        )
        .unwrap();
        let form = transcription_form(&service, Language::Es, &[1, -2, 300]);
        let boundary = form.content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
        assert_eq!(boundary, "recado-part-0000000000000001", "the first is in the prompt");
        let text = String::from_utf8_lossy(&form.body);
        let parts: Vec<&str> = text.split(&format!("--{boundary}")).collect();
        assert_eq!((parts[0], *parts.last().unwrap()), ("", "--\r\n"));
        for (name, value) in [("model", "m"), ("language", "es"), ("response_format", "json"), ("stream", "true"), ("keywords[]", "Teo")] {
            let part = format!("\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
            assert!(parts.contains(&part.as_str()), "{name}: {text}");
        }
        let file = wav(&[1, -2, 300]);
        assert!(form.body.windows(file.len()).any(|window| window == file));
        assert_eq!(crate::surface::speech::wav::read(file.as_slice()).unwrap(), [1, -2, 300]);
    }
}
