//! What a ledger has, in tables: collected while it is read, kept in memory, and added to by a group commit.
//!
//! A kind of event is registered here and in [`record`](crate::log::record). The tables of sales, reminders and handouts have files of their
//! own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};

use crate::checksum::{BindingsBuilder, BindingsByLicense};
use crate::handout_table::HandoutTable;
use crate::issued_table::{IssuedBuilder, IssuedTable};
use crate::log::record::LedgerEvent;
use crate::log::{ClaimEntry, ErasureEntry, RolloutEntry, SessionEntry, SessionMark, VouchEntry};
use crate::reminder_table::ReminderTable;
use crate::sale_table::SaleTable;
use countersign_model::api_token::ApiToken;
use countersign_model::digest::Digest;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license_key::LicenseId;
use countersign_model::name::Name;
use countersign_model::rollout::{PluginRollouts, Rollout};
use countersign_model::site_claim::SiteClaim;
use countersign_model::slug::Slug;

/// Everything that a ledger has.
#[derive(Debug, Default)]
pub(crate) struct LedgerTables {
    pub by_license: BindingsByLicense,
    pub issued: IssuedTable,
    pub events: EventTables,
}

/// The tables of the kinds of events that need one table each. A group commit has such tables of what memory does not have
/// yet.
#[derive(Debug, Default)]
pub(crate) struct EventTables {
    /// The sales of shops.
    pub sales: SaleTable,
    /// The tokens of the management API.
    pub tokens: TokenTable,
    /// The claims of sites that were installed again.
    pub claims: ClaimTable,
    /// The customers that were erased.
    pub erased: ErasedCustomers,
    /// The reminders that mails were claimed for.
    pub reminders: ReminderTable,
    /// The sessions and codes of pages that ended early.
    pub sessions: SessionTable,
    /// The rollouts of releases.
    pub rollouts: RolloutTable,
    /// The licenses that people vouched for.
    pub vouches: VouchTable,
    /// What customers got by their page.
    pub handouts: HandoutTable,
}

impl EventTables {
    /// Takes the event of the next line.
    pub(crate) fn take(&mut self, event: &LedgerEvent) {
        match event {
            LedgerEvent::Sale(entry) => self.sales.take(entry),
            LedgerEvent::Token(token) => self.tokens.take(token),
            LedgerEvent::Claimed(entry) => self.claims.take(entry),
            LedgerEvent::Erased(entry) => self.erased.take(entry),
            LedgerEvent::Reminded(entry) => self.reminders.take(entry),
            LedgerEvent::Session(entry) => self.sessions.take(*entry),
            LedgerEvent::Rollout(entry) => self.rollouts.take(entry),
            LedgerEvent::Vouched(entry) => self.vouches.take(entry),
            LedgerEvent::Handed(entry) => self.handouts.take(entry),
            LedgerEvent::Bound(_) | LedgerEvent::Released(_) | LedgerEvent::License(_) | LedgerEvent::Compacted(_) => {}
        }
    }

    /// Lines that make these tables again. Those of sales are of `now`.
    pub(crate) fn events(&self, now: DateTime<Utc>) -> Vec<LedgerEvent> {
        // Each table is named, so that none is forgotten.
        let Self {
            sales,
            tokens,
            claims,
            erased,
            reminders,
            sessions,
            rollouts,
            vouches,
            handouts,
        } = self;
        let operator = Arc::new(ChangeScope::operator());
        let mut events = Vec::new();
        events.extend(tokens.all().into_iter().map(LedgerEvent::Token));
        events.extend(erased.all().into_iter().map(LedgerEvent::Erased));
        events.extend(reminders.entries().into_iter().map(LedgerEvent::Reminded));
        events.extend(sessions.entries().into_iter().map(LedgerEvent::Session));
        events.extend(rollouts.entries().into_iter().map(LedgerEvent::Rollout));
        events.extend(vouches.all().into_iter().map(LedgerEvent::Vouched));
        events.extend(handouts.all().into_iter().map(LedgerEvent::Handed));
        events.extend(claims.all().into_iter().map(LedgerEvent::Claimed));
        let sales = sales.entries(&operator, now).into_iter();
        events.extend(sales.map(|entry| LedgerEvent::Sale(Arc::new(entry))));
        events
    }

    /// Events of these tables that `log` lacks, and that are appended as they are.
    pub(crate) fn lost(&self, log: &Self) -> Vec<LedgerEvent> {
        let Self {
            erased,
            sessions,
            vouches,
            handouts,
            // A repair makes requests of these, or leaves them out.
            sales: _,
            tokens: _,
            claims: _,
            reminders: _,
            rollouts: _,
        } = self;
        let mut events = Vec::new();
        events.extend(erased.all().into_iter().map(LedgerEvent::Erased));
        events.extend(sessions.entries().into_iter().map(LedgerEvent::Session));
        events.extend(vouches.all().into_iter().map(LedgerEvent::Vouched));
        events.extend(handouts.all().into_iter().map(LedgerEvent::Handed));
        events.retain(|event| !log.has(event));
        events
    }

    /// Whether such an event is known, or a newer one about the same.
    pub(crate) fn has(&self, event: &LedgerEvent) -> bool {
        match event {
            LedgerEvent::Erased(entry) => self.erased.has(entry.number),
            LedgerEvent::Session(entry) => self.sessions.has_since(entry),
            LedgerEvent::Vouched(entry) => {
                let known = self.vouches.of(&entry.license);
                known.is_some_and(|known| known.time >= entry.time)
            }
            LedgerEvent::Handed(entry) => self.handouts.has(&entry.license, entry.id),
            _ => false,
        }
    }
}

/// Collects everything that a ledger has while it is read.
#[derive(Default)]
pub(crate) struct LedgerBuilder {
    bindings: BindingsBuilder,
    licenses: IssuedBuilder,
    events: EventTables,
}

impl LedgerBuilder {
    /// Takes the event of the next line.
    pub(crate) fn take(&mut self, event: LedgerEvent) {
        match event {
            LedgerEvent::License(license) => self.licenses.add(license),
            LedgerEvent::Bound(_) | LedgerEvent::Released(_) => self.bindings.take(event),
            event => self.events.take(&event),
        }
    }

    pub(crate) fn finish(self) -> LedgerTables {
        LedgerTables {
            by_license: self.bindings.finish(),
            issued: self.licenses.finish(),
            events: self.events,
        }
    }
}

/// The tokens of the management API by name, also revoked ones. They are few.
#[derive(Debug, Default)]
pub(crate) struct TokenTable(BTreeMap<Name, Arc<ApiToken>>);

impl TokenTable {
    fn take(&mut self, token: &Arc<ApiToken>) {
        self.0.insert(token.name.clone(), Arc::clone(token));
    }

    /// The token with this name.
    pub(crate) fn of(&self, name: &Name) -> Option<Arc<ApiToken>> {
        self.0.get(name).cloned()
    }

    /// The token whose secret has this SHA-256.
    // SECURITY: digests are compared, not secrets, so the time of a comparison tells nothing of a secret.
    pub(crate) fn of_hash(&self, hash: &Digest) -> Option<Arc<ApiToken>> {
        self.0.values().find(|token| token.hash == *hash).cloned()
    }

    /// Every token by name.
    pub(crate) fn all(&self) -> Vec<Arc<ApiToken>> {
        self.0.values().cloned().collect()
    }

    /// How many there are with those of another table.
    pub(crate) fn len_with(&self, other: &Self) -> usize {
        let is_new = |name: &&Name| !self.0.contains_key(*name);
        self.0.len() + other.0.keys().filter(is_new).count()
    }
}

/// The last claim of each site that has one. They are few.
#[derive(Debug, Default)]
pub(crate) struct ClaimTable(BTreeMap<LicenseId, Vec<SiteClaim>>);

impl ClaimTable {
    fn take(&mut self, entry: &ClaimEntry) {
        let claims = self.0.entry(entry.license).or_default();
        claims.retain(|claim| claim.host != entry.claim.host);
        claims.push(entry.claim.clone());
    }

    /// Those of a license, the latest last.
    pub(crate) fn of(&self, license: &LicenseId) -> &[SiteClaim] {
        self.0.get(license).map_or(&[], |claims| claims)
    }

    /// Every one.
    pub(crate) fn all(&self) -> Vec<ClaimEntry> {
        let of_license = |(license, claims): (&LicenseId, &Vec<SiteClaim>)| {
            let license = *license;
            let entries = claims.iter().map(move |claim| ClaimEntry {
                license,
                claim: claim.clone(),
            });
            entries.collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of_license).collect()
    }
}

/// The newest word about each license that somebody vouched for. They are few.
#[derive(Debug, Default)]
pub(crate) struct VouchTable(BTreeMap<LicenseId, Arc<VouchEntry>>);

impl VouchTable {
    /// Takes the entry of the next line. A repair appends lost entries with their own times, so an older one changes nothing.
    pub(crate) fn take(&mut self, entry: &Arc<VouchEntry>) {
        if self.of(&entry.license).is_none_or(|known| known.time <= entry.time) {
            self.0.insert(entry.license, Arc::clone(entry));
        }
    }

    /// The newest word about a license.
    pub(crate) fn of(&self, license: &LicenseId) -> Option<Arc<VouchEntry>> {
        self.0.get(license).cloned()
    }

    /// Every one, by license.
    fn all(&self) -> Vec<Arc<VouchEntry>> {
        self.0.values().cloned().collect()
    }

    /// Those that are in force on this day, the latest first.
    pub(crate) fn in_force(&self, today: NaiveDate) -> Vec<Arc<VouchEntry>> {
        let mut entries = self.all();
        entries.retain(|entry| entry.is_in_force(today));
        entries.sort_by_key(|entry| (Reverse(entry.time), entry.license));
        entries
    }
}

/// The customers that were erased, by number.
#[derive(Debug, Default)]
pub(crate) struct ErasedCustomers(BTreeMap<Hex128, ErasureEntry>);

impl ErasedCustomers {
    fn take(&mut self, entry: &ErasureEntry) {
        self.0.entry(entry.number).or_insert(*entry);
    }

    /// Whether this customer was erased.
    pub(crate) fn has(&self, number: Hex128) -> bool {
        self.0.contains_key(&number)
    }

    /// Their numbers.
    pub(crate) fn numbers(&self) -> BTreeSet<Hex128> {
        self.0.keys().copied().collect()
    }

    /// Every one.
    fn all(&self) -> Vec<ErasureEntry> {
        self.0.values().copied().collect()
    }
}

/// The rollouts of each plugin that has some.
#[derive(Debug, Default)]
pub(crate) struct RolloutTable(BTreeMap<Slug, Arc<PluginRollouts>>);

impl RolloutTable {
    /// Takes the entry of the next line.
    pub(crate) fn take(&mut self, entry: &RolloutEntry) {
        let rollouts = self.0.entry(entry.slug.clone()).or_default();
        Arc::make_mut(rollouts).take(&entry.version, entry.mark.clone());
    }

    /// Copies what memory has of the plugin of a line, unless it is here already: a line has only one step.
    pub(crate) fn assume(&mut self, slug: &Slug, memory: &Self) {
        if !self.0.contains_key(slug)
            && let Some(rollouts) = memory.of(slug)
        {
            self.0.insert(slug.clone(), rollouts);
        }
    }

    /// Those of a plugin; `None` if it has none.
    pub(crate) fn of(&self, slug: &Slug) -> Option<Arc<PluginRollouts>> {
        self.0.get(slug).cloned()
    }

    /// Every step; those of one release in their order.
    pub(crate) fn entries(&self) -> Vec<RolloutEntry> {
        let mut entries = Vec::new();
        for (slug, rollouts) in &self.0 {
            for rollout in rollouts.iter() {
                entries.extend(rollout.marks.iter().map(|mark| RolloutEntry {
                    slug: slug.clone(),
                    version: rollout.version.clone(),
                    mark: mark.clone(),
                }));
            }
        }
        entries
    }

    /// The steps that `other` lacks.
    pub(crate) fn lost(&self, other: &Self) -> Vec<RolloutEntry> {
        let mut entries = self.entries();
        let mut seen: HashMap<_, usize> = HashMap::new();
        entries.retain(|entry| {
            let known = other.of(&entry.slug);
            let known = known.as_ref().and_then(|rollouts| rollouts.of(&entry.version));
            let of_step = |rollout: &Rollout| rollout.marks.iter().filter(|mark| mark.step == entry.mark.step).count();
            // A step that was appended again has another time, so steps of a kind are counted.
            let count = seen
                .entry((entry.slug.clone(), entry.version.clone(), entry.mark.step))
                .or_default();
            *count += 1;
            *count > known.map_or(0, of_step)
        });
        entries
    }
}

/// Ended sessions that matter no more are dropped at this number, or at twice the number that stayed the last time if that is more.
const FEW_SESSIONS: usize = 1_024;

/// The sessions and codes of pages that ended early, as long as they would last.
#[derive(Debug, Default)]
pub(crate) struct SessionTable {
    entries: HashMap<SessionMark, SessionEntry>,
    /// So many stayed when entries were dropped last.
    stayed: usize,
    newest: DateTime<Utc>,
}

impl SessionTable {
    /// Takes the entry of the next line.
    pub(crate) fn take(&mut self, entry: SessionEntry) {
        self.newest = self.newest.max(entry.time);
        self.entries.insert(entry.mark, entry);
        if self.entries.len() >= FEW_SESSIONS.max(2 * self.stayed) {
            let newest = self.newest;
            self.entries.retain(|_, entry| entry.matters_at(newest));
            self.stayed = self.entries.len();
        }
    }

    /// Whether this ended early.
    pub(crate) fn has(&self, mark: SessionMark) -> bool {
        self.entries.contains_key(&mark)
    }

    /// When all sessions of an owner ended last.
    pub(crate) fn owner_ended(&self, owner: Hex128) -> Option<DateTime<Utc>> {
        self.entries.get(&SessionMark::Owner(owner)).map(|entry| entry.time)
    }

    /// Every entry, the oldest first.
    pub(crate) fn entries(&self) -> Vec<SessionEntry> {
        let mut entries: Vec<_> = self.entries.values().copied().collect();
        entries.sort_unstable_by_key(|entry| (entry.time, entry.mark));
        entries
    }

    /// Whether this ended early, then or later.
    pub(crate) fn has_since(&self, entry: &SessionEntry) -> bool {
        let known = self.entries.get(&entry.mark);
        known.is_some_and(|known| known.time >= entry.time)
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn the_table_knows_what_may_still_be_asked_for_and_does_not_grow() {
        let mut table = SessionTable::default();
        let entry = |number: u16| {
            let mut id = [0; 16];
            id[..2].copy_from_slice(&number.to_be_bytes());
            let time = DateTime::UNIX_EPOCH + TimeDelta::minutes(i64::from(number));
            SessionEntry {
                mark: SessionMark::Code(Hex128(id)),
                until: time + TimeDelta::minutes(15),
                time,
            }
        };
        for number in 0..20_000 {
            table.take(entry(number));
        }
        assert!(table.entries.len() < 2 * FEW_SESSIONS, "{}", table.entries.len());
        assert!(table.has(entry(19_999).mark) && table.has(entry(19_930).mark) && !table.has(entry(0).mark));
        let mut log = SessionTable::default();
        for entry in table.entries().into_iter().skip(3) {
            log.take(entry);
        }
        let lost = |entry: &SessionEntry| !log.has_since(entry);
        assert_eq!(
            table.entries().into_iter().filter(lost).collect::<Vec<_>>(),
            table.entries()[..3]
        );
    }
}
