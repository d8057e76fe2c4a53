//! Answers clients of Easy Digital Downloads' Software Licensing, from the same gate as our own clients.
//!
//! [`question`] parses a request, [`licenses`] answers about a license, and [`versions`] about the latest release.
//! A "no" is said only where the gate said no. What cannot be asked is 503: these
//! clients keep what they know after anything but 200.

pub(crate) mod items;
pub(crate) mod licenses;
pub(crate) mod question;
pub(crate) mod versions;

use std::net::IpAddr;

use hyper::body::Incoming;
use warp::http::Request;

use crate::serve::api::body;
use crate::serve::compat::question::EddQuestion;
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{JSON, Response};
use crate::serve::state::Service;

/// Size limit of a form in bytes: a site may ask about several plugins at once.
const MAX_FORM: usize = 16 * 1024;

/// Whether a request is one of EDD's clients: its path is that of the shop, and its query names an action, or it posts.
pub(crate) fn is_asked(path: &str, query: Option<&str>, is_post: bool) -> bool {
    matches!(path, "/" | "/edd" | "/edd/")
        && (is_post || query.is_some_and(|query| question::names_action(query.as_bytes())))
}

/// Answers a request.
pub(crate) async fn reply(
    service: &Service,
    client: IpAddr,
    request: Request<Incoming>,
) -> Result<(Code, Response), Problem> {
    answer(service, client, request).await.map_err(unavailable)
}

async fn answer(service: &Service, client: IpAddr, request: Request<Incoming>) -> Result<(Code, Response), Problem> {
    let is_get = matches!(request.method().as_str(), "GET" | "HEAD");
    let query = request.uri().query().unwrap_or_default().to_owned();
    let agent = request.headers().get(warp::http::header::USER_AGENT);
    let agent = agent
        .and_then(|agent| agent.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let form = match is_get {
        true => bytes::Bytes::new(),
        false => body::read_form(request, MAX_FORM).await?,
    };
    let question = EddQuestion::parse(query.as_bytes(), &form, &agent)?;
    service.catch_up().await;
    let (code, document) = match question.action.as_str() {
        "check_license" => licenses::check(service, &question).await?,
        "activate_license" => licenses::activate(service, &question).await?,
        "deactivate_license" => licenses::deactivate(service, &question).await?,
        "get_version" => versions::latest(service, client, &question).await?,
        _ => {
            return Err(Problem::Malformed(
                "'edd_action' must be check_license, activate_license, deactivate_license or get_version.".to_owned(),
            ));
        }
    };
    // It always serializes.
    Ok((code, JSON.answer(serde_json::to_vec(&document).unwrap_or_default())))
}

/// A rate limit is no answer about a license either.
pub(crate) fn unavailable(problem: Problem) -> Problem {
    match problem {
        Problem::TooManyRequests(_) => Problem::Overloaded,
        problem => problem,
    }
}
