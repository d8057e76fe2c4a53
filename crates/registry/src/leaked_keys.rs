//! Finds license keys in the registry, where they must not be. The [reader](crate::reader) reports them.

use countersign_model::license_key::LicenseKey;

use crate::reader::DocumentReader;
use crate::spanned::{Node, SpannedTable, Value};

impl DocumentReader<'_> {
    /// Reports every license key in the fields, except in `id`, whose digits may look like a key by chance.
    // SECURITY: the registry's content is printed, logged and kept in the vendor's repository.
    pub(super) fn without_keys(&mut self, table: &SpannedTable<'_>) {
        for (name, field) in table.fields.iter().filter(|(name, _)| *name != "id") {
            self.without_key(name, &field.node);
        }
    }

    fn without_key(&mut self, field: &str, node: &Node<'_>) {
        let mut check = |at, text: &str| {
            if LicenseKey::is_in(text) {
                self.complain(
                    at,
                    format!("{field:?} contains a license key: only customers should have keys"),
                );
            }
        };
        match &node.value {
            Value::String(text) => check(node.at, text),
            Value::Array(items) => items.iter().for_each(|item| self.without_key(field, item)),
            Value::Table(inner) => {
                inner.fields.iter().for_each(|(name, inner)| check(inner.at, name));
                inner
                    .fields
                    .values()
                    .for_each(|inner| self.without_key(field, &inner.node));
            }
            _ => {}
        }
    }
}
