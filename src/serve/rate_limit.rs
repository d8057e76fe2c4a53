//! Rate limits: how many requests an address may make, and how many may be about one license.
//!
//! A keyed hash maps addresses and licenses to buckets, which they may share, so memory is constant and a reload
//! changes nothing. Every request takes one token from its address's bucket. `routes` charges the rest when the outcome
//! is known: [`Weight`] says what costs more, such as a wrong license key.

pub mod buckets;

use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use enum_map::Enum;
use strum::IntoStaticStr;

use crate::serve::metrics::{Counter, Counters};
use crate::serve::net::client_ip::Networks;
use crate::serve::rate_limit::buckets::{Buckets, MINUTE, RetryAfter};
use crate::serve::reply::outcome::Weight;
use countersign_model::license_key::LicenseId;
use countersign_model::name::Name;

/// Buckets for all addresses, found by a secret hash. At 6,000 a minute, keeping 800 of them empty takes 80,000
/// requests a second from different addresses, which is more than two cores answer. One address in 300 shares one of
/// those 800.
const ADDRESS_BUCKETS: usize = 1 << 18;

/// Buckets for all licenses. Of a million licenses, each shares its bucket with one other on average, which matters
/// only if the other is requested all the time.
const LICENSE_BUCKETS: usize = 1 << 20;

/// Buckets for all links. If a million sites update within an hour, four share a bucket, and each takes a twentieth of
/// it.
const LINK_BUCKETS: usize = 1 << 18;

/// Buckets for all tokens of the management API. A vendor has a few.
const TOKEN_BUCKETS: usize = 1 << 14;

/// The time in which a link's empty bucket fills.
const HOUR: Duration = MINUTE.saturating_mul(60);

/// One package takes this many tokens of its link's bucket. A part takes its share, and every request at least one.
const UNITS: u32 = 64;

/// A malformed request costs as much as this many well-formed ones: no working client sends any.
const MALFORMED: u32 = 10;

/// The buckets of all addresses and licenses.
#[derive(Debug)]
pub struct Limits {
    addresses: [HashedBuckets; Networks::WIDTHS],
    licenses: HashedBuckets,
    links: HashedBuckets,
    tokens: HashedBuckets,
    /// A wrong key costs as much as this many well-formed requests.
    wrong_key: u32,
    refused: Counters<Limit>,
}

impl Limits {
    /// Creates the buckets from the settings: requests per minute of an address and of a license, wrong keys of an
    /// address, packages of a link per hour, and requests per minute of a token.
    pub fn new(
        address: NonZeroU32,
        license: NonZeroU32,
        failures: NonZeroU32,
        link: NonZeroU32,
        token: NonZeroU32,
    ) -> Self {
        let refused = Counters::default();
        let addresses = Networks::ALLOWANCES.map(|times| {
            let per_minute = address.saturating_mul(NonZeroU32::MIN.saturating_add(times - 1));
            HashedBuckets::new(per_minute.into(), MINUTE, ADDRESS_BUCKETS, &refused[Limit::Address])
        });
        Self {
            addresses,
            licenses: HashedBuckets::new(license.into(), MINUTE, LICENSE_BUCKETS, &refused[Limit::License]),
            links: HashedBuckets::new(units(link), HOUR, LINK_BUCKETS, &refused[Limit::Link]),
            tokens: HashedBuckets::new(token.into(), MINUTE, TOKEN_BUCKETS, &refused[Limit::Token]),
            wrong_key: address.get().div_ceil(failures.get()),
            refused,
        }
    }

    /// Takes a token of each network of `address`, or takes none and says when there will be one.
    pub fn check_address(&self, address: IpAddr) -> Result<(), RetryAfter> {
        let networks = Networks::of(address);
        for (width, network) in networks.all() {
            if let Err(refused) = self.addresses[width].take(&network, 1) {
                for (narrower, network) in networks.all().take(width) {
                    self.addresses[narrower].give_back(&network);
                }
                return Err(refused);
            }
        }
        Ok(())
    }

    /// Charges the cost of a request of `address` beyond the one token that was taken when it arrived.
    pub fn charge(&self, address: IpAddr, weight: Weight) {
        let more = match weight {
            Weight::Request => return,
            Weight::Malformed => MALFORMED - 1,
            Weight::WrongKey => self.wrong_key - 1,
        };
        for (width, network) in Networks::of(address).all() {
            self.addresses[width].charge(&network, more);
        }
    }

    /// Gives back the token that was taken when a request of `address` arrived.
    pub fn give_back(&self, address: IpAddr) {
        for (width, network) in Networks::of(address).all() {
            self.addresses[width].give_back(&network);
        }
    }

    /// Takes a token of this license, or says when there will be one.
    pub fn check_license(&self, id: &LicenseId) -> Result<(), RetryAfter> {
        self.licenses.take(id, 1)
    }

    /// Takes one for a request with this token of the management API, or says when there will be one.
    pub fn check_token(&self, name: &Name) -> Result<(), RetryAfter> {
        self.tokens.take(name, 1)
    }

    /// Takes a token of this link, or says when there will be enough for a whole package: a client that comes back for less
    /// gets nothing.
    pub fn check_link(&self, token: &str) -> Result<(), RetryAfter> {
        let taken = self.links.take(&token, 1);
        taken.map_err(|_| self.links.wait(&token, UNITS))
    }

    /// Takes the tokens for `bytes` of a package of `package` bytes, beyond the one that [`Limits::check_link`] took for the same
    /// request. If there are too few, gives that one back, or else a client that asks often would never get the package.
    pub fn check_link_bytes(&self, token: &str, bytes: u64, package: u64) -> Result<(), RetryAfter> {
        let units = (u128::from(bytes) * u128::from(UNITS)).div_ceil(u128::from(package.max(1)));
        let more = (units as u32).clamp(1, UNITS) - 1;
        if more == 0 {
            return Ok(());
        }
        let taken = self.links.take(&token, more);
        if taken.is_err() {
            self.links.give_back(&token);
        }
        taken
    }

    /// How many requests were refused.
    pub fn refused(&self) -> &Counters<Limit> {
        &self.refused
    }
}

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Limit {
    /// Requests of one address, wrong keys among them.
    Address,
    /// Requests about one license.
    License,
    /// Bytes for one link.
    Link,
    /// Requests with one token of the management API.
    Token,
}

/// The size of a link's bucket for this many packages.
fn units(packages: NonZeroU32) -> NonZeroU64 {
    NonZeroU64::from(packages).saturating_mul(NonZeroU64::from(NonZeroU32::MIN.saturating_add(UNITS - 1)))
}

/// The buckets of licenses, or of networks of one width.
#[derive(Debug)]
struct HashedBuckets {
    buckets: Buckets,
    count: usize,
    // SECURITY: SipHash with a random key, so that nobody can find an address or a license that shares a given bucket.
    hasher: RandomState,
}

impl HashedBuckets {
    fn new(size: NonZeroU64, period: Duration, count: usize, refused: &Counter) -> Self {
        Self {
            buckets: Buckets::new(size, period, count, refused.clone()),
            count,
            hasher: RandomState::default(),
        }
    }

    fn take(&self, key: &impl Hash, wanted: u32) -> Result<(), RetryAfter> {
        self.buckets.take(self.place(key), wanted)
    }

    fn wait(&self, key: &impl Hash, wanted: u32) -> RetryAfter {
        self.buckets.wait(self.place(key), wanted)
    }

    fn charge(&self, key: &impl Hash, more: u32) {
        self.buckets.charge(self.place(key), more);
    }

    fn give_back(&self, key: &impl Hash) {
        self.buckets.give_back(self.place(key));
    }

    fn place(&self, key: &impl Hash) -> usize {
        self.hasher.hash_one(key) as usize % self.count
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::serve::reply::outcome::Code;

    fn limits(address: u32, license: u32) -> Limits {
        let per_minute = |number| NonZeroU32::new(number).unwrap();
        Limits::new(
            per_minute(address),
            per_minute(license),
            per_minute(1),
            per_minute(20),
            per_minute(100),
        )
    }

    fn license(number: u32) -> LicenseId {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        LicenseId::from_bytes(bytes)
    }

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn an_address_that_asks_too_often_is_told_when_to_come_back() {
        let limits = limits(2, 100);
        assert_eq!(limits.check_address(address(1)), Ok(()));
        assert_eq!(limits.check_address(address(1)), Ok(()));
        // A second may pass meanwhile.
        assert!(matches!(limits.check_address(address(1)), Err(RetryAfter(25..=30))));
        assert_eq!(
            limits.check_address(address(2)),
            Ok(()),
            "another address is not affected"
        );
        assert_eq!(limits.refused()[Limit::Address].get(), 1);
    }

    #[test]
    fn a_license_that_is_asked_about_too_often_is_limited() {
        let limits = limits(100, 2);
        assert!((0..2).all(|_| limits.check_license(&license(1)).is_ok()));
        assert!(matches!(limits.check_license(&license(1)), Err(RetryAfter(25..=30))));
        assert_eq!(
            limits.check_license(&license(2)),
            Ok(()),
            "another license is not affected"
        );
        assert_eq!(limits.refused()[Limit::License].get(), 1);
    }

    #[test]
    fn a_link_gives_its_package_twenty_times_an_hour_whole_or_in_parts() {
        let limits = limits(1, 1);
        let ask = |token: &str, bytes: u64| {
            limits.check_link(token)?;
            limits.check_link_bytes(token, bytes, 6_400)
        };
        let given = |token: &str, bytes: u64| {
            let asks = (0..10_000).take_while(|_| ask(token, bytes).is_ok());
            asks.count()
        };
        assert_eq!(given("whole", 6_400), 20);
        assert_eq!(given("half", 3_200), 40);
        assert_eq!(given("nothing", 0), 1_280, "asking costs something, too");
        assert_eq!(given("more than there is", u64::MAX), 20);
        let RetryAfter(seconds) = ask("whole", 6_400).unwrap_err();
        assert!(
            (179..=180).contains(&seconds),
            "then there is a whole package: {seconds}"
        );
        assert_eq!(limits.refused()[Limit::Link].get(), 5);
        assert_eq!(limits.check_link("one more"), Ok(()));
        assert_eq!(given("one more", 6_400), 19);
        let left = (0..100).take_while(|_| limits.check_link("one more").is_ok());
        assert_eq!(left.count(), 63, "a refusal takes nothing");
    }

    #[test]
    fn two_licenses_rarely_share_a_bucket_and_others_in_each_server() {
        let places = |limits: &Limits| {
            (0..10_000)
                .map(|number| limits.licenses.place(&license(number)))
                .collect::<Vec<_>>()
        };
        let one = places(&limits(1, 1));
        let other = places(&limits(1, 1));
        let distinct = one.iter().collect::<std::collections::HashSet<_>>().len();
        // 48 pairs on average.
        assert!(distinct > 9_850, "{distinct} places for 10,000 licenses");
        assert_ne!(one, other);
    }

    #[test]
    fn a_guesser_gets_as_many_wrong_keys_a_minute_as_the_setting_says_and_then_nothing() {
        for (requests, failures) in [(6_000, 60), (6_000, 7), (60, 600), (4_000_000_000, 3)] {
            let per_minute = |number| NonZeroU32::new(number).unwrap();
            let limits = Limits::new(
                per_minute(requests),
                per_minute(1),
                per_minute(failures),
                per_minute(20),
                per_minute(100),
            );
            let mut guesses = 0;
            while limits.check_address(address(1)).is_ok() {
                limits.charge(address(1), Weight::WrongKey);
                guesses += 1;
            }
            let expected = failures.min(requests);
            assert!(
                (expected..=expected + 1).contains(&guesses),
                "{guesses} of {failures} with {requests} requests"
            );
            assert_eq!(
                limits.check_address(address(2)),
                Ok(()),
                "another address is not affected"
            );
        }
    }

    #[test]
    fn malformed_requests_weigh_ten_and_refusals_of_a_known_license_one() {
        let asked = |code| {
            let limits = limits(100, 1);
            (0..1_000)
                .take_while(|_| {
                    limits
                        .check_address(address(1))
                        .map(|()| limits.charge(address(1), Code::weight(code)))
                        .is_ok()
                })
                .count()
        };
        assert_eq!(
            (
                asked(Code::Ok),
                asked(Code::LicenseExpired),
                asked(Code::MalformedRequest)
            ),
            (100, 100, 10)
        );
    }

    #[test]
    fn a_customer_with_many_ipv6_networks_asks_no_more_than_a_few_times_as_often() {
        let asked = |address: fn(u128) -> u128| {
            let limits = limits(10, 1);
            (0..1_000)
                .filter(|&n| limits.check_address(IpAddr::V6(address(n).into())).is_ok())
                .count()
        };
        const SITE: u128 = 0x2001_0db8_0001 << 80;
        assert_eq!(asked(|n| SITE | n), 10, "one /64");
        assert_eq!(asked(|n| SITE | (n % 256) << 64), 20, "all of a /56");
        assert_eq!(asked(|n| SITE | n << 64), 40, "all of a /48");
    }

    #[test]
    fn a_network_pays_nothing_for_requests_that_a_wider_one_refuses() {
        let limits = limits(10, 1);
        const SITE: u128 = 0x2001_0db8_0001 << 80;
        let address = |network: u128| IpAddr::V6((SITE | network << 64).into());
        for number in 0..20 {
            assert_eq!(limits.check_address(address(number % 2)), Ok(()));
        }
        let (width, narrow) = Networks::of(address(3)).all().next().unwrap();
        for _ in 0..10 {
            assert!(limits.check_address(address(3)).is_err(), "its /56 is empty");
        }
        assert_eq!(limits.addresses[width].take(&narrow, 10), Ok(()), "its /64 is full");
    }

    #[test]
    fn three_million_addresses_are_each_limited_in_the_memory_of_none() {
        let limits = limits(1, 1);
        let began = Instant::now();
        let refused = (0..3_000_000)
            .filter(|&number| limits.check_address(address(number)).is_err())
            .count();
        // One from each bucket, and one more for each minute, in which a bucket fills again.
        let times = 1 + began.elapsed().as_secs() as usize / 60;
        assert!(refused >= 3_000_000 - times * ADDRESS_BUCKETS, "{refused}");
        assert!(
            (2_999_900..3_000_000).all(|number| limits.check_address(address(number)).is_err()),
            "nobody was forgotten"
        );
    }

    #[test]
    fn addresses_are_spread_over_all_buckets_and_differently_in_each_server() {
        let places = |limits: &Limits| {
            (0_u64..1_000)
                .map(|number| limits.addresses[0].place(&number))
                .collect::<Vec<_>>()
        };
        let one = places(&limits(1, 1));
        let other = places(&limits(1, 1));
        let distinct = one.iter().collect::<std::collections::HashSet<_>>().len();
        assert!(distinct > 950, "{distinct} places for 1,000 addresses");
        assert_ne!(one, other);
    }
}
