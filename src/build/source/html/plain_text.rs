//! Converts sanitized HTML to plain text in lines: what an administrator would see.

use crate::build::source::encoding::without_controls;

/// The text of sanitized HTML, in which `<` only ever starts a tag and attributes are quoted.
pub(crate) fn text_of(html: &str) -> String {
    let mut text = PlainText::default();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        text.push(&rest[..start]);
        let tag = &rest[start..];
        let end = end_of_tag(tag);
        text.tag(tag_name(tag), tag.starts_with("</"));
        rest = &tag[end..];
    }
    text.push(rest);
    // Again, because authors also write entities in code, where Markdown keeps them.
    let mut decoded = String::with_capacity(text.out.len());
    push_decoded(&mut decoded, &text.out);
    without_controls(decoded).trim_end().to_owned()
}

/// The name of the element that the tag opens or closes.
pub(crate) fn tag_name(tag: &str) -> &str {
    let name = tag.trim_start_matches(['<', '/']);
    &name[..name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len())]
}

/// The length of the tag at the start of the text. A quoted value may contain `>`.
pub(crate) fn end_of_tag(tag: &str) -> usize {
    let mut quoted = false;
    let end = tag.bytes().position(|byte| {
        quoted ^= byte == b'"';
        byte == b'>' && !quoted
    });
    end.map_or(tag.len(), |end| end + 1)
}

/// Arranges text in lines.
#[derive(Default)]
struct PlainText {
    out: String,
    /// Line ends due before the next text: 2 make a paragraph.
    breaks: usize,
    /// A bullet was just written: no line end may follow it.
    after_bullet: bool,
    /// The open lists, with the next number of ordered ones.
    lists: Vec<Option<usize>>,
    preformatted: bool,
}

impl PlainText {
    fn tag(&mut self, name: &str, closing: bool) {
        match name {
            "br" | "dd" | "dt" => self.line_break(1),
            "ul" | "ol" => {
                let outermost = self.lists.len() <= usize::from(closing);
                self.line_break(if outermost { 2 } else { 1 });
                if closing {
                    self.lists.pop();
                } else {
                    self.lists.push((name == "ol").then_some(1));
                }
            }
            "li" if closing => self.line_break(1),
            "li" => self.bullet(),
            "p" | "pre" | "blockquote" | "dl" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.preformatted = name == "pre" && !closing;
                self.line_break(if self.lists.is_empty() { 2 } else { 1 });
            }
            _ => {}
        }
    }

    fn line_break(&mut self, count: usize) {
        if !self.after_bullet {
            self.breaks = self.breaks.max(count);
        }
    }

    fn bullet(&mut self) {
        self.line_break(1);
        self.after_bullet = false;
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            _ => "- ".to_owned(),
        };
        let depth = self.lists.len().saturating_sub(1);
        self.start_line(depth);
        self.out.push_str(&mark);
        self.after_bullet = true;
    }

    fn start_line(&mut self, depth: usize) {
        if self.breaks > 0 {
            self.out.truncate(self.out.trim_end().len());
            if !self.out.is_empty() {
                self.out.push_str(&"\n".repeat(self.breaks));
                self.out.push_str(&"  ".repeat(depth));
            }
        }
        self.breaks = 0;
    }

    fn push(&mut self, html: &str) {
        for (index, line) in html.split('\n').enumerate() {
            if index > 0 {
                self.line_break(if self.preformatted { self.breaks + 1 } else { 1 });
            }
            let at_line_start = self.breaks > 0 || self.after_bullet || self.out.is_empty();
            let line = if at_line_start && !self.preformatted {
                line.trim_start()
            } else {
                line
            };
            if line.is_empty() {
                continue;
            }
            self.start_line(self.lists.len());
            self.after_bullet = false;
            push_decoded(&mut self.out, line);
        }
    }
}

/// Decodes the entities of the sanitizer, the only ones left in text, and the quotes that authors write in code.
pub(crate) fn push_decoded(out: &mut String, html: &str) {
    const ENTITIES: [(&str, char); 7] = [
        ("&amp;", '&'),
        ("&lt;", '<'),
        ("&gt;", '>'),
        ("&nbsp;", ' '),
        ("&quot;", '"'),
        ("&#39;", '\''),
        ("&#039;", '\''),
    ];
    let mut rest = html;
    while let Some(start) = rest.find('&') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let (length, character) = ENTITIES
            .iter()
            .find(|(entity, _)| rest.starts_with(entity))
            .map_or((1, '&'), |&(entity, character)| (entity.len(), character));
        out.push(character);
        rest = &rest[length..];
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use crate::build::source::html::to_plain_text;

    #[test]
    fn plain_text_keeps_lines_and_bullets() {
        for (markdown, expected) in [
            ("a *b* `c` [d](https://example.com/)", "a b c d"),
            ("one\ntwo\n\nthree", "one\ntwo\n\nthree"),
            ("Intro:\n* a\n* b\n  * c\n\nend", "Intro:\n\n- a\n- b\n  - c\n\nend"),
            ("* a\n\n  more\n\n* b", "- a\n  more\n- b"),
            ("1. a\n2. b", "1. a\n2. b"),
            ("<ul><li>a<li>b</ul>c<br>d", "- a\n- b\n\nc\nd"),
            ("## Added\ntext", "Added\n\ntext"),
            ("    code\n      deeper\n", "code\n  deeper"),
            ("AT&amp;T &lt;b&gt; `&lt;`&nbsp;x", "AT&T <b> < x"),
            ("a&#7;b", "ab"),
            ("- [ ] x\n- y  z", "- [ ] x\n- y  z"),
        ] {
            assert_eq!(to_plain_text(markdown), expected, "{markdown}");
        }
    }
}
