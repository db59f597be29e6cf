//! What was measured, for people.

/// A line of a distribution.
pub fn distribution(what: &str, unit: &str, values: &[f64]) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return println!("{what:<58} nothing was measured") };
    let at = |share: f64| sorted[(last as f64 * share).round() as usize];
    println!(
        "{what:<58} {:>7.1} {:>7.1} {:>7.1} {:>7.1} {:>7.1}  {unit:<4} {:>6}",
        sorted[0],
        at(0.5),
        at(0.95),
        at(0.99),
        sorted[last],
        sorted.len()
    );
}

/// What stands over such lines.
pub fn head(what: &str) {
    println!("\n{what:<58} {:>7} {:>7} {:>7} {:>7} {:>7}  {:<4} {:>6}", "least", "p50", "p95", "p99", "most", "", "number");
}
