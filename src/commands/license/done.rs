//! What a license verb did: what is true now, and whether anything was written.

use chrono::NaiveDate;

use crate::model::license::License;
use crate::registry::Registry;

/// What is true now.
pub(super) struct Done {
    /// Whether anything was written.
    pub changed: bool,
    /// A sentence about it.
    pub message: String,
    /// What else a person has to know.
    pub notes: Vec<String>,
    /// The license as it is now.
    pub license: License,
    /// The registry as it is now.
    pub registry: Registry,
    /// The day on which it was asked for.
    pub today: NaiveDate,
}

impl Done {
    /// The same with these notes.
    pub(super) fn with_notes(self, notes: Vec<String>) -> Self {
        Self { notes, ..self }
    }

    /// All of it, a line each.
    pub(super) fn text(&self) -> String {
        let notes: String = self.notes.iter().map(|note| format!("note: {note}\n")).collect();
        format!("{}\n{notes}", self.message)
    }
}
