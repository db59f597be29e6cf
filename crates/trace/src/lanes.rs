//! Spans of time, and how they are drawn into a row of columns.

use recado_core::time::Time;

/// Something that lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span<T> {
    /// When it begins.
    pub from: Time,
    /// When it ends.
    pub to: Time,
    /// What it is.
    pub what: T,
}

/// A state that changes: each change ends what was before.
#[derive(Debug)]
pub(crate) struct Track<T> {
    spans: Vec<Span<T>>,
    now: Option<(Time, T)>,
}

impl<T: Copy + PartialEq> Track<T> {
    pub fn new() -> Self {
        Self { spans: Vec::new(), now: None }
    }

    /// From `at` on it is `what`; none where it is nothing.
    pub fn becomes(&mut self, at: Time, what: Option<T>) {
        if self.now.map(|(_, now)| now) == what {
            return;
        }
        if let Some((from, was)) = self.now.take() {
            self.spans.push(Span { from, to: at, what: was });
        }
        self.now = what.map(|what| (at, what));
    }

    /// What it is now.
    pub fn now(&self) -> Option<T> {
        self.now.map(|(_, now)| now)
    }

    /// The spans, the last of which ends at `end`.
    pub fn until(mut self, end: Time) -> Vec<Span<T>> {
        self.becomes(end, None);
        self.spans
    }
}

/// A stretch of time in so many columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis {
    pub from: Time,
    pub to: Time,
    pub columns: usize,
}

impl Axis {
    /// The column of a time, were there as many as it takes.
    pub fn column(&self, at: Time) -> usize {
        let (passed, whole) = (at.since(self.from) as u128, self.to.since(self.from).max(1) as u128);
        usize::try_from(passed * self.columns as u128 / whole).unwrap_or(usize::MAX)
    }

    /// When a column begins.
    pub fn time(&self, column: usize) -> Time {
        let whole = u128::from(self.to.since(self.from));
        self.from.plus(u64::try_from(whole * column as u128 / self.columns.max(1) as u128).unwrap_or(u64::MAX))
    }

    /// Draws spans into a row; where several share a column the one with the greatest `weight` is seen.
    pub fn row<T: Copy>(&self, spans: &[Span<T>], weight: impl Fn(T) -> u8, sign: impl Fn(T) -> char) -> String {
        let mut columns: Vec<Option<T>> = vec![None; self.columns];
        for span in spans.iter().filter(|span| span.to >= self.from && span.from <= self.to) {
            let first = self.column(span.from).min(self.columns.saturating_sub(1));
            let last = self.column(span.to).min(self.columns).max(first + 1);
            for column in columns.iter_mut().take(last).skip(first) {
                if column.is_none_or(|seen| weight(seen) < weight(span.what)) {
                    *column = Some(span.what);
                }
            }
        }
        columns.into_iter().map(|column| column.map_or(' ', &sign)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_span_is_seen_in_a_row_of_few_columns() {
        let axis = Axis { from: Time(1_000), to: Time(11_000), columns: 10 };
        let spans = [
            Span { from: Time(1_000), to: Time(6_000), what: 'a' },
            Span { from: Time(3_100), to: Time(3_110), what: 'b' },
            Span { from: Time(10_990), to: Time(11_000), what: 'c' },
        ];
        assert_eq!(axis.row(&spans, |what| what as u8, |what| what), "aabaa    c");
    }

    #[test]
    fn a_track_ends_what_was_before() {
        let mut track = Track::new();
        track.becomes(Time(1), Some('a'));
        track.becomes(Time(3), Some('a'));
        track.becomes(Time(5), None);
        track.becomes(Time(7), Some('b'));
        let spans = track.until(Time(9));
        assert_eq!(spans, [Span { from: Time(1), to: Time(5), what: 'a' }, Span { from: Time(7), to: Time(9), what: 'b' }]);
    }
}
