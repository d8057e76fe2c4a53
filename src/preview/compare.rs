//! Compares two manifests field by field, and long texts line by line.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use similar::{Algorithm, ChangeTag, capture_diff_slices_deadline, group_diff_ops};

/// Unchanged lines shown around a change.
const CONTEXT: usize = 2;

/// After this time, the best difference found so far is used.
const PATIENCE: Duration = Duration::from_millis(200);

/// Fields that differ in the same way, as `version` and `new_version` mostly do.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FieldDifference {
    /// Their names; a dot separates the names of nested ones.
    pub fields: Vec<String>,
    /// The removed and added lines, with a few unchanged ones between them.
    pub lines: Vec<DiffLine>,
}

/// A line of a difference.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DiffLine {
    /// Whether it was removed, added or unchanged.
    pub change: LineChange,
    /// Its text, without a line end.
    pub text: String,
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum LineChange {
    Stayed,
    Went,
    Came,
    /// Some unchanged lines are left out.
    Skipped,
}

/// The fields that differ, sorted by name.
pub fn differences(old: &Value, new: &Value) -> Vec<FieldDifference> {
    let mut was = BTreeMap::new();
    let mut is = BTreeMap::new();
    flatten("", old, &mut was);
    flatten("", new, &mut is);
    let names: std::collections::BTreeSet<_> = was.keys().chain(is.keys()).collect();
    let text = |fields: &BTreeMap<String, String>, name: &String| fields.get(name).cloned().unwrap_or_default();
    let differ = names.into_iter().filter(|name| was.get(*name) != is.get(*name));
    let mut found: Vec<FieldDifference> = Vec::new();
    for name in differ {
        let lines = lines(&text(&was, name), &text(&is, name));
        match found.iter_mut().find(|difference| difference.lines == lines) {
            Some(same) => same.fields.push(name.clone()),
            None => found.push(FieldDifference {
                fields: vec![name.clone()],
                lines,
            }),
        }
    }
    found
}

fn flatten(name: &str, value: &Value, fields: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let name = if name.is_empty() {
                    key.clone()
                } else {
                    format!("{name}.{key}")
                };
                flatten(&name, value, fields);
            }
        }
        Value::String(text) => drop(fields.insert(name.to_owned(), text.clone())),
        other => drop(fields.insert(name.to_owned(), other.to_string())),
    }
}

fn lines(old: &str, new: &str) -> Vec<DiffLine> {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let deadline = Some(Instant::now() + PATIENCE);
    let operations = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, deadline);
    let mut lines = Vec::new();
    for group in group_diff_ops(operations, CONTEXT) {
        if !lines.is_empty() {
            lines.push(DiffLine {
                change: LineChange::Skipped,
                text: String::new(),
            });
        }
        for change in group.iter().flat_map(|operation| operation.iter_changes(&old, &new)) {
            let tag = match change.tag() {
                ChangeTag::Equal => LineChange::Stayed,
                ChangeTag::Delete => LineChange::Went,
                ChangeTag::Insert => LineChange::Came,
            };
            lines.push(DiffLine {
                change: tag,
                text: change.value().trim_end_matches('\n').to_owned(),
            });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_differs_is_shown_and_long_texts_line_by_line() {
        let old = json!({ "a": "same", "icons": { "1x": "one" }, "text": "1\n2\n3\n4\n5\n6", "v": "1", "w": "1" });
        let new = json!({ "a": "same", "icons": {}, "text": "1\n2\n3\n4\n5\nsix", "v": "2", "w": "2" });
        let shown: Vec<_> = differences(&old, &new)
            .into_iter()
            .map(|difference| {
                let sign = |line: &DiffLine| format!("{:?} {}", line.change, line.text);
                (
                    difference.fields.join(" "),
                    difference.lines.iter().map(sign).collect::<Vec<_>>().join(", "),
                )
            })
            .collect();
        let expected = [
            ("icons.1x", "Went one"),
            ("text", "Stayed 4, Stayed 5, Went 6, Came six"),
            ("v w", "Went 1, Came 2"),
        ];
        assert_eq!(
            shown,
            expected.map(|(field, lines)| (field.to_owned(), lines.to_owned()))
        );
        assert_eq!(differences(&old, &old), []);
    }
}
