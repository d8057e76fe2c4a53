//! Appends what the shared log lost, from what nodes kept: for the tables' owner, beside running nodes.
//!
//! Who gets a seat is decided as for a site that asks (`seats`); licenses, tokens and sales are appended as they were.
//! At the end the head's epoch rises, and every node reads the log again.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::binding_batch::BindingBatch;
use crate::command::{self, LedgerCommand, WaitingRequest};
use crate::error::{BackendError, LedgerState, StoreError};
use crate::ledger_change::{ChangeBasis, ChangeOutcome, ChangeRefusal, LedgerChange};
use crate::memory::BindingMemory;
use crate::postgres::failure::{TransactionFailure, failure};
use crate::postgres::kept_lines::KeptLines;
use crate::postgres::kept_memory::{self, KeptFile};
use crate::postgres::lost_lines::LostLines;
use crate::postgres::node_state::{self, NodeState};
use crate::postgres::session::{KnownLog, Session};
use crate::postgres::settings::DatabaseSettings;
use crate::postgres::shared_compaction::require_owner;
use crate::postgres::{load, transaction};
use crate::sales::SaleChange;
use crate::seats::{BindOutcome, SeatRequest, WantedSeat};
use crate::site_claims::EndedClaim;
use crate::site_moves::{ReleaseRequest, Releaser, SiteReleaseOutcome, Successor};
use crate::token_changes::{TokenChange, TokenOutcome};
use countersign_model::binding::{Binding, Stored as _};
use countersign_model::issued_license::IssuedLicense;
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::name::Name;
use countersign_model::remarks::{Author, NewRemarks};
use countersign_model::seat::Seat;
use countersign_model::site_claim::ClaimStep;
use countersign_model::site_host::SiteHost;
use countersign_model::staging_hosts::StagingRule;
use countersign_model::stored_text::OrderReference;

/// What was repaired, or would be.
#[derive(Debug, Default)]
pub struct RepairOutcome {
    /// Bindings that were appended.
    pub bound: u64,
    /// Licenses that machines had issued or changed, and that were appended.
    pub licenses: u64,
    /// Tokens of the management API that were made or revoked again.
    pub tokens: u64,
    /// Seats that sites had given back, and that were freed again.
    pub freed: u64,
    /// Sales of which a shop had told something that was appended again.
    pub sales: u64,
    /// Lost bindings that the vendor has released.
    pub released: u64,
    /// Lost bindings that do not fit any more.
    pub unfit: Vec<UnfitBinding>,
    /// Lost licenses that do not fit any more.
    pub unfit_licenses: Vec<(LicenseId, ChangeRefusal)>,
    /// Lost tokens whose name another token has by now.
    pub unfit_tokens: Vec<Name>,
    /// The `sequence` of the last line.
    pub sequence: u64,
    /// Whether the nodes have to read the log again.
    pub nodes_reload: bool,
}

/// A lost binding that does not fit any more.
#[derive(Debug)]
pub struct UnfitBinding {
    /// The license.
    pub license: LicenseId,
    /// The site.
    pub host: SiteHost,
    /// When it had been bound.
    pub bound_at: DateTime<Utc>,
    /// The site that was bound first; `None` where nobody knows the license.
    pub taken_by: Option<SiteHost>,
}

/// The files in a node's folder that have what it knew when the log lost lines, the oldest first.
pub fn kept_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let files = kept_memory::files_in(folder)?;
    Ok(files.into_iter().map(|file| file.path).collect())
}

/// Renames such a file after a repair; its new name.
pub fn set_kept_file_aside(path: &Path) -> io::Result<PathBuf> {
    let file = KeptFile::at(path.to_owned()).ok_or(io::ErrorKind::InvalidInput)?;
    file.set_aside()
}

/// Requests of one transaction, so that a node waits for a tenth of a second at most.
const BATCH: usize = 500;

/// How long a statement may take.
const PATIENCE: Duration = Duration::from_secs(10);

const RAISE_EPOCH: &str = "UPDATE countersign.head SET epoch = greatest(epoch, $1) + 1";

/// Finds a license of the registry's files.
type FileLicenses<'a> = &'a dyn Fn(&LicenseId) -> Option<License>;

/// The log, as the repair goes on.
struct Repair<'a> {
    settings: DatabaseSettings,
    node: NodeState,
    memory: BindingMemory,
    registry: FileLicenses<'a>,
    /// The servers' setting.
    staging: &'a StagingRule,
    /// The time of the log, where nothing is to be appended.
    dry_run: Option<DateTime<Utc>>,
    outcome: RepairOutcome,
}

/// Appends from these files, which nodes kept, what the log lacks. `registry` has the licenses of files, and
/// `staging` is the servers' setting. With `dry_run` nothing changes.
///
/// # Errors
///
/// [`StoreError::Shared`]: a file cannot be read, the role does not own the tables, or the database failed. What was
/// appended before stays; another run goes on.
pub fn repair_shared(
    address: &str,
    files: &[PathBuf],
    registry: &dyn Fn(&LicenseId) -> Option<License>,
    staging: &StagingRule,
    dry_run: bool,
) -> Result<RepairOutcome, StoreError> {
    let settings = DatabaseSettings::parse(address).map_err(StoreError::Address)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| StoreError::shared(error.into()))?;
    let repaired = runtime.block_on(async {
        let session = Session::open(&settings, KnownLog::none(), None).await?;
        require_owner(&session).await?;
        Box::pin(repair(settings, session, files, (registry, staging), dry_run)).await
    });
    repaired.map_err(StoreError::shared)
}

async fn repair(
    settings: DatabaseSettings,
    session: Session,
    files: &[PathBuf],
    (registry, staging): (FileLicenses<'_>, &StagingRule),
    dry_run: bool,
) -> Result<RepairOutcome, BackendError> {
    let loaded = load::all(&session.client).await?;
    let head = node_state::prove_in_time(&session).await?;
    let memory = BindingMemory::new(loaded.tables);
    let mut lost = LostLines::default();
    let mut nodes_reload = false;
    for path in files {
        nodes_reload |= lost.add(path, &memory, &session).await?;
    }
    lost.sort();
    let known = KnownLog {
        end: loaded.end,
        epoch: head.epoch,
    };
    let mut repair = Repair {
        settings,
        node: NodeState::new(Some(session), known, KeptLines::in_folder(Path::new("")), true),
        memory,
        registry,
        staging,
        dry_run: dry_run.then(|| head.now()),
        outcome: RepairOutcome {
            nodes_reload,
            ..RepairOutcome::default()
        },
    };
    // A binding needs its license.
    repair.licenses(&lost.licenses).await?;
    repair.tokens(lost.tokens).await?;
    repair.sales(&lost.sales).await?;
    repair.others(lost.others).await?;
    repair.forget_erased().await?;
    repair.releases(&lost.releases, &lost.bindings).await?;
    repair.bindings(&lost.bindings).await?;
    if nodes_reload {
        repair.end_claims().await?;
    }
    if nodes_reload && !dry_run {
        repair.raise_epoch(lost.epoch).await?;
    }
    repair.outcome.sequence = repair.node.known.end.sequence;
    Ok(repair.outcome)
}

impl Repair<'_> {
    /// If the log still has the binding, its own hash of the secret counts.
    async fn releases(
        &mut self,
        lost: &[(LicenseId, SiteHost, Option<SiteHost>)],
        bindings: &[(LicenseId, Binding)],
    ) -> Result<(), BackendError> {
        let bound: HashMap<_, _> = bindings
            .iter()
            .map(|(license, binding)| ((*license, binding.host.clone()), binding))
            .collect();
        for part in lost.chunks(BATCH) {
            let mut releases = Vec::new();
            for (id, host, moved_to) in part {
                let Some(license) = self.license(id) else { continue };
                // A site that has left its new host, too, has not moved there any more.
                let new = moved_to.clone().and_then(|host| bound.get(&(*id, host)));
                releases.push(ReleaseRequest {
                    license,
                    host: host.clone(),
                    by: Releaser::Site {
                        proof: self.memory.of(id).find(host).and_then(Binding::release_hash),
                        most_moves: u32::MAX,
                        successor: new.map(|binding| Successor {
                            host: binding.host.clone(),
                            release_hash: binding.release_hash(),
                            staging: self.staging.clone(),
                        }),
                    },
                    now: Utc::now(),
                });
            }
            for outcome in self.decide(releases).await? {
                // What is not bound any more, or bound by the vendor, needs none.
                self.outcome.freed += u64::from(outcome == SiteReleaseOutcome::Released);
            }
        }
        Ok(())
    }

    async fn bindings(&mut self, lost: &[(LicenseId, Binding)]) -> Result<(), BackendError> {
        for part in lost.chunks(BATCH) {
            let mut binds = Vec::new();
            let mut asked = Vec::new();
            for (id, binding) in part {
                let unfit = |taken_by| UnfitBinding {
                    license: *id,
                    host: binding.host.clone(),
                    bound_at: binding.bound_at,
                    taken_by,
                };
                let Some(license) = self.license(id) else {
                    self.outcome.unfit.push(unfit(None));
                    continue;
                };
                if license.details.released.voids(binding) {
                    self.outcome.released += 1;
                    continue;
                }
                if license.seat(&self.memory.of(id), self.staging, &binding.host) == Seat::Held {
                    continue;
                }
                binds.push(WantedSeat::from(SeatRequest {
                    release_hash: binding.release_hash(),
                    staging: self.staging,
                    ..SeatRequest::new(&license, &binding.host, binding.bound_at)
                }));
                asked.push(unfit);
            }
            for (unfit, outcome) in asked.into_iter().zip(self.decide(binds).await?) {
                match outcome {
                    BindOutcome::Bound => self.outcome.bound += 1,
                    BindOutcome::Elsewhere { first } => self.outcome.unfit.push(unfit(Some(first))),
                }
            }
        }
        Ok(())
    }

    /// A line that was lost may have ended a claim that waits.
    async fn end_claims(&mut self) -> Result<(), BackendError> {
        let mut waiting = self.memory.events().claims.all();
        waiting.retain(|entry| entry.claim.step == ClaimStep::Begun);
        for part in waiting.chunks(BATCH) {
            let ends = part.iter().map(|entry| EndedClaim {
                entry: entry.clone(),
                now: Utc::now(),
            });
            self.decide(ends.collect()).await?;
        }
        Ok(())
    }

    fn license(&self, id: &LicenseId) -> Option<License> {
        let of_ledger = self.memory.issued.of(id).map(|issued| issued.license.clone());
        of_ledger.or_else(|| (self.registry)(id))
    }

    /// Appends lost events of which a repair tells nothing.
    async fn others(&mut self, mut lost: Vec<WaitingRequest>) -> Result<(), BackendError> {
        while !lost.is_empty() {
            let rest = lost.split_off(lost.len().min(BATCH));
            self.commit(lost).await?;
            lost = rest;
        }
        Ok(())
    }

    /// Deletes the rows of erased customers that a backup brought back.
    async fn forget_erased(&mut self) -> Result<(), BackendError> {
        let numbers: Vec<_> = self.memory.events().erased.numbers().into_iter().collect();
        if self.dry_run.is_none() && !numbers.is_empty() {
            self.node.forget_customers(&self.settings, &numbers).await?;
        }
        Ok(())
    }

    /// Commits requests as one batch, or only decides them; returns their outcomes in order.
    async fn decide<C: LedgerCommand>(&mut self, commands: Vec<C>) -> Result<Vec<C::Outcome>, BackendError> {
        let (requests, asked): (Vec<_>, Vec<_>) = commands.into_iter().map(command::waiting).unzip();
        self.commit(requests).await?;
        let mut outcomes = Vec::new();
        for pending in asked {
            // A batch that was completed has answered.
            let unanswered = |error: StoreError| failure(LedgerState::Unreachable, error);
            outcomes.push(pending.wait().await.map_err(unanswered)?);
        }
        Ok(outcomes)
    }

    async fn commit(&mut self, requests: Vec<WaitingRequest>) -> Result<(), BackendError> {
        let mut batch = BindingBatch::new(&self.memory, requests);
        match self.dry_run {
            Some(now) => drop(batch.decide(Some(now))),
            None => self.node.commit(&self.settings, &mut batch).await?,
        }
        batch.complete(Ok(()));
        Ok(())
    }

    /// Has every node read the log again.
    async fn raise_epoch(&mut self, epoch: i32) -> Result<(), BackendError> {
        let session = match self.node.session.take() {
            Some(session) => session,
            None => Session::open(&self.settings, self.node.known, None).await?,
        };
        let raised = timeout(PATIENCE, async {
            transaction::lock_head(&session).await?;
            session.client.execute(RAISE_EPOCH, &[&epoch]).await?;
            transaction::commit(&session).await
        });
        let raised = raised.await.unwrap_or_else(|_| {
            let what = format!("no answer within {} s", PATIENCE.as_secs());
            Err(TransactionFailure::Ended(failure(LedgerState::Unreachable, what)))
        });
        raised.map_err(TransactionFailure::error)
    }
}

impl Repair<'_> {
    async fn licenses(&mut self, lost: &[Arc<IssuedLicense>]) -> Result<(), BackendError> {
        for part in lost.chunks(BATCH) {
            let changes = part.iter().map(|issued| LedgerChange {
                license: issued.license.clone(),
                remarks: NewRemarks::default(),
                author: Author::default(),
                reference: issued.reference.map(OrderReference::from),
                scope: Arc::clone(&issued.scope),
                status_by: issued.status_by.clone(),
                now: issued.time,
                basis: ChangeBasis::Lost(issued.origin.clone(), issued.revision),
            });
            let outcomes = self.decide(changes.collect()).await?;
            for (issued, outcome) in part.iter().zip(outcomes) {
                match outcome {
                    ChangeOutcome::Recorded(_) | ChangeOutcome::Repeated(_) => self.outcome.licenses += 1,
                    ChangeOutcome::Refused(why) => self.outcome.unfit_licenses.push((issued.license.id, why)),
                }
            }
        }
        Ok(())
    }

    async fn tokens(&mut self, lost: Vec<TokenChange>) -> Result<(), BackendError> {
        if lost.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = lost.iter().map(|change| change.name.clone()).collect();
        for (name, outcome) in names.into_iter().zip(self.decide(lost).await?) {
            match outcome {
                TokenOutcome::Recorded(_) => self.outcome.tokens += 1,
                TokenOutcome::Refused(_) => self.outcome.unfit_tokens.push(name),
            }
        }
        Ok(())
    }

    /// Each as its shop would deliver it again. Memory does not say which shop it was, so the lines name the operator.
    async fn sales(&mut self, lost: &[SaleChange]) -> Result<(), BackendError> {
        // A sale has as many lines as facts.
        for change in lost {
            // One that is part of another may be there by now.
            let parts = change.parts(&self.memory.events().sales);
            if !parts.is_empty() {
                self.outcome.sales += 1;
            }
            for part in parts.chunks(BATCH / 4) {
                self.decide(part.to_vec()).await?;
            }
        }
        Ok(())
    }
}
