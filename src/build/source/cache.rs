//! Caches of results by their input, emptied when they are full; one of them is of rendered Markdown: descriptions and most changelog
//! entries are the same from tag to tag.

use std::cell::RefCell;
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

/// Size of the cache of each thread in bytes, Markdown and HTML together.
const LIMIT: usize = 8 << 20;

thread_local! {
    static RENDERED: RefCell<RenderCache> = RefCell::default();
}

/// Emptied when it is full.
#[derive(Default)]
struct RenderCache {
    by_markdown: HashMap<String, Rc<str>>,
    size: usize,
}

/// `render(markdown)`, cached; `render` must always be the same function.
pub(crate) fn rendered(markdown: &str, render: fn(&str) -> String) -> Rc<str> {
    if let Some(known) = RENDERED.with_borrow(|rendered| rendered.by_markdown.get(markdown).cloned()) {
        return known;
    }
    let html: Rc<str> = render(markdown).into();
    RENDERED.with_borrow_mut(|rendered| {
        let size = markdown.len() + html.len();
        if rendered.size + size > LIMIT {
            *rendered = RenderCache::default();
        }
        rendered.size += size;
        rendered.by_markdown.insert(markdown.to_owned(), html.clone());
    });
    html
}
