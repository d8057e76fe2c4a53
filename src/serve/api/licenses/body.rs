//! Headers and bodies of the management API: JSON objects without unknown fields.

use std::collections::HashSet;
use std::fmt;

use hyper::body::Incoming;
use serde::de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use warp::http::{HeaderMap, Request, header};

use crate::serve::api::body;
use crate::serve::api::licenses::fields::EXPECTED;
use crate::serve::ledger_licenses::ExpectedRevision;
use crate::serve::reply::problem::Problem;
use countersign_model::license_key::LicenseKey;
use countersign_model::rights::{self, Rights};
use countersign_model::site_host::SiteHost;

/// Size limit of a body in bytes: twice what a line of the ledger can have.
const MAX_BODY: usize = 8 * 1024;

/// The fields of all bodies, beside those of [`Rights`].
const FIELDS: [&str; 18] = [
    "address",
    "all",
    "expires",
    "grace_period_hours",
    "host",
    "hosts",
    "language",
    "metadata",
    "modules",
    "reason",
    "reference",
    "reminders_to",
    "site_moves",
    "sites",
    "staging_sites",
    "until",
    "version",
    "what",
];

/// The longest idempotency key in bytes.
const MAX_KEY: usize = 255;

/// Reads a JSON object. An absent body counts as `{}`.
pub(super) async fn read<T: DeserializeOwned>(headers: &HeaderMap, incoming: Incoming) -> Result<T, Problem> {
    let mut request = Request::new(incoming);
    request.headers_mut().clone_from(headers);
    let bytes = body::read_json(request, MAX_BODY).await?;
    let object = match bytes.trim_ascii() {
        b"" => b"{}",
        object => object,
    };
    if object.first() != Some(&b'{') {
        return Err(Problem::Malformed(
            "The body must be one JSON object in UTF-8.".to_owned(),
        ));
    }
    // SECURITY: what is in a body is stored and logged, and people paste the key into the wrong field. The values are looked at:
    // in the body, each letter of them may be an escape.
    let ReadValue { has_key } = parse(object)?;
    if has_key {
        return Err(Problem::Malformed(
            "The body has a license key. Name a license by its id.".to_owned(),
        ));
    }
    parse(object)
}

/// A JSON value without a name that an object has twice: a map would keep the last of the values without a word.
struct ReadValue {
    /// Whether a name or a text in it has a license key, as it is or as a host: hosts lose what is invisible in them.
    has_key: bool,
}

impl<'de> Deserialize<'de> for ReadValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueReader)
    }
}

struct ValueReader;

impl<'de> Visitor<'de> for ValueReader {
    type Value = ReadValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<ReadValue, E> {
        Ok(ReadValue { has_key: false })
    }

    fn visit_bool<E>(self, _: bool) -> Result<ReadValue, E> {
        Ok(ReadValue { has_key: false })
    }

    fn visit_i64<E>(self, _: i64) -> Result<ReadValue, E> {
        Ok(ReadValue { has_key: false })
    }

    fn visit_u64<E>(self, _: u64) -> Result<ReadValue, E> {
        Ok(ReadValue { has_key: false })
    }

    fn visit_f64<E>(self, _: f64) -> Result<ReadValue, E> {
        Ok(ReadValue { has_key: false })
    }

    fn visit_str<E>(self, text: &str) -> Result<ReadValue, E> {
        let host = text.parse::<SiteHost>();
        let has_key = LicenseKey::is_in(text) || host.is_ok_and(|host| LicenseKey::is_in(host.as_str()));
        Ok(ReadValue { has_key })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ReadValue, A::Error> {
        let mut has_key = false;
        while let Some(item) = items.next_element::<ReadValue>()? {
            has_key |= item.has_key;
        }
        Ok(ReadValue { has_key })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<ReadValue, A::Error> {
        let mut has_key = false;
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            has_key |= Self.visit_str::<A::Error>(&name)?.has_key;
            if names.contains(&name) {
                return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
            }
            names.insert(name);
            has_key |= members.next_value::<ReadValue>()?.has_key;
        }
        Ok(ReadValue { has_key })
    }
}

/// Parses an object.
// SECURITY: the parser's own message may quote the body, and ours do not.
fn parse<T: DeserializeOwned>(object: &[u8]) -> Result<T, Problem> {
    let fields: Vec<_> = FIELDS.into_iter().chain(Rights::FIELDS).collect();
    let read = body::read_value(object, &fields);
    read.map_err(|(pointer, error)| {
        let said = error.to_string();
        let expected = EXPECTED.into_iter().chain(rights::EXPECTED).find(|expected| said.starts_with(expected));
        let detail = format!(
            "The body is not what this operation takes; see line {}, column {}{}. Fields are described in openapi.json; each may \
             be there once, and no other.",
            error.line(),
            error.column(),
            expected.map(|expected| format!(": expected {expected}")).unwrap_or_default()
        );
        match pointer.is_empty() {
            true => Problem::Malformed(detail),
            false => Problem::malformed_field(pointer, detail),
        }
    })
}

/// The `Idempotency-Key` of a request: 1 to 255 visible ASCII characters.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<&str, Problem> {
    const FIELD: &str = "Idempotency-Key";
    let mut values = headers.get_all("idempotency-key").iter();
    let value = values.next().ok_or(Problem::MissingField(FIELD))?;
    if values.next().is_some() {
        return Err(Problem::Malformed(format!("'{FIELD}' may be sent once.")));
    }
    let is_visible = |byte: &u8| byte.is_ascii_graphic();
    let key = value.to_str().ok().filter(|key| key.as_bytes().iter().all(is_visible));
    match key {
        Some("") | None => Err(Problem::Malformed(format!(
            "'{FIELD}' must be 1 to {MAX_KEY} visible ASCII characters."
        ))),
        Some(key) if key.len() > MAX_KEY => Err(Problem::FieldTooLong {
            field: FIELD,
            limit: MAX_KEY,
        }),
        Some(key) => Ok(key),
    }
}

/// The revision that `If-Match` names (RFC 9110 section 13.1.1); `None` without the header.
pub(super) fn if_match(headers: &HeaderMap) -> Result<Option<ExpectedRevision>, Problem> {
    let mut values = headers.get_all(header::IF_MATCH).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let is_only = values.next().is_none();
    if is_only && value.as_bytes() == b"*" {
        return Ok(Some(ExpectedRevision::Any));
    }
    if value.as_bytes().iter().all(u8::is_ascii_digit) {
        return Err(Problem::Malformed(
            "'If-Match' must have the revision in quotes, as the 'ETag' has it: \"2\".".to_owned(),
        ));
    }
    // Anything else is the tag of no revision.
    let tag = value
        .to_str()
        .ok()
        .and_then(|tag| tag.strip_prefix('"')?.strip_suffix('"'));
    let revision = tag.and_then(|tag| tag.parse().ok());
    match revision {
        Some(revision) if is_only => Ok(Some(ExpectedRevision::Only(revision))),
        _ => Err(Problem::LicenseRevised),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::Deserialize;
    use serde_json::Value;
    use warp::http::HeaderValue;

    use super::*;

    fn headers(name: &'static str, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_key_is_found_however_its_letters_are_written() {
        let key = LicenseKey::from_random([3; 20]);
        let escaped: String = key
            .reveal()
            .chars()
            .map(|letter| format!("\\u{:04x}", u32::from(letter)))
            .collect();
        let dashed = key.reveal().replace('-', "\\u2013");
        let soft = key.reveal().replace('-', "\\u00ad");
        let wide: String = key
            .reveal()
            .bytes()
            .filter(u8::is_ascii_alphanumeric)
            .map(|letter| format!("\\u{:04x}", u32::from(letter) + 0xfee0))
            .collect();
        for body in [
            format!("{{\"reference\":\"{escaped}\"}}"),
            format!("{{\"reference\":\"order {dashed}\"}}"),
            format!("{{\"{escaped}\":1}}"),
            format!("{{\"modules\":{{\"{dashed}\":[]}}}}"),
            format!("{{\"hosts\":[\"a.com\",\"{escaped}.com\"]}}"),
            format!("{{\"hosts\":[\"https://{soft}.com\"]}}"),
            format!("{{\"hosts\":[\"{wide}.com\"]}}"),
        ] {
            assert!(parse::<ReadValue>(body.as_bytes()).unwrap().has_key, "{body}");
        }
        let harmless = br#"{"reference":"order 7","hosts":["a.com"],"sites":3,"all":true,"expires":null,"x":-1.5}"#;
        assert!(!parse::<ReadValue>(harmless).unwrap().has_key);
    }

    #[test]
    fn the_fields_are_those_that_the_description_of_the_api_has() {
        fn add(names: &mut BTreeSet<String>, schema: &Value, api: &Value) {
            let name = schema["$ref"]
                .as_str()
                .and_then(|name| name.strip_prefix("#/components/schemas/"));
            if let Some(name) = name {
                add(names, &api["components"]["schemas"][name], api);
            }
            names.extend(
                schema["properties"]
                    .as_object()
                    .into_iter()
                    .flat_map(|object| object.keys().cloned()),
            );
            for parts in ["allOf", "anyOf", "oneOf"] {
                let parts = schema[parts].as_array().into_iter().flatten();
                parts.for_each(|part| add(names, part, api));
            }
        }
        let api: Value = serde_json::from_str(include_str!("../../../../public/openapi.json")).unwrap();
        let mut described = BTreeSet::new();
        for (path, operations) in api["paths"].as_object().unwrap() {
            if path.starts_with("/api/v1/licenses") || path.starts_with("/api/v1/rollouts") {
                for operation in operations.as_object().unwrap().values() {
                    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
                    add(&mut described, schema, &api);
                }
            }
        }
        let known: BTreeSet<_> = FIELDS.into_iter().chain(Rights::FIELDS).map(str::to_owned).collect();
        assert_eq!(known, described);
    }

    #[test]
    fn an_idempotency_key_is_there_once_and_visible() {
        let of = |values: &[&str]| idempotency_key(&headers("idempotency-key", values)).map(str::to_owned);
        assert_eq!(of(&["order-1/2"]), Ok("order-1/2".to_owned()));
        assert_eq!(of(&[]), Err(Problem::MissingField("Idempotency-Key")));
        for bad in [&["a", "b"][..], &["a b"], &[""]] {
            assert!(matches!(of(bad), Err(Problem::Malformed(_))), "{bad:?}");
        }
        assert!(of(&[&"x".repeat(255)]).is_ok());
        assert!(matches!(of(&[&"x".repeat(256)]), Err(Problem::FieldTooLong { .. })));
    }

    #[test]
    fn what_is_wrong_with_a_body_names_its_field_and_nothing_that_the_client_made_up() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code, reason = "only whether it can be read counts")]
        struct Body {
            expires: String,
            #[serde(default)]
            hosts: Vec<String>,
            #[serde(default)]
            modules: std::collections::BTreeMap<String, Vec<String>>,
        }
        let read = |body: &str| parse::<ReadValue>(body.as_bytes()).and_then(|_| parse::<Body>(body.as_bytes()));
        let place = |body: &str| match read(body).unwrap_err() {
            Problem::InBody { pointer, .. } => pointer,
            Problem::Malformed(_) => String::new(),
            other => panic!("{other:?}"),
        };
        for (body, expected) in [
            (r#"{"expires":7}"#, "/expires"),
            (r#"{"hosts":[]}"#, "/expires"),
            (r#"{"expires":"a","expires":"b"}"#, "/expires"),
            (r#"{"expires":"a","hosts":["a",7]}"#, "/hosts/1"),
            (r#"{"expires":"a","modules":{"mine":7}}"#, "/modules"),
            (r#"{"expires":"a","modules":{"mine":[7]}}"#, "/modules"),
            (r#"{"expires":"a","modules":{"mine":["a"],"mine":["b"]}}"#, "/modules"),
            (r#"{"expires":"a","modules":{"mine":[],"\u006dine":[]}}"#, "/modules"),
            (r#"{"expires":"a","modules":{"expires":[],"expires":[]}}"#, "/modules"),
            (r#"{"expires":"a","mine":7}"#, ""),
            (r#"{"expires":"a","mine":7,"mine":8}"#, ""),
            (r#"{"expires":"a"} x"#, ""),
        ] {
            assert_eq!(place(body), expected, "{body}");
        }
    }

    #[test]
    fn if_match_names_one_revision_or_any() {
        let of = |values: &[&str]| if_match(&headers("if-match", values));
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&["*"]), Ok(Some(ExpectedRevision::Any)));
        assert_eq!(of(&["\"7\""]), Ok(Some(ExpectedRevision::Only(7))));
        for other in [&["W/\"7\""][..], &["\"7\", \"8\""], &["\"7\"", "\"7\""], &["\"x\""]] {
            assert_eq!(of(other), Err(Problem::LicenseRevised), "{other:?}");
        }
        assert!(
            matches!(of(&["7"]), Err(Problem::Malformed(_))),
            "the quotes are missing"
        );
    }
}
