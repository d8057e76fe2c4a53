//! The fields of a form or a query.

use countersign_model::issued_license::Hex128;

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

    /// What makes a form one, however often it is sent; `None` if the form is not whole.
    pub(in crate::serve) fn once(&self) -> Option<Hex128> {
        self.get("once").parse().ok()
    }
}

/// A random number for a form: if the form is sent twice, it is one mail or one key.
///
/// # Errors
/// The system has no random numbers.
pub(in crate::serve) fn new_once() -> Result<Hex128, getrandom::Error> {
    let mut once = [0; 16];
    getrandom::fill(&mut once)?;
    Ok(Hex128(once))
}
