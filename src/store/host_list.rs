//! The sites of one license: their bindings in order, found by host, and what clients released.

use crate::model::binding::Binding;
use crate::model::site_host::SiteHost;
use crate::model::site_release::{MOVE_PERIOD, SiteRelease};

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
    /// Their positions sorted by host, so that one of 50,000 is found at once.
    by_host: Vec<usize>,
    /// How many of them the sites released.
    released: usize,
    /// The releases of the last 30 days, in the order of the ledger.
    moves: Vec<SiteRelease>,
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

    /// Whether the site released any of them.
    pub(super) fn has_released(&self) -> bool {
        match self {
            Self::One(binding) => binding.is_released(),
            Self::Several(several) => several.released > 0,
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

    /// The binding of a host.
    pub(super) fn find(&self, host: &SiteHost) -> Option<&Binding> {
        match self {
            Self::One(binding) => Some(binding).filter(|binding| binding.host == *host),
            Self::Several(several) => several
                .rank(host)
                .ok()
                .map(|rank| &several.bindings[several.by_host[rank]]),
        }
    }

    fn several(bindings: Vec<Binding>) -> Self {
        Self::Several(Box::new(Several::new(bindings, Vec::new())))
    }
}

impl Several {
    fn new(mut bindings: Vec<Binding>, moves: Vec<SiteRelease>) -> Self {
        bindings.shrink_to_fit();
        let mut by_host: Vec<_> = (0..bindings.len()).collect();
        by_host.sort_unstable_by_key(|&place| &bindings[place].host);
        let released = bindings.iter().filter(|binding| binding.is_released()).count();
        let mut several = Self {
            bindings,
            by_host,
            released,
            moves,
        };
        several.forget_moves();
        several
    }

    fn release(&mut self, release: SiteRelease) {
        if let Ok(rank) = self.rank(&release.host) {
            let binding = &mut self.bindings[self.by_host[rank]];
            self.released += usize::from(!binding.is_released());
            binding.end(&release);
        }
        self.moves.push(release);
        self.forget_moves();
    }

    /// Drops the releases that no longer count when the last one happened.
    fn forget_moves(&mut self) {
        if let Some(last) = self.moves.last().map(|release| release.time) {
            self.moves
                .retain(|release| last.signed_duration_since(release.time) < MOVE_PERIOD);
        }
    }

    fn add(&mut self, binding: Binding) {
        match self.rank(&binding.host) {
            Ok(rank) => {
                self.bindings.remove(self.by_host[rank]);
                self.bindings.push(binding);
                *self = Self::new(std::mem::take(&mut self.bindings), std::mem::take(&mut self.moves));
            }
            Err(rank) => {
                self.by_host.insert(rank, self.bindings.len());
                self.bindings.push(binding);
            }
        }
    }

    /// The position of `host` in `by_host`, or where to insert it.
    fn rank(&self, host: &SiteHost) -> Result<usize, usize> {
        self.by_host
            .binary_search_by_key(&host, |&place| &self.bindings[place].host)
    }
}
