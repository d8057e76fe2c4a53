//! What the ledger does: binds sites, changes licenses and tokens, and answers from memory.
//!
//! Each change waits until the commit thread has written it. A bound host is answered from memory.

use std::collections::{BTreeSet, HashSet};
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use chrono::{DateTime, NaiveDate, Utc};

use countersign_model::api_token::ApiToken;
use countersign_model::binding::CheckIn;
use countersign_model::customer::{CustomerRow, NewCustomer};
use countersign_model::digest::Digest;
use countersign_model::first_copies::FirstCopies;
use countersign_model::issued_license::{Hex128, IssuedLicense, IssuedPlace};
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::reminder::ReminderKind;
use countersign_model::rollout::PluginRollouts;
use countersign_model::seat::Seat;
use countersign_model::site_claim::{ClaimStep, SiteClaim};
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::SiteRelease;
use countersign_model::slug::Slug;

use crate::adoptions::AdoptionRequest;
use crate::backend::Backend;
use crate::bindings::BoundSites;
use crate::command::{self, pending};
use crate::customer_erasure::CustomerErasure;
use crate::error::{LedgerState, StoreError};
use crate::group_commit::{self, GroupCommit};
use crate::health::{Figures, StoreHealth};
use crate::issued_licenses::LedgerLicense;
use crate::issued_table::SharedName;
use crate::ledger_change::{ChangeOutcome, LedgerChange};
use crate::license_imports::{self, ImportInTurn, ImportOutcome, ImportRequest, MAX_IMPORT_LINES};
use crate::license_lines::LicenseLines;
use crate::log::record::LedgerEvent;
use crate::log::{ClaimEntry, Position, SessionMark};
use crate::memory::BindingMemory;
use crate::pending::{LedgerLook, Message, TextRequest};
use crate::postgres::nodes::NodeSecrets;
use crate::reminder_claims::{ReminderClaim, ReminderSwitch};
use crate::rollout_changes::{NewestRelease, RolloutChange, RolloutOutcome};
use crate::sale_table::{KnownFacts, KnownSale};
use crate::sales::{SaleChange, SaleOutcome};
use crate::seats::{BindOutcome, SeatRequest, WantedSeat};
use crate::session_ends::SessionEnd;
use crate::site_claims::{ConfirmedClaim, NotedHash, SeenHash};
use crate::site_moves::{self, ReleaseRequest, SiteReleaseOutcome};
use crate::source::{self, LedgerPlace, StoreSource};
use crate::stored_reports::StoredReports;
use crate::telemetry::Reports;
use crate::texts::customer_search::CustomerSearch;
use crate::texts::{ErasedText, FoundTexts, TextErasure, newest_first};
use crate::token_changes::{TokenChange, TokenOutcome};
use crate::{disk, postgres};

/// Opens or creates the store in the folder `path`, and reads all bindings.
///
/// Waits a second for another process to close it, as at a restart.
pub fn open(path: &Path) -> Result<Arc<Ledger>, StoreError> {
    let (disk, tables) = disk::StoreDisk::open(path)?;
    let memory = BindingMemory::new(tables);
    let place = LedgerPlace::Folder(path.to_owned());
    Ok(Arc::new(Ledger::new(place, disk, memory, group_commit::WRITE_BEHIND)))
}

/// Opens the log that several nodes share in a database, and reads all bindings. `folder` is for what belongs to this
/// node alone; it is created. Without a synchronous standby it warns, unless its work is `assumed` to be done elsewhere.
pub fn open_shared(address: &str, folder: &Path, assumed: bool) -> Result<Arc<Ledger>, StoreError> {
    let (log, tables) = postgres::PostgresLog::open(address, folder, assumed)?;
    let memory = BindingMemory::new(tables);
    let place = LedgerPlace::Database(address.to_owned());
    Ok(Arc::new(Ledger::new(place, log, memory, group_commit::WRITE_BEHIND)))
}

/// The ledger of one instance in memory and on disk: bindings of all licenses, licenses, sales and tokens.
pub struct Ledger {
    place: LedgerPlace,
    pub(crate) memory: Arc<BindingMemory>,
    pub(crate) reports: Arc<Reports>,
    /// Weak, so that the thread closes the files when it ends.
    stored_reports: Option<Weak<dyn StoredReports>>,
    pub(crate) group_commit: GroupCommit,
    /// This node's name, if several share the ledger.
    node: Option<String>,
    /// One import at a time: a commit has the lines of one.
    import_turn: Arc<tokio::sync::Mutex<()>>,
    /// Which parts of the ledger's file have lines of which license, once somebody asked for a history.
    license_lines: Mutex<LicenseLines>,
    #[cfg(feature = "testing")]
    fault: Option<InjectedFault>,
}

/// What a test has a ledger answer to each request to bind or release a site: an error, nothing ever with `None`, or a panic.
#[cfg(feature = "testing")]
pub type InjectedFault = fn() -> Option<StoreError>;

/// A ledger that fails, for tests: it binds and releases nothing, and says that it cannot write since 1970.
///
/// # Errors
/// As [`open`].
#[cfg(feature = "testing")]
pub fn open_failing(path: &Path, fault: InjectedFault) -> Result<Arc<Ledger>, StoreError> {
    let (disk, tables) = disk::StoreDisk::open(path)?;
    let place = LedgerPlace::Folder(path.to_owned());
    let ledger = Ledger::new(place, disk, BindingMemory::new(tables), group_commit::WRITE_BEHIND);
    Ok(Arc::new(Ledger {
        fault: Some(fault),
        ..ledger
    }))
}

impl Ledger {
    pub(crate) fn new(
        place: LedgerPlace,
        backend: impl Backend,
        memory: BindingMemory,
        write_behind: Duration,
    ) -> Self {
        let memory = Arc::new(memory);
        let reports = Arc::new(Reports::default());
        Self {
            place,
            stored_reports: backend.stored_reports(),
            node: backend.node().map(str::to_owned),
            group_commit: GroupCommit::start(backend, memory.clone(), reports.clone(), write_behind),
            memory,
            reports,
            import_turn: Arc::default(),
            license_lines: Mutex::default(),
            #[cfg(feature = "testing")]
            fault: None,
        }
    }

    /// Where its lines are read.
    pub fn source(&self) -> StoreSource<'_> {
        self.place.source()
    }

    /// The events of a license and of those that it replaced, the newest first. The first question reads the whole file of a store, and
    /// later ones what was written since. Blocks.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn history(&self, license: &LicenseId) -> Result<Vec<LedgerEvent>, StoreError> {
        let mut known = self.license_lines.lock().unwrap_or_else(PoisonError::into_inner);
        source::history_knowing(self.source(), license, &mut known)
    }

    /// The durable bindings of a license. Costs one look-up in memory.
    pub fn of(&self, license: &LicenseId) -> BoundSites<'_> {
        self.memory.of(license)
    }

    /// Binds the host unless it is bound already, if a site is free ([`License::seat`]). If none is, the host is noted as
    /// refused, as a report is.
    ///
    /// [`BindOutcome::Bound`] means that the binding is durable. The future may be dropped early: the binding is
    /// completed, and the next call finds it. Errors: [`StoreError::Busy`], [`StoreError::NotDurable`],
    /// [`StoreError::Closed`]; after each, the host may try again.
    pub async fn bind(&self, request: SeatRequest<'_>) -> Result<BindOutcome, StoreError> {
        #[cfg(feature = "testing")]
        self.fail().await?;
        let SeatRequest {
            license,
            host,
            proof,
            now,
            ..
        } = request;
        let stored = self.memory.of(&license.id);
        let returns = || site_moves::may_return(license, &stored, host, proof, now).is_some();
        let outcome = match license.seat(&stored, request.staging, host) {
            Seat::Held => return Ok(BindOutcome::Bound),
            // Only a log that nobody else writes to is known as a whole.
            Seat::Taken { first } if !self.group_commit.is_shared() && !returns() => {
                BindOutcome::Elsewhere { first: first.clone() }
            }
            Seat::Taken { .. } | Seat::Free => self.group_commit.ask(WantedSeat::from(request)).await?,
        };
        if matches!(outcome, BindOutcome::Elsewhere { .. }) {
            self.reports.refuse(&license.id, host, now);
        }
        Ok(outcome)
    }

    /// Releases a site at the request of its client or the vendor. From then on, the site holds no seat.
    ///
    /// [`SiteReleaseOutcome::Released`] means that this is durable. The future may
    /// be dropped early: the release is completed, and a retry gets `AlreadyReleased`. Errors: as
    /// [`Self::bind`].
    pub async fn release(&self, request: ReleaseRequest) -> Result<SiteReleaseOutcome, StoreError> {
        #[cfg(feature = "testing")]
        self.fail().await?;
        self.group_commit.ask(request).await
    }

    /// What would follow from a hash that a host sent with a validation; `None` for most. Costs one look-up in memory for the hash that
    /// is bound, unless a claim of the license waits.
    pub fn step_after(&self, seen: &SeenHash<'_>) -> Option<ClaimStep> {
        let events = self.memory.events();
        let claims = events.claims.of(&seen.license.id);
        let next = seen.follows(&self.memory.of(&seen.license.id), claims);
        next.map(|claim| claim.step)
    }

    /// Takes such a hash: it may begin, end or carry out a claim, which is durable then. Ask only where [`Self::step_after`] has a step.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub async fn see_hash(&self, seen: SeenHash<'_>) -> Result<Option<ClaimStep>, StoreError> {
        self.group_commit.ask(NotedHash::from(seen)).await
    }

    /// Carries a claim out that waits, because the customer says that it is right; `false` if it does not wait any more. Durable.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub async fn confirm_claim(
        &self,
        license: &License,
        claim: SiteClaim,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let license = license.clone();
        self.group_commit.ask(ConfirmedClaim { license, claim, now }).await
    }

    /// The claims of a license's sites.
    pub fn claims_of(&self, license: &LicenseId) -> Vec<SiteClaim> {
        self.memory.events().claims.of(license).to_vec()
    }

    /// The claims of sites that were installed again: those that wait, and those of the last 30 days.
    pub fn claims(&self) -> Vec<ClaimEntry> {
        self.memory.events().claims.all()
    }

    /// The license of the ledger with this id. It takes precedence over a declaration.
    pub fn issued(&self, license: &LicenseId) -> Option<LedgerLicense> {
        self.memory.issued.of(license)
    }

    /// The license of the ledger whose id begins so.
    pub fn issued_beginning_with(&self, beginning: &[u8]) -> Option<LedgerLicense> {
        self.memory.issued.beginning_with(beginning)
    }

    /// The license of the ledger that was issued for the request with this key of an origin.
    pub fn issued_for(&self, request: Hex128) -> Option<LedgerLicense> {
        self.memory.issued.of_key(request)
    }

    /// The id of the sale that has this id or name, and what is known of it.
    pub fn sale(&self, name: Hex128) -> Option<(Hex128, KnownFacts)> {
        self.memory.events().sales.of(name)
    }

    /// The sale that has this id or name, with its shop.
    pub fn known_sale(&self, name: Hex128) -> Option<KnownSale> {
        self.memory.events().sales.known(name)
    }

    /// Every sale, by id.
    pub fn sales(&self) -> Vec<KnownSale> {
        self.memory.events().sales.all()
    }

    /// The number of sales.
    pub fn sale_count(&self) -> usize {
        self.memory.events().sales.len()
    }

    /// At most `most` sales, those that a shop named last first. The first call after a start looks at all, and what is written waits:
    /// some 1.5 s for a million.
    pub fn newest_sales(&self, most: usize) -> Vec<KnownSale> {
        self.memory.events().sales.newest(most)
    }

    /// The sales that [may wait](countersign_model::sale::facts::SaleFacts::may_wait), by id. The first call takes as long as the first of
    /// [`newest_sales`](Self::newest_sales).
    pub fn sales_that_may_wait(&self) -> Vec<KnownSale> {
        self.memory.events().sales.may_wait()
    }

    /// The ids of the licenses that a sale issued. A license may still name the sale by a former id.
    pub fn issued_of_sale(&self, sale: &KnownSale) -> Vec<LicenseId> {
        self.memory.issued.named(SharedName::Sale, &sale.ids())
    }

    /// Records facts of a sale that a shop reported.
    ///
    /// [`SaleOutcome::Recorded`] means that the sale is durable and that this node knows it.
    /// Errors: as [`Self::bind`].
    pub async fn record_sale(&self, change: SaleChange) -> Result<SaleOutcome, StoreError> {
        self.group_commit.ask(change).await
    }

    /// The ids of the ledger's licenses of orders that lines name so.
    pub fn issued_of_order(&self, orders: &[Hex128]) -> Vec<LicenseId> {
        self.memory.issued.named(SharedName::Order, orders)
    }

    /// The ids of the ledger's licenses of these customers.
    pub fn issued_to(&self, customers: &[Hex128]) -> Vec<LicenseId> {
        self.memory.issued.named(SharedName::Customer, customers)
    }

    /// The places of at most `most` licenses of the ledger behind this one, the newest first.
    pub fn newest_issued(&self, after: Option<IssuedPlace>, most: usize) -> Vec<IssuedPlace> {
        self.memory.issued.newest(after, most)
    }

    /// At most `limit` licenses of the ledger after this id that `keep` accepts, sorted by id.
    pub fn issued_after(
        &self,
        after: Option<&LicenseId>,
        limit: usize,
        keep: &dyn Fn(&License) -> bool,
    ) -> Vec<LedgerLicense> {
        self.memory.issued.after(after, limit, keep)
    }

    /// Passes on every license of the ledger, sorted by id. Nobody waits for `each`.
    pub fn each_issued(&self, each: impl FnMut(&IssuedLicense)) {
        self.memory.issued.each(each);
    }

    /// The ids of all licenses with a binding of this host, void ones included. Looks at every binding.
    pub fn licenses_of_host(&self, host: &SiteHost) -> Vec<LicenseId> {
        self.memory.licenses_of(host)
    }

    /// The releases by clients that count as moves at `now`, of each license that has some, the latest last. Looks at every
    /// license with a binding.
    pub fn moves(&self, now: DateTime<Utc>) -> Vec<(LicenseId, Vec<SiteRelease>)> {
        self.memory.moves(now)
    }

    /// How many licenses the ledger has.
    pub fn issued_count(&self) -> usize {
        self.memory.issued.len()
    }

    /// Issues or changes a license of the ledger. A file's declaration of it is adopted first: [`Self::adopt`].
    ///
    /// [`ChangeOutcome::Recorded`] means that it is durable, and in force on this node. The future may be dropped early:
    /// the change is completed, and a retry finds it. Errors: as [`Self::bind`].
    pub async fn change_license(&self, change: LedgerChange) -> Result<ChangeOutcome, StoreError> {
        self.group_commit.ask(change).await
    }

    /// Takes a license that a file declares into the ledger, and has it from then on. Outcomes and errors: as
    /// [`Self::change_license`].
    pub async fn adopt(&self, adoption: AdoptionRequest) -> Result<ChangeOutcome, StoreError> {
        self.group_commit.ask(adoption).await
    }

    /// Issues or changes licenses of another system, and binds their sites. The caller has made sure that no file has one.
    /// The outcomes are in the order of the request; all that they say is durable, and in force on this node.
    ///
    /// The future may be dropped early: the import is completed, and the same import again finds it done. Errors: as
    /// [`Self::bind`], and [`StoreError::Busy`] for more than [`MAX_IMPORT_LINES`].
    pub async fn import(&self, import: ImportRequest) -> Result<Vec<ImportOutcome>, StoreError> {
        if import.lines() > MAX_IMPORT_LINES {
            return Err(StoreError::Busy);
        }
        let turn = Arc::clone(&self.import_turn).lock_owned().await;
        self.group_commit.ask(ImportInTurn::new(import, turn)).await
    }

    /// What [`Self::import`] would do, as far as this node knows. Changes nothing.
    pub fn preview_import(&self, import: &ImportRequest) -> Vec<ImportOutcome> {
        let none = HashSet::new();
        let decided = import.licenses.iter().map(|license| {
            let id = &license.license.id;
            let current = self.memory.issued.of(id);
            let stored = self.memory.of(id);
            license_imports::decide(license, current.as_deref(), &stored, &none, import.now).outcome
        });
        decided.collect()
    }

    /// What is kept of texts, by the names that lines of the ledger have. A text of which nothing is kept is left out.
    ///
    /// Errors: as [`Self::bind`].
    pub async fn texts(&self, names: Vec<Hex128>) -> Result<FoundTexts, StoreError> {
        let (request, pending) = TextRequest::find(names);
        self.group_commit.enqueue(Message::Text(request))?;
        pending.wait().await
    }

    /// Erases texts, durably; `None` if nothing is kept of them and no line names them. No later request brings a text back.
    ///
    /// Errors: as [`Self::bind`]; the same request may be sent again.
    pub async fn erase_texts(&self, erasure: TextErasure) -> Result<Option<ErasedText>, StoreError> {
        let (request, pending) = TextRequest::erase(erasure);
        self.group_commit.enqueue(Message::Text(request))?;
        pending.wait().await.map_err(|error| match error {
            StoreError::NotDurable(reason) => StoreError::NotErased(reason),
            error => error,
        })
    }

    /// Keeps customers, and gives their numbers: those of known ones, or the new ones. When it returns, this is durable; the line of a
    /// license is written after it.
    ///
    /// Errors: as [`Self::bind`].
    pub async fn keep_customers(&self, new: Vec<NewCustomer>) -> Result<Vec<Hex128>, StoreError> {
        let (request, pending) = TextRequest::keep_customers(new);
        self.group_commit.enqueue(Message::Text(request))?;
        pending.wait().await
    }

    /// Keeps one customer, and gives the number. When it returns, this is durable.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub async fn keep_customer(&self, new: NewCustomer) -> Result<Hex128, StoreError> {
        let number = self.keep_customers(vec![new]).await?.pop();
        number.ok_or_else(|| StoreError::NotDurable("no number of the customer".into()))
    }

    /// A search of all customers for a part of an address or a name, for another thread.
    ///
    /// Errors: as [`Self::bind`].
    pub async fn customer_search(&self) -> Result<Arc<dyn CustomerSearch>, StoreError> {
        let (request, pending) = TextRequest::customer_search();
        self.group_commit.enqueue(Message::Text(request))?;
        pending.wait().await
    }

    /// The rows of these customers, the newest first.
    ///
    /// Errors: as [`Self::bind`].
    pub async fn customers(&self, numbers: BTreeSet<Hex128>) -> Result<Vec<CustomerRow>, StoreError> {
        let (request, pending) = TextRequest::find_customers(numbers);
        self.group_commit.enqueue(Message::Text(request))?;
        pending.wait().await.map(newest_first)
    }

    /// Erases a customer: the ledger says so from then on, and the rows are deleted, durably. Gives how many there were.
    ///
    /// Errors: as [`Self::bind`]; the same request may be sent again.
    pub async fn erase_customer(&self, erasure: CustomerErasure) -> Result<usize, StoreError> {
        let number = erasure.number;
        // First: whatever happens then, the next start deletes the rows.
        self.group_commit.ask(erasure).await?;
        let (request, pending) = TextRequest::forget_customers(vec![number]);
        self.group_commit.enqueue(Message::Text(request))?;
        pending.wait().await.map_err(|error| match error {
            StoreError::NotDurable(reason) => StoreError::NotErased(reason),
            error => error,
        })
    }

    /// Claims a mail that reminds of licenses. Gives how many of them it has: those that no mail was claimed for before. When it
    /// returns, this is durable.
    ///
    /// # Errors
    /// As [`Self::bind`]; then it may be claimed.
    pub async fn claim_reminder(&self, claim: ReminderClaim) -> Result<usize, StoreError> {
        self.group_commit.ask(claim).await
    }

    /// Notes whether reminders are sent, unless the ledger says so already.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub async fn switch_reminders(&self, switch: ReminderSwitch) -> Result<(), StoreError> {
        if self.memory.events().reminders.is_on() == switch.on {
            return Ok(());
        }
        self.group_commit.ask(switch).await
    }

    /// Since when reminders are sent; `None` if they are not.
    pub fn reminders_since(&self) -> Option<DateTime<Utc>> {
        self.memory.events().reminders.since()
    }

    /// The number of the mail that reminds of this end of a license. Known for weeks.
    pub fn reminder_of(&self, license: &LicenseId, expires: NaiveDate, kind: ReminderKind) -> Option<Hex128> {
        self.memory.events().reminders.mail_of(license, expires, kind)
    }

    /// Ends a session or a code of pages; whether nobody did before. When it returns, this is durable, and every node soon knows.
    ///
    /// # Errors
    /// As [`Self::bind`]; then it may have ended.
    pub async fn end_session(&self, end: SessionEnd) -> Result<bool, StoreError> {
        self.group_commit.ask(end).await
    }

    /// Whether this session or code of pages ended early. A session that is of an owner also ends with all of them.
    pub fn has_ended(&self, mark: SessionMark) -> bool {
        self.memory.events().sessions.has(mark)
    }

    /// When all sessions of this owner ended last, if that matters.
    pub fn sessions_ended(&self, owner: Hex128) -> Option<DateTime<Utc>> {
        self.memory.events().sessions.owner_ended(owner)
    }

    /// Takes a step of a rollout, if it changes anything. When it returns, this is durable, and every node soon knows.
    ///
    /// # Errors
    /// As [`Self::bind`]; then the step may have been taken.
    pub async fn change_rollout(&self, change: RolloutChange) -> Result<RolloutOutcome, StoreError> {
        self.group_commit.ask(change).await
    }

    /// Starts the rollout of a release that is the newest of a channel, unless it has one.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub async fn see_newest(&self, newest: NewestRelease) -> Result<RolloutOutcome, StoreError> {
        self.group_commit.ask(newest).await
    }

    /// The rollouts of a plugin; `None` if it never had one.
    pub fn rollouts(&self, slug: &Slug) -> Option<Arc<PluginRollouts>> {
        self.memory.events().rollouts.of(slug)
    }

    /// Whether a customer was erased.
    pub fn is_erased(&self, customer: Hex128) -> bool {
        self.memory.events().erased.has(customer)
    }

    /// Every token of the management API by name, also revoked ones.
    pub fn tokens(&self) -> Vec<Arc<ApiToken>> {
        self.memory.events().tokens.all()
    }

    /// The token whose secret has this SHA-256, also a revoked one.
    pub fn token_of(&self, hash: &Digest) -> Option<Arc<ApiToken>> {
        self.memory.events().tokens.of_hash(hash)
    }

    /// Whether there is a token, also a revoked one.
    pub fn has_tokens(&self) -> bool {
        !self.tokens().is_empty()
    }

    /// Notes the day of a token's use. Does not wait for it; if it fails, the next use says so again.
    pub fn note_token_use(&self, change: TokenChange) {
        let (request, _) = command::waiting(change);
        // If the queue is full, the next use is noted.
        let _ = self.group_commit.enqueue(Message::Request(request));
    }

    /// Makes or changes a token. Errors: as [`Self::bind`].
    pub async fn change_token(&self, change: TokenChange) -> Result<TokenOutcome, StoreError> {
        self.group_commit.ask(change).await
    }

    /// Reads what other nodes appended before this call; `None` where no other node can, or where this look is not needed.
    /// Before saying no because of the ledger, look and ask again.
    ///
    /// Errors: as [`Self::bind`]; then the answer is not known.
    pub fn refresh(&self, look: LedgerLook) -> Option<impl Future<Output = Result<(), StoreError>> + Send + '_> {
        let is_needed = match look {
            LedgerLook::AfterSleep => self.group_commit.is_behind(),
            LedgerLook::Read | LedgerLook::Proved => self.group_commit.is_shared(),
        };
        is_needed.then(|| self.look(look))
    }

    /// Stores a site's report for a license with these bindings. Never blocks on a disk, never fails; it is written
    /// seconds later.
    ///
    /// A repeated report within ten minutes is ignored. That is known only of the site that reported last, and not of
    /// hosts that only the registry binds, whose reports are stored each time. At most 16,384 reports wait, and about
    /// 250 a second are written. If more arrive, reports of further sites are dropped and counted in
    /// [`Figures::reports_dropped`].
    pub fn report(&self, license: &LicenseId, bound: &BoundSites<'_>, host: &SiteHost, check_in: &CheckIn<'_>) {
        if let Some(news) = bound.news(host, check_in)
            && self.reports.add(license, host, check_in)
        {
            news.was_noted();
        }
    }

    /// Stores that a license gave or refused first copies, as a report is stored.
    pub fn count_first_copies(&self, license: &LicenseId, copies: FirstCopies) {
        self.reports.add_first_copies(license, copies);
    }

    /// Reads what sites reported; `None` if the store is closed, or cannot read it.
    pub fn stored_reports(&self) -> Option<Arc<dyn StoredReports>> {
        self.stored_reports.as_ref()?.upgrade()
    }

    /// What this node calls itself; `None` if no other one shares its ledger.
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// Tells the other nodes of a shared ledger which secrets this one uses.
    pub fn announce(&self, secrets: NodeSecrets) {
        self.group_commit.announce(secrets);
    }

    /// Whether this node may issue anything: its secrets are those of the other nodes.
    pub fn may_issue(&self) -> bool {
        !self.group_commit.is_shared() || self.group_commit.health().ledger != LedgerState::NodesDiffer
    }

    /// Whether bindings, index and reports can be written.
    pub fn health(&self) -> StoreHealth {
        #[cfg(feature = "testing")]
        if self.fault.is_some() {
            return StoreHealth {
                state: Err(StoreError::NotDurable("no space left".into())),
                since: DateTime::UNIX_EPOCH,
                ..self.group_commit.health()
            };
        }
        self.group_commit.health()
    }

    /// The last durable line that this node knows; `None` if the store has no ledger.
    pub fn ledger_end(&self) -> Option<Position> {
        self.group_commit.ledger_end()
    }

    /// The store's counters. Looks at every binding, so it takes milliseconds for a million.
    pub fn figures(&self) -> Figures {
        self.group_commit.figures(Figures {
            bindings: self.memory.count(),
            reports_dropped: self.reports.dropped(),
            ..Figures::default()
        })
    }

    /// Writes what is waiting and closes the files. Binding then gives [`StoreError::Closed`]. Blocks.
    pub fn close(&self) -> Result<(), StoreError> {
        self.group_commit.close()
    }

    #[cfg(feature = "testing")]
    async fn fail(&self) -> Result<(), StoreError> {
        match self.fault.map(|fault| fault()) {
            None => Ok(()),
            Some(Some(error)) => Err(error),
            Some(None) => std::future::pending().await,
        }
    }

    async fn look(&self, look: LedgerLook) -> Result<(), StoreError> {
        let (answer, pending) = pending();
        self.group_commit.enqueue(Message::Refresh(look, answer))?;
        pending.wait().await
    }
}
