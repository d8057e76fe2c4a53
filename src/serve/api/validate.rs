//! `POST /api/v1/validate-license`: parses the request, lets the gate decide, and sends a signed statement.
//!
//! Every well-formed request gets a signed answer. An unsigned answer decides nothing. Cheap checks come first.

use std::borrow::Cow;

use bytes::Bytes;
use chrono::Utc;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use serde::{Deserialize, Deserializer};
use warp::http::{HeaderMap, Request, header};

use crate::model::binding::CheckIn;
use crate::model::statement::{Grant, Statement, Verdict};
use crate::serve::api::params::{MAX_VERSION, at_most, build_id, find_license, license_id, site_host};
use crate::serve::gate::LicenseRequest;
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{JSON, Response};
use crate::serve::reported_copies;
use crate::serve::signing::pool::SignError;
use crate::serve::signing::queue::Lane;
use crate::serve::state::Service;

/// Size limit of the body in bytes.
const MAX_BODY: usize = 8 * 1024;

/// The longest nonce in bytes.
const MAX_NONCE: usize = 128;

/// The request body (interface 2.3). Every field is a string; unknown fields are ignored.
#[derive(Debug, Deserialize)]
#[allow(missing_docs, reason = "the fields are the interface's, documented there")]
pub struct Question<'a> {
    #[serde(borrow, default, deserialize_with = "text")]
    pub license_key: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    pub site_url: Option<Cow<'a, str>>,
    /// Legacy alias of `site_url`, which wins.
    #[serde(borrow, default, deserialize_with = "text")]
    pub domain: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    pub plugin_version: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    pub build_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    pub nonce: Option<Cow<'a, str>>,
}

/// A string and nothing else: serde would accept `null` as an absent field.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    #[derive(Deserialize)]
    struct JsonText<'a>(#[serde(borrow)] Cow<'a, str>);
    JsonText::deserialize(deserializer).map(|text| Some(text.0))
}

/// Answers a validation. The future may be dropped early: the binding is completed.
pub async fn reply(service: &Service, request: Request<Incoming>) -> Result<(Code, Response), Problem> {
    let body = read_body(request).await?;
    let question = parse(&body)?;
    let id = license_id(question.license_key.as_deref())?;
    let site_url = question
        .site_url
        .or(question.domain)
        .ok_or(Problem::MissingField("site_url"))?;
    let host = site_host(&site_url, service.local_hosts)?;
    at_most(MAX_NONCE, "nonce", question.nonce.as_deref())?;
    at_most(MAX_VERSION, "plugin_version", question.plugin_version.as_deref())?;
    let build_id = build_id(question.build_id.as_deref())?;

    let now = Utc::now();
    let snapshot = service.gate.snapshot();
    let found = find_license(service, &snapshot, &id)?;
    let license = found.as_deref();
    let plugin_version = question.plugin_version.as_deref();
    let check_in = CheckIn {
        time: now,
        build_id,
        plugin_version,
        current_version: None,
    };
    let license_request = LicenseRequest {
        id: &id,
        license,
        host: &host,
        check_in,
    };
    reported_copies::count(&service.metrics.reported_copies, &snapshot, &license_request);
    let decision = service.gate.validate(&license_request).await.map_err(Problem::from)?;
    if decision.verdict == Verdict::BoundElsewhere {
        // For abuse review: which build is used on which foreign site.
        tracing::info!(license = id.log_tag(), site = %host, build_id = build_id.map(tracing::field::display), "bound elsewhere");
    } else {
        tracing::debug!(license = id.log_tag(), site = %host, code = decision.verdict.code(), "validated");
    }

    let statement = Statement {
        verdict: decision.verdict,
        grant: license
            .filter(|_| decision.verdict == Verdict::Ok)
            .map(|license| Grant {
                modules: &license.modules,
                grace_period_hours: license.grace_period_hours.map_or(service.grace_period_hours, u32::from),
            }),
        expires: license.map(|license| license.expires),
        issued_at: now,
        nonce: question.nonce.as_deref(),
        site_url: &site_url,
        domain: &host,
        bound_domain: decision.bound_domain.as_ref(),
        key_id: snapshot.key.public().key_id(),
    };
    let lane = if license.is_some() {
        Lane::Licensed
    } else {
        Lane::Unknown
    };
    let signed = service
        .signer
        .sign(lane, snapshot.key.clone(), statement.to_unsigned())
        .await;
    let signed = signed.map_err(|error| match error {
        SignError::QueueFull => Problem::Overloaded,
        SignError::Failed => Problem::internal(&error),
    })?;
    Ok((decision.verdict.into(), JSON.answer(signed)))
}

/// Reads the body up to its limit.
async fn read_body(request: Request<Incoming>) -> Result<Bytes, Problem> {
    let (head, body) = request.into_parts();
    if !is_json(&head.headers) || !is_uncoded(&head.headers) {
        return Err(Problem::UnsupportedMediaType);
    }
    // The announced length alone can be too large.
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(Problem::PayloadTooLarge(MAX_BODY));
    }
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::PayloadTooLarge(MAX_BODY)),
        Err(_) => Err(Problem::Malformed(
            "The connection ended before the whole body arrived.".to_owned(),
        )),
    }
}

/// Whether the body has no content coding, or `identity` (RFC 9110 section 12.5.3).
fn is_uncoded(headers: &HeaderMap) -> bool {
    let all = headers.get_all(header::CONTENT_ENCODING).iter();
    all.flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .all(|coding| coding.trim_ascii().is_empty() || coding.trim_ascii().eq_ignore_ascii_case(b"identity"))
}

/// Whether the media type is JSON (RFC 6838 section 4.2.8 for `+json`) or absent.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return true;
    };
    let Ok(value) = value.to_str() else { return false };
    let media_type = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type == "application/json" || media_type.starts_with("application/") && media_type.ends_with("+json")
}

/// Parses a request body. The error is [`Problem::Malformed`], which never quotes the body.
pub fn parse(body: &[u8]) -> Result<Question<'_>, Problem> {
    // serde would also accept an array for a struct.
    let is_object = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    // SECURITY: the parser's own message may quote the body, which has a license key.
    let malformed = |place: String| {
        Problem::Malformed(format!(
            "The body must be one JSON object in UTF-8. Its fields must be strings, each at most once{place}."
        ))
    };
    if !is_object {
        return Err(malformed(String::new()));
    }
    serde_json::from_slice(body)
        .map_err(|error| malformed(format!("; see line {}, column {}", error.line(), error.column())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_malformed(body: &[u8]) -> bool {
        matches!(parse(body), Err(Problem::Malformed(_)))
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
