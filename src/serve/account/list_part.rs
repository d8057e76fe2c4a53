//! A long list on a page: the part that is shown, and the form that finds a site.

use crate::serve::account::asked::AccountAsked;
use crate::serve::account::words::filled;
use countersign_model::site_host::SiteHost;

/// What a customer looks for: a part of a site's host, or its address.
pub(super) struct SiteSearch {
    /// As it was typed.
    typed: String,
    /// In lower case; empty if nothing is looked for.
    part: String,
    /// The host of an address.
    host: Option<SiteHost>,
}

impl SiteSearch {
    /// What the form of a page asks for.
    pub(super) fn of(asked: &AccountAsked<'_>) -> Self {
        let typed = asked.fields.get("find");
        Self {
            typed: typed.to_owned(),
            part: typed.to_lowercase(),
            host: typed.parse().ok(),
        }
    }

    /// Whether this site is looked for.
    pub(super) fn has(&self, host: &SiteHost) -> bool {
        let is_named =
            |part: &str| host.as_str().contains(part) || host.in_unicode().is_some_and(|host| host.contains(part));
        is_named(&self.part) || self.host.as_ref().is_some_and(|host| is_named(host.as_str()))
    }

    /// Whether anything is looked for.
    pub(super) fn is_on(&self) -> bool {
        !self.part.is_empty()
    }
}

/// The part of a list that a page shows.
pub(super) struct ListPart {
    /// The path of the page.
    pub(super) path: String,
    /// What is looked for, as it was typed.
    pub(super) find: String,
    /// Which part it is, of how many.
    pub(super) said: String,
    /// Where the parts before and behind it are.
    pub(super) previous: Option<String>,
    pub(super) next: Option<String>,
}

impl ListPart {
    /// Takes the part that the address asks for out of what was found; `None` if the page shows the whole list at once.
    pub(super) fn take<T>(
        asked: &AccountAsked<'_>,
        path: &str,
        search: &SiteSearch,
        found: &mut Vec<T>,
        most: usize,
    ) -> Option<Self> {
        let count = found.len();
        if count <= most && !search.is_on() {
            return None;
        }
        let first: usize = asked.fields.get("from").parse().unwrap_or(0);
        // An address of another time may lead behind the end.
        let first = first.min(count.saturating_sub(1) / most * most);
        *found = found.drain(..).skip(first).take(most).collect();
        let last = first + found.len();
        let at = |from: usize| {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            if search.is_on() {
                query.append_pair("find", &search.typed);
            }
            query.append_pair("from", &from.to_string());
            format!("{path}?{}", query.finish())
        };
        let said = match count {
            0 => asked.words.none_found.clone(),
            _ => {
                let [one, other, all] = [first + 1, last, count].map(|number| number.to_string());
                filled(&asked.words.part, &[("first", &one), ("last", &other), ("count", &all)])
            }
        };
        Some(Self {
            path: path.to_owned(),
            find: search.typed.clone(),
            said,
            previous: (first > 0).then(|| at(first.saturating_sub(most))),
            next: (last < count).then(|| at(last)),
        })
    }
}
