//! Links to packages. The token says who may download what, until when; only the server can make or read one.
//! 45 bytes, written as 60 characters of base64url: form (1, or 3 to 5 for a security release), expiry (4, Unix time, big-endian), the first 16 bytes
//! of the license id under AES-128, 8 bytes for the host, and 16 bytes of HMAC-SHA256 over plugin, version and all of
//! that. Links are not stored. A download checks the license and the binding again.
//! [`first_copy_link`](crate::first_copy_link) has tokens of the same form.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::{DateTime, Days, NaiveDate, Utc};

use crate::download_key::DownloadKey;
use crate::license_key::LicenseId;
use crate::period::midnight_after;
use crate::release_rules::VersionLine;
use crate::site_host::SiteHost;

/// Length of a token in characters.
pub const TOKEN_LENGTH: usize = 60;

/// The forms of tokens: of a link that an active license got, and of links that an expired one may use, by the line. Form 2 is that of
/// [`first_copy_link`](crate::first_copy_link).
const FORMS: [(u8, Option<VersionLine>); 4] = [
    (1, None),
    (3, Some(VersionLine::Minor)),
    (4, Some(VersionLine::Major)),
    (5, Some(VersionLine::All)),
];

/// A link expires at the fourth midnight (UTC) after it was made, 72 to 96 hours later. All links of one day are the
/// same, so repeated update requests get the same one.
const MIDNIGHTS: u64 = 4;

/// The license and host of a link, and when it expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadLink {
    /// The first 16 bytes of the license's id.
    pub license: [u8; 16],
    /// See [`DownloadKey::host_tag`].
    host_tag: [u8; 8],
    /// From this second on, `serve::api::downloads` refuses the link.
    pub expires: DateTime<Utc>,
    /// Of a link to a security release: the narrowest line that has the release and the version that the site runs. `None` for any
    /// other link, which an expired license cannot use.
    pub line: Option<VersionLine>,
}

impl DownloadLink {
    /// A link for a site that asks on `day`.
    pub fn new(key: &DownloadKey, license: &LicenseId, host: &SiteHost, day: NaiveDate) -> Self {
        let bytes = license.as_bytes();
        Self {
            license: std::array::from_fn(|at| bytes[at]),
            host_tag: key.host_tag(host),
            expires: midnight_after(day, MIDNIGHTS),
            line: None,
        }
    }

    /// The same for a security release of this line.
    pub fn of_line(self, line: Option<VersionLine>) -> Self {
        Self { line, ..self }
    }

    /// The token for a plugin's version; `None` after the year 2106, when the time no longer fits.
    pub fn token(&self, key: &DownloadKey, slug: &str, version: &str) -> Option<String> {
        let fields = TokenFields {
            license: self.license,
            host_tag: self.host_tag,
            expires: self.expires,
        };
        let (form, _) = FORMS.into_iter().find(|(_, line)| *line == self.line)?;
        fields.encode(key, form, |signed| key.link_mac(slug, version, signed))
    }

    /// Reads a token, also an expired one; `None` if it was not made with this key for this plugin and version.
    pub fn read(key: &DownloadKey, slug: &str, version: &str, token: &str) -> Option<Self> {
        let is_mac = |signed: &[u8], claimed: &[u8; 16]| key.is_link_mac(slug, version, signed, claimed);
        let decode = |(form, line)| Some((TokenFields::decode(key, form, token, is_mac)?, line));
        let (fields, line) = FORMS.into_iter().find_map(decode)?;
        Some(Self {
            license: fields.license,
            host_tag: fields.host_tag,
            expires: fields.expires,
            line,
        })
    }

    /// The tag of the link's host.
    pub fn host_tag(&self) -> [u8; 8] {
        self.host_tag
    }

    /// The day on which it was made, which its build id has, too.
    pub fn day(&self) -> NaiveDate {
        let last = self.expires.date_naive();
        last.checked_sub_days(Days::new(MIDNIGHTS)).unwrap_or(last)
    }
}

/// What every token says.
pub(crate) struct TokenFields {
    /// The first 16 bytes of the license's id.
    pub license: [u8; 16],
    pub host_tag: [u8; 8],
    pub expires: DateTime<Utc>,
}

impl TokenFields {
    /// The token of this version, whose MAC is that of the bytes before it; `None` after the year 2106.
    pub(crate) fn encode(&self, key: &DownloadKey, form: u8, mac: impl FnOnce(&[u8]) -> [u8; 16]) -> Option<String> {
        let expires = u32::try_from(self.expires.timestamp()).ok()?;
        let mut bytes = [0; 45];
        bytes[0] = form;
        bytes[1..5].copy_from_slice(&expires.to_be_bytes());
        bytes[5..21].copy_from_slice(&key.hide_license(self.license));
        bytes[21..29].copy_from_slice(&self.host_tag);
        let mac = mac(&bytes[..29]);
        bytes[29..].copy_from_slice(&mac);
        Some(BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Reads a token of this version; `None` if `is_mac` does not know its MAC.
    pub(crate) fn decode(
        key: &DownloadKey,
        form: u8,
        token: &str,
        is_mac: impl FnOnce(&[u8], &[u8; 16]) -> bool,
    ) -> Option<Self> {
        let mut bytes = [0; 45];
        // Only one text decodes to these bytes, because the last character has no spare bits.
        if token.len() != TOKEN_LENGTH || BASE64_URL_SAFE_NO_PAD.decode_slice(token, &mut bytes).ok()? != bytes.len() {
            return None;
        }
        let part = |from: usize| -> [u8; 16] { std::array::from_fn(|at| bytes[from + at]) };
        // SECURITY: check the MAC before using any of it.
        if bytes[0] != form || !is_mac(&bytes[..29], &part(29)) {
            return None;
        }
        let expires = u32::from_be_bytes(std::array::from_fn(|at| bytes[1 + at]));
        Some(Self {
            license: key.show_license(part(5)),
            host_tag: std::array::from_fn(|at| bytes[21 + at]),
            expires: DateTime::from_timestamp(expires.into(), 0)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn day() -> NaiveDate {
        "2026-11-23".parse().unwrap()
    }

    fn host(text: &str) -> SiteHost {
        text.parse().unwrap()
    }

    fn license(first: u8) -> LicenseId {
        LicenseId::from_bytes(std::array::from_fn(|at| first.wrapping_add(at as u8)))
    }

    #[test]
    fn a_link_says_what_was_put_into_it_and_lasts_three_to_four_days() {
        let key = DownloadKey::new(&[7; 32]);
        let link = DownloadLink::new(&key, &license(1), &host("example.com"), day());
        let token = link.token(&key, "acme-forms", "1.2.0").unwrap();
        assert_eq!(token.len(), TOKEN_LENGTH);
        let read = DownloadLink::read(&key, "acme-forms", "1.2.0", &token).unwrap();
        assert_eq!(read, link);
        assert_eq!(
            (read.license, read.day()),
            (std::array::from_fn(|at| 1 + at as u8), day())
        );
        assert_eq!(read.expires.to_rfc3339(), "2026-11-27T00:00:00+00:00");
        assert_eq!(read.host_tag(), key.host_tag(&host("example.com")));
    }

    #[test]
    fn a_link_to_a_security_release_says_of_which_line_it_is() {
        let key = DownloadKey::new(&[7; 32]);
        let link = DownloadLink::new(&key, &license(1), &host("example.com"), day());
        let lines = [VersionLine::Minor, VersionLine::Major, VersionLine::All].map(Some);
        let mut tokens = vec![link.token(&key, "acme-forms", "1.2.0").unwrap()];
        for line in lines {
            let link = link.clone().of_line(line);
            let token = link.token(&key, "acme-forms", "1.2.0").unwrap();
            assert_eq!(
                DownloadLink::read(&key, "acme-forms", "1.2.0", &token),
                Some(link),
                "{line:?}"
            );
            tokens.push(token);
        }
        // No other MAC fits a changed form: a link cannot be made wider.
        for (at, token) in tokens.iter().enumerate() {
            for other in tokens.iter().skip(at + 1) {
                let mixed = format!("{}{}", &other[..2], &token[2..]);
                assert_eq!(DownloadLink::read(&key, "acme-forms", "1.2.0", &mixed), None);
            }
        }
    }

    #[test]
    fn a_token_has_these_bytes() {
        // Links must survive an update of the server. Made once, by tests/vectors/marks.py.
        let key = DownloadKey::new(&std::array::from_fn(|at| at as u8));
        let link = DownloadLink::new(&key, &license(0), &host("example.com"), day());
        let token = link.token(&key, "acme-forms", "1.2.0").unwrap();
        assert_eq!(token, include_str!("../../../tests/vectors/download_link.txt").trim());
    }

    #[test]
    fn a_link_is_for_one_plugin_one_version_and_one_key() {
        let key = DownloadKey::new(&[7; 32]);
        let token = DownloadLink::new(&key, &license(1), &host("a.com"), day())
            .token(&key, "acme", "1.0")
            .unwrap();
        for (key, slug, version) in [
            (&key, "acmes", "1.0"),
            (&key, "acme", "1.00"),
            (&DownloadKey::new(&[8; 32]), "acme", "1.0"),
        ] {
            assert_eq!(DownloadLink::read(key, slug, version, &token), None, "{slug} {version}");
        }
    }

    #[test]
    fn every_changed_character_is_found() {
        let key = DownloadKey::new(&[7; 32]);
        let token = DownloadLink::new(&key, &license(1), &host("a.com"), day())
            .token(&key, "acme", "1.0")
            .unwrap();
        for at in 0..TOKEN_LENGTH {
            for other in (0..=127_u8)
                .map(char::from)
                .filter(|other| !token[at..].starts_with(*other))
            {
                let mut changed = token.clone();
                changed.replace_range(at..=at, &other.to_string());
                assert_eq!(
                    DownloadLink::read(&key, "acme", "1.0", &changed),
                    None,
                    "{at} {other:?}"
                );
            }
        }
        for other in [&token[1..], &format!("{token}A"), &format!("{token}="), ""] {
            assert_eq!(DownloadLink::read(&key, "acme", "1.0", other), None);
        }
    }

    #[test]
    fn a_day_far_away_does_no_harm() {
        let key = DownloadKey::new(&[7; 32]);
        let link = DownloadLink::new(&key, &license(1), &host("a.com"), NaiveDate::MAX);
        assert_eq!(link.token(&key, "acme", "1.0"), None);
    }

    proptest! {
        #[test]
        fn no_text_is_taken_for_a_token(token in "[A-Za-z0-9_-]{60}|.{0,70}") {
            prop_assert_eq!(DownloadLink::read(&DownloadKey::new(&[7; 32]), "acme", "1.0", &token), None);
        }
    }
}
