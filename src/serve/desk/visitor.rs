//! Who asks: the session of a request, and what its owner may do now.

use crate::serve::pages::label::PageLabel;
use crate::serve::pages::session::{PageSession, SessionOwner, person_number};
use countersign_model::desk_person::{DeskPerson, DeskRole};
use countersign_model::issuing_key::ReferenceKey;

/// Somebody who is signed in.
// SECURITY: it is personal. Its `Debug` has the role alone.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct DeskVisitor {
    pub(super) session: PageSession,
    /// As the ledger names the person.
    pub(super) name: Box<str>,
    pub(super) role: DeskRole,
}

impl std::fmt::Debug for DeskVisitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeskVisitor({}, redacted)", self.role)
    }
}

impl DeskVisitor {
    /// Whose session it is; `None` for a stranger. The role is that of the file in force.
    pub(super) fn of(session: PageSession, key: &ReferenceKey, people: &[DeskPerson]) -> Option<Self> {
        let known = match &session.owner {
            SessionOwner::Operator(user) => Some((user.clone(), DeskRole::Admin)),
            SessionOwner::Person(number) => people
                .iter()
                .find(|person| person_number(PageLabel::DESK, key, &person.address) == *number)
                .map(|person| (person.name.clone(), person.role)),
        };
        known.map(|(name, role)| Self { session, name, role })
    }

    /// Whether the visitor may see addresses and notes of customers.
    pub(super) fn sees_customers(&self) -> bool {
        self.may(DeskRole::Support)
    }

    /// Whether the visitor has this role, or more.
    pub(super) fn may(&self, role: DeskRole) -> bool {
        self.role >= role
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;
    use countersign_model::issued_license::Hex128;

    #[test]
    fn the_role_is_the_one_of_the_file_and_who_left_it_is_a_stranger() {
        let key = ReferenceKey::new(&[1; 32]);
        let anna = |role| DeskPerson {
            name: "Anna".into(),
            address: "Anna@example.com".parse().unwrap(),
            role,
        };
        let address = "anna@example.com".parse().unwrap();
        let session = PageSession {
            id: Hex128([1; 16]),
            owner: SessionOwner::Person(person_number(PageLabel::DESK, &key, &address)),
            issued: DateTime::UNIX_EPOCH,
        };
        let role = |people: &[DeskPerson]| DeskVisitor::of(session.clone(), &key, people).map(|visitor| visitor.role);
        assert_eq!(role(&[anna(DeskRole::Read)]), Some(DeskRole::Read));
        assert_eq!(role(&[anna(DeskRole::Admin)]), Some(DeskRole::Admin));
        assert_eq!(role(&[]), None);
    }
}
