//! The part of a group commit that gives seats.

use chrono::{DateTime, Utc};

use countersign_model::binding::Binding;
use countersign_model::seat::Seat;

use crate::binding_batch::BindingBatch;
use crate::log::record::LedgerEvent;
use crate::log::{LedgerEntry, ReleaseEntry};
use crate::pending::{BindOutcome, WantedSeat};
use crate::site_moves;

impl BindingBatch<'_> {
    /// Decides one request for a seat. `under_way` are the bindings of its license that this commit adds.
    pub(super) fn bind(
        &mut self,
        request: &WantedSeat,
        under_way: &mut Vec<Binding>,
        clock: Option<DateTime<Utc>>,
    ) -> BindOutcome {
        let WantedSeat { host, .. } = request;
        let license = &*self.current(&request.license);
        let now = clock.unwrap_or(request.now);
        let stored = self.stored(&license.id);
        let first = match license.seat_beside(&stored, under_way, request.staging_sites, host) {
            Seat::Held => return BindOutcome::Bound,
            Seat::Free => {
                let bound_at = site_moves::bound_at(license, &stored, host, now);
                let binding = Binding::new(host.clone(), bound_at).guarded(request.release_hash);
                under_way.push(binding.clone());
                self.appended.push(LedgerEvent::Bound(LedgerEntry {
                    license: license.id,
                    binding,
                }));
                return BindOutcome::Bound;
            }
            Seat::Taken { first } => first.clone(),
        };
        let is_returning = site_moves::may_return(license, &stored, host, now).is_some();
        if is_returning && self.take_back(request, under_way, now) {
            return self.bind(request, under_way, clock);
        }
        BindOutcome::Elsewhere { first }
    }

    /// Frees a seat for a host that was released by the key alone; whether there is one then.
    fn take_back(&mut self, request: &WantedSeat, under_way: &mut Vec<Binding>, now: DateTime<Utc>) -> bool {
        let WantedSeat { host, .. } = request;
        let license = &*self.current(&request.license);
        let id = license.id;
        for binding in under_way.drain(..) {
            self.go_ahead(id, LedgerEvent::Bound(LedgerEntry { license: id, binding }));
        }
        let leaving = site_moves::leaving(license, &self.stored(&id), request.staging_sites, host, now);
        let Some(releases) = leaving.filter(|releases| releases.len() <= self.copies_may_leave + 1) else {
            return false;
        };
        self.copies_may_leave -= releases.len() - 1;
        for release in releases {
            let change = LedgerEvent::Released(ReleaseEntry { license: id, release });
            self.go_ahead(id, change.clone());
            self.appended.push(change);
        }
        true
    }
}
