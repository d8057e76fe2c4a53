//! The table of results: each figure with its target, and whether it is met.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How many targets were met, and how many were not.
static MET: AtomicUsize = AtomicUsize::new(0);
static MISSED: AtomicUsize = AtomicUsize::new(0);

/// The median of some runs.
pub fn median(figures: impl Iterator<Item = f64>) -> f64 {
    percentile(figures, 0.5)
}

/// The figure that this part of all figures does not exceed.
pub fn percentile(figures: impl Iterator<Item = f64>, part: f64) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures
        .get((figures.len() as f64 * part) as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

/// What is asked of a figure.
#[derive(Clone, Copy)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// Shown only: another row decides.
    None,
}

/// A heading between rows.
pub fn heading(text: &str) {
    println!("\n{text}");
}

/// One figure.
pub fn row(figure: &str, seen: f64, unit: &str, target: Target) {
    let (wanted, met) = match target {
        Target::AtLeast(least) => (format!("at least {least} {unit}"), seen >= least),
        Target::AtMost(most) => (format!("at most {most} {unit}"), seen <= most),
        Target::None => (String::new(), true),
    };
    let verdict = match target {
        Target::None => "",
        _ if met => "met",
        _ => "NOT MET",
    };
    if !verdict.is_empty() {
        let count = if met { &MET } else { &MISSED };
        count.fetch_add(1, Ordering::Relaxed);
    }
    println!("  {figure:58} {seen:10.2} {unit:4} {wanted:18} {verdict}");
}

/// The last line: how many targets are met, and how long it took.
pub fn summary(took: Duration) {
    let [met, missed] = [&MET, &MISSED].map(|count| count.load(Ordering::Relaxed));
    println!(
        "\n{met} targets met, {missed} not met, in {:.1} minutes",
        took.as_secs_f64() / 60.0
    );
}
