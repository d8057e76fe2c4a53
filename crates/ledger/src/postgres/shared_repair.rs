//! Appends what the shared log lost, from what nodes kept: for the tables' owner, beside running nodes.
//!
//! `repair_records` appends licenses, tokens and sales. Who gets a seat is decided as for a site that asks (`seats`).
//! At the end the head's epoch rises, and every node reads the log anew.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::backend_error::BackendError;
use crate::binding_batch::BindingBatch;
use crate::command::{self, LedgerCommand, WaitingRequest};
use crate::error::StoreError;
use crate::ledger_state::LedgerState;
use crate::memory::BindingMemory;
use crate::postgres::failure::{TransactionFailure, failure};
use crate::postgres::kept_lines::KeptLines;
use crate::postgres::lost_lines::LostLines;
use crate::postgres::node_state::{self, NodeState};
use crate::postgres::repair_outcome::{RepairOutcome, UnfitBinding};
use crate::postgres::session::{KnownLog, Session};
use crate::postgres::settings::DatabaseSettings;
use crate::postgres::shared_compaction::require_owner;
use crate::postgres::{load, transaction};
use crate::seats::{BindOutcome, SeatRequest, WantedSeat};
use crate::site_claims::EndedClaim;
use crate::site_moves::{ReleaseRequest, Releaser, SiteReleaseOutcome, Successor};
use countersign_model::binding::{Binding, Stored as _};
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::seat::Seat;
use countersign_model::site_claim::ClaimStep;
use countersign_model::site_host::SiteHost;
use countersign_model::staging_hosts::StagingRule;

/// Requests of one transaction, so that a node waits for a tenth of a second at most.
pub(super) const BATCH: usize = 500;

/// How long a statement may take.
const PATIENCE: Duration = Duration::from_secs(10);

const RAISE_EPOCH: &str = "UPDATE countersign.head SET epoch = greatest(epoch, $1) + 1";

/// Finds a license of the registry's files.
type FileLicenses<'a> = &'a dyn Fn(&LicenseId) -> Option<License>;

/// The log, as the repair goes on.
pub(super) struct Repair<'a> {
    settings: DatabaseSettings,
    node: NodeState,
    pub memory: BindingMemory,
    registry: FileLicenses<'a>,
    /// The servers' setting.
    staging: &'a StagingRule,
    /// The time of the log, where nothing is to be appended.
    dry_run: Option<DateTime<Utc>>,
    pub outcome: RepairOutcome,
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
    let mut anew = false;
    for path in files {
        anew |= lost.add(path, &memory, &session).await?;
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
            anew,
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
    if anew {
        repair.end_claims().await?;
    }
    if anew && !dry_run {
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
    pub(super) async fn decide<C: LedgerCommand>(&mut self, commands: Vec<C>) -> Result<Vec<C::Outcome>, BackendError> {
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

    /// Has every node read the log anew.
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
