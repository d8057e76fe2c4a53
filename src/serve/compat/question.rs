//! A request of EDD's clients: a query or a form, whose values some clients encode twice.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use url::form_urlencoded;

use crate::serve::api::params;
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_model::channel::Channel;
use countersign_model::edd_items::EddName;
use countersign_model::foreign_key;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;

/// The most plugins in one request.
const MAX_PRODUCTS: usize = 32;

/// The longest value in bytes. Clients send short texts.
const MAX_VALUE: usize = 2_048;

/// What a client asks.
#[derive(Debug, Default)]
pub(crate) struct EddQuestion {
    /// `edd_action`.
    pub action: String,
    /// About one plugin.
    pub about: EddAbout,
    /// About several, by the names that the client gives them.
    pub products: BTreeMap<String, EddAbout>,
}

/// The fields about one plugin, as they were sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct EddAbout {
    fields: BTreeMap<String, String>,
    /// The site in the User-Agent, which WordPress puts there.
    site: String,
}

impl EddQuestion {
    /// Parses a query and a form, each by itself, as EDD does. It runs the action of the query first; one that names two
    /// different actions is refused.
    pub(crate) fn parse(query: &[u8], form: &[u8], agent: &str) -> Result<Self, Problem> {
        let asked = [Self::parse_part(query, agent)?, Self::parse_part(form, agent)?];
        let mut asked = asked.into_iter().filter(|question| !question.action.is_empty());
        let first = asked.next().ok_or(Problem::MissingField("edd_action"))?;
        match asked.all(|next| next.action == first.action) {
            true => Ok(first),
            false => Err(Problem::Malformed(
                "The query and the form have different 'edd_action'.".to_owned(),
            )),
        }
    }

    /// As in PHP, the last of equal names counts. The action is empty if there is none.
    fn parse_part(part: &[u8], agent: &str) -> Result<Self, Problem> {
        let site = agent.split(';').nth(1).unwrap_or_default().trim().to_owned();
        let mut question = Self::default();
        question.about.site = site.clone();
        for (name, value) in form_urlencoded::parse(part) {
            if value.len() > MAX_VALUE {
                // SECURITY: names are a client's, too, and are not quoted.
                return Err(Problem::Malformed(format!("A value is longer than {MAX_VALUE} bytes.")));
            }
            let name = php_name(&name);
            if name == ACTION {
                question.action = key_of(&value);
            } else if is_array(&name) {
                question.action.clear();
            } else if let Some((product, field)) = of_product(&name) {
                if !question.products.contains_key(product) && question.products.len() == MAX_PRODUCTS {
                    return Err(Problem::Malformed(format!("More than {MAX_PRODUCTS} products.")));
                }
                let about = question.products.entry(product.to_owned()).or_default();
                about.site.clone_from(&site);
                about.fields.insert(field.to_owned(), value.into_owned());
            } else if FIELDS.contains(&&*name) {
                question.about.fields.insert(name, value.into_owned());
            }
        }
        Ok(question)
    }
}

/// An action as EDD reads it, by WordPress' `sanitize_key`: in lower case, without what is no letter, digit, `_` or `-`.
fn key_of(text: &str) -> String {
    let kept = text
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || "_-".contains(*letter));
    kept.map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Whether a query names an action, or an array in its place.
pub(crate) fn names_action(query: &[u8]) -> bool {
    form_urlencoded::parse(query).any(|(name, _)| {
        let name = php_name(&name);
        name == ACTION || is_array(&name)
    })
}

/// The parameter that names what is asked.
const ACTION: &str = "edd_action";

/// Whether this is an array in the place of an action: to EDD, that is no action.
fn is_array(name: &str) -> bool {
    name.strip_prefix(ACTION).is_some_and(|rest| rest.starts_with('['))
}

/// A decoded name as PHP reads it (`php_register_variable_ex`): without blanks before it and what is behind a NUL, with `_` for a
/// dot, a blank and a `[` without an end. It is empty if PHP ignores the parameter.
fn php_name(name: &str) -> String {
    let name = name.trim_start_matches(' ').split('\0').next().unwrap_or_default();
    let (base, index) = match name.split_once('[') {
        Some((base, index)) => (base, Some(index)),
        None => (name, None),
    };
    let base = base.replace([' ', '.'], "_");
    match index {
        None => base,
        Some(_) if base.is_empty() => base,
        Some(index) if index.contains(']') => format!("{base}[{index}"),
        Some(index) => format!("{base}_{index}"),
    }
}

/// The fields that are read. Clients send others, too.
const FIELDS: [&str; 8] = [
    "license",
    "item_id",
    "item_name",
    "name",
    "url",
    "slug",
    "version",
    "beta",
];

/// `products[acme][license]`: the product and the field.
fn of_product(name: &str) -> Option<(&str, &str)> {
    let (product, field) = name.strip_prefix("products[")?.strip_suffix(']')?.split_once("][")?;
    FIELDS.contains(&field).then_some((product, field))
}

impl EddAbout {
    fn text(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", |text| text.trim())
    }

    /// The license's id; `None` if the text is no key of any form, so that no license can have it.
    pub(crate) fn license(&self) -> Option<LicenseId> {
        // Decoded once, as the query or the form was: a key may have percent signs of its own. What clients encode twice has
        // none, since letters, digits and dashes stay as they are.
        foreign_key::any_id(self.text("license")).ok()
    }

    /// Whether there is no key at all.
    pub(crate) fn has_no_license(&self) -> bool {
        self.text("license").is_empty()
    }

    /// The download's number, as EDD reads it: 0 is none.
    pub(crate) fn item_id(&self) -> Option<u64> {
        self.text("item_id").parse().ok().filter(|id| *id > 0)
    }

    /// The download's name.
    pub(crate) fn item_name(&self) -> Option<EddName> {
        let text = [self.text("item_name"), self.text("name")];
        // PHP sends false as an empty text or as 0.
        let text = text.into_iter().find(|text| !matches!(*text, "" | "0" | "false"));
        text.and_then(EddName::new)
    }

    /// The name as it was sent, decoded.
    pub(crate) fn shown_name(&self) -> String {
        let text = self.text("item_name");
        let plain = text.replace('+', " ");
        percent_decode_str(&plain).decode_utf8_lossy().into_owned()
    }

    /// The slug that the client has for the plugin.
    pub(crate) fn slug(&self) -> &str {
        self.text("slug")
    }

    /// The version that the site runs.
    pub(crate) fn version(&self) -> Option<&str> {
        Some(self.text("version")).filter(|version| !version.is_empty() && version.len() <= params::MAX_VERSION)
    }

    /// The channel that the site wants. EDD knows betas alone, and takes an empty text and 0 for no, as PHP does.
    pub(crate) fn channel(&self) -> Channel {
        match self.text("beta") {
            "" | "0" | "false" => Channel::Stable,
            _ => Channel::Beta,
        }
    }

    /// The site, of the field or of the User-Agent; `None` if neither has one.
    pub(crate) fn host(&self, service: &Service, id: &LicenseId) -> Option<Result<SiteHost, Problem>> {
        let text = [self.text("url"), &self.site]
            .into_iter()
            .find(|text| !text.is_empty())?;
        let is_encoded = text.contains("%3A") || text.contains("%2F") || text.contains("%3a") || text.contains("%2f");
        let decoded = percent_decode_str(text).decode_utf8_lossy();
        let text = if is_encoded { &*decoded } else { text };
        Some(params::site_host(service, id, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str, form: &str) -> EddQuestion {
        EddQuestion::parse(
            query.as_bytes(),
            form.as_bytes(),
            "WordPress/6.5; https://agent.example",
        )
        .unwrap()
    }

    #[test]
    fn the_query_or_the_form_is_the_question_and_values_may_be_encoded_twice() {
        let question = parse(
            "item_id=7&license=a",
            "edd_action=get_version&item_name=Acme%2520Forms&license=+cc22c1ec86304b36883440e2e84cddff%0A",
        );
        assert_eq!(question.action, "get_version");
        assert_eq!(question.about.item_id(), None, "EDD gives an action its own part");
        assert_eq!(question.about.item_name(), EddName::new("Acme Forms"));
        assert_eq!(question.about.shown_name(), "Acme Forms");
        assert!(question.about.license().is_some());
        for none in ["", "0", "false"] {
            assert_eq!(
                parse("edd_action=x", &format!("item_id={none}&item_name={none}"))
                    .about
                    .item_id(),
                None
            );
            assert_eq!(
                parse("edd_action=x", &format!("item_name={none}")).about.item_name(),
                None
            );
        }
    }

    #[test]
    fn an_action_is_what_edd_takes_for_it_and_two_are_none() {
        for written in [
            "GET_VERSION",
            "get_version.",
            "%20get_version",
            "Get_%00Version%27",
            "get_%C3%A9version",
        ] {
            assert_eq!(
                parse(&format!("edd_action={written}"), "").action,
                "get_version",
                "{written}"
            );
            assert_eq!(
                parse("", &format!("edd_action={written}")).action,
                "get_version",
                "{written}"
            );
        }
        let both = parse(
            "edd_action=check_license&item_id=1",
            "edd_action=CHECK_license&item_id=2",
        );
        assert_eq!((both.action.as_str(), both.about.item_id()), ("check_license", Some(1)));
        let two = EddQuestion::parse(b"edd_action=get_version", b"edd_action=add_to_cart", "");
        assert!(matches!(two, Err(Problem::Malformed(_))));
        let array = EddQuestion::parse(b"edd_action[]=get_version", b"edd_action=%20", "");
        assert!(matches!(array, Err(Problem::MissingField("edd_action"))));
    }

    #[test]
    fn names_are_what_php_takes_for_them() {
        for name in [
            "edd_action",
            "edd%5Faction",
            "edd.action",
            "edd+action",
            "edd%20action",
            "+edd_action",
            "edd[action",
            "edd_action%00x",
            "%65dd_action",
        ] {
            let query = format!("license=a&{name}=check_license");
            assert!(names_action(query.as_bytes()), "{name}");
            assert_eq!(parse(&query, "").action, "check_license", "{name}");
        }
        // An array is no action that EDD knows, and still its parameter.
        for name in [
            "edd_action[]",
            "edd_action%5B%5D",
            "edd_action[a]",
            "edd.action[]",
            "edd_action[]x",
        ] {
            let query = format!("{name}=check_license");
            assert!(names_action(query.as_bytes()), "{name}");
            let refused = EddQuestion::parse(query.as_bytes(), b"", "");
            assert!(matches!(refused, Err(Problem::MissingField("edd_action"))), "{name}");
        }
        let last = EddQuestion::parse(b"edd_action=check_license&edd_action[]=x", b"", "");
        assert!(matches!(last, Err(Problem::MissingField("edd_action"))));
        for name in [
            "edd__action",
            "xedd_action",
            "edd_actions",
            "edd_action[",
            "EDD_action",
            "page",
            "x[edd_action]",
            "[edd_action]",
        ] {
            assert!(!names_action(format!("{name}=check_license").as_bytes()), "{name}");
        }
        let about = parse("edd_action=x&item.name=A&item+id=3", "").about;
        assert_eq!((about.item_id(), about.item_name()), (Some(3), EddName::new("A")));
    }

    #[test]
    fn several_products_have_their_own_fields() {
        let question = parse(
            "",
            "edd_action=get_version&products[a][license]=k&products%5Bb%5D%5Bitem_id%5D=3&products[c]=x",
        );
        assert_eq!(question.products.len(), 2);
        assert_eq!(question.products["b"].item_id(), Some(3));
    }

    #[test]
    fn what_names_no_action_or_too_much_is_malformed_and_not_quoted() {
        let long = format!("edd_action=x&license={}", "k".repeat(MAX_VALUE + 1));
        let many: String = (0..=MAX_PRODUCTS)
            .map(|number| format!("&products[{number}][slug]=a"))
            .collect();
        for form in ["license=canary".to_owned(), long, format!("edd_action=x{many}")] {
            let error = EddQuestion::parse(b"", form.as_bytes(), "").unwrap_err();
            assert!(!format!("{error:?}").contains("canary") && !format!("{error:?}").contains("kkk"));
        }
    }
}
