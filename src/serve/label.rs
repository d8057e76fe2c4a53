//! Labels of metrics: closed sets of names, and a counter for each of a set that is found by its place.
//!
//! Nothing a client sends can become a label, so what is counted is bounded. The counters are read by `exposition`.

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

        impl $crate::serve::label::Label for $name {
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
pub(super) use labels;

/// A counter for each label. Counting is one atomic addition.
#[derive(Debug)]
pub struct Counters<L> {
    counts: Box<[AtomicU64]>,
    labels: PhantomData<L>,
}

impl<L: Label> Default for Counters<L> {
    fn default() -> Self {
        Self { counts: L::ALL.iter().map(|_| AtomicU64::new(0)).collect(), labels: PhantomData }
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
