//! Fields of a readme: a line with a name and a value, and what the values mean. [`readme`](crate::build::source::readme) and its
//! paragraphs read them.

/// `Name: value`, also as `**Name:** value` or `* Name: value`. The name in lower case.
pub(super) fn field(line: &str) -> Option<(String, &str)> {
    const MARKS: [char; 4] = [' ', '\t', '*', '-'];
    let (name, value) = line.split_once(':')?;
    // `Forms for [Acme](https://acme.example)` has none.
    let is_name = !name.contains(['[', ']', '(', ')', '<', '>', '!', '.', '`', '"']) && !value.starts_with("//");
    (is_name && !line.starts_with(['#', '=']))
        .then(|| (name.trim_matches(MARKS).to_ascii_lowercase(), value.trim_matches(MARKS)))
}

/// Whether WordPress.org knows a field of this name, in lower case.
pub(super) fn is_known(field: &str) -> bool {
    [
        "tested",
        "tested up to",
        "requires",
        "requires at least",
        "requires php",
        "tags",
        "contributors",
        "donate link",
        "stable tag",
        "license",
        "license uri",
    ]
    .contains(&field)
}

/// The longest short description, in characters, as on WordPress.org.
pub(crate) const SHORT_DESCRIPTION_LIMIT: usize = 150;

/// The version in "WordPress 6.5", "6.5.x", ">= 6.0" or "6.5-RC1"; empty if there is none, or more than one.
pub fn platform_version(value: &str) -> String {
    let mut versions = value
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .map(|part| part.trim_matches('.'))
        .filter(|part| (2..=3).contains(&part.split('.').count()) && part.split('.').all(|number| !number.is_empty()));
    match (versions.next(), versions.next()) {
        (Some(version), None) => version.to_owned(),
        _ => String::new(),
    }
}

/// A tag's name or `trunk`, quoted in any way.
pub(crate) fn stable_tag(value: &str) -> String {
    let value = value.trim_matches(['"', '\'', ' ']);
    let value = value.strip_prefix('/').unwrap_or(value);
    let value = value.strip_prefix("tags/").unwrap_or(value);
    let tag: String = value
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
        .collect();
    if tag.starts_with('.') { format!("0{tag}") } else { tag }
}

/// Cuts a short description after the last sentence that ends in the last fifth, else after a word.
pub(crate) fn shorten(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(SHORT_DESCRIPTION_LIMIT) else {
        return text.to_owned();
    };
    let head = &text[..end];
    let sentence = if head.ends_with('.') {
        Some(head.len())
    } else {
        head.rfind(". ").map(|dot| dot + 1)
    };
    if let Some(end) = sentence.filter(|end| end * 5 > head.len() * 4) {
        return head[..end].to_owned();
    }
    // One character less, for the ellipsis.
    let room = head.char_indices().last().map_or(0, |(last, _)| last);
    let words = head[..room].rfind(' ').map_or(&head[..room], |space| &head[..space]);
    format!("{}…", words.trim_end())
}
