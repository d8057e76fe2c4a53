//! The sites of one license: their bindings in order, found by host, and what clients released.

use chrono::{DateTime, Utc};

use countersign_model::binding::Binding;
use countersign_model::host_index::{FEW, HostIndex};
use countersign_model::site_release::{MOVE_PERIOD, SiteRelease};

/// Most licenses have one site, and never moved.
#[derive(Clone, Debug)]
pub(super) enum HostList {
    One(Binding),
    Several(Box<Several>),
}

#[derive(Clone, Debug)]
pub(super) struct Several {
    /// In the order of binding.
    bindings: Vec<Binding>,
    /// Finds one of 50,000 at once.
    index: HostIndex,
    /// The releases of the last 30 days, in the order of the ledger.
    moves: Vec<SiteRelease>,
    /// The earliest time of one of them: until it is too old, none needs to be looked at.
    first_move: Option<DateTime<Utc>>,
}

impl HostList {
    /// These bindings in the order of binding, and the releases in the order of the ledger.
    pub(super) fn new(mut bindings: Vec<Binding>, moves: Vec<SiteRelease>) -> Self {
        match bindings.len() {
            1 if moves.is_empty() => Self::One(bindings.remove(0)),
            _ => Self::Several(Box::new(Several::new(bindings, moves))),
        }
    }

    /// All bindings in the order of binding.
    pub(super) fn all(&self) -> &[Binding] {
        match self {
            Self::One(binding) => std::slice::from_ref(binding),
            Self::Several(several) => &several.bindings,
        }
    }

    /// Adds a binding; a void one of the same host is removed.
    pub(super) fn add(&mut self, binding: Binding) {
        match self {
            Self::One(one) if one.host == binding.host => *one = binding,
            Self::One(one) => *self = Self::several(vec![one.clone(), binding]),
            Self::Several(several) => several.add(binding),
        }
    }

    /// Ends the binding of the release's host.
    pub(super) fn release(&mut self, release: SiteRelease) {
        match self {
            Self::One(one) => {
                *self = Self::several(vec![one.clone()]);
                self.release(release);
            }
            Self::Several(several) => several.release(release),
        }
    }

    /// The releases of the last 30 days.
    pub(super) fn moves(&self) -> &[SiteRelease] {
        match self {
            Self::One(_) => &[],
            Self::Several(several) => &several.moves,
        }
    }

    /// The index of the list, if it has more than a few bindings.
    pub(super) fn index(&self) -> Option<&HostIndex> {
        match self {
            Self::Several(several) if several.bindings.len() > FEW => Some(&several.index),
            _ => None,
        }
    }

    fn several(bindings: Vec<Binding>) -> Self {
        Self::Several(Box::new(Several::new(bindings, Vec::new())))
    }
}

impl Several {
    fn new(mut bindings: Vec<Binding>, moves: Vec<SiteRelease>) -> Self {
        bindings.shrink_to_fit();
        let mut several = Self {
            index: HostIndex::new(&bindings),
            bindings,
            first_move: moves.iter().map(|release| release.time).min(),
            moves,
        };
        several.forget_moves();
        several
    }

    fn release(&mut self, release: SiteRelease) {
        if let Some(position) = self.index.position(&self.bindings, release.host.as_str()) {
            self.bindings[position].end(&release);
            self.index.changed();
        }
        self.first_move = Some(self.first_move.map_or(release.time, |first| first.min(release.time)));
        self.moves.push(release);
        self.forget_moves();
    }

    /// Drops the releases that no longer count when the last one happened.
    fn forget_moves(&mut self) {
        let Some((first, last)) = self.first_move.zip(self.moves.last().map(|release| release.time)) else {
            return;
        };
        if last.signed_duration_since(first) >= MOVE_PERIOD {
            self.moves
                .retain(|release| last.signed_duration_since(release.time) < MOVE_PERIOD);
            self.first_move = self.moves.iter().map(|release| release.time).min();
        }
    }

    fn add(&mut self, binding: Binding) {
        match self.index.position(&self.bindings, binding.host.as_str()) {
            Some(position) => {
                self.bindings.remove(position);
                self.bindings.push(binding);
                *self = Self::new(std::mem::take(&mut self.bindings), std::mem::take(&mut self.moves));
            }
            None => {
                self.index.append(&self.bindings, &binding.host);
                self.bindings.push(binding);
            }
        }
    }
}
