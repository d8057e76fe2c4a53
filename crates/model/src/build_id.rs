//! Build ids: UUIDs that name the license and the site a copy of a package was given to. Only the vendor can read them. A UUIDv8
//! (RFC 9562 section 5.8) has 122 free bits. They are encrypted with AES-128 until version and variant fit again, which
//! takes 64 blocks on average: a permutation of all UUIDv8 (cycle walking, Black and Rogaway 2002). The last 24 bits
//! are zeros: one of 16 million foreign ids passes as ours, and its day and license must then exist, too.

use chrono::{Days, NaiveDate};
use uuid::Uuid;

use crate::download_key::DownloadKey;
use crate::license_key::LicenseId;
use crate::site_host::SiteHost;

/// Day number 0.
const FIRST_DAY: NaiveDate = match NaiveDate::from_ymd_opt(2026, 1, 1) {
    Some(day) => day,
    None => NaiveDate::MIN,
};

/// The bits of each field, the highest first.
const LICENSE: u32 = 48;
const HOST: u32 = 20;
const DAY: u32 = 14;
const RELEASE: u32 = 16;
const ZEROS: u32 = 24;

const _: () = assert!(LICENSE + HOST + DAY + RELEASE + ZEROS == 122);

/// The most blocks to try. It is too few in one of 10^68 cases.
const MOST_BLOCKS: usize = 10_000;

/// The content of a build id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BuildId {
    /// The first 48 bits of the license's id.
    pub license: u64,
    /// A MAC of the host.
    host: u32,
    /// The day of the link, as a number.
    day: u16,
    /// A MAC of plugin and version.
    release: u16,
}

impl BuildId {
    /// The build id of a package that a site gets with a link of `day`; `None` before 2026 and from 2070 on.
    pub fn new(
        key: &DownloadKey,
        license: &LicenseId,
        host: &SiteHost,
        day: NaiveDate,
        slug: &str,
        version: &str,
    ) -> Option<Self> {
        Self::with_tag(key, license, key.host_tag(host), day, (slug, version))
    }

    /// The build id of a first copy, which was given to a license before any site was bound.
    pub fn first_copy(
        key: &DownloadKey,
        license: &LicenseId,
        day: NaiveDate,
        slug: &str,
        version: &str,
    ) -> Option<Self> {
        Self::with_tag(key, license, key.no_host_tag(), day, (slug, version))
    }

    fn with_tag(
        key: &DownloadKey,
        license: &LicenseId,
        host: [u8; 8],
        day: NaiveDate,
        (slug, version): (&str, &str),
    ) -> Option<Self> {
        let day = u16::try_from(day.signed_duration_since(FIRST_DAY).num_days())
            .ok()
            .filter(|day| *day < 1 << DAY)?;
        Some(Self {
            license: beginning(license),
            host: shortened(host),
            day,
            release: release_tag(key, slug, version),
        })
    }

    /// The UUID to write into the package.
    pub fn encrypt(&self, key: &DownloadKey) -> Uuid {
        let fields = [
            (u128::from(self.license), LICENSE),
            (self.host.into(), HOST),
            (self.day.into(), DAY),
            (self.release.into(), RELEASE),
            (0, ZEROS),
        ];
        let plain = fields.into_iter().fold(0, |bits, (field, width)| bits << width | field);
        let mut block = key.encrypt_build_id(to_uuid(plain));
        while !is_uuid8(block) {
            block = key.encrypt_build_id(block);
        }
        Uuid::from_u128(block)
    }

    /// Reads a UUID; `None` if it was not made with this key.
    pub fn decrypt(key: &DownloadKey, uuid: Uuid) -> Option<Self> {
        let uuid = uuid.as_u128();
        if !is_uuid8(uuid) {
            return None;
        }
        let mut block = key.decrypt_build_id(uuid);
        for _ in 0..MOST_BLOCKS {
            if is_uuid8(block) {
                return Self::of_bits(from_uuid(block));
            }
            block = key.decrypt_build_id(block);
        }
        None
    }

    fn of_bits(bits: u128) -> Option<Self> {
        let mut rest = bits;
        let mut take = |width: u32| {
            let field = rest & ((1 << width) - 1);
            rest >>= width;
            field as u64
        };
        let zeros = take(ZEROS);
        let release = take(RELEASE) as u16;
        let day = take(DAY) as u16;
        let host = take(HOST) as u32;
        let license = take(LICENSE);
        (zeros == 0).then_some(Self {
            license,
            host,
            day,
            release,
        })
    }

    /// The day of the link.
    pub fn day(&self) -> NaiveDate {
        FIRST_DAY
            .checked_add_days(Days::new(self.day.into()))
            .unwrap_or(FIRST_DAY)
    }

    /// Whether the copy was given to this license. Among 10 million licenses, a wrong one fits in one of 28 million
    /// ids.
    pub fn is_of_license(&self, license: &LicenseId) -> bool {
        self.license == beginning(license)
    }

    /// Whether the copy was given to this host. One of a million other hosts fits, too.
    pub fn is_of_host(&self, key: &DownloadKey, host: &SiteHost) -> bool {
        self.host == shortened(key.host_tag(host))
    }

    /// Whether it is a first copy, which any site of its license may run. The copies of one host in a million look so, too.
    pub fn is_first_copy(&self, key: &DownloadKey) -> bool {
        self.host == shortened(key.no_host_tag())
    }

    /// Whether the copy is of this plugin's version. One of 65,536 others fits, too.
    pub fn is_of_release(&self, key: &DownloadKey, slug: &str, version: &str) -> bool {
        self.release == release_tag(key, slug, version)
    }
}

fn beginning(license: &LicenseId) -> u64 {
    let bytes = license.as_bytes();
    u64::from_be_bytes(std::array::from_fn(|at| bytes[at])) >> (64 - LICENSE)
}

/// The part of a host's tag that fits into a build id.
fn shortened([a, b, c, d, ..]: [u8; 8]) -> u32 {
    u32::from_be_bytes([a, b, c, d]) >> (32 - HOST)
}

fn release_tag(key: &DownloadKey, slug: &str, version: &str) -> u16 {
    u16::from_be_bytes(key.release_tag(slug, version))
}

/// Combines 122 bits with version 8 and variant 10.
fn to_uuid(bits: u128) -> u128 {
    let high = bits >> 74;
    let middle = bits >> 62 & 0xfff;
    let low = bits & ((1 << 62) - 1);
    high << 80 | 0x8 << 76 | middle << 64 | 0b10 << 62 | low
}

/// The reverse.
fn from_uuid(uuid: u128) -> u128 {
    let high = uuid >> 80;
    let middle = uuid >> 64 & 0xfff;
    let low = uuid & ((1 << 62) - 1);
    high << 74 | middle << 62 | low
}

fn is_uuid8(block: u128) -> bool {
    block >> 76 & 0xf == 0x8 && block >> 62 & 0b11 == 0b10
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn key(byte: u8) -> DownloadKey {
        DownloadKey::new(&[byte; 32])
    }

    fn id(key: &DownloadKey, license: u8, host: &str, day: u64, slug: &str, version: &str) -> BuildId {
        let day = FIRST_DAY.checked_add_days(Days::new(day)).unwrap();
        BuildId::new(
            key,
            &LicenseId::from_bytes([license; 32]),
            &host.parse().unwrap(),
            day,
            slug,
            version,
        )
        .unwrap()
    }

    #[test]
    fn an_id_says_what_was_put_into_it_and_only_with_its_key() {
        let ours = key(7);
        let made = id(&ours, 3, "example.com", 326, "acme", "1.2.0");
        let uuid = made.encrypt(&ours);
        assert_eq!(
            (uuid.get_version_num(), uuid.get_variant()),
            (8, uuid::Variant::RFC4122)
        );
        let read = BuildId::decrypt(&ours, uuid).unwrap();
        assert_eq!(read, made);
        assert_eq!(read.day().to_string(), "2026-11-23");
        assert!(
            read.is_of_license(&LicenseId::from_bytes([3; 32])) && !read.is_of_license(&LicenseId::from_bytes([4; 32]))
        );
        assert!(
            read.is_of_host(&ours, &"example.com".parse().unwrap())
                && !read.is_of_host(&ours, &"example.org".parse().unwrap())
        );
        assert!(read.is_of_release(&ours, "acme", "1.2.0"));
        assert!(!read.is_of_release(&ours, "acme", "1.2.1") && !read.is_of_release(&ours, "other", "1.2.0"));
        assert_eq!(BuildId::decrypt(&key(8), uuid), None);
    }

    #[test]
    fn an_id_has_these_bytes() {
        // Copies must stay traceable for years. Made once, by tests/vectors/marks.py.
        let key = DownloadKey::new(&std::array::from_fn(|at| at as u8));
        let uuid = id(&key, 0xab, "example.com", 326, "acme-forms", "1.2.0").encrypt(&key);
        assert_eq!(
            uuid.to_string(),
            include_str!("../../../tests/vectors/build_id.txt").trim()
        );
    }

    #[test]
    fn a_first_copy_is_of_its_license_and_of_no_site() {
        let ours = key(7);
        let license = LicenseId::from_bytes([3; 32]);
        let day = "2026-11-23".parse().unwrap();
        let made = BuildId::first_copy(&ours, &license, day, "acme", "1.2.0").unwrap();
        let read = BuildId::decrypt(&ours, made.encrypt(&ours)).unwrap();
        assert_eq!((read, read.day()), (made, day));
        assert!(
            read.is_first_copy(&ours) && read.is_of_license(&license) && read.is_of_release(&ours, "acme", "1.2.0")
        );
        assert!(!read.is_of_host(&ours, &"example.com".parse().unwrap()) && !read.is_first_copy(&key(8)));
        assert!(!id(&ours, 3, "example.com", 326, "acme", "1.2.0").is_first_copy(&ours));
    }

    #[test]
    fn days_have_numbers_from_2026_to_2070() {
        let of = |day: &str| {
            BuildId::new(
                &key(7),
                &LicenseId::from_bytes([1; 32]),
                &"a.com".parse().unwrap(),
                day.parse().unwrap(),
                "a",
                "1",
            )
        };
        assert!(of("2025-12-31").is_none() && of("2026-01-01").is_some());
        assert!(of("2070-11-09").is_some() && of("2070-11-10").is_none());
    }

    #[test]
    fn other_uuids_are_none_of_ours() {
        let key = key(7);
        for uuid in [
            Uuid::nil(),
            Uuid::max(),
            Uuid::from_u128(to_uuid(0)),
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8".parse().unwrap(),
        ] {
            assert_eq!(BuildId::decrypt(&key, uuid), None);
        }
    }

    /// 20,000 here. The long tests (`marks::…`) check a million in order and ten million random ones, which takes
    /// minutes.
    #[test]
    fn no_two_are_alike() {
        let key = key(7);
        let mut seen = HashSet::new();
        for license in 0..100_u8 {
            for host in 0..200 {
                let made = id(&key, license, &format!("host{host}.example"), 7, "acme", "1.0");
                assert!(seen.insert(made.encrypt(&key)), "{license} {host}");
            }
        }
    }

    proptest! {
        #[test]
        fn laid_out_bits_are_read_back(high: u64, low in 0..1_u64 << 58) {
            let bits = u128::from(high) << 58 | u128::from(low);
            prop_assert!(is_uuid8(to_uuid(bits)));
            prop_assert_eq!(from_uuid(to_uuid(bits)), bits);
        }

        #[test]
        fn a_changed_id_is_none_of_ours(license: u8, day in 0..1_000_u64, bit in 0..128_u32) {
            let key = key(7);
            let uuid = id(&key, license, "a.com", day, "acme", "1.0").encrypt(&key);
            prop_assert_eq!(BuildId::decrypt(&key, Uuid::from_u128(uuid.as_u128() ^ 1 << bit)), None);
        }
    }
}
