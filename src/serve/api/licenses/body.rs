//! Headers and bodies of the management API: JSON objects without unknown fields.

use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};
use warp::http::{HeaderMap, Request, header};

use crate::serve::api::body;
use crate::serve::api::licenses::fields::EXPECTED;
use crate::serve::ledger_licenses::ExpectedRevision;
use crate::serve::reply::problem::Problem;
use countersign_model::license_key::LicenseKey;
use countersign_model::site_host::SiteHost;

/// Size limit of a body in bytes: twice what a line of the ledger can have.
const MAX_BODY: usize = 8 * 1024;

/// The fields of all bodies.
const FIELDS: [&str; 11] = [
    "address",
    "all",
    "expires",
    "grace_period_hours",
    "host",
    "hosts",
    "modules",
    "reference",
    "site_moves",
    "sites",
    "staging_sites",
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
    let value: Value = parse(object)?;
    if has_key(&value) {
        return Err(Problem::Malformed(
            "The body has a license key. Name a license by its id.".to_owned(),
        ));
    }
    parse(object)
}

/// Whether a name or a text in it has a license key, as it is or as a host: hosts lose what is invisible in them.
fn has_key(value: &Value) -> bool {
    let is_in = |text: &str| {
        let host = text.parse::<SiteHost>();
        LicenseKey::is_in(text) || host.is_ok_and(|host| LicenseKey::is_in(host.as_str()))
    };
    match value {
        Value::String(text) => is_in(text),
        Value::Array(items) => items.iter().any(has_key),
        Value::Object(members) => members.iter().any(|(name, value)| is_in(name) || has_key(value)),
        _ => false,
    }
}

/// Parses an object.
// SECURITY: the parser's own message may quote the body, and ours do not.
fn parse<T: DeserializeOwned>(object: &[u8]) -> Result<T, Problem> {
    let mut parser = serde_json::Deserializer::from_slice(object);
    let read = serde_path_to_error::deserialize(&mut parser);
    let read = read.map_err(|error| (pointer(error.path(), &error.inner().to_string()), error.into_inner()));
    let read = read.and_then(|value| parser.end().map(|()| value).map_err(|error| (String::new(), error)));
    read.map_err(|(pointer, error)| {
        let said = error.to_string();
        let expected = EXPECTED.into_iter().find(|expected| said.starts_with(expected));
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

/// The JSON Pointer (RFC 6901) of a place in a body, up to the first name that is not one of ours: that may be anything. Of a
/// field that is missing or there twice, the parser's message has the name and its path has not.
fn pointer(path: &Path, said: &str) -> String {
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer += &format!("/{index}"),
            Segment::Map { key } if FIELDS.contains(&key.as_str()) => pointer += &format!("/{key}"),
            _ => break,
        }
    }
    let named = ["missing field `", "duplicate field `"];
    let named = named
        .iter()
        .find_map(|start| said.strip_prefix(start)?.split('`').next());
    if let Some(field) = named.filter(|field| pointer.is_empty() && FIELDS.contains(field)) {
        pointer = format!("/{field}");
    }
    pointer
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
    use serde::Deserialize;
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
            assert!(has_key(&serde_json::from_str(&body).unwrap()), "{body}");
        }
        assert!(!has_key(
            &serde_json::json!({ "reference": "order 7", "hosts": ["a.com"], "sites": 3 })
        ));
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
        let place = |body: &str| match parse::<Body>(body.as_bytes()).unwrap_err() {
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
            (r#"{"expires":"a","mine":7}"#, ""),
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
