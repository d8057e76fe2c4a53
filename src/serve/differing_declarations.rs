//! Declarations that grant something else than the ledger's license with their id. The ledger's license is in force, so nothing
//! is broken; but the person who changed the file expects something else.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};

use countersign_ledger::Ledger;
use countersign_model::license::License;
use countersign_registry::Registry;

/// How many of them a message names.
const NAMED: usize = 3;

/// What was found in one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DifferingDeclarations {
    /// How many there are.
    pub count: usize,
    /// The first of them by id, with their places.
    named: Vec<String>,
    /// Tells one set of them, and of what they grant, from another.
    fingerprint: u64,
}

impl DifferingDeclarations {
    /// Looks at every declaration; `differs` says whether the ledger has its license, issued or adopted with another grant.
    pub fn find(registry: &Registry, differs: impl Fn(&License) -> bool) -> Self {
        let mut found = Self::default();
        let mut fingerprint = DefaultHasher::new();
        for license in registry.licenses().filter(|license| differs(license)) {
            found.count += 1;
            (license.id, license.grant_digest()).hash(&mut fingerprint);
            if found.named.len() < NAMED {
                let place = registry.place(&license.id).map_or(String::new(), |(file, line)| {
                    let name = file.file_name().unwrap_or_default().to_string_lossy();
                    format!(" ({name}:{line})")
                });
                found.named.push(format!("{}{place}", license.id.log_tag()));
            }
        }
        found.fingerprint = fingerprint.finish();
        found
    }

    /// The same with the licenses of an open ledger.
    pub fn beside(registry: &Registry, bindings: &Ledger) -> Self {
        let differs = |license: &License| {
            let issued = bindings.issued(&license.id);
            issued.is_some_and(|issued| issued.differs_from(license))
        };
        Self::find(registry, differs)
    }
}

/// For people: how many, and the first of them.
impl fmt::Display for DifferingDeclarations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.named.join(", ");
        match self.count {
            1 => write!(f, "1 declaration differs")?,
            count => write!(f, "{count} declarations differ")?,
        }
        write!(f, " from what the ledger adopted or issued, which is in force: {named}")?;
        match self.count.saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The last look of a running server.
#[derive(Debug, Default)]
pub struct DeclarationsLook(Mutex<DifferingDeclarations>);

impl DeclarationsLook {
    /// How many differed.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// Looks again, and logs what is new. Returns what there is to say.
    pub fn look(&self, registry: &Registry, bindings: &Ledger) -> Option<String> {
        let found = DifferingDeclarations::beside(registry, bindings);
        let message = (found.count > 0).then(|| found.to_string());
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(message) = &message
            && *last != found
        {
            tracing::error!(
                "{message}; change these licenses in the ledger, and remove their declarations or restore what was adopted"
            );
        }
        *last = found;
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_named_and_a_change_of_one_is_another_finding() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["plugins", "licenses"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let registry = |sites: u8| {
            let line = |byte: u8| {
                let modules = "{\"a\":[]}";
                format!(
                    "{{\"id\":\"{byte:064x}\",\"expires\":\"2027-12-31\",\"modules\":{modules},\"sites\":{sites}}}\n"
                )
            };
            let lines: String = (1..=5).map(line).collect();
            std::fs::write(folder.path().join("licenses/a.jsonl"), lines).unwrap();
            Registry::load(folder.path()).unwrap()
        };
        let first = DifferingDeclarations::find(&registry(1), |license| license.id.as_bytes()[31] > 1);
        let message = first.to_string();
        assert!(message.starts_with("4 declarations differ from"), "{message}");
        assert!(
            message.ends_with("(a.jsonl:2), 000000000000 (a.jsonl:3), 000000000000 (a.jsonl:4) and 1 more"),
            "{message}"
        );
        let other = DifferingDeclarations::find(&registry(2), |license| license.id.as_bytes()[31] > 1);
        assert_eq!(other.to_string(), message);
        assert_ne!(other, first);
        assert_eq!(DifferingDeclarations::find(&registry(1), |_| false).count, 0);
    }
}
