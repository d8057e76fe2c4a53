//! License keys that stand where they do not belong: in the registry. The [reader](crate::registry::reader) complains about them.

use crate::model::license_key::LicenseKey;

use crate::registry::reader::DocumentReader;
use crate::registry::spanned::{Node, SpannedTable, Value};

impl DocumentReader<'_> {
    /// Complains about every license key in the fields but `id`, whose digits may happen to look like one.
    // SECURITY: what stands in the registry is printed, logged and kept in the vendor's repository.
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
                    format!("a license key stands in {field:?}: keys belong to customers only"),
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
