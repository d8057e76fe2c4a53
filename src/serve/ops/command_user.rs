//! Who gives a command, as the ledger keeps the name: the user of the process, and whom the process claims to act for.
//!
//! The system says which user a process has. What it claims, such as `SUDO_USER`, is its own word, and marked as such.

use std::fmt;

use rustix::process::geteuid;

/// Who gives a command: `root, claimed anna`.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandUser(String);

/// An order, and who gives it.
pub(in crate::serve) struct GivenOrder<O> {
    pub(in crate::serve) order: O,
    pub(in crate::serve) user: CommandUser,
}

impl CommandUser {
    /// The user with this id. Asks the system for the name, which may ask a directory service: it may block.
    pub fn new(uid: u32, claimed: Option<&str>) -> Self {
        let user = uzers::get_user_by_uid(uid);
        let name = user.as_ref().and_then(|user| user.name().to_str());
        Self::named(uid, name, claimed)
    }

    /// A person who is signed in at the desk.
    pub(in crate::serve) fn of_person(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The user of this process.
    pub fn own(claimed: Option<&str>) -> Self {
        Self::new(geteuid().as_raw(), claimed)
    }

    fn named(uid: u32, name: Option<&str>, claimed: Option<&str>) -> Self {
        let user = name.map_or_else(|| format!("uid {uid}"), str::to_owned);
        Self(match claimed {
            Some(claimed) if Some(claimed) != name => format!("{user}, claimed {claimed}"),
            _ => user,
        })
    }

    /// The name, for the ledger's texts.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// SECURITY: a name can be erased from the ledger's texts, and not from a log.
impl fmt::Debug for CommandUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommandUser(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_user_is_marked_unless_the_system_says_the_same() {
        let text = |name, claimed| CommandUser::named(7, name, claimed).0;
        assert_eq!(text(Some("root"), Some("anna")), "root, claimed anna");
        assert_eq!(text(Some("anna"), Some("anna")), "anna");
        assert_eq!(text(None, Some("anna")), "uid 7, claimed anna");
        assert_eq!(text(None, None), "uid 7");
        assert_eq!(CommandUser::new(0, None).as_str(), "root");
    }
}
