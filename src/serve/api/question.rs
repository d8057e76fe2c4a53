//! The JSON body of the operations that sites POST to: read, parsed, and checked field by field.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::body::Incoming;
use serde::{Deserialize, Deserializer};
use warp::http::Request;

use crate::serve::api::body;
use crate::serve::api::params::at_most;
use crate::serve::reply::problem::Problem;
use countersign_model::site_release::ReleaseHash;

/// Size limit of the body in bytes.
const MAX_BODY: usize = 8 * 1024;

/// The longest nonce in bytes.
pub const MAX_NONCE: usize = 128;

/// The longest release secret in bytes.
const MAX_SECRET: usize = 128;

/// The fields of a request body.
const FIELDS: [&str; 12] = [
    "license_key",
    "site_url",
    "new_site_url",
    "domain",
    "plugin_version",
    "build_id",
    "nonce",
    "release_hash",
    "release_secret",
    "plugin",
    "wp_version",
    "php_version",
];

/// The request body (interface 2.3). Every field is a string; unknown fields are ignored.
#[derive(Debug, Deserialize)]
#[allow(missing_docs, reason = "the fields are the interface's, documented there")]
pub struct Question<'a> {
    #[serde(borrow, default, deserialize_with = "text")]
    pub license_key: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    pub site_url: Option<Cow<'a, str>>,
    /// Of a release: the address that the site moves to.
    #[serde(borrow, default, deserialize_with = "text")]
    pub new_site_url: Option<Cow<'a, str>>,
    /// Legacy alias of `site_url`, which wins.
    #[serde(borrow, default, deserialize_with = "text")]
    pub domain: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    pub plugin_version: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    pub build_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    pub nonce: Option<Cow<'a, str>>,
    /// Of a validation, or of a release for the site at `new_site_url`.
    #[serde(borrow, default, deserialize_with = "text")]
    pub release_hash: Option<Cow<'a, str>>,
    /// Of a release, or of a validation that takes a seat back.
    #[serde(borrow, default, deserialize_with = "text")]
    pub release_secret: Option<Cow<'a, str>>,
    /// Of a validation: what is counted by day. What is no text counts as not sent.
    #[serde(borrow, default, deserialize_with = "lenient_text")]
    pub plugin: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "lenient_text")]
    pub wp_version: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "lenient_text")]
    pub php_version: Option<Cow<'a, str>>,
}

impl Question<'_> {
    /// The site's address as it was sent.
    pub fn site_url(&self) -> Result<&str, Problem> {
        let given = self.site_url.as_deref().or(self.domain.as_deref());
        given.ok_or(Problem::MissingField("site_url"))
    }

    /// The hash of the secret that shall release the site; an empty one counts as not sent.
    pub fn release_hash(&self) -> Result<Option<ReleaseHash>, Problem> {
        match self.release_hash.as_deref() {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| Problem::ReleaseHash),
        }
    }

    /// The address that the site moves to; an empty one counts as not sent.
    pub fn new_site_url(&self) -> Option<&str> {
        self.new_site_url.as_deref().filter(|address| !address.is_empty())
    }

    /// The hash of the secret that came with the request; an empty one counts as not sent.
    pub fn release_proof(&self) -> Result<Option<ReleaseHash>, Problem> {
        let secret = self.release_secret.as_deref().filter(|secret| !secret.is_empty());
        at_most(MAX_SECRET, "release_secret", secret)?;
        Ok(secret.map(ReleaseHash::of))
    }
}

/// A string and nothing else: serde would accept `null` as an absent field.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    #[derive(Deserialize)]
    struct JsonText<'a>(#[serde(borrow)] Cow<'a, str>);
    JsonText::deserialize(deserializer).map(|text| Some(text.0))
}

/// A string, or anything else, which is ignored.
fn lenient_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum JsonValue<'a> {
        Text(#[serde(borrow)] Cow<'a, str>),
        Other(serde::de::IgnoredAny),
    }
    JsonValue::deserialize(deserializer).map(|value| match value {
        JsonValue::Text(text) => Some(text),
        JsonValue::Other(_) => None,
    })
}

/// Reads the body up to its limit.
pub async fn read_body(request: Request<Incoming>) -> Result<Bytes, Problem> {
    body::read_json(request, MAX_BODY).await
}

/// Parses a request body. The error is [`Problem::Malformed`], with the field where one is wrong. It never quotes the body.
pub fn parse(body: &[u8]) -> Result<Question<'_>, Problem> {
    // serde would also accept an array for a struct.
    let is_object = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    // SECURITY: the parser's own message may quote the body, which has a license key.
    let malformed = |place: String| {
        format!("The body must be one JSON object in UTF-8. Its fields must be strings, each at most once{place}.")
    };
    if !is_object {
        return Err(Problem::Malformed(malformed(String::new())));
    }
    body::read_value(body, &FIELDS).map_err(|(pointer, error)| {
        let detail = malformed(format!("; see line {}, column {}", error.line(), error.column()));
        match pointer.is_empty() {
            true => Problem::Malformed(detail),
            false => Problem::malformed_field(pointer, detail),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::reply::outcome::Code;

    fn is_malformed(body: &[u8]) -> bool {
        parse(body).is_err_and(|problem| problem.code() == Code::MalformedRequest)
    }

    #[test]
    fn a_field_that_is_no_string_or_there_twice_is_named() {
        for (body, expected) in [
            (&b"{\"nonce\":1}"[..], Some("/nonce")),
            (b"{\"nonce\":\"a\",\"nonce\":\"b\"}", Some("/nonce")),
            (b"{\"x\":{\"nonce\":1},\"license_key\":[]}", Some("/license_key")),
            (b"{\"nonce\":\"\xff\"}", Some("/nonce")),
            (b"{\"x\":}", None),
            (b"{\"nonce\":\"a\"} 7", None),
        ] {
            let found = match parse(body).err() {
                Some(Problem::InBody { pointer, .. }) => Some(pointer),
                _ => None,
            };
            assert_eq!(found.as_deref(), expected, "{}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn only_an_object_of_strings_each_once_is_a_question() {
        for bad in [
            &b""[..],
            b"null",
            b"[]",
            b"[\"K\",\"a.com\"]",
            b"\"x\"",
            b"{",
            b"{}x",
            b"{\"nonce\":1}",
            b"{\"nonce\":null}",
            b"{\"nonce\":[\"a\"]}",
            b"{\"nonce\":\"a\",\"nonce\":\"b\"}",
            b"{\"nonce\":\"\xff\"}",
            b"{\"nonce\":\"\\ud800\"}",
        ] {
            assert!(is_malformed(bad), "{}", String::from_utf8_lossy(bad));
        }
        let counted = parse(br#"{"plugin":{"a":[1]},"wp_version":null,"php_version":"8.3\u002e1"}"#).unwrap();
        assert_eq!((counted.plugin, counted.wp_version), (None, None));
        assert_eq!(counted.php_version.as_deref(), Some("8.3.1"));
        assert!(
            parse(b" {\"extra\":{\"a\":[1]},\"extra\":2,\"nonce\":\"a\\u0062\"}")
                .is_ok_and(|q| q.nonce.as_deref() == Some("ab"))
        );
    }

    #[test]
    fn what_was_sent_is_never_quoted() {
        let Err(problem) = parse(b"{\"license_key\":{\"CANARY\":1}}") else {
            panic!("it is malformed")
        };
        assert!(!format!("{problem:?}").contains("CANARY"));
    }
}
