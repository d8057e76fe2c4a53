//! A cache of rendered Markdown: descriptions and most changelog entries are the same from tag to tag.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

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
