//! The fields of a form or a query.

/// The most fields of a form or a query that are read.
const MOST_FIELDS: usize = 40;

/// The fields of a form or a query.
#[derive(Debug, Default)]
pub(in crate::serve) struct FormFields(Vec<(String, String)>);

impl FormFields {
    pub(in crate::serve) fn of(encoded: &[u8]) -> Self {
        let pairs = url::form_urlencoded::parse(encoded).take(MOST_FIELDS);
        Self(
            pairs
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// The first value of this name, without blanks around it; empty where there is none.
    pub(in crate::serve) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(of, _)| of == name);
        found.map_or("", |(_, value)| value.trim())
    }
}
