//! The fields of a form or a query, and whether a page of ours sent it.
//!
//! SECURITY: a page of somebody else in the same browser can send forms. They have another origin.

use warp::http::{HeaderMap, header};

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

    /// The first value of this name, trimmed; empty if the form has none.
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

/// By which of our names a page was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) struct PageOrigin {
    /// Scheme, host and port, as the browser calls its pages.
    pub(in crate::serve) origin: String,
    /// Whether the browser speaks TLS.
    pub(in crate::serve) is_https: bool,
}

impl PageOrigin {
    /// Whether a page of ours sent this form. Browsers say so; one that says neither where a form comes from is not believed.
    pub(in crate::serve) fn has_sent(&self, headers: &HeaderMap) -> bool {
        let only = |name| {
            let mut values = headers.get_all(name).iter();
            match (values.next(), values.next()) {
                (Some(value), None) => Some(value.as_bytes()),
                _ => None,
            }
        };
        match headers.contains_key("sec-fetch-site") {
            true => only(header::HeaderName::from_static("sec-fetch-site")) == Some(b"same-origin"),
            false => only(header::ORIGIN) == Some(self.origin.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_form_of_the_same_origin_is_ours() {
        let origin = PageOrigin {
            origin: "http://desk-1.localhost:8082".to_owned(),
            is_https: false,
        };
        let sent = |headers: &[(&'static str, &'static str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(*name, value.parse().unwrap());
            }
            origin.has_sent(&map)
        };
        assert!(sent(&[("sec-fetch-site", "same-origin")]));
        assert!(sent(&[
            ("sec-fetch-site", "same-origin"),
            ("origin", "http://other.localhost:8082")
        ]));
        assert!(sent(&[("origin", "http://desk-1.localhost:8082")]));
        for headers in [
            &[][..],
            &[("sec-fetch-site", "same-site")],
            &[
                ("sec-fetch-site", "cross-site"),
                ("origin", "http://desk-1.localhost:8082"),
            ],
            &[("sec-fetch-site", "none")],
            &[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")],
            &[("origin", "null")],
            &[("origin", "http://desk-1.localhost")],
            &[("origin", "https://desk-1.localhost:8082")],
            &[
                ("origin", "http://desk-1.localhost:8082"),
                ("origin", "http://evil.example"),
            ],
        ] {
            assert!(!sent(headers), "{headers:?}");
        }
    }
}
