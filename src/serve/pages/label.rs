//! For whom pages are: the name that keeps their sessions, codes and links apart from those of other pages.

use chrono::TimeDelta;

use countersign_model::issuing_key::ReferenceKey;

/// For whom pages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) struct PageLabel {
    /// The name of the cookie. Every MAC begins with it.
    pub(in crate::serve) name: &'static str,
    /// How many hours a session lasts.
    pub(in crate::serve) hours: i64,
    /// The path of the first page for somebody who is signed in.
    pub(in crate::serve) home: &'static str,
    /// The path of the page for strangers.
    pub(in crate::serve) sign_in: &'static str,
    /// How many mails one address gets in fifteen minutes.
    pub(in crate::serve) mails: usize,
    /// Whether the host is theirs alone, so that all that a browser keeps for it goes when somebody signs out.
    pub(in crate::serve) has_own_host: bool,
}

impl PageLabel {
    /// For the vendor's people.
    pub(in crate::serve) const DESK: Self = Self {
        name: "desk",
        hours: 12,
        home: "/",
        sign_in: "/sign-in",
        mails: 20,
        has_own_host: true,
    };

    /// For customers. Who comes home without the cookie has a browser that keeps none.
    pub(in crate::serve) const ACCOUNT: Self = Self {
        name: "account",
        hours: 2,
        home: "/account?signed-in",
        sign_in: "/account/sign-in",
        mails: 3,
        has_own_host: false,
    };

    /// How long a session lasts.
    pub(in crate::serve) fn lasts(self) -> TimeDelta {
        TimeDelta::hours(self.hours)
    }

    /// The name of the cookie. Browsers take the first one only from https, for the whole host and no other (RFC 6265bis,
    /// section 4.1.3.2); Safari takes no `Secure` cookie from http on this machine.
    pub(in crate::serve) fn cookie_name(self, is_https: bool) -> String {
        let before = if is_https { "__Host-" } else { "" };
        format!("{before}{}", self.name)
    }

    /// The MAC of what these pages give to browsers. `use_of` ends with a zero.
    pub(in crate::serve) fn mac(self, key: &ReferenceKey, use_of: &[u8], payload: &[u8]) -> [u8; 32] {
        key.desk_mac(&[self.name.as_bytes(), b" ", use_of, payload])
    }

    /// Whether these pages gave it, in constant time.
    pub(in crate::serve) fn is_mac(self, key: &ReferenceKey, use_of: &[u8], payload: &[u8], claimed: &[u8]) -> bool {
        key.is_desk_mac(&[self.name.as_bytes(), b" ", use_of, payload], claimed)
    }
}
