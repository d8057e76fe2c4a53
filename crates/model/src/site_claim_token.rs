//! Tokens of the links with which a customer confirms that a site was installed again. A token is for one claim.
//!
//! base64url without padding: the first 16 bytes of the license's id, encrypted; the second in which the claim began; a tag of 8 bytes
//! of its license, customer, host and hashes; and the first 16 bytes of HMAC-SHA256 over `countersign site claim 1`, a NUL and all that.
//! It is not stored, and is good for as long as the claim waits.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::digest::Hex128;
use crate::download_key::DownloadKey;
use crate::license_key::LicenseId;
use crate::site_claim::{ClaimStep, SiteClaim};

/// The path of the pages, before the token.
pub const PATH: &str = "/site-claim/";

/// Bytes before the MAC.
const SIGNED: usize = 32;

/// What a token names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteClaimToken {
    /// The first 16 bytes of the license's id.
    pub license: [u8; 16],
    /// In seconds since 1970.
    begun: i64,
    tag: [u8; 8],
}

/// The token of a claim that begins, for the customer with this number.
pub fn of_claim(key: &DownloadKey, license: &LicenseId, to: Hex128, claim: &SiteClaim) -> String {
    let beginning: [u8; 16] = std::array::from_fn(|at| license.as_bytes()[at]);
    let begun = claim.time.timestamp().to_be_bytes();
    let tag = key.site_claim_tag(&parts(license, to, claim));
    let signed = [&key.hide_license(beginning)[..], &begun, &tag].concat();
    let mac = key.site_claim_mac(&signed);
    BASE64_URL_SAFE_NO_PAD.encode([&signed[..], &mac].concat())
}

/// What a token names; `None` if it was not made with this key.
pub fn read(key: &DownloadKey, token: &str) -> Option<SiteClaimToken> {
    let bytes: [u8; SIGNED + 16] = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?.try_into().ok()?;
    let claimed: [u8; 16] = std::array::from_fn(|at| bytes[SIGNED + at]);
    key.is_site_claim_mac(bytes.get(..SIGNED)?, &claimed)
        .then(|| SiteClaimToken {
            license: key.show_license(std::array::from_fn(|at| bytes[at])),
            begun: i64::from_be_bytes(std::array::from_fn(|at| bytes[16 + at])),
            tag: std::array::from_fn(|at| bytes[24 + at]),
        })
}

impl SiteClaimToken {
    /// Whether it is of this claim, whatever became of that. `key` is the one that it was read with.
    pub fn is_of(&self, key: &DownloadKey, license: &LicenseId, to: Hex128, claim: &SiteClaim) -> bool {
        let is_later = claim.step == ClaimStep::Begun && claim.time.timestamp() != self.begun;
        !is_later && key.site_claim_tag(&parts(license, to, claim)) == self.tag
    }
}

/// What distinguishes a claim from another one of the license.
fn parts(license: &LicenseId, to: Hex128, claim: &SiteClaim) -> String {
    let hashes = [claim.hash, claim.replaces].map(|hash| hash.digest().to_string());
    format!("{license} {to} {} {}", claim.host, hashes.join(" "))
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta};

    use super::*;
    use crate::site_release::ReleaseHash;

    fn claim(host: &str, secrets: [&str; 2], seconds: i64) -> SiteClaim {
        let hashes = secrets.map(ReleaseHash::of);
        SiteClaim {
            host: host.parse().unwrap(),
            hash: hashes[1],
            replaces: hashes[0],
            step: ClaimStep::Begun,
            time: DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds),
        }
    }

    #[test]
    fn a_token_is_of_one_claim_of_one_license_and_customer() {
        let key = DownloadKey::new(&[7; 32]);
        let license = LicenseId::from_bytes([1; 32]);
        let to = Hex128([3; 16]);
        let waiting = claim("a.com", ["old", "new"], 100);
        let text = of_claim(&key, &license, to, &waiting);
        let token = read(&key, &text).unwrap();
        assert_eq!(token.license, [1; 16]);
        assert!(token.is_of(&key, &license, to, &waiting));
        // The step and its time do not change the token.
        let over = SiteClaim {
            step: ClaimStep::Ended,
            time: waiting.time + TimeDelta::days(1),
            ..waiting.clone()
        };
        assert!(token.is_of(&key, &license, to, &over));
        for other in [
            claim("b.com", ["old", "new"], 100),
            claim("a.com", ["old", "newer"], 100),
            claim("a.com", ["older", "new"], 100),
            claim("a.com", ["old", "new"], 101),
        ] {
            assert!(!token.is_of(&key, &license, to, &other), "{other:?}");
        }
        let mut id = [1; 32];
        id[31] = 2;
        assert!(!token.is_of(&key, &LicenseId::from_bytes(id), to, &waiting));
        assert!(!token.is_of(&key, &license, Hex128([4; 16]), &waiting));
    }

    #[test]
    fn a_changed_token_is_none() {
        let key = DownloadKey::new(&[7; 32]);
        let license = LicenseId::from_bytes([1; 32]);
        let token = of_claim(&key, &license, Hex128([3; 16]), &claim("a.com", ["old", "new"], 100));
        assert_eq!(read(&DownloadKey::new(&[8; 32]), &token), None);
        for at in 0..token.len() {
            for other in ['A', 'B', 'z', '-']
                .into_iter()
                .filter(|other| !token[at..].starts_with(*other))
            {
                let mut changed = token.clone();
                changed.replace_range(at..=at, &other.to_string());
                assert_eq!(read(&key, &changed), None, "{at} {other:?}");
            }
        }
        for other in ["", &token[1..], &format!("{token}A"), &format!("{token}=")] {
            assert_eq!(read(&key, other), None, "{other}");
        }
    }
}
