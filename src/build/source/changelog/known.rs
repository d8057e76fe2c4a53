//! A cache of rendered entries, by the text that determines them.
//!
//! A release adds one entry to its changelog and keeps the others, which
//! [`ChangelogEntries`](crate::build::source::changelog::entries::ChangelogEntries) then need not read again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Size of the cache of each thread in bytes, Markdown and HTML together.
const LIMIT: usize = 8 << 20;

thread_local! {
    static KNOWN: RefCell<Kept> = RefCell::default();
}

/// A rendered entry.
#[derive(Clone)]
pub(crate) struct Known {
    /// From its heading to the next one, in bytes.
    pub length: usize,
    pub html: Rc<str>,
}

/// By the line of the heading: the text up to the line after the next heading, and the entry. Emptied when it is full.
#[derive(Default)]
struct Kept {
    by_heading: HashMap<String, (String, Known)>,
    size: usize,
}

impl Known {
    /// The entry at the start of the text, if it is known, and how many bytes of the text determine it.
    pub(super) fn of(text: &str) -> Option<(usize, Self)> {
        KNOWN.with_borrow(|kept| {
            let (seen, known) = kept.by_heading.get(first_line(text))?;
            text.starts_with(seen).then(|| (seen.len(), known.clone()))
        })
    }

    /// Length in bytes of the text that determines the entry. It ends after the line below the next heading.
    pub(super) fn seen(&self, text: &str) -> usize {
        let heading = first_line(&text[self.length..]).len();
        self.length + heading + first_line(&text[self.length + heading..]).len()
    }

    /// Stores the entry at the start of the text, unless the text ends right after the next heading: more text may
    /// follow that makes it no heading.
    pub(super) fn keep(self, text: &str) {
        let seen = &text[..self.seen(text)];
        let heading = first_line(&text[self.length..]).len();
        if seen.len() == self.length + heading || !seen.ends_with('\n') {
            return;
        }
        KNOWN.with_borrow_mut(|kept| {
            let size = seen.len() + self.html.len();
            if kept.size + size > LIMIT {
                *kept = Kept::default();
            }
            kept.size += size;
            kept.by_heading
                .insert(first_line(text).to_owned(), (seen.to_owned(), self));
        });
    }
}

/// With its line end.
fn first_line(text: &str) -> &str {
    text.split_inclusive('\n').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::build::source::changelog::{ChangelogText, to_html};
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Reads a changelog on a new thread, whose cache is empty.
    fn afresh(changelog: &str) -> ChangelogText {
        let changelog = changelog.to_owned();
        std::thread::spawn(move || to_html(&changelog, 1000)).join().unwrap()
    }

    #[test]
    fn a_heading_at_the_end_may_be_none_where_the_text_goes_on() {
        for (end, more) in [
            ("* 1.1", "\n* more"),
            ("1.1", " million downloads"),
            ("1.1", "\n---\n"),
            ("* 1.1\n", "* more"),
        ] {
            for changelog in [format!("= 1.2 =\na\n{end}"), format!("= 1.2 =\na\n{end}{more}")] {
                assert_eq!(to_html(&changelog, 1000), afresh(&changelog), "{changelog:?}");
            }
        }
    }

    const LINES: &str = "(= 1.[1-3] =\n|1.[12]\n|\\*\\*1.2\\*\\*\n|---\n|\\* 1.1\n|= News: 1.2 =\n|= Older =\n|  \\* a\n|\\* a\n|text\n|\n)";

    proptest! {
        #[test]
        fn what_was_read_before_makes_no_difference(
            above in vec(LINES, 0..6),
            below in vec(vec(LINES, 0..4), 1..5),
        ) {
            for below in below {
                let changelog = format!("= 1.3 =\n{}{}", above.concat(), below.concat());
                prop_assert_eq!(to_html(&changelog, 1000), afresh(&changelog), "{:?}", changelog);
            }
        }
    }
}
