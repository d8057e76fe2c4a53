//! Writes a new ledger that continues an old one without superseded lines.
//!
//! Its first line has the position of the old ledger's last line, so both form one chain: the old file proves the new
//! one. Bindings keep their order and their times. Releases by clients stay while they count as moves of their license,
//! and for as long as nobody bound the host again. Claims stay while they wait, and 30 days. Lines of licenses, also superseded
//! ones, and of what customers got stay for [`HISTORY`].

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufWriter, Read, Write};

use chrono::{DateTime, TimeDelta, Utc};

use countersign_model::binding::Binding;
use countersign_model::license_key::LicenseId;
use countersign_model::name::Name;
use countersign_model::site_claim::{ClaimStep, SiteClaim};
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::{MOVE_PERIOD, SiteRelease};

use crate::log::reader::{self, LedgerExtent, LedgerFault};
use crate::log::record::{LedgerEvent, LedgerRecord};
use crate::log::{
    ClaimEntry, Compaction, LedgerEntry, Position, ReleaseEntry, ReminderEntry, SessionEntry, SessionMark,
};
use crate::reminder_table;

/// How long superseded lines of licenses stay: a year, and a month to look at it.
pub(crate) const HISTORY: TimeDelta = TimeDelta::days(400);

/// Passes on the events that a compaction keeps, in their order; old ones, too. Bindings are as they are now.
pub(crate) fn current<R: Read>(
    open: impl Fn() -> io::Result<R>,
    mut each: impl FnMut(LedgerEvent),
) -> Result<(), LedgerFault> {
    let (_, latest) = latest(open().map_err(LedgerFault::Io)?, None)?;
    hand_over(open().map_err(LedgerFault::Io)?, &latest, |number, change| {
        each(latest.as_now(number, change));
        Ok(())
    })
}

/// Writes the compacted ledger; returns the number of kept bindings and the position of the last line. The caller
/// syncs it and renames it into place.
pub(crate) fn write<R: Read>(
    open: impl Fn() -> io::Result<R>,
    new: impl Write,
    time: DateTime<Utc>,
) -> Result<(u64, Position), LedgerFault> {
    let (old, latest) = latest(open().map_err(LedgerFault::Io)?, Some(time))?;
    let mut new = BufWriter::new(new);
    let mut line = Vec::new();
    let mut put = |previous: Position, change: LedgerEvent| -> io::Result<Position> {
        line.clear();
        let end = LedgerRecord {
            previous,
            synced: old.end.sequence,
            change,
        }
        .write(&mut line)?;
        new.write_all(&line)?;
        Ok(end)
    };
    let kept = latest.len() as u64;
    let mut end = put(old.end, LedgerEvent::Compacted(Compaction { kept, time })).map_err(LedgerFault::Io)?;
    hand_over(open().map_err(LedgerFault::Io)?, &latest, |_, change| {
        end = put(end, change)?;
        Ok(())
    })?;
    new.flush().map_err(LedgerFault::Io)?;
    Ok((latest.bindings.len() as u64, end))
}

/// The numbers of the lines that stay.
#[derive(Default)]
pub(crate) struct LatestLines {
    /// The last binding of each site of each license.
    bindings: HashMap<(LicenseId, SiteHost), u64>,
    /// The releases of these bindings.
    releases: HashMap<(LicenseId, SiteHost), (u64, SiteRelease)>,
    /// Releases that count as moves, unless they are among `releases`.
    moves: BTreeMap<u64, DateTime<Utc>>,
    /// The lines that release one host and bind another one: the license, the old host and the new one.
    joint: BTreeMap<u64, (LicenseId, SiteHost, SiteHost)>,
    /// The last line of each license that a machine issued.
    licenses: HashMap<LicenseId, (u64, DateTime<Utc>)>,
    /// Their lines before that.
    past_licenses: BTreeMap<u64, DateTime<Utc>>,
    /// The last line of each token.
    tokens: HashMap<Name, u64>,
    /// The last line of each claim.
    claims: HashMap<(LicenseId, SiteHost), (u64, SiteClaim)>,
    /// Claims of reminders.
    reminders: BTreeMap<u64, DateTime<Utc>>,
    /// The last switch of reminders.
    switch: Option<u64>,
    /// The last line of each session or code that ended early.
    sessions: HashMap<SessionMark, (u64, SessionEntry)>,
    /// What customers got.
    handouts: BTreeMap<u64, DateTime<Utc>>,
    /// The number of lines of all other kinds. A compaction keeps all of them.
    lasting: usize,
}

impl LatestLines {
    /// Takes the line with this number.
    pub(crate) fn take(&mut self, sequence: u64, change: &LedgerEvent) {
        match change {
            LedgerEvent::Bound(LedgerEntry { license, binding }) => {
                self.bind(*license, &binding.host, sequence);
            }
            LedgerEvent::Released(ReleaseEntry {
                license,
                release,
                successor,
            }) => {
                let site = (*license, release.host.clone());
                if let Some((number, release)) = self.releases.insert(site, (sequence, release.clone())) {
                    self.moves.insert(number, release.time);
                }
                if let Some(Binding { host, .. }) = successor {
                    let hosts = (*license, release.host.clone(), host.clone());
                    self.joint.insert(sequence, hosts);
                    self.bind(*license, host, sequence);
                }
            }
            LedgerEvent::License(issued) => {
                if let Some((number, time)) = self.licenses.insert(issued.license.id, (sequence, issued.time)) {
                    self.past_licenses.insert(number, time);
                }
            }
            LedgerEvent::Claimed(ClaimEntry { license, claim }) => {
                let site = (*license, claim.host.clone());
                self.claims.insert(site, (sequence, claim.clone()));
            }
            LedgerEvent::Reminded(entry) => match **entry {
                ReminderEntry::Sent(ref sent) => drop(self.reminders.insert(sequence, sent.time)),
                ReminderEntry::Switched { .. } => self.switch = Some(sequence),
            },
            LedgerEvent::Session(entry) => {
                self.sessions.insert(entry.mark, (sequence, *entry));
            }
            LedgerEvent::Token(token) => {
                self.tokens.insert(token.name.clone(), sequence);
            }
            LedgerEvent::Handed(entry) => drop(self.handouts.insert(sequence, entry.time)),
            LedgerEvent::Compacted(_) => {}
            _ => self.lasting += 1,
        }
    }

    fn bind(&mut self, license: LicenseId, host: &SiteHost, sequence: u64) {
        let site = (license, host.clone());
        if let Some((number, release)) = self.releases.remove(&site) {
            self.moves.insert(number, release.time);
        }
        self.bindings.insert(site, sequence);
    }

    /// Whether the line with this number has the last binding of the site.
    fn binds(&self, license: LicenseId, host: &SiteHost, sequence: u64) -> bool {
        self.bindings.get(&(license, host.clone())) == Some(&sequence)
    }

    /// Whether the line with this number has a release that counts.
    fn releases(&self, license: LicenseId, host: &SiteHost, sequence: u64) -> bool {
        let latest = self.releases.get(&(license, host.clone()));
        latest.is_some_and(|(number, _)| *number == sequence) || self.moves.contains_key(&sequence)
    }

    /// Forgets the moves that no longer count at `now`, and what is history for too long.
    fn forget_past(&mut self, now: DateTime<Utc>) {
        self.moves
            .retain(|_, time| now.signed_duration_since(*time) < MOVE_PERIOD);
        self.claims
            .retain(|_, (_, claim)| claim.step == ClaimStep::Begun || claim.is_recent(now));
        self.past_licenses
            .retain(|_, time| now.signed_duration_since(*time) < HISTORY);
        self.handouts
            .retain(|_, time| now.signed_duration_since(*time) < HISTORY);
        self.reminders
            .retain(|_, time| now.signed_duration_since(*time) < reminder_table::KEPT);
        self.sessions.retain(|_, (_, entry)| entry.matters_at(now));
    }

    /// How many lines stay.
    fn len(&self) -> usize {
        let is_twice = |(number, (license, old, new)): &(&u64, &(LicenseId, SiteHost, SiteHost))| {
            self.binds(*license, new, **number) && self.releases(*license, old, **number)
        };
        let twice = self.joint.iter().filter(is_twice).count();
        let sites = self.bindings.len() + self.releases.len() + self.moves.len() - twice;
        let licenses = self.licenses.len() + self.past_licenses.len();
        let reminders = self.reminders.len() + usize::from(self.switch.is_some());
        let of_people = self.tokens.len() + self.claims.len() + self.sessions.len() + self.handouts.len();
        sites + licenses + of_people + reminders + self.lasting
    }

    /// Whether the line with this number stays.
    pub(crate) fn has(&self, sequence: u64, change: &LedgerEvent) -> bool {
        match change {
            LedgerEvent::Bound(LedgerEntry { license, binding }) => self.binds(*license, &binding.host, sequence),
            LedgerEvent::Released(ReleaseEntry {
                license,
                release,
                successor,
            }) => {
                self.releases(*license, &release.host, sequence)
                    || successor
                        .as_ref()
                        .is_some_and(|binding| self.binds(*license, &binding.host, sequence))
            }
            LedgerEvent::License(issued) => {
                let latest = self.licenses.get(&issued.license.id);
                latest.is_some_and(|(number, _)| *number == sequence) || self.past_licenses.contains_key(&sequence)
            }
            LedgerEvent::Claimed(ClaimEntry { license, claim }) => {
                let latest = self.claims.get(&(*license, claim.host.clone()));
                latest.is_some_and(|(number, _)| *number == sequence)
            }
            LedgerEvent::Reminded(_) => self.reminders.contains_key(&sequence) || self.switch == Some(sequence),
            LedgerEvent::Session(entry) => {
                let latest = self.sessions.get(&entry.mark);
                latest.is_some_and(|(number, _)| *number == sequence)
            }
            LedgerEvent::Token(token) => self.tokens.get(&token.name) == Some(&sequence),
            LedgerEvent::Handed(_) => self.handouts.contains_key(&sequence),
            LedgerEvent::Compacted(_) => false,
            _ => true,
        }
    }

    /// The event of the line with this number, which stays. A binding is as it is now; a move does not have one that is superseded.
    pub(crate) fn as_now(&self, sequence: u64, mut change: LedgerEvent) -> LedgerEvent {
        let (license, binding) = match &mut change {
            LedgerEvent::Bound(LedgerEntry { license, binding }) => (*license, binding),
            LedgerEvent::Released(ReleaseEntry { license, successor, .. }) => {
                let license = *license;
                successor.take_if(|binding| !self.binds(license, &binding.host, sequence));
                match successor {
                    Some(binding) => (license, binding),
                    None => return change,
                }
            }
            _ => return change,
        };
        if let Some((_, release)) = self.releases.get(&(license, binding.host.clone())) {
            binding.end(release);
        }
        change
    }
}

/// The lines that stay; those of moves and of the past only if they count at `now`.
fn latest(ledger: impl Read, now: Option<DateTime<Utc>>) -> Result<(LedgerExtent, LatestLines), LedgerFault> {
    let mut latest = LatestLines::default();
    let found = reader::read(ledger, |position, change| {
        if let Some(change) = &change {
            latest.take(position.sequence, change);
        }
    })?;
    if let Some(now) = now {
        latest.forget_past(now);
    }
    Ok((found, latest))
}

fn hand_over(
    ledger: impl Read,
    latest: &LatestLines,
    mut each: impl FnMut(u64, LedgerEvent) -> io::Result<()>,
) -> Result<(), LedgerFault> {
    let mut result = Ok(());
    reader::read(ledger, |position, change| {
        let stays = |change: &LedgerEvent| latest.has(position.sequence, change);
        if let Some(change) = change.filter(|change| result.is_ok() && stays(change)) {
            result = each(position.sequence, change);
        }
    })?;
    result.map_err(LedgerFault::Io)
}
