//! Remembers what was made, by what it was made of.

use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

/// What was made, by what it was made of; forgets all of it when it is full.
pub(super) struct Memo<K, T> {
    held: HashMap<K, Rc<T>>,
    limit: usize,
}

impl<K: Clone + Eq + Hash, T> Memo<K, T> {
    /// Holds at most `limit` of them.
    pub(super) fn of(limit: usize) -> Self {
        Self {
            held: HashMap::new(),
            limit,
        }
    }

    /// What `make` makes of `key`, or has made.
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
