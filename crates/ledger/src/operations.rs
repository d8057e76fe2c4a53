//! What a store does: binds sites, changes licenses and tokens, and tells what it has.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use countersign_model::api_token::ApiToken;
use countersign_model::binding::CheckIn;
use countersign_model::digest::Digest;
use countersign_model::issued_license::Hex128;
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::sale_state::SaleState;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::SiteRelease;

use crate::adoptions::AdoptionRequest;
use crate::bindings::BoundSites;
use crate::error::StoreError;
use crate::futures::{
    BindFuture, ChangeFuture, EraseTextsFuture, FindTextsFuture, ImportFuture, RefreshFuture, ReleaseFuture,
    SaleFuture, TokenFuture,
};
use crate::health::{Figures, StoreHealth};
use crate::issued_licenses::LedgerLicense;
use crate::ledger_change::LedgerChange;
use crate::license_imports::{ImportOutcome, ImportRequest};
use crate::log::Position;
use crate::pending::LedgerLook;
use crate::postgres::nodes::NodeSecrets;
use crate::sales::SaleChange;
use crate::seats::SeatRequest;
use crate::site_moves::ReleaseRequest;
use crate::stored_reports::StoredReports;
use crate::texts::erasure::TextErasure;
use crate::token_changes::TokenChange;

/// The bindings of all licenses, the licenses that machines issued, and the tokens with which they do.
pub trait Bindings: Send + Sync {
    /// The durable bindings of a license. Costs one look-up in memory.
    fn of(&self, license: &LicenseId) -> BoundSites<'_>;

    /// Binds the host unless it is bound already, if a site is free ([`License::seat`]). If none is, the host is noted as
    /// refused, as a report is.
    ///
    /// [`BindOutcome::Bound`](crate::BindOutcome::Bound) means that the binding is durable. The future may be dropped early: the binding is
    /// completed, and the next call finds it. Errors: [`StoreError::Busy`], [`StoreError::NotDurable`],
    /// [`StoreError::Closed`]; after each, the host may try again.
    fn bind<'a>(&'a self, request: SeatRequest<'a>) -> BindFuture<'a>;

    /// Releases a site at the request of its client or the vendor. From then on, the site holds no seat.
    ///
    /// [`SiteReleaseOutcome::Released`](crate::SiteReleaseOutcome::Released) means that this is durable. The future may
    /// be dropped early: the release is completed, and a retry is told that it was released before. Errors: as
    /// [`Bindings::bind`].
    fn release(&self, request: ReleaseRequest) -> ReleaseFuture<'_>;

    /// The license of the ledger with this id. It is in force, whatever a file declares.
    fn issued(&self, license: &LicenseId) -> Option<LedgerLicense>;

    /// The license of the ledger whose id begins so.
    fn issued_beginning_with(&self, beginning: &[u8; 16]) -> Option<LedgerLicense>;

    /// The license of the ledger that was issued for the request with this key of an origin.
    fn issued_for(&self, request: Hex128) -> Option<LedgerLicense>;

    /// The sale of a shop that has this name.
    fn sale(&self, name: Hex128) -> Option<SaleState>;

    /// Records the state of a sale that a shop reported.
    ///
    /// [`SaleOutcome::Recorded`](crate::SaleOutcome::Recorded) means that the sale is durable and that this node knows it.
    /// Errors: as [`Bindings::bind`].
    fn record_sale(&self, change: SaleChange) -> SaleFuture<'_>;

    /// The ids of the ledger's licenses of orders that lines name so.
    fn issued_of_order(&self, orders: &[Hex128]) -> Vec<LicenseId>;

    /// At most `limit` licenses of the ledger after this id that `keep` accepts, sorted by id.
    fn issued_after(
        &self,
        after: Option<&LicenseId>,
        limit: usize,
        keep: &dyn Fn(&License) -> bool,
    ) -> Vec<LedgerLicense>;

    /// The ids of all licenses with a binding of this host, void ones included. Looks at every binding.
    fn licenses_of_host(&self, host: &SiteHost) -> Vec<LicenseId>;

    /// The releases by clients that count as moves at `now`, of each license that has some, the latest last. Looks at every
    /// license with a binding.
    fn moves(&self, now: DateTime<Utc>) -> Vec<(LicenseId, Vec<SiteRelease>)>;

    /// How many licenses the ledger has.
    fn issued_count(&self) -> usize;

    /// Issues or changes a license of the ledger. A file's declaration of it is adopted first: [`Bindings::adopt`].
    ///
    /// [`ChangeOutcome::Recorded`](crate::ChangeOutcome::Recorded) means that it is durable, and in force on this node. The future may be dropped early:
    /// the change is completed, and a retry finds it. Errors: as [`Bindings::bind`].
    fn change_license(&self, change: LedgerChange) -> ChangeFuture<'_>;

    /// Takes a license that a file declares into the ledger, and has it from then on. Outcomes and errors: as
    /// [`Bindings::change_license`].
    fn adopt(&self, adoption: AdoptionRequest) -> ChangeFuture<'_>;

    /// Issues or changes licenses of another system, and binds their sites. The caller has made sure that no file has one.
    /// The outcomes are in the order of the request; all that they say is durable, and in force on this node.
    ///
    /// The future may be dropped early: the import is completed, and the same import again finds it done. Errors: as
    /// [`Bindings::bind`], and [`StoreError::Busy`] for more than [`MAX_IMPORT_LINES`](crate::MAX_IMPORT_LINES).
    fn import(&self, import: ImportRequest) -> ImportFuture<'_>;

    /// What [`Bindings::import`] would do, as far as this node knows. Changes nothing.
    fn preview_import(&self, import: &ImportRequest) -> Vec<ImportOutcome>;

    /// What is kept of texts, by the names that lines of the ledger have. A text of which nothing is kept is left out.
    ///
    /// Errors: as [`Bindings::bind`].
    fn texts(&self, names: Vec<Hex128>) -> FindTextsFuture<'_>;

    /// Erases texts, durably; `None` if nothing is kept of them and no line names them. No later request brings a text back.
    ///
    /// Errors: as [`Bindings::bind`]; the same request may be sent again.
    fn erase_texts(&self, erasure: TextErasure) -> EraseTextsFuture<'_>;

    /// Every token of the management API by name, also revoked ones.
    fn tokens(&self) -> Vec<Arc<ApiToken>>;

    /// The token whose secret has this SHA-256, also a revoked one.
    fn token_of(&self, hash: &Digest) -> Option<Arc<ApiToken>>;

    /// Whether there is a token, also a revoked one.
    fn has_tokens(&self) -> bool {
        !self.tokens().is_empty()
    }

    /// Notes the day of a token's use. Does not wait for it; if it fails, the next use says so again.
    fn note_token_use(&self, _change: TokenChange) {}

    /// Makes or changes a token. Errors: as [`Bindings::bind`].
    fn change_token(&self, change: TokenChange) -> TokenFuture<'_>;

    /// Reads what other nodes appended before this call; `None` where no other node can, or where this look is not needed.
    /// Before saying no because of the ledger, look and ask again.
    ///
    /// Errors: as [`Bindings::bind`]; then the answer is not known.
    fn refresh(&self, _look: LedgerLook) -> Option<RefreshFuture<'_>> {
        None
    }

    /// Stores a site's report for a license with these bindings. Never blocks on a disk, never fails; it is written
    /// seconds later.
    ///
    /// A repeated report within ten minutes is ignored. That is known only of the site that reported last, and not of
    /// hosts that only the registry binds, whose reports are stored each time. At most 16,384 reports wait, and about
    /// 250 a second are written. If more arrive, reports of further sites are dropped and counted in
    /// [`Figures::reports_dropped`].
    fn report(&self, license: &LicenseId, bound: &BoundSites<'_>, host: &SiteHost, check_in: &CheckIn<'_>);

    /// Reads what sites reported; `None` if the store is closed, or cannot read it.
    fn stored_reports(&self) -> Option<Arc<dyn StoredReports>> {
        None
    }

    /// What this node calls itself; `None` if no other one shares its ledger.
    fn node(&self) -> Option<&str> {
        None
    }

    /// Tells the other nodes of a shared ledger which secrets this one uses.
    fn announce(&self, _secrets: NodeSecrets) {}

    /// Whether this node may issue anything: its secrets are those of the other nodes.
    fn may_issue(&self) -> bool {
        true
    }

    /// Whether bindings, index and reports can be written.
    fn health(&self) -> StoreHealth;

    /// The last durable line that this node knows; `None` if the store has no ledger.
    fn ledger_end(&self) -> Option<Position> {
        None
    }

    /// The store's counters. Looks at every binding, so it takes milliseconds for a million.
    fn figures(&self) -> Figures {
        Figures::default()
    }

    /// Writes what is waiting and closes the files. Binding then gives [`StoreError::Closed`]. Blocks.
    fn close(&self) -> Result<(), StoreError>;
}
