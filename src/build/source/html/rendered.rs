//! Rendered Markdown, kept by its text: a description and most changelog entries come back from tag to tag.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// How much text, Markdown and HTML together, is kept in each thread, in bytes.
const LIMIT: usize = 8 << 20;

thread_local! {
    static RENDERED: RefCell<RenderCache> = RefCell::default();
}

/// Forgets everything when it is full.
#[derive(Default)]
struct RenderCache {
    by_markdown: HashMap<String, Rc<str>>,
    size: usize,
}

/// What `render` makes of `markdown`; it must be the same function every time.
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
