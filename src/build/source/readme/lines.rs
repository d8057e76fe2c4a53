//! The lines of a readme, with two lines of lookahead.

use crate::build::source::markdown::{Block, BlockLines};

/// The lines of a text, with their numbers and offsets.
pub(super) struct ReadmeLines<'a> {
    /// The rest after `next` and `below`.
    rest: &'a str,
    next: Option<&'a str>,
    below: Option<&'a str>,
    length: usize,
    blocks: BlockLines,
    /// Where the next line begins.
    pub offset: usize,
    /// The number of the next line, from 1.
    pub number: usize,
}

impl<'a> ReadmeLines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut lines = Self {
            rest: text,
            next: None,
            below: None,
            length: text.len(),
            blocks: BlockLines::of(text),
            offset: 0,
            number: 1,
        };
        lines.next = lines.take_line();
        lines.below = lines.take_line();
        lines
    }

    /// Like `split_terminator`, but faster: a readme has a thousand short lines, and every tag has a readme.
    fn take_line(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', self.rest.as_bytes()).unwrap_or(self.rest.len());
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        Some(line)
    }

    pub(super) fn peek(&self) -> Option<&'a str> {
        self.next
    }

    /// The block of the next line.
    pub(super) fn block(&self) -> Option<Block> {
        self.blocks.at(self.offset)
    }

    /// Whether the next line may be a heading.
    pub(super) fn may_be_heading(&self) -> bool {
        self.blocks.may_be_heading(self.offset, self.next.unwrap_or_default())
    }

    /// The line after the next one.
    pub(super) fn below(&self) -> &'a str {
        self.below.unwrap_or_default()
    }

    pub(super) fn next(&mut self) -> Option<&'a str> {
        let line = self.next?;
        self.next = self.below;
        self.below = self.take_line();
        self.offset = self.length.min(self.offset + line.len() + 1);
        self.number += 1;
        Some(line)
    }

    pub(super) fn skip_while(&mut self, skip: impl Fn(&str) -> bool) {
        while self.peek().is_some_and(&skip) {
            self.next();
        }
    }
}
