//! How people come to the desk: the names that it answers to, and the links that sign in once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};

use crate::serve::desk::own_host::OwnHosts;
use crate::serve::pages::form::PageOrigin;
use countersign_model::issuing_key::ReferenceKey;
use countersign_settings::config::DeskUrl;

/// How long a link can be used.
const LINK_MINUTES: i64 = 10;

/// The most links that can be used at once; for one more, the oldest is dropped.
const MOST_LINKS: usize = 64;

/// The names and the links of one node's desk.
#[derive(Debug)]
pub struct DeskDoor {
    url: Option<DeskUrl>,
    port: u16,
    links: Mutex<HashMap<Box<str>, OperatorLink>>,
}

/// A link that signs in who runs commands, once.
#[derive(Clone, Debug)]
struct OperatorLink {
    user: Box<str>,
    expires: DateTime<Utc>,
}

/// A link that was made, and the ways to it.
// SECURITY: the token stays out of logs.
pub(in crate::serve) struct MadeLink {
    /// The secret of the link.
    pub token: String,
    /// A name of this machine that no other server has, for browsers beside the server or behind `ssh -L`.
    pub name: String,
    /// When it ends.
    pub expires: DateTime<Utc>,
}

impl DeskDoor {
    /// A desk that listens on this port, and that people reach by `url`.
    pub(in crate::serve) fn new(url: Option<DeskUrl>, port: u16) -> Self {
        Self {
            url,
            port,
            links: Mutex::default(),
        }
    }

    /// By which address people reach it.
    pub(in crate::serve) fn url(&self) -> Option<&DeskUrl> {
        self.url.as_ref()
    }

    /// On which port it listens.
    pub(in crate::serve) fn port(&self) -> u16 {
        self.port
    }

    /// Which of our names a request is for: the `Host` of its head, as it was sent.
    pub(super) fn origin(&self, key: &ReferenceKey, host: &str) -> Option<PageOrigin> {
        OwnHosts {
            url: self.url.as_ref(),
            key,
        }
        .origin(host)
    }

    fn links(&self) -> MutexGuard<'_, HashMap<Box<str>, OperatorLink>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a link for this user.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(in crate::serve) fn make_link(
        &self,
        key: &ReferenceKey,
        user: &str,
        now: DateTime<Utc>,
    ) -> Result<MadeLink, getrandom::Error> {
        let mut random = [0; 20];
        getrandom::fill(&mut random)?;
        let (token, name) = random.split_at(16);
        let token = BASE64_URL_SAFE_NO_PAD.encode(token);
        let expires = now + TimeDelta::minutes(LINK_MINUTES);
        let user = user.into();
        let mut links = self.links();
        links.retain(|_, link| now < link.expires);
        if links.len() >= MOST_LINKS
            && let Some(oldest) = links.iter().min_by_key(|(_, link)| link.expires)
        {
            let oldest = oldest.0.clone();
            links.remove(&oldest);
        }
        links.insert(token.as_str().into(), OperatorLink { user, expires });
        Ok(MadeLink {
            token,
            name: OwnHosts::new_name(key, name),
            expires,
        })
    }

    /// Whether a link of this token can be used. Changes nothing.
    pub(super) fn has_link(&self, token: &str, now: DateTime<Utc>) -> bool {
        self.links().get(token).is_some_and(|link| now < link.expires)
    }

    /// Uses a link up; returns for whom it was made.
    pub(super) fn use_link(&self, token: &str, now: DateTime<Utc>) -> Option<Box<str>> {
        let link = self.links().remove(token)?;
        (now < link.expires).then_some(link.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_works_once_and_for_ten_minutes_and_looking_at_it_does_not_use_it() {
        let key = ReferenceKey::new(&[1; 32]);
        let door = DeskDoor::new(None, 8082);
        let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let link = door.make_link(&key, "anna", now).unwrap();
        assert!(door.origin(&key, &link.name).is_some());
        assert!(door.has_link(&link.token, now) && door.has_link(&link.token, now));
        assert!(!door.has_link("other", now) && door.use_link("other", now).is_none());
        assert_eq!(door.use_link(&link.token, now).as_deref(), Some("anna"));
        assert_eq!(door.use_link(&link.token, now), None);
        let late = now + TimeDelta::minutes(LINK_MINUTES);
        let link = door.make_link(&key, "anna", now).unwrap();
        assert!(!door.has_link(&link.token, late) && door.use_link(&link.token, late).is_none());
        for _ in 0..200 {
            door.make_link(&key, "anna", now).unwrap();
        }
        assert_eq!(door.links().len(), MOST_LINKS);
    }
}
