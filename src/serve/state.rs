//! State that all requests and reloads share: created once at the start, in an `Arc`.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::serve::account::setup::AccountSetup;
use crate::serve::day_tally::DayTally;
use crate::serve::desk::door::DeskDoor;
use crate::serve::differing_declarations::DeclarationsLook;
use crate::serve::first_copies::FirstCopyCounts;
use crate::serve::gate::{Gate, Snapshot};
use crate::serve::health::{Health, LedgerReading, Part, Readiness, State};
use crate::serve::history_report::KeptHistory;
use crate::serve::hooks::Hooks;
use crate::serve::links::{self, ComposerRepository, FirstCopyPages, PackageLinks};
use crate::serve::metrics::{Metrics, Reloads};
use crate::serve::net::descriptors::Descriptors;
use crate::serve::net::tls::Tls;
use crate::serve::package_faults::PackageFaults;
use crate::serve::rate_limit::Limits;
use crate::serve::reload::drop_guard::DropGuard;
use crate::serve::reply::problem::Problem;
use crate::serve::signing::Signer;
use crate::serve::taken_releases::{RolloutWatch, TakenPackages};
use crate::serve::webhooks::endpoint::EndpointCounts;
use countersign_ledger::{LedgerLook, StoreError};
use countersign_mail::account::MailAccount;
use countersign_mail::queue::MailQueue;
use countersign_model::issued_license::Hex128;
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::shop_link::{LicenseLinks, ShopLinks};
use countersign_model::site_claim::SiteClaim;
use countersign_model::site_claim_token;
use countersign_model::unsubscribe_token;
use countersign_settings::config::{CustomerRule, LocalHosts};

/// How long a request waits for a look at the shared ledger after this machine slept.
const CATCH_UP_PATIENCE: Duration = Duration::from_secs(2);

/// State that all requests share.
pub struct Service {
    pub(crate) gate: Gate,
    pub(crate) signer: Signer,
    pub(crate) limits: Limits,
    pub(crate) health: Health,
    pub(crate) hooks: Hooks,
    pub(crate) links: PackageLinks,
    /// Where mails to buyers are put; empty without a mail server.
    pub(crate) mail: OnceLock<Arc<MailQueue>>,
    /// The endpoints that receive events; empty without any.
    pub(crate) webhooks: OnceLock<Vec<Arc<EndpointCounts>>>,
    /// The door of the desk; empty without one.
    pub(crate) desk: OnceLock<Arc<DeskDoor>>,
    /// The pages for customers; empty without them.
    pub(crate) account: OnceLock<Arc<AccountSetup>>,
    pub(crate) packages: PackageFaults,
    pub(crate) rollouts: RolloutWatch,
    /// Which sites took releases that come in steps.
    pub(crate) taken: TakenPackages,
    /// Sends the mail of an alarm; empty without a mail server.
    pub(crate) alarm_mail: OnceLock<Arc<MailAccount>>,
    pub(crate) metrics: Arc<Metrics>,
    /// What happened on the running day.
    pub(crate) tally: DayTally,
    /// What happened on the days before.
    pub(crate) history: KeptHistory,
    pub(crate) descriptors: Descriptors,
    /// Whether no proxy is configured, although there may be one.
    pub(crate) has_no_proxy: bool,
    pub(crate) reloads: Reloads,
    pub(crate) drop_guard: DropGuard,
    pub(crate) declarations: DeclarationsLook,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) started: DateTime<Utc>,
    pub(crate) public: Arc<Path>,
    pub(crate) request_timeout: Duration,
    pub(crate) grace_period_hours: u32,
    pub(crate) first_copies: FirstCopyCounts,
    /// `None` without a repository for Composer.
    pub(crate) composer: Option<ComposerRepository>,
    /// Where licenses are renewed and upgraded whose offer does not say it.
    pub(crate) shop_links: ShopLinks,
    /// What is kept of customers.
    pub(crate) customers: CustomerRule,
    pub(crate) local_hosts: LocalHosts,
    /// Whether keys of another system work.
    pub(crate) foreign_keys: bool,
    /// Whether clients of Easy Digital Downloads are answered.
    pub(crate) answers_edd: bool,
}

impl Service {
    /// What links to pages with first copies are made with; `None` where there are none.
    pub(crate) fn first_copy_pages(&self, snapshot: &Snapshot) -> Option<FirstCopyPages> {
        let public_url = self.links.public_url().filter(|_| self.first_copies.are_on())?.clone();
        let keys = snapshot.secrets.downloads.clone()?;
        Some(FirstCopyPages::new(public_url, keys, snapshot.registry.plugins()))
    }

    /// Where a license is renewed and upgraded.
    pub(crate) fn license_links(&self, snapshot: &Snapshot, license: &License) -> LicenseLinks {
        let keys = snapshot.secrets.downloads.as_deref();
        links::license_links(license, snapshot.registry.offers(), &self.shop_links, keys)
    }

    /// The link with which a customer says no to reminders; `None` where no link can be made.
    pub(crate) fn unsubscribe_link(&self, snapshot: &Snapshot, customer: Hex128) -> Option<String> {
        let keys = snapshot.secrets.downloads.as_deref()?;
        let token = unsubscribe_token::of_customer(keys.current(), customer);
        Some(format!(
            "{}{}{token}",
            self.links.public_url()?.as_str(),
            unsubscribe_token::PATH
        ))
    }

    /// The link with which the customer `to` confirms that a site was installed again; `None` where no link can be made.
    pub(crate) fn site_claim_link(
        &self,
        snapshot: &Snapshot,
        license: &LicenseId,
        to: Hex128,
        claim: &SiteClaim,
    ) -> Option<String> {
        let keys = snapshot.secrets.downloads.as_deref()?;
        let token = site_claim_token::of_claim(keys.current(), license, to, claim);
        Some(format!(
            "{}{}{token}",
            self.links.public_url()?.as_str(),
            site_claim_token::PATH
        ))
    }

    /// The current state of every part.
    pub(crate) fn readiness(&self) -> Readiness {
        self.note_store();
        self.health.readiness()
    }

    /// Waits for a look at the shared ledger, as long as a request may take.
    pub(crate) async fn within_deadline(
        &self,
        look: impl Future<Output = Result<(), StoreError>>,
    ) -> Result<(), Problem> {
        let refreshed = tokio::time::timeout(self.request_timeout, look).await;
        Ok(refreshed.map_err(|_| Problem::StoreUnavailable)??)
    }

    /// After a sleep of this machine, waits for a look at the shared ledger. Where the database does not answer soon, memory
    /// counts as it is, as whenever the database is away.
    pub(crate) async fn catch_up(&self) {
        if let Some(look) = self.gate.bindings().refresh(LedgerLook::AfterSleep) {
            let _ = tokio::time::timeout(CATCH_UP_PATIENCE, look).await;
        }
    }

    /// Looks for declarations that differ from the ledger's licenses. The registry is in force: it works whatever is found.
    pub(crate) fn note_declarations(&self) {
        let detail = self
            .declarations
            .look(&self.gate.snapshot().registry, self.gate.bindings());
        self.health.note(Part::Registry, State::Ok, detail, Utc::now());
    }

    /// The store is asked; the states of the other parts were recorded when they were loaded.
    pub(crate) fn note_store(&self) {
        let store = self.gate.bindings().health();
        let (state, failure) = match store.state {
            Ok(()) => (State::Ok, None),
            Err(error @ StoreError::NotIndexed(_)) => (State::Stale, Some(error.to_string())),
            Err(error) => (State::Failing, Some(error.to_string())),
        };
        let read = store
            .age
            .map(|age| format!("the shared ledger was last read {:.1} s ago", age.as_secs_f64()));
        let detail: Vec<_> = failure.into_iter().chain(read).collect();
        let detail = (!detail.is_empty()).then(|| detail.join("; "));
        self.health.note(Part::Store, state, detail, store.since);
        if let (Some(age), Some(end)) = (store.age, self.gate.bindings().ledger_end()) {
            let sequence = end.sequence;
            self.health.note_ledger(LedgerReading { sequence, age });
        }
    }
}
