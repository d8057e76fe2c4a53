//! The result of a license verb: the new state, and whether anything was written.

use chrono::NaiveDate;

use countersign_model::license::License;
use countersign_registry::Registry;

/// The result.
pub(super) struct Done {
    /// Whether anything was written.
    pub changed: bool,
    /// A sentence about the license.
    pub message: String,
    /// More for the person to know.
    pub notes: Vec<String>,
    /// The license after the change.
    pub license: License,
    /// The registry after the change.
    pub registry: Registry,
    /// The day of the change.
    pub today: NaiveDate,
}

impl Done {
    /// The same with these notes.
    pub(super) fn with_notes(self, notes: Vec<String>) -> Self {
        Self { notes, ..self }
    }

    /// All of it, one line each.
    pub(super) fn text(&self) -> String {
        let notes: String = self.notes.iter().map(|note| format!("note: {note}\n")).collect();
        format!("{}\n{notes}", self.message)
    }
}
