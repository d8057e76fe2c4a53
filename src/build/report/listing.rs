//! Numbers and lists of names in messages.

use std::fmt::Display;

/// The most names in a line; the rest is counted.
const NAMES: usize = 6;

/// A number with the word in singular or plural.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    if count == N::from(1) {
        format!("1 {what}")
    } else {
        format!("{count} {what}s")
    }
}

/// The first few, and how many more.
pub(in crate::build) fn listed(names: &[impl ToString]) -> String {
    let mut list = names
        .iter()
        .take(NAMES)
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > NAMES {
        list += &format!(" and {} more", names.len() - NAMES);
    }
    list
}
