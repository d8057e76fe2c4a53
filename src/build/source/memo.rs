//! A cache of results by their input.

use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

/// Results by input; emptied when it is full.
pub(super) struct Memo<K, T> {
    held: HashMap<K, Rc<T>>,
    limit: usize,
}

impl<K: Clone + Eq + Hash, T> Memo<K, T> {
    /// A cache of at most `limit` results.
    pub(super) fn of(limit: usize) -> Self {
        Self {
            held: HashMap::new(),
            limit,
        }
    }

    /// `make(key)`, cached.
    pub(super) fn get<E>(&mut self, key: &K, make: impl FnOnce() -> Result<T, E>) -> Result<Rc<T>, E> {
        if let Some(known) = self.held.get(key) {
            return Ok(known.clone());
        }
        let value = Rc::new(make()?);
        if self.held.len() == self.limit {
            self.held.clear();
        }
        self.held.insert(key.clone(), value.clone());
        Ok(value)
    }
}
