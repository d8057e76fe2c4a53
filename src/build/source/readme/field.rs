//! Fields of a readme: a line with a name and a value. [`readme`](crate::build::source::readme) and its paragraphs read them.

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
