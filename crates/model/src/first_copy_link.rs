//! Links to the page from which a buyer downloads the first copy, before any site is bound. The token has the form of a
//! [`download_link`](crate::download_link), with version 2, the tag of no host, and a MAC over nothing else: it is for every plugin
//! that the license covers. It is not stored, and cannot be revoked: the server checks everything again at each use.

use chrono::{DateTime, Days, NaiveDate, Utc};

use crate::download_key::DownloadKey;
use crate::download_link::TokenFields;
use crate::license_key::LicenseId;
use crate::period::midnight_after;

/// The version of the token format.
const FORM: u8 = 2;

/// A link expires at the fifteenth midnight (UTC) after its day: it is good for 14 days at least. All links of one day are the
/// same.
const MIDNIGHTS: u64 = 15;

/// The path of the pages, before the token.
pub const PATH: &str = "/first-copy/";

/// A run of so many characters of base64url may be the most of a token.
const LONG_RUN: usize = 40;

/// A text that somebody else wrote, who may quote a mail with a link: without its end from the link on, and without what may be
/// the most of a token.
// SECURITY: a person with a token gets packages.
pub fn redact(text: &str) -> String {
    const INSTEAD: &str = "[link]";
    let path = PATH.trim_matches('/');
    let (text, rest) = text.find(path).map_or((text, ""), |at| text.split_at(at));
    let is_of_token = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let mut redacted = String::with_capacity(text.len());
    let mut left = text;
    while let Some(at) = left.find(is_of_token) {
        let (before, run) = left.split_at(at);
        let (run, after) = run.split_at(run.find(|letter| !is_of_token(letter)).unwrap_or(run.len()));
        redacted += before;
        redacted += if run.len() < LONG_RUN { run } else { INSTEAD };
        left = after;
    }
    redacted += left;
    if !rest.is_empty() {
        redacted += INSTEAD;
    }
    redacted
}

/// The license of a link, and when the link expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstCopyLink {
    /// The first 16 bytes of the license's id.
    pub license: [u8; 16],
    /// From this second on, the link is refused.
    pub expires: DateTime<Utc>,
}

impl FirstCopyLink {
    /// A link that is mailed on `day`.
    pub fn new(license: &LicenseId, day: NaiveDate) -> Self {
        let bytes = license.as_bytes();
        Self {
            license: std::array::from_fn(|at| bytes[at]),
            expires: midnight_after(day, MIDNIGHTS),
        }
    }

    /// The token; `None` after the year 2106, when the time no longer fits.
    pub fn token(&self, key: &DownloadKey) -> Option<String> {
        let fields = TokenFields {
            license: self.license,
            host_tag: key.no_host_tag(),
            expires: self.expires,
        };
        fields.encode(key, FORM, |signed| key.first_copy_mac(signed))
    }

    /// Reads a token, also an expired one; `None` if it was not made with this key.
    pub fn read(key: &DownloadKey, token: &str) -> Option<Self> {
        let is_mac = |signed: &[u8], claimed: &[u8; 16]| key.is_first_copy_mac(signed, claimed);
        let fields = TokenFields::decode(key, FORM, token, is_mac)?;
        Some(Self {
            license: fields.license,
            expires: fields.expires,
        })
    }

    /// The day on which it was mailed, which the build ids of its copies have, too.
    pub fn day(&self) -> NaiveDate {
        let last = self.expires.date_naive();
        last.checked_sub_days(Days::new(MIDNIGHTS)).unwrap_or(last)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;
    use proptest::prelude::*;

    use super::*;
    use crate::download_link::{DownloadLink, TOKEN_LENGTH};

    fn day() -> NaiveDate {
        "2026-11-23".parse().unwrap()
    }

    fn license(first: u8) -> LicenseId {
        LicenseId::from_bytes(std::array::from_fn(|at| first.wrapping_add(at as u8)))
    }

    #[test]
    fn a_link_says_its_license_and_lasts_fourteen_days_at_least() {
        let key = DownloadKey::new(&[7; 32]);
        let link = FirstCopyLink::new(&license(1), day());
        let token = link.token(&key).unwrap();
        let read = FirstCopyLink::read(&key, &token).unwrap();
        assert_eq!((&read, read.day(), token.len()), (&link, day(), TOKEN_LENGTH));
        assert_eq!(read.expires.to_rfc3339(), "2026-12-08T00:00:00+00:00");
        assert_eq!(FirstCopyLink::read(&DownloadKey::new(&[8; 32]), &token), None);
        assert_eq!(FirstCopyLink::new(&license(1), NaiveDate::MAX).token(&key), None);
    }

    #[test]
    fn a_token_has_these_bytes() {
        // Links in mails must survive an update of the server. Made once, by tests/vectors/marks.py.
        let key = DownloadKey::new(&std::array::from_fn(|at| at as u8));
        let token = FirstCopyLink::new(&license(0), day()).token(&key).unwrap();
        assert_eq!(token, include_str!("../../../tests/vectors/first_copy_link.txt").trim());
    }

    #[test]
    fn a_token_of_one_kind_is_none_of_the_other() {
        let key = DownloadKey::new(&[7; 32]);
        let first = FirstCopyLink::new(&license(1), day()).token(&key).unwrap();
        let of_site = DownloadLink::new(&key, &license(1), &"a.com".parse().unwrap(), day());
        let of_site = of_site.token(&key, "acme", "1.0").unwrap();
        assert_eq!(DownloadLink::read(&key, "acme", "1.0", &first), None);
        assert_eq!(FirstCopyLink::read(&key, &of_site), None);
        // Not even with the version of the other.
        for (token, version) in [(&first, 1), (&of_site, 2)] {
            let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(token).unwrap();
            bytes[0] = version;
            let forged = BASE64_URL_SAFE_NO_PAD.encode(bytes);
            assert_eq!(DownloadLink::read(&key, "acme", "1.0", &forged), None);
            assert_eq!(FirstCopyLink::read(&key, &forged), None);
        }
    }

    #[test]
    fn every_changed_character_is_found() {
        let key = DownloadKey::new(&[7; 32]);
        let token = FirstCopyLink::new(&license(1), day()).token(&key).unwrap();
        for at in 0..TOKEN_LENGTH {
            for other in (0..=127_u8)
                .map(char::from)
                .filter(|other| !token[at..].starts_with(*other))
            {
                let mut changed = token.clone();
                changed.replace_range(at..=at, &other.to_string());
                assert_eq!(FirstCopyLink::read(&key, &changed), None, "{at} {other:?}");
            }
        }
        for other in [&token[1..], &format!("{token}A"), &format!("{token}="), ""] {
            assert_eq!(FirstCopyLink::read(&key, other), None);
        }
    }

    #[test]
    fn a_link_is_left_out_of_what_others_write() {
        let token = FirstCopyLink::new(&license(1), day())
            .token(&DownloadKey::new(&[7; 32]))
            .unwrap();
        for (text, expected) in [
            ("554 no such user", "554 no such user"),
            (
                "spam: https://a.example/first-copy/TOKEN and more",
                "spam: https://a.example/[link]",
            ),
            ("spam: TOKEN and more \u{fc}", "spam: [link] and more \u{fc}"),
            ("TOKEN", "[link]"),
            ("", ""),
        ] {
            assert_eq!(redact(&text.replace("TOKEN", &token)), expected);
        }
    }

    proptest! {
        #[test]
        fn no_text_is_taken_for_a_token(token in "[A-Za-z0-9_-]{60}|.{0,70}") {
            prop_assert_eq!(FirstCopyLink::read(&DownloadKey::new(&[7; 32]), &token), None);
        }
    }
}
