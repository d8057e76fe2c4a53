//! Counts first copies, and says when a license gave enough.
//!
//! A node decides from what it remembers and, at most every ten seconds, from what all nodes wrote beside the reports of sites. Two
//! nodes that are asked within those seconds may give a few more.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::serve::net::client_ip::Networks;
use crate::serve::reply::problem::Problem;
use countersign_ledger::Ledger;
use countersign_model::download_key::DownloadKey;
use countersign_model::first_copies::{self, FirstCopies, FirstCopyLimit};
use countersign_model::license_key::LicenseId;
use countersign_settings::config::FirstCopyRule;

/// How long a node goes on without a look at what others wrote.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The licenses that a node remembers: 3 MB. Of the others it reads what was written.
const MOST_LICENSES: usize = 16_384;

/// The first copies that this node knows of.
pub(crate) struct FirstCopyCounts {
    rule: FirstCopyRule,
    known: Mutex<HashMap<LicenseId, KnownCopyCount>>,
}

/// What is known of one license.
struct KnownCopyCount {
    /// `None` if it gave none.
    copies: Option<FirstCopies>,
    read: Instant,
}

/// Who asks for a first copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyRecipient {
    /// See [`DownloadKey::network_tag`].
    network: u16,
    now: DateTime<Utc>,
}

impl CopyRecipient {
    /// A client that asks for a license. Without a key, all networks count as one.
    pub(crate) fn new(key: Option<&DownloadKey>, license: &LicenseId, client: IpAddr, now: DateTime<Utc>) -> Self {
        let narrowest = Networks::of(client).all().next();
        let network = narrowest.map_or(0, |(_, network)| network).to_be_bytes();
        Self {
            network: key.map_or(0, |key| key.network_tag(license, &network)),
            now,
        }
    }
}

impl FirstCopyCounts {
    pub(crate) fn new(rule: FirstCopyRule) -> Self {
        Self {
            rule,
            known: Mutex::default(),
        }
    }

    /// Whether there are first copies.
    pub(crate) fn are_on(&self) -> bool {
        self.rule == FirstCopyRule::On
    }

    /// Counts `bytes` of a package of `size` bytes that will be sent; none count nothing. Blocks.
    ///
    /// # Errors
    /// The license gave enough. That is noted, too.
    pub(crate) fn take(
        &self,
        ledger: &Ledger,
        license: &LicenseId,
        recipient: CopyRecipient,
        (bytes, size): (u64, u64),
    ) -> Result<(), Problem> {
        if bytes == 0 {
            return Ok(());
        }
        self.look(ledger, license);
        let CopyRecipient { network, now } = recipient;
        let parts = first_copies::parts(bytes, size);
        let mut known = self.known();
        let known = &mut known.entry(*license).or_insert(KnownCopyCount::new()).copies;
        let limit = match known
            .as_ref()
            .map_or(Ok(()), |copies| copies.check(now, parts, network))
        {
            Ok(()) => {
                add(known, ledger, license, FirstCopies::given(now, parts, network));
                return Ok(());
            }
            Err(limit) => limit,
        };
        let noted = known.as_ref().and_then(|copies| copies.refused);
        // The first one of a day: endpoints receive it once it is some minutes old.
        if noted.is_none_or(|noted| noted.date_naive() != now.date_naive()) {
            add(known, ledger, license, FirstCopies::refused(now));
            let limit = match limit {
                FirstCopyLimit::Packages { .. } => "packages",
                FirstCopyLimit::Networks { .. } => "networks",
            };
            tracing::warn!(
                license = license.log_tag(),
                limit,
                "a license gave as many first copies as it may; `countersign review` lists it"
            );
        }
        let seconds = (limit.until() - now).num_seconds().max(1);
        Err(Problem::TooManyFirstCopies(limit, seconds.unsigned_abs()))
    }

    /// Learns what all nodes wrote of a license, if the last look is long ago. Where nothing can be read, this node goes on with
    /// what it knows.
    fn look(&self, ledger: &Ledger, license: &LicenseId) {
        let is_fresh = |known: &KnownCopyCount| known.read.elapsed() < LOOK_EVERY;
        if self.known().get(license).is_some_and(is_fresh) {
            return;
        }
        let stored = match ledger.stored_reports().map(|stored| stored.first_copies_of(license)) {
            Some(Ok(stored)) => stored,
            Some(Err(error)) => {
                tracing::debug!(%error, "first copies cannot be read");
                None
            }
            None => None,
        };
        let mut known = self.known();
        if known.len() >= MOST_LICENSES {
            let mut read: Vec<_> = known.values().map(|known| known.read).collect();
            read.sort_unstable();
            let middle = read[read.len() / 2];
            known.retain(|_, known| known.read > middle);
        }
        let known = known.entry(*license).or_insert(KnownCopyCount::new());
        known.read = Instant::now();
        match (&mut known.copies, stored) {
            (_, None) => {}
            (Some(copies), Some(stored)) => copies.learn(stored),
            (copies @ None, stored) => *copies = stored,
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<LicenseId, KnownCopyCount>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownCopyCount {
    fn new() -> Self {
        Self {
            copies: None,
            read: Instant::now(),
        }
    }
}

/// Adds to what this node knows, and has it written.
fn add(known: &mut Option<FirstCopies>, ledger: &Ledger, license: &LicenseId, copies: FirstCopies) {
    match known {
        Some(known) => known.merge(copies.clone()),
        None => *known = Some(copies.clone()),
    }
    ledger.count_first_copies(license, copies);
}
