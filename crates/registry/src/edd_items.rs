//! Fields `edd_item_id` and `edd_item_name` of a plugin entry: one value, or several.

use countersign_model::edd_items::{EddItems, EddName};

use crate::reader::DocumentReader;
use crate::spanned::{Node, SpannedTable, Value};

/// Both fields; empty where the entry has none.
pub(super) fn edd_items(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> EddItems {
    let mut items = EddItems::default();
    for node in nodes(table, "edd_item_id") {
        match node.value {
            Value::Integer(id) if id > 0 => items.ids.push(id.unsigned_abs()),
            _ => reader.complain(
                node.at,
                "\"edd_item_id\" must be a whole number of at least 1, or an array of these",
            ),
        }
    }
    for node in nodes(table, "edd_item_name") {
        let name = match &node.value {
            Value::String(text) => EddName::new(text),
            _ => None,
        };
        match name {
            Some(name) => items.names.push(name),
            None => reader.complain(
                node.at,
                "\"edd_item_name\" must be a name with a letter or a digit, or an array of these",
            ),
        }
    }
    items
}

/// The values of a field, of which there may be one or several.
fn nodes<'n, 't>(table: &'n SpannedTable<'t>, name: &str) -> Vec<&'n Node<'t>> {
    match table.fields.get(name).map(|field| &field.node) {
        None => Vec::new(),
        Some(Node {
            value: Value::Array(items),
            ..
        }) => items.iter().collect(),
        Some(node) => vec![node],
    }
}
