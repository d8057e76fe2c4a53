//! Who asks: the session of a request, and what its owner may do now.

use chrono::{DateTime, Utc};
use warp::http::{HeaderMap, header};

use crate::serve::desk::answer::cookie_name;
use crate::serve::desk::door::DeskDoor;
use crate::serve::desk::session::{DeskSession, SessionOwner, person_number};
use countersign_model::desk_person::{DeskPerson, DeskRole};
use countersign_model::issuing_key::ReferenceKey;

/// Somebody who is signed in.
// SECURITY: it is personal. Its `Debug` has the role alone.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct DeskVisitor {
    pub(super) session: DeskSession,
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
    /// Who sent a request; `None` for a stranger. The role is that of the file in force.
    pub(super) fn of(
        headers: &HeaderMap,
        is_https: bool,
        door: &DeskDoor,
        key: &ReferenceKey,
        people: &[DeskPerson],
        now: DateTime<Utc>,
    ) -> Option<Self> {
        let session = cookies(headers, cookie_name(is_https)).find_map(|value| DeskSession::read(key, value, now))?;
        if door.has_ended(session.id) {
            return None;
        }
        let known = match &session.owner {
            SessionOwner::Operator(user) => Some((user.clone(), DeskRole::Admin)),
            SessionOwner::Person(number) => people
                .iter()
                .find(|person| person_number(key, &person.address) == *number)
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

/// The values of the cookies of this name.
fn cookies<'h>(headers: &'h HeaderMap, name: &'static str) -> impl Iterator<Item = &'h str> {
    let sent = headers.get_all(header::COOKIE).iter();
    let pairs = sent
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    pairs.filter_map(move |pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_model::issued_license::Hex128;

    #[test]
    fn the_role_is_the_one_of_the_file_and_who_left_it_is_a_stranger() {
        let key = ReferenceKey::new(&[1; 32]);
        let door = DeskDoor::new(None, 1);
        let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let anna = |role| DeskPerson {
            name: "Anna".into(),
            address: "Anna@example.com".parse().unwrap(),
            role,
        };
        let session = DeskSession {
            id: Hex128([1; 16]),
            owner: SessionOwner::Person(person_number(&key, &"anna@example.com".parse().unwrap())),
            issued: now,
        };
        let mut headers = HeaderMap::new();
        let cookie = format!("a=b; desk=forged; desk={}", session.signed(&key));
        headers.insert(header::COOKIE, cookie.parse().unwrap());
        let role = |people: &[DeskPerson], is_https| {
            DeskVisitor::of(&headers, is_https, &door, &key, people, now).map(|visitor| visitor.role)
        };
        assert_eq!(role(&[anna(DeskRole::Read)], false), Some(DeskRole::Read));
        assert_eq!(role(&[anna(DeskRole::Admin)], false), Some(DeskRole::Admin));
        assert_eq!(
            role(&[anna(DeskRole::Admin)], true),
            None,
            "that cookie has another name"
        );
        assert_eq!(role(&[], false), None);
        door.end_session(session.id, session.ends(), now);
        assert_eq!(role(&[anna(DeskRole::Admin)], false), None);
    }
}
