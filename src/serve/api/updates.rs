//! `GET /api/v1/updates/<plugin>`: parses the request, lets the gate decide, and sends the manifest.
//!
//! If this server has the package, the manifest gets the site's link to it; otherwise it is sent unchanged.

use std::borrow::Cow;

use bytes::Bytes;
use chrono::Utc;
use url::form_urlencoded;
use warp::http::{HeaderMap, HeaderValue, header};

use crate::serve::api::params::{
    MAX_VERSION, at_most, build_id, find_license, license_id, reported_version, site_host,
};
use crate::serve::day_tally;
use crate::serve::gate::{LicenseRequest, UpdateWish};
use crate::serve::links::LinkHolder;
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{JSON, Response};
use crate::serve::state::Service;
use countersign_ledger::LedgerLook;
use countersign_model::binding::CheckIn;
use countersign_model::channel::Channel;
use countersign_model::entitlement::Refusal;
use countersign_model::version::Version;

/// The parameters of the operation (interface 4.2). Unknown ones are ignored: updater clients add their own.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "the fields are the interface's, documented there")]
pub struct UpdateQuestion<'a> {
    pub license_key: Option<Cow<'a, str>>,
    pub site_url: Option<Cow<'a, str>>,
    /// Legacy alias of `site_url`, which wins.
    pub domain: Option<Cow<'a, str>>,
    pub current_version: Option<Cow<'a, str>>,
    pub build_id: Option<Cow<'a, str>>,
    pub channel: Option<Cow<'a, str>>,
    pub holds: Option<Cow<'a, str>>,
    pub wave: Option<Cow<'a, str>>,
}

/// Answers an update request for the plugin `slug`. If it is refused because of what the ledger says, and other nodes may
/// have appended to it, the answer is decided again after a look at the shared ledger.
pub async fn reply(
    service: &Service,
    slug: &str,
    headers: &HeaderMap,
    query: &str,
) -> Result<(Code, Response), Problem> {
    service.catch_up().await;
    let first = match decide(service, slug, headers, query, Look::First) {
        Ok(answer) => return Ok(answer),
        Err(first) => first,
    };
    match first
        .rests_on_ledger
        .then(|| service.gate.bindings().refresh(LedgerLook::Read))
        .flatten()
    {
        None => Err(first.problem),
        Some(refresh) => {
            service.within_deadline(refresh).await?;
            decide(service, slug, headers, query, Look::Again).map_err(|refused| refused.problem)
        }
    }
}

/// A request that gets no answer but a problem.
struct Unanswered {
    problem: Problem,
    /// Whether a node that has read more of the ledger may answer otherwise.
    rests_on_ledger: bool,
}

impl From<Problem> for Unanswered {
    fn from(problem: Problem) -> Self {
        Self {
            problem,
            rests_on_ledger: false,
        }
    }
}

/// Whether a request is decided for the first time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    First,
    /// After a look at the shared ledger; its license's rate limit was charged before.
    Again,
}

fn decide(
    service: &Service,
    slug: &str,
    headers: &HeaderMap,
    query: &str,
    look: Look,
) -> Result<(Code, Response), Unanswered> {
    let question = parse(headers, query)?;
    let id = license_id(service, question.license_key.as_deref())?;
    let snapshot = service.gate.load();
    let site_url = question
        .site_url
        .or(question.domain)
        .ok_or(Problem::MissingField("site_url"))?;
    let host = site_host(service, &id, &site_url)?;
    at_most(MAX_VERSION, "current_version", question.current_version.as_deref())?;
    let build_id = build_id(question.build_id.as_deref())?;

    // An invalid version counts as absent.
    let current: Option<Version> =
        reported_version(service, &id, question.current_version.as_deref()).and_then(|version| version.parse().ok());
    let current_version = current.as_ref().map(|version| (slug, version.as_str()));
    let check_in = CheckIn {
        time: Utc::now(),
        build_id,
        plugin_version: None,
        current_version,
    };
    let wish = UpdateWish {
        current: current.as_ref(),
        newer_than: current.as_ref(),
        holds: question.holds.as_deref() == Some("1"),
        wave: question.wave.as_deref().and_then(|wish| wish.parse().ok()),
        channel: question.channel.as_deref().map(Channel::asked).unwrap_or_default(),
    };
    let found = match look {
        Look::First => find_license(service, &snapshot, &id)?,
        Look::Again => service.gate.license(&snapshot, &id),
    };
    let license = found.as_deref();
    let bound = service.gate.bindings().of(&id);
    let license_request = LicenseRequest {
        id: &id,
        license,
        host: &host,
        check_in,
    };
    let decided = service.gate.manifest(&snapshot, &license_request, &bound, slug, &wish);
    let code = match &decided {
        Ok(Some(_)) => "update",
        Ok(None) => "up_to_date",
        Err(_) => "refused",
    };
    tracing::debug!(license = id.log_tag(), site = %host, code, "asked for updates");
    let plugin = license.and_then(|license| day_tally::covered(&snapshot.registry, license, slug));
    let count = |code| {
        if let Some(plugin) = plugin {
            service.tally.update(plugin, code, license_request.check_in.time);
        }
    };
    let offered = decided.map_err(|refusal| {
        let rests_on_ledger = refusal.rests_on_ledger();
        let news = || {
            service
                .gate
                .latest_for_expired(&snapshot, &license_request, &bound, slug, current.as_ref())
        };
        let problem = match (refusal == Refusal::LicenseExpired).then(news).flatten() {
            Some(latest) => Problem::Expired(latest),
            None => Problem::Refused(refusal),
        };
        // One that is decided again is counted then.
        let is_decided_again = rests_on_ledger && look == Look::First && service.gate.bindings().node().is_some();
        if !is_decided_again {
            count(problem.code());
        }
        Unanswered {
            problem,
            rests_on_ledger,
        }
    })?;
    let Some(offered) = offered else {
        count(Code::UpToDate);
        return Ok((Code::UpToDate, JSON.answer(Bytes::from_static(b"{}"))));
    };
    count(Code::Update);
    let holder = LinkHolder {
        license: &id,
        host: &host,
        now: license_request.check_in.time,
        line: None,
    };
    let body = service
        .links
        .fill(offered, slug, holder, snapshot.secrets.downloads.as_deref());
    let answer = JSON.answer(Bytes::new());
    Ok((Code::Update, Response { body, ..answer }))
}

/// Parses the query, and the license key in the header. A repeated parameter is [`Problem::Malformed`].
pub fn parse<'a>(headers: &'a HeaderMap, query: &'a str) -> Result<UpdateQuestion<'a>, Problem> {
    let mut question = UpdateQuestion::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let field = match &*name {
            "license_key" => &mut question.license_key,
            "site_url" => &mut question.site_url,
            "domain" => &mut question.domain,
            "current_version" => &mut question.current_version,
            "build_id" => &mut question.build_id,
            "channel" => &mut question.channel,
            "holds" => &mut question.holds,
            "wave" => &mut question.wave,
            _ => continue,
        };
        put(field, &name, value)?;
    }
    for value in headers.get_all(header::AUTHORIZATION) {
        if let Some(key) = license_credentials(value) {
            put(&mut question.license_key, "license_key", key.into())?;
        }
    }
    Ok(question)
}

fn put<'a>(field: &mut Option<Cow<'a, str>>, name: &str, value: Cow<'a, str>) -> Result<(), Problem> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(Problem::Malformed(format!("'{name}' is given more than once."))),
    }
}

/// The key in `Authorization: License <key>`; schemes are case-insensitive (RFC 9110 section 11.1). Other schemes are
/// for proxies.
fn license_credentials(value: &HeaderValue) -> Option<&str> {
    let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("License").then(|| key.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(authorization: &[&'static str]) -> HeaderMap {
        authorization
            .iter()
            .map(|value| (header::AUTHORIZATION, HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn the_key_may_come_in_the_query_or_in_the_header_and_only_once() {
        let none = headers(&[]);
        assert_eq!(
            parse(&none, "license_key=K+1&x=y").unwrap().license_key.as_deref(),
            Some("K 1")
        );
        let one = headers(&["license  K1"]);
        assert_eq!(
            parse(&one, "site_url=a.com").unwrap().license_key.as_deref(),
            Some("K1")
        );
        assert!(matches!(parse(&one, "license_key=K1"), Err(Problem::Malformed(_))));
        assert!(matches!(
            parse(&headers(&["License a", "License a"]), ""),
            Err(Problem::Malformed(_))
        ));
        assert!(
            parse(&headers(&["Basic a", "Bearer b"]), "")
                .unwrap()
                .license_key
                .is_none()
        );
    }

    #[test]
    fn a_parameter_given_twice_is_malformed_and_an_unknown_one_ignored() {
        let none = headers(&[]);
        assert!(parse(&none, "a=1&a=2&site_url=x").is_ok());
        for name in [
            "license_key",
            "site_url",
            "domain",
            "current_version",
            "build_id",
            "channel",
            "holds",
            "wave",
        ] {
            let encoded = name.replace('i', "%69").replace('m', "%6D").replace('u', "%75");
            for (first, second) in [(name, name), (name, &encoded), (&encoded, name)] {
                let query = format!("{first}=1&{second}=1");
                assert!(matches!(parse(&none, &query), Err(Problem::Malformed(_))), "{query}");
            }
        }
    }
}
