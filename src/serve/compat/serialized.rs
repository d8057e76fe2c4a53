//! Texts by name as PHP's `serialize` writes them: EDD's clients expect sections, banners and icons so.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The texts of an object as a serialized PHP array. Lengths are in bytes.
pub(super) fn texts(object: &Map<String, Value>) -> String {
    let texts: Vec<(&str, &str)> = object
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
        .collect();
    let mut serialized = format!("a:{}:{{", texts.len());
    for (name, text) in texts {
        // Writing to a String cannot fail.
        let _ = write!(serialized, "s:{}:\"{name}\";s:{}:\"{text}\";", name.len(), text.len());
    }
    serialized + "}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_in_bytes_and_quotes_need_no_escape() {
        let object = serde_json::json!({ "a": "é\"", "b": "", "c": 1 });
        assert_eq!(
            texts(object.as_object().unwrap()),
            "a:2:{s:1:\"a\";s:3:\"é\"\";s:1:\"b\";s:0:\"\";}"
        );
        assert_eq!(texts(&Map::new()), "a:0:{}");
    }
}
