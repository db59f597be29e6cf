//! Server-sent events: what a service streams its answer in (WHATWG HTML 9.2).

use std::collections::VecDeque;

/// Takes a stream apart, whatever pieces it comes in. Only what an event carries is kept.
#[derive(Debug, Default)]
pub struct Sse {
    line: Vec<u8>,
    data: String,
    any_data: bool,
    /// Whether the last byte was a carriage return: a line feed that follows belongs to it.
    returned: bool,
    events: VecDeque<String>,
    overlong: bool,
}

impl Sse {
    /// More of the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' if std::mem::take(&mut self.returned) => {}
                b'\n' | b'\r' => {
                    self.returned = *byte == b'\r';
                    self.end_line();
                }
                byte => {
                    self.returned = false;
                    if self.line.len() + self.data.len() < EVENT_BYTES_MAX {
                        self.line.push(*byte);
                    } else {
                        self.overlong = true;
                    }
                }
            }
        }
    }

    /// What the next event carries, if it has come whole.
    pub fn event(&mut self) -> Option<String> {
        self.events.pop_front()
    }

    /// The stream has ended: an event that only lacks the empty line behind it counts.
    pub fn end(&mut self) {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.dispatch();
    }

    /// Whether an event was longer than is kept.
    pub fn is_overlong(&self) -> bool {
        self.overlong
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.dispatch();
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_start_matches('\u{feff}');
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        if field == "data" {
            if self.any_data {
                self.data.push('\n');
            }
            self.any_data = true;
            self.data.push_str(value.strip_prefix(' ').unwrap_or(value));
        }
    }

    fn dispatch(&mut self) {
        if std::mem::take(&mut self.any_data) {
            self.events.push_back(std::mem::take(&mut self.data));
        }
    }
}

/// Whether a body that does not say what it is begins as a stream of events does.
pub fn looks_like_events(body: &[u8]) -> bool {
    let begins = body.trim_ascii_start();
    [&b"data:"[..], b"event:", b"id:", b":"].iter().any(|field| begins.starts_with(field))
}

/// No event that is used is as long (bytes).
const EVENT_BYTES_MAX: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut sse = Sse::default();
        let mut events = Vec::new();
        for piece in pieces {
            sse.feed(piece);
            events.extend(std::iter::from_fn(|| sse.event()));
        }
        sse.end();
        events.extend(std::iter::from_fn(|| sse.event()));
        events
    }

    #[test]
    fn events_are_taken_apart_as_the_standard_says() {
        let stream = "\u{feff}: ping\n\nevent: a\ndata: {\"x\":\ndata:1}\nid: 7\n\ndata\n\nretry: 5\r\n\r\ndata:  two\r\rdata: last";
        assert_eq!(events([stream.as_bytes()]), ["{\"x\":\n1}", "", " two", "last"]);
        assert!(looks_like_events(b"\n data: x") && looks_like_events(b": ping") && !looks_like_events(b"{\"data\":1}"));
    }

    #[test]
    fn an_event_without_end_is_not_kept_without_end() {
        let mut sse = Sse::default();
        sse.feed(b"data: ");
        (0..100).for_each(|_| sse.feed(&[b'x'; 64 * 1024]));
        assert!(sse.is_overlong() && sse.line.len() <= EVENT_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn they_are_the_same_whatever_pieces_the_stream_comes_in(
            stream in "((data|event|id|: x)(: ?)[a-zñ🙂{}]{0,8}(\n|\r\n|\r|\n\n|\r\n\r\n)){0,20}",
            at in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let bytes = stream.as_bytes();
            let mut cuts: Vec<usize> = at.iter().map(|at| at.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(events(pieces), events([bytes]));
        }

        #[test]
        fn nothing_that_comes_breaks_it(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            events([bytes.as_slice()]);
        }
    }
}
