//! Labels of metrics: closed sets of names, and a counter for each of a set that is found by its place.
//!
//! Nothing a client sends can become a label, so what is counted is bounded. The counters are read by `openmetrics`.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// One of a closed set of names.
pub trait Label: Copy + 'static {
    /// All of them, in order.
    const ALL: &[Self];

    /// Its place in [`Self::ALL`].
    fn place(self) -> usize;

    /// Its name in logs, documents and metrics.
    fn name(self) -> &'static str;
}

/// Declares an enum as a [`Label`], each variant with its name.
macro_rules! labels {
    ($(#[$attribute:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $crate::serve::metrics::label::Label for $name {
            const ALL: &[Self] = &[$(Self::$variant,)+];

            fn place(self) -> usize {
                self as usize
            }

            fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}
pub(crate) use labels;

/// Labels in the largest set: the codes.
const MAX_LABELS: usize = 38;

/// A counter for each label. Counting is one atomic addition.
#[derive(Debug)]
pub struct Counters<L> {
    counts: [AtomicU64; MAX_LABELS],
    labels: PhantomData<L>,
}

impl<L: Label> Default for Counters<L> {
    fn default() -> Self {
        const { assert!(L::ALL.len() <= MAX_LABELS) };
        Self {
            counts: [const { AtomicU64::new(0) }; MAX_LABELS],
            labels: PhantomData,
        }
    }
}

impl<L: Label> Counters<L> {
    /// Counts one.
    pub fn add(&self, label: L) {
        self.counts[label.place()].fetch_add(1, Ordering::Relaxed);
    }

    /// How many were counted.
    pub fn of(&self, label: L) -> u64 {
        self.counts[label.place()].load(Ordering::Relaxed)
    }

    /// Every label and its count.
    pub fn all(&self) -> impl Iterator<Item = (L, u64)> {
        L::ALL.iter().map(|label| (*label, self.of(*label)))
    }
}
