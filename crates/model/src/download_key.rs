//! Keys derived from the secret of downloads, `keys/downloads.key`: one for each use, so that none reveals another.
//!
//! [`download_link`](crate::download_link), [`first_copy_link`](crate::first_copy_link), [`renewal_token`](crate::renewal_token),
//! [`composer`](crate::composer), [`unsubscribe_token`](crate::unsubscribe_token), [`site_claim_token`](crate::site_claim_token) and
//! [`build_id`](crate::build_id) use them.

use aes::Aes128;
use aes::cipher::{BlockDecrypt as _, BlockEncrypt as _, KeyInit as _};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use zeroize::Zeroize as _;

use crate::keyed_mac::{SECRET_LENGTH, first, keyed, mac};
use crate::license_key::LicenseId;
use crate::site_host::SiteHost;

/// What the MAC of a page with first copies begins with.
const FIRST_COPY: &[u8] = b"countersign first copy 1\0";

/// What the MAC of a renewal token begins with.
const RENEW: &[u8] = b"countersign renew 1\0";

/// What the MAC of a Composer token begins with.
const COMPOSER: &[u8] = b"countersign composer 1\0";

/// What the MAC of a token to unsubscribe begins with.
const UNSUBSCRIBE: &[u8] = b"countersign unsubscribe 1\0";

/// What the MAC of a token of a claimed site begins with.
const SITE_CLAIM: &[u8] = b"countersign site claim 1\0";

/// What the MAC of the claim itself begins with.
const SITE_CLAIM_TAG: &[u8] = b"countersign site claim tag 1\0";

/// Makes and reads links and build ids.
#[derive(Clone)]
pub struct DownloadKey {
    links: Hmac<Sha256>,
    hosts: Hmac<Sha256>,
    releases: Hmac<Sha256>,
    networks: Hmac<Sha256>,
    license_cipher: Aes128,
    build_id_cipher: Aes128,
    fingerprint: [u8; 8],
}

impl DownloadKey {
    /// Derives every key from 32 random bytes: each is the HMAC-SHA256 (RFC 2104) of its own label under the secret.
    pub fn new(secret: &[u8; SECRET_LENGTH]) -> Self {
        let derived = |label: &str| {
            let mut key: [u8; 32] = mac(&keyed(secret), &[label.as_bytes()]);
            let made = (keyed(&key), cipher(&key));
            key.zeroize();
            made
        };
        Self {
            links: derived("countersign link key 1").0,
            hosts: derived("countersign host key 1").0,
            releases: derived("countersign release key 1").0,
            networks: derived("countersign network key 1").0,
            license_cipher: derived("countersign license key 1").1,
            build_id_cipher: derived("countersign build id key 1").1,
            fingerprint: first(&mac(&keyed(secret), &[b"countersign downloads fingerprint 1"])),
        }
    }

    /// Names the secret without saying anything of it: 16 hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        format!("{:016x}", u64::from_be_bytes(self.fingerprint))
    }

    /// The MAC of a link's token. A NUL separates the parts; only the last part may contain one.
    pub(crate) fn link_mac(&self, slug: &str, version: &str, token: &[u8]) -> [u8; 16] {
        self.mac_of(&link_parts(slug, version, token))
    }

    /// Whether this is the [MAC of a link](Self::link_mac), in constant time.
    pub(crate) fn is_link_mac(&self, slug: &str, version: &str, token: &[u8], claimed: &[u8; 16]) -> bool {
        self.is_mac_of(&link_parts(slug, version, token), claimed)
    }

    /// The MAC of the token of a page with first copies.
    pub(crate) fn first_copy_mac(&self, token: &[u8]) -> [u8; 16] {
        self.mac_of(&[FIRST_COPY, token])
    }

    /// Whether this is the [MAC of a page's token](Self::first_copy_mac), in constant time.
    pub(crate) fn is_first_copy_mac(&self, token: &[u8], claimed: &[u8; 16]) -> bool {
        self.is_mac_of(&[FIRST_COPY, token], claimed)
    }

    /// The MAC of a license's renewal token.
    pub(crate) fn renewal_mac(&self, license: &LicenseId) -> [u8; 8] {
        self.mac_of(&[RENEW, license.as_bytes()])
    }

    /// Whether this is the [MAC of a license's renewal token](Self::renewal_mac), in constant time.
    pub(crate) fn is_renewal_mac(&self, license: &LicenseId, claimed: &[u8; 8]) -> bool {
        self.is_mac_of(&[RENEW, license.as_bytes()], claimed)
    }

    /// The MAC of a license's Composer token with this number.
    pub(crate) fn composer_mac(&self, license: &LicenseId, number: u32) -> [u8; 8] {
        self.mac_of(&[COMPOSER, &number.to_be_bytes(), license.as_bytes()])
    }

    /// Whether this is the [MAC of a license's Composer token](Self::composer_mac), in constant time.
    pub(crate) fn is_composer_mac(&self, license: &LicenseId, number: u32, claimed: &[u8; 8]) -> bool {
        self.is_mac_of(&[COMPOSER, &number.to_be_bytes(), license.as_bytes()], claimed)
    }

    /// The MAC of a customer's token to unsubscribe.
    pub(crate) fn unsubscribe_mac(&self, number: &[u8; 16]) -> [u8; 16] {
        self.mac_of(&[UNSUBSCRIBE, number])
    }

    /// Whether this is the [MAC of a token to unsubscribe](Self::unsubscribe_mac), in constant time.
    pub(crate) fn is_unsubscribe_mac(&self, number: &[u8; 16], claimed: &[u8; 16]) -> bool {
        self.is_mac_of(&[UNSUBSCRIBE, number], claimed)
    }

    /// The MAC of the token of a claimed site.
    pub(crate) fn site_claim_mac(&self, token: &[u8]) -> [u8; 16] {
        self.mac_of(&[SITE_CLAIM, token])
    }

    /// Whether this is the [MAC of such a token](Self::site_claim_mac), in constant time.
    pub(crate) fn is_site_claim_mac(&self, token: &[u8], claimed: &[u8; 16]) -> bool {
        self.is_mac_of(&[SITE_CLAIM, token], claimed)
    }

    /// A MAC of a claim, for tokens in which its parts must not be readable.
    pub(crate) fn site_claim_tag(&self, claim: &str) -> [u8; 8] {
        self.mac_of(&[SITE_CLAIM_TAG, claim.as_bytes()])
    }

    fn mac_of<const N: usize>(&self, parts: &[&[u8]]) -> [u8; N] {
        let mac: [u8; 32] = mac(&self.links, parts);
        first(&mac)
    }

    /// Whether these are the first bytes of the MAC, in constant time.
    fn is_mac_of(&self, parts: &[&[u8]], claimed: &[u8]) -> bool {
        let mut mac = self.links.clone();
        parts.iter().for_each(|part| mac.update(part));
        mac.verify_truncated_left(claimed).is_ok()
    }

    /// A MAC of the host, for places where the host must not be readable.
    pub(crate) fn host_tag(&self, host: &SiteHost) -> [u8; 8] {
        self.host_text_tag(host.as_str())
    }

    /// The tag of a copy that was given to no site: that of the empty text.
    pub(crate) fn no_host_tag(&self) -> [u8; 8] {
        self.host_text_tag("")
    }

    fn host_text_tag(&self, host: &str) -> [u8; 8] {
        let mac: [u8; 32] = mac(&self.hosts, &[b"countersign host 1\0", host.as_bytes()]);
        first(&mac)
    }

    /// A MAC of a network that asks for a license. It is so short that thousands of networks have each, and differs between
    /// licenses: it tells networks of one license apart, and names none.
    pub fn network_tag(&self, license: &LicenseId, network: &[u8]) -> u16 {
        let mac: [u8; 32] = mac(&self.networks, &[license.as_bytes(), network]);
        u16::from_be_bytes(first(&mac))
    }

    /// A MAC of a plugin's version.
    pub(crate) fn release_tag(&self, slug: &str, version: &str) -> [u8; 2] {
        let mac: [u8; 32] = mac(&self.releases, &[slug.as_bytes(), b"\0", version.as_bytes()]);
        first(&mac)
    }

    /// Encrypts the first 16 bytes of a license id.
    pub(crate) fn hide_license(&self, beginning: [u8; 16]) -> [u8; 16] {
        let mut block = beginning.into();
        self.license_cipher.encrypt_block(&mut block);
        block.into()
    }

    /// The reverse.
    pub(crate) fn show_license(&self, hidden: [u8; 16]) -> [u8; 16] {
        let mut block = hidden.into();
        self.license_cipher.decrypt_block(&mut block);
        block.into()
    }

    /// Encrypts a block of a build id.
    pub(crate) fn encrypt_build_id(&self, block: u128) -> u128 {
        let mut block = block.to_be_bytes().into();
        self.build_id_cipher.encrypt_block(&mut block);
        u128::from_be_bytes(block.into())
    }

    /// The reverse.
    pub(crate) fn decrypt_build_id(&self, block: u128) -> u128 {
        let mut block = block.to_be_bytes().into();
        self.build_id_cipher.decrypt_block(&mut block);
        u128::from_be_bytes(block.into())
    }
}

/// SECURITY: never shows a key.
impl std::fmt::Debug for DownloadKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DownloadKey(redacted)")
    }
}

fn link_parts<'a>(slug: &'a str, version: &'a str, token: &'a [u8]) -> [&'a [u8]; 6] {
    [
        b"countersign link 1\0",
        slug.as_bytes(),
        b"\0",
        version.as_bytes(),
        b"\0",
        token,
    ]
}

fn cipher(key: &[u8; 32]) -> Aes128 {
    Aes128::new(&first::<16>(key).into())
}
