//! Hosts in a list, found without looking at each: by name, by the site that they are under, and by the tag of a link.
//!
//! A license may have 50,000 sites, and each of them asks twice a day.

use std::cmp::Ordering;
use std::fmt;
use std::hash::BuildHasher;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use foldhash::fast::FixedState;

use crate::download_key::DownloadKey;
use crate::site_host::SiteHost;

/// So many are looked at one by one, which needs no memory.
pub const FEW: usize = 16;

/// What has a host.
pub trait Hosted {
    /// Its host.
    fn host(&self) -> &SiteHost;
}

impl Hosted for SiteHost {
    fn host(&self) -> &SiteHost {
        self
    }
}

/// The positions of hosts in a list. They are sorted by the names read from the end, so that all hosts under one are adjacent.
///
/// Each method takes the list, which must be the one that the index is for.
#[derive(Debug, Default)]
pub struct HostIndex {
    positions: Vec<usize>,
    /// Made at the first download after a change.
    tags: Mutex<Option<Arc<TagTable>>>,
    /// The last count, and what it depends on beside the list.
    counted: Mutex<Option<(u64, SeatCounts)>>,
}

/// Positions by the tags that a key gives the hosts.
#[derive(Debug)]
struct TagTable {
    key: String,
    sorted: Vec<([u8; 8], usize)>,
}

impl HostIndex {
    /// The index of a list without two equal hosts.
    pub fn new<T: Hosted>(list: &[T]) -> Self {
        let mut positions: Vec<_> = (0..list.len()).collect();
        positions.sort_unstable_by(|&one, &other| from_the_end(list[one].host().as_str(), list[other].host().as_str()));
        Self {
            positions,
            ..Self::default()
        }
    }

    /// The position of a host.
    pub fn position<T: Hosted>(&self, list: &[T], host: &str) -> Option<usize> {
        self.rank(list, host).ok().map(|rank| self.positions[rank])
    }

    /// Takes the host that is appended to the list next; not one that the list has.
    pub fn append<T: Hosted>(&mut self, list: &[T], host: &SiteHost) {
        if let Err(rank) = self.rank(list, host.as_str()) {
            self.positions.insert(rank, list.len());
        }
        self.changed();
    }

    /// Forgets what was counted and hashed: the list has changed.
    pub fn changed(&mut self) {
        self.tags = Mutex::default();
        self.counted = Mutex::default();
    }

    /// The positions of all hosts under this one, such as `a.example.com` under `example.com`.
    pub fn under<T: Hosted>(&self, list: &[T], host: &str) -> &[usize] {
        let compare = |position: &usize| {
            let ends_like = list[*position].host().as_str().bytes().rev().take(host.len() + 1);
            ends_like.cmp(host.bytes().rev().chain([b'.']))
        };
        let from = self.positions.partition_point(|position| compare(position).is_lt());
        let to = self.positions.partition_point(|position| compare(position).is_le());
        &self.positions[from..to]
    }

    /// The position of the host that has this tag. Hashes each host once for each change of the list and each key.
    pub fn tagged<T: Hosted>(&self, list: &[T], key: &DownloadKey, tag: [u8; 8]) -> Option<usize> {
        let name = key.fingerprint();
        let made = lock(&self.tags).as_ref().filter(|table| table.key == name).cloned();
        let table = made.unwrap_or_else(|| {
            let hosts = list.iter().enumerate();
            let mut sorted: Vec<_> = hosts.map(|(at, one)| (key.host_tag(one.host()), at)).collect();
            sorted.sort_unstable();
            let table = Arc::new(TagTable { key: name, sorted });
            *lock(&self.tags) = Some(Arc::clone(&table));
            table
        });
        let rank = table.sorted.partition_point(|(other, _)| *other < tag);
        table
            .sorted
            .get(rank)
            .filter(|(found, _)| *found == tag)
            .map(|(_, at)| *at)
    }

    /// The last count if it was made for the same `key`, or else what `count` says.
    pub fn counted(&self, key: u64, count: impl FnOnce() -> SeatCounts) -> SeatCounts {
        if let Some((_, counts)) = lock(&self.counted).filter(|(of, _)| *of == key) {
            return counts;
        }
        let counts = count();
        *lock(&self.counted) = Some((key, counts));
        counts
    }

    fn rank<T: Hosted>(&self, list: &[T], host: &str) -> Result<usize, usize> {
        self.positions
            .binary_search_by(|&position| from_the_end(list[position].host().as_str(), host))
    }
}

impl Clone for HostIndex {
    fn clone(&self) -> Self {
        Self {
            positions: self.positions.clone(),
            ..Self::default()
        }
    }
}

fn from_the_end(one: &str, other: &str) -> Ordering {
    one.bytes().rev().cmp(other.bytes().rev())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The hosts that a license lists, in order, each once. Copies share them.
#[derive(Clone, Default)]
pub struct HostSet(Option<Arc<ListedHosts>>);

struct ListedHosts {
    hosts: Vec<SiteHost>,
    /// Of more than a few hosts; made when it is first needed.
    index: OnceLock<HostIndex>,
    fingerprint: OnceLock<u64>,
}

impl HostSet {
    /// No hosts.
    pub const EMPTY: Self = Self(None);

    /// Whether it has this host.
    pub fn contains(&self, host: &SiteHost) -> bool {
        self.has(host.as_str())
    }

    /// Whether it has the host with this name.
    pub fn has(&self, host: &str) -> bool {
        match self.index() {
            Some((index, hosts)) => index.position(hosts, host).is_some(),
            None => self.iter().any(|listed| listed.as_str() == host),
        }
    }

    /// All hosts under this one.
    pub fn under(&self, host: &SiteHost) -> Vec<&SiteHost> {
        match self.index() {
            Some((index, hosts)) => {
                let under = index.under(hosts, host.as_str()).iter();
                under.map(|position| &hosts[*position]).collect()
            }
            None => self.iter().filter(|listed| listed.is_under(host)).collect(),
        }
    }

    /// The host that has this tag.
    pub fn tagged(&self, key: &DownloadKey, tag: [u8; 8]) -> Option<&SiteHost> {
        match self.index() {
            Some((index, hosts)) => index.tagged(hosts, key, tag).map(|position| &hosts[position]),
            None => self.iter().find(|listed| key.host_tag(listed) == tag),
        }
    }

    /// The last count if it was made for the same `key`, or else what `count` says.
    pub fn counted(&self, key: u64, count: impl FnOnce() -> SeatCounts) -> SeatCounts {
        match self.index() {
            Some((index, _)) => index.counted(key, count),
            None => count(),
        }
    }

    /// A hash of the hosts.
    pub fn fingerprint(&self) -> u64 {
        let Some(listed) = &self.0 else { return 0 };
        *listed
            .fingerprint
            .get_or_init(|| FixedState::default().hash_one(&listed.hosts))
    }

    /// Adds a host unless it is there.
    pub fn push(&mut self, host: SiteHost) {
        if !self.contains(&host) {
            *self = self.iter().cloned().chain([host]).collect();
        }
    }

    /// Keeps the hosts for which this is true.
    pub fn retain(&mut self, keep: impl Fn(&SiteHost) -> bool) {
        *self = self.iter().filter(|host| keep(host)).cloned().collect();
    }

    /// Removes all hosts.
    pub fn clear(&mut self) {
        *self = Self::EMPTY;
    }

    /// The index, if there are more than a few hosts.
    fn index(&self) -> Option<(&HostIndex, &[SiteHost])> {
        let listed = self.0.as_ref().filter(|listed| listed.hosts.len() > FEW)?;
        Some((
            listed.index.get_or_init(|| HostIndex::new(&listed.hosts)),
            &listed.hosts,
        ))
    }
}

impl From<Vec<SiteHost>> for HostSet {
    fn from(hosts: Vec<SiteHost>) -> Self {
        if hosts.is_empty() {
            return Self::EMPTY;
        }
        Self(Some(Arc::new(ListedHosts {
            hosts,
            index: OnceLock::new(),
            fingerprint: OnceLock::new(),
        })))
    }
}

impl FromIterator<SiteHost> for HostSet {
    fn from_iter<I: IntoIterator<Item = SiteHost>>(hosts: I) -> Self {
        Vec::from_iter(hosts).into()
    }
}

impl Deref for HostSet {
    type Target = [SiteHost];

    fn deref(&self) -> &[SiteHost] {
        self.0.as_ref().map_or(&[], |listed| &listed.hosts)
    }
}

impl<'a> IntoIterator for &'a HostSet {
    type Item = &'a SiteHost;
    type IntoIter = std::slice::Iter<'a, SiteHost>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl PartialEq for HostSet {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for HostSet {}

impl fmt::Debug for HostSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The sites of a license in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeatCounts {
    /// How many hosts are listed or bound.
    pub hosts: usize,
    /// How many of them are staging copies, whether or not they need a seat.
    pub copies: usize,
    /// How many become staging copies with the first site outside the staging hosts; none if there is one.
    pub waiting: usize,
    /// Whether there is a site outside the staging hosts.
    pub has_outside: bool,
    /// How many seats are used.
    pub seats: usize,
    /// Bindings from this position on have given way to hosts that a license file lists.
    pub holding: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&str]) -> Vec<SiteHost> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn many() -> Vec<SiteHost> {
        let names = (0..40).flat_map(|number| [format!("site-{number}.com"), format!("a.site-{number}.com")]);
        names
            .chain(["a.b.site-1.com".to_owned()])
            .map(|name| name.parse().unwrap())
            .collect()
    }

    #[test]
    fn each_host_is_found_by_name_and_by_tag_and_no_other_is() {
        let [key, other] = [1, 2].map(|byte| DownloadKey::new(&[byte; 32]));
        for list in [many(), hosts(&["a.com", "b.com"]), Vec::new()] {
            let set: HostSet = list.clone().into();
            for host in &list {
                assert!(set.contains(host));
                for key in [&key, &other] {
                    assert_eq!(set.tagged(key, key.host_tag(host)), Some(host));
                }
                assert_eq!(set.tagged(&key, other.host_tag(host)), None);
            }
            let stranger = "stranger.com".parse().unwrap();
            assert!(!set.contains(&stranger) && set.tagged(&key, key.host_tag(&stranger)).is_none());
        }
    }

    #[test]
    fn hosts_under_a_site_are_found_and_no_name_that_only_ends_like_it() {
        for more in [Vec::new(), many()] {
            let list = hosts(&[
                "a.example.com",
                "example.com",
                "x.a.example.com",
                "badexample.com",
                "com",
            ]);
            let set: HostSet = list.into_iter().chain(more).collect();
            let under = |name: &str| {
                let mut found: Vec<_> = set
                    .under(&name.parse().unwrap())
                    .iter()
                    .map(ToString::to_string)
                    .collect();
                found.sort();
                found
            };
            assert_eq!(under("example.com"), ["a.example.com", "x.a.example.com"]);
            assert_eq!(under("a.example.com"), ["x.a.example.com"]);
            assert_eq!(under("x.a.example.com"), [""; 0]);
        }
    }

    #[test]
    fn an_index_follows_what_is_appended() {
        let all = many();
        let mut index = HostIndex::default();
        for at in 0..all.len() {
            index.append(&all[..at], &all[at]);
            let list = &all[..=at];
            for (place, host) in list.iter().enumerate() {
                assert_eq!(index.position(list, host.as_str()), Some(place));
            }
        }
    }

    #[test]
    fn what_was_counted_is_counted_again_after_a_change_and_for_another_key() {
        let mut set: HostSet = many().into();
        let counts = |hosts| SeatCounts {
            hosts,
            ..SeatCounts::default()
        };
        assert_eq!(set.counted(1, || counts(5)), counts(5));
        assert_eq!(set.counted(1, || counts(6)), counts(5));
        assert_eq!(set.clone().counted(2, || counts(7)), counts(7));
        set.push("new.com".parse().unwrap());
        assert_eq!(set.counted(2, || counts(8)), counts(8));
    }
}
