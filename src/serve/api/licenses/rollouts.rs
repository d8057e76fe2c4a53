//! `/api/v1/rollouts/…`: how releases reach sites in steps, for programs with the scope `rollouts:read` or `rollouts:write`.

use hyper::body::Incoming;
use serde::Deserialize;
use warp::http::{HeaderMap, Method, StatusCode};

use crate::serve::api::licenses::body::read;
use crate::serve::api::licenses::caller::Caller;
use crate::serve::api::licenses::document::LicenseAnswer;
use crate::serve::api::licenses::fields::present;
use crate::serve::ops::rollout_answers::{self, RolloutOrder, RolloutReply};
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{JSON, Response};
use crate::serve::state::Service;
use countersign_model::api_token::TokenScope;
use countersign_model::slug::Slug;
use countersign_model::version::Version;

/// The path of all rollouts.
pub(super) const ROLLOUTS: &str = "/api/v1/rollouts/";

/// The body of a step.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepBody {
    #[serde(default, deserialize_with = "present")]
    version: Option<Version>,
    #[serde(default, deserialize_with = "present")]
    reason: Option<String>,
}

/// The answer to the path below [`ROLLOUTS`]: a plugin, or a plugin and a step.
pub(super) async fn reply(
    service: &Service,
    caller: &Caller,
    path: &str,
    method: &Method,
    headers: &HeaderMap,
    incoming: Incoming,
) -> Result<LicenseAnswer, Problem> {
    let (slug, verb) = match path.split_once('/') {
        None => (path, None),
        Some((slug, step)) => (slug, Some(step.parse().map_err(|_| Problem::NotFound)?)),
    };
    let slug: Slug = slug.parse().map_err(|_| Problem::NotFound)?;
    let is_get = matches!(*method, Method::GET | Method::HEAD);
    let mut order = RolloutOrder {
        slug,
        version: None,
        verb,
        reason: None,
    };
    match verb {
        None if is_get => caller.require(TokenScope::RolloutsRead)?,
        None => return Err(Problem::MethodNotAllowed("GET, HEAD")),
        Some(_) if *method == Method::POST => {
            caller.require(TokenScope::RolloutsWrite)?;
            let StepBody { version, reason } = read(headers, incoming).await?;
            order = RolloutOrder {
                version,
                reason,
                ..order
            };
        }
        Some(_) => return Err(Problem::MethodNotAllowed("POST")),
    }
    match rollout_answers::of_service(service, &order, &caller.scope.to_string()).await? {
        RolloutReply::Done(report) => Ok(LicenseAnswer {
            response: Response {
                status: StatusCode::OK,
                // Texts, numbers and times always serialize.
                ..JSON.answer(serde_json::to_vec(&report).unwrap_or_default())
            },
            headers: Vec::new(),
        }),
        RolloutReply::Unknown(_) => Err(Problem::NotFound),
        RolloutReply::Refused(why) => Err(Problem::Conflict(sentence(&why))),
    }
}

/// `there is none` → `There is none.`
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters
        .next()
        .map(|letter| letter.to_uppercase().collect())
        .unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}
