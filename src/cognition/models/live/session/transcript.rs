//! What was said, as the service writes it down, on its timeline: a task that the model delegates has no text, and is rebuilt from it.

use std::collections::VecDeque;

/// The last things that were said in this session.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    /// In the order in which they came.
    fragments: VecDeque<Fragment>,
    bytes: usize,
    /// Up to where what the caller said belongs to tasks that were taken (ms).
    taken_until_ms: u64,
}

#[derive(Debug)]
struct Fragment {
    by_caller: bool,
    start_ms: u64,
    text: String,
}

impl Transcript {
    /// The caller said this.
    pub fn caller(&mut self, start_ms: u64, text: String) {
        self.add(Fragment { by_caller: true, start_ms, text });
    }

    /// The caller was told this by the model.
    pub fn model(&mut self, start_ms: u64, text: String) {
        self.add(Fragment { by_caller: false, start_ms, text });
    }

    /// Whether the caller is known to have said something after this.
    pub fn goes_beyond(&self, offset_ms: u64) -> bool {
        self.fragments.iter().any(|fragment| fragment.by_caller && fragment.start_ms >= offset_ms)
    }

    /// What the caller said before `offset_ms` and since the last task, with what the model said in between in brackets; none where
    /// that is nothing.
    pub fn task(&self, offset_ms: u64) -> Option<String> {
        let mut said: Vec<&Fragment> =
            self.fragments.iter().filter(|fragment| (self.taken_until_ms..offset_ms).contains(&fragment.start_ms)).collect();
        said.sort_by_key(|fragment| fragment.start_ms);
        let (mut task, mut between) = (String::new(), String::new());
        for fragment in said {
            if !fragment.by_caller {
                between.push_str(&fragment.text);
                continue;
            }
            let asked = std::mem::take(&mut between);
            // What was said before the caller's first word is no part of it.
            if !task.trim().is_empty() && !asked.trim().is_empty() {
                task.push_str(&format!(" [{}] ", asked.trim()));
            }
            task.push_str(&fragment.text);
        }
        let words: Vec<&str> = task.split_whitespace().collect();
        // What was said last is what is asked for.
        let mut room = TASK_BYTES_MAX;
        let kept = words.iter().rev().take_while(|word| {
            room = room.saturating_sub(word.len() + 1);
            room > 0
        });
        let kept = kept.count();
        let task = words.into_iter().rev().take(kept).rev().collect::<Vec<_>>().join(" ");
        (!task.is_empty()).then_some(task)
    }

    /// What was said before this belongs to a task that was taken. From where to where.
    pub fn taken(&mut self, offset_ms: u64) -> (u64, u64) {
        let from = self.taken_until_ms;
        self.taken_until_ms = from.max(offset_ms);
        (from, self.taken_until_ms)
    }

    /// What was taken belongs to no task, unless more has been taken since.
    pub fn give_back(&mut self, (from, until): (u64, u64)) {
        if self.taken_until_ms == until {
            self.taken_until_ms = from;
        }
    }

    /// Whether a task was taken of all that was said before this.
    pub fn is_taken(&self, offset_ms: u64) -> bool {
        self.taken_until_ms > 0 && self.task(offset_ms).is_none()
    }

    /// Another session has its own timeline: what no task was made of comes before all of it, for the task may be delegated there.
    pub fn begin_session(&mut self) {
        let taken_until_ms = std::mem::take(&mut self.taken_until_ms);
        self.fragments.retain(|fragment| fragment.start_ms >= taken_until_ms);
        self.fragments.make_contiguous().sort_by_key(|fragment| fragment.start_ms);
        self.fragments.iter_mut().for_each(|fragment| fragment.start_ms = 0);
        self.bytes = self.fragments.iter().map(|fragment| fragment.text.len()).sum();
    }

    fn add(&mut self, fragment: Fragment) {
        self.bytes += fragment.text.len();
        self.fragments.push_back(fragment);
        while self.bytes > BYTES_MAX || self.fragments.len() > FRAGMENTS_MAX {
            let Some(oldest) = self.fragments.pop_front() else { break };
            self.bytes -= oldest.text.len();
        }
    }
}

/// Several minutes of two people talking.
const BYTES_MAX: usize = 16 * 1024;
/// As many, where a service sends a few letters at a time.
const FRAGMENTS_MAX: usize = 2_048;
/// Nobody asks for a thing in more words.
const TASK_BYTES_MAX: usize = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Transcript {
        let mut transcript = Transcript::default();
        transcript.model(0, "Hola, ¿qué desea?".into());
        transcript.caller(1_000, "Una me".into());
        transcript.caller(1_400, "sa para dos".into());
        transcript.model(3_000, " ¿Para".into());
        transcript.model(3_200, " cuándo?".into());
        transcript.caller(5_000, " El  viernes.".into());
        transcript
    }

    #[test]
    fn a_task_is_what_the_caller_said_up_to_it_with_what_was_asked_in_between() {
        let mut transcript = asked();
        assert_eq!(transcript.task(5_001).unwrap(), "Una mesa para dos [¿Para cuándo?] El viernes.");
        assert_eq!(transcript.task(5_000).unwrap(), "Una mesa para dos");
        assert_eq!(transcript.task(1_000), None);
        assert!(transcript.goes_beyond(5_000) && !transcript.goes_beyond(5_001));
        transcript.taken(5_100);
        transcript.model(6_000, " Muy bien.".into());
        assert!(transcript.is_taken(6_000));
        transcript.caller(7_000, " Y un taxi.".into());
        assert_eq!(transcript.task(8_000).unwrap(), "Y un taxi.", "each word is part of one task");
    }

    #[test]
    fn what_comes_late_has_its_place() {
        let mut transcript = Transcript::default();
        transcript.caller(0, "Un taxi.".into());
        transcript.model(2_000, "¿Adónde?".into());
        transcript.caller(3_000, " A casa.".into());
        transcript.caller(1_000, " Por favor.".into());
        assert_eq!(transcript.task(9_000).unwrap(), "Un taxi. Por favor. [¿Adónde?] A casa.");
    }

    #[test]
    fn what_is_kept_and_what_becomes_a_task_is_bounded_and_the_last_words_are_there() {
        let mut transcript = Transcript::default();
        for n in 0..10_000 {
            transcript.caller(n, format!("palabra{n} "));
        }
        assert!(transcript.bytes <= BYTES_MAX && transcript.fragments.len() <= FRAGMENTS_MAX);
        let task = transcript.task(u64::MAX).unwrap();
        assert!(task.len() <= TASK_BYTES_MAX && task.ends_with(" palabra9999"), "{}", task.len());
        transcript.caller(10_000, "x".repeat(100_000));
        assert_eq!(transcript.fragments.len(), 0, "one that alone is too long is nobody's words");
    }
}
