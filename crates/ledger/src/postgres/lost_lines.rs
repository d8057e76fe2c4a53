//! What nodes kept, and what of it the log lacks: the input of `bindings repair`.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use tokio::time::timeout;

use crate::bindings::BoundSites;
use crate::command::{self, CommitTurn, LedgerCommand, WaitingRequest};
use crate::draft::CommitDraft;
use crate::error::{BackendError, LedgerState};
use crate::ledger_tables::EventTables;
use crate::log::record::LedgerEvent;
use crate::memory::BindingMemory;
use crate::postgres::failure::failure;
use crate::postgres::kept_memory::KeptFile;
use crate::postgres::node_state::{DEADLINE, no_answer};
use crate::postgres::session::{KnownLog, Session, require_lines};
use crate::reminder_claims::ReminderClaim;
use crate::rollout_changes::RolloutChange;
use crate::sale_table::SaleTable;
use crate::sales::SaleChange;
use crate::token_changes::{TokenChange, TokenStep};
use countersign_model::api_token::ApiToken;
use countersign_model::binding::{Binding, Stored as _};
use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::license_key::LicenseId;
use countersign_model::remarks::Author;
use countersign_model::sale::facts::SaleFacts;
use countersign_model::site_host::SiteHost;

/// What nodes kept, and what of it the log lacks.
#[derive(Default)]
pub(super) struct LostLines {
    /// Licenses that machines issued or changed.
    pub licenses: Vec<Arc<IssuedLicense>>,
    /// What has to be done with tokens of the management API.
    pub tokens: Vec<TokenChange>,
    /// In the order of binding.
    pub bindings: Vec<(LicenseId, Binding)>,
    /// Sites that had given their seats back, and hold them in the log, with the host that they had moved to.
    pub releases: Vec<(LicenseId, SiteHost, Option<SiteHost>)>,
    /// What was known of sales.
    pub sales: Vec<SaleChange>,
    /// Events of other kinds. Nobody waits for what becomes of one.
    pub others: Vec<WaitingRequest>,
    /// The newest epoch of a node.
    pub epoch: i32,
}

/// An event that is appended as it was, unless the log has it or a newer one about the same.
struct LostEvent(LedgerEvent);

impl LedgerCommand for LostEvent {
    type Outcome = ();
    const TURN: CommitTurn = CommitTurn::Token;
    const MOST_LINES: usize = 1;

    fn decide(&self, draft: &mut CommitDraft<'_>) {
        let Self(event) = self;
        if !draft.events.has(event) && !draft.memory.events().has(event) {
            draft.append(event.clone());
        }
    }
}

impl LostLines {
    /// Takes what the log lacks of a file; whether the log lacks lines that its node had read.
    pub(super) async fn add(
        &mut self,
        path: &Path,
        log: &BindingMemory,
        session: &Session,
    ) -> Result<bool, BackendError> {
        let file = KeptFile::at(path.to_owned());
        let file = file.ok_or_else(|| {
            let what = format!("{}: its name is not that of a file that a node kept", path.display());
            failure(LedgerState::Damaged, what)
        })?;
        let kept = file.read()?;
        self.epoch = self.epoch.max(file.epoch);
        let memory = BindingMemory::new(kept.tables);
        memory.issued.each(|issued| {
            if log
                .issued
                .of(&issued.license.id)
                .is_none_or(|held| is_lost(issued, &held))
            {
                self.licenses.push(Arc::new(issued.clone()));
            }
        });
        self.add_events(&memory.events(), &log.events());
        memory.each(|license, sites| self.add_sites(*license, sites, &log.of(license)));
        let known = KnownLog {
            end: kept.end,
            epoch: file.epoch,
        };
        match timeout(DEADLINE, require_lines(&session.client, known)).await {
            Ok(Ok(())) => Ok(false),
            Ok(Err(error)) if error.state == LedgerState::LinesLost => Ok(true),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(no_answer(session)),
        }
    }

    fn add_events(&mut self, kept: &EventTables, log: &EventTables) {
        let reminders = kept.reminders.lost(&log.reminders).into_iter();
        let rollouts = kept.rollouts.lost(&log.rollouts).into_iter();
        let others = kept.lost(log).into_iter().map(LostEvent);
        // The next look of a server writes the switch of reminders again.
        let requests = reminders
            .map(|entry| command::waiting(ReminderClaim::from(entry)).0)
            .chain(rollouts.map(|entry| command::waiting(RolloutChange::from(entry)).0))
            .chain(others.map(|event| command::waiting(event).0));
        self.others.extend(requests);
        let tokens = kept.tokens.all();
        let lost = |token: &Arc<ApiToken>| lost_step(token, log.tokens.of(&token.name).as_deref());
        self.tokens.extend(tokens.iter().filter_map(lost));
        let lost = kept
            .sales
            .all()
            .into_iter()
            .filter(|sale| is_sale_lost(sale.id, &sale.facts, &log.sales));
        self.sales.extend(lost.map(SaleChange::restored));
    }

    fn add_sites(&mut self, license: LicenseId, sites: &BoundSites<'_>, log: &BoundSites<'_>) {
        for binding in sites.iter() {
            let held = log.find(&binding.host);
            if !binding.is_released() {
                if held.is_none_or(|held| held.bound_at < binding.bound_at) {
                    // It left and came back, perhaps with another secret.
                    if held.is_some_and(|held| !held.is_released()) {
                        self.releases.push((license, binding.host.clone(), None));
                    }
                    self.bindings.push((license, binding.clone()));
                }
                continue;
            }
            let release = sites.moves().iter().rfind(|release| release.host == binding.host);
            let released_at = release.map_or(binding.bound_at, |release| release.time);
            let moved = release.and_then(|release| release.moved.as_deref());
            // One that was bound since keeps its seat.
            if held.is_some_and(|held| !held.is_released() && held.bound_at <= released_at) {
                self.releases
                    .push((license, binding.host.clone(), moved.map(|moved| moved.to.clone())));
            }
        }
    }

    /// Who was bound first comes first. Of what several nodes kept, the newest counts.
    pub(super) fn sort(&mut self) {
        self.bindings.sort_by_key(|(_, binding)| Reverse(binding.bound_at));
        let mut sites = HashSet::new();
        self.bindings
            .retain(|(license, binding)| sites.insert((*license, binding.host.clone())));
        self.bindings.reverse();
        self.releases.sort();
        self.releases.dedup();
        // Of one license, the last revision comes last.
        self.licenses.sort_by_key(|issued| (issued.license.id, issued.revision));
        self.licenses.reverse();
        self.licenses.dedup_by_key(|issued| issued.license.id);
        self.licenses.sort_by_key(|issued| issued.time);
    }
}

/// Whether the log, which has `held`, lacks this change of the license.
fn is_lost(issued: &IssuedLicense, held: &IssuedLicense) -> bool {
    // Appended again, it has another time, and may have another kind.
    let is_same = IssuedLicense {
        time: held.time,
        kind: held.kind,
        ..issued.clone()
    } == *held;
    !is_same && issued.revision >= held.revision
}

/// Whether the log lacks something of what is known of a sale.
pub(super) fn is_sale_lost(id: Hex128, kept: &SaleFacts<Hex128>, log: &SaleTable) -> bool {
    let Some((_, held)) = log.of(id) else { return true };
    let mut both = SaleFacts::clone(&held);
    both.absorb(kept);
    both != *held
}

/// What brings a token back, or a revocation that was lost. A token that was made since stays.
fn lost_step(token: &ApiToken, held: Option<&ApiToken>) -> Option<TokenChange> {
    let is_same = held.is_some_and(|held| held.hash == token.hash);
    let is_held = is_same && held.is_some_and(|held| !held.revoked);
    let step = match token.revoked {
        true if is_held => TokenStep::Revoke,
        false if !is_same => TokenStep::Create {
            hash: token.hash,
            scopes: token.scopes.clone(),
        },
        _ => return None,
    };
    Some(TokenChange {
        name: token.name.clone(),
        step,
        author: Author::default(),
        now: token.time,
    })
}
