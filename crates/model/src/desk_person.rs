//! Who may use the desk, and what each may do there.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::customer::CustomerAddress;

/// What somebody may do at the desk. Each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeskRole {
    /// Sees everything but addresses and notes of customers.
    Read,
    /// Sees those, too, and helps customers.
    Support,
    /// Does what takes something away for good, too.
    Admin,
}

impl DeskRole {
    /// The word for it in files and on pages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Support => "support",
            Self::Admin => "admin",
        }
    }
}

/// The text is not a role.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a role: expected \"read\", \"support\" or \"admin\"")]
pub struct NotADeskRole;

impl FromStr for DeskRole {
    type Err = NotADeskRole;

    fn from_str(text: &str) -> Result<Self, NotADeskRole> {
        let roles = [Self::Read, Self::Support, Self::Admin];
        roles.into_iter().find(|role| role.word() == text).ok_or(NotADeskRole)
    }
}

impl fmt::Display for DeskRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A person of `registry/desk.toml`.
// SECURITY: it is personal. Its `Debug` has the role alone.
#[derive(Clone, PartialEq, Eq)]
pub struct DeskPerson {
    /// As pages and the ledger name the person.
    pub name: Box<str>,
    /// Where sign-in mails go.
    pub address: CustomerAddress,
    /// What the person may do.
    pub role: DeskRole,
}

impl DeskPerson {
    /// The longest name, in characters.
    pub const MAX_NAME: usize = 60;
}

impl fmt::Debug for DeskPerson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeskPerson({}, redacted)", self.role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_what_those_before_it_may() {
        assert!(DeskRole::Read < DeskRole::Support && DeskRole::Support < DeskRole::Admin);
        assert_eq!("admin".parse(), Ok(DeskRole::Admin));
        assert_eq!("Admin".parse::<DeskRole>(), Err(NotADeskRole));
    }
}
