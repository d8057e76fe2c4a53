//! The part of a group commit that imports licenses of another system.

use std::collections::HashSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::binding_batch::BindingBatch;
use crate::license_imports::{self, ImportOutcome, ImportRequest};
use crate::log::LedgerEntry;
use crate::log::record::LedgerEvent;

impl BindingBatch<'_> {
    /// Decides an import: an outcome for each of its licenses, in their order.
    pub(super) fn import(&mut self, request: &ImportRequest, clock: Option<DateTime<Utc>>) -> Vec<ImportOutcome> {
        let now = clock.unwrap_or(request.now);
        let bound = |event: &LedgerEvent| match event {
            LedgerEvent::Bound(LedgerEntry { license, binding }) => Some((*license, binding.host.clone())),
            _ => None,
        };
        let mut beside: HashSet<_> = self.appended.iter().filter_map(bound).collect();
        let mut outcomes = Vec::new();
        for import in &request.licenses {
            let license = import.license.id;
            let current = self.licenses.of(&license);
            let stored = self.stored(&license);
            let decided = license_imports::decide(import, current.as_deref(), &stored, &beside, now);
            if decided.outcome.license.is_taken()
                && let Some(license) = decided.license.as_ref().or(current.as_deref())
            {
                self.licenses.texts.keep(import.reference.as_ref(), license);
            }
            if let Some(issued) = decided.license.map(Arc::new) {
                self.appended.push(LedgerEvent::License(Arc::clone(&issued)));
                self.licenses.take(issued);
            }
            for binding in decided.bindings {
                beside.insert((license, binding.host.clone()));
                self.appended.push(LedgerEvent::Bound(LedgerEntry { license, binding }));
            }
            outcomes.push(decided.outcome);
        }
        outcomes
    }
}
