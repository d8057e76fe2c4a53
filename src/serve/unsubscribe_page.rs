//! `/unsubscribe/<token>`: the page with which a customer says no to reminders, by the link in one.
//!
//! GET and HEAD show a button and change nothing, because mail scanners open every link. POST changes it: that of the button, and that of
//! a mail program by one click (RFC 8058).

use askama::Template;
use hyper::body::Incoming;
use warp::http::{Method, Request, StatusCode};

use crate::serve::api::body;
use crate::serve::first_copy_page::{HTML, PageAnswer, with_headers};
use crate::serve::reply::outcome::{Code, Weight};
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::Response;
use crate::serve::state::Service;
use countersign_model::customer::NewCustomer;
use countersign_model::issued_license::Hex128;
use countersign_model::unsubscribe_token;

/// Size limit of a form in bytes. A mail program sends `List-Unsubscribe=One-Click`.
const MAX_FORM: usize = 1024;

#[derive(Template)]
#[template(path = "unsubscribe.html")]
struct UnsubscribePage {
    title: &'static str,
    sentence: &'static str,
    has_button: bool,
}

/// Answers GET, HEAD and POST; `token` is the part after [`PATH`](unsubscribe_token::PATH).
pub(super) async fn reply(service: &Service, token: &str, request: Request<Incoming>) -> PageAnswer {
    let is_post = request.method() == Method::POST;
    let done = match customer(service, token) {
        Ok(number) if is_post => unsubscribe(service, number, request).await,
        Ok(_) => Ok(()),
        Err(problem) => Err(problem),
    };
    let page = match &done {
        Ok(()) if is_post => UnsubscribePage {
            title: "No more reminders",
            sentence: "You get no reminders of the end of your licenses any more.",
            has_button: false,
        },
        Ok(()) => UnsubscribePage {
            title: "No more reminders?",
            sentence: "We remind you by mail when one of your licenses ends. The button stops that for all your licenses here.",
            has_button: true,
        },
        Err(Problem::UnknownLink) => UnsubscribePage {
            title: "This link is not valid",
            sentence: "Please copy the whole link from the mail, up to its last character.",
            has_button: false,
        },
        Err(_) => UnsubscribePage {
            title: "This does not work now",
            sentence: "Please try again in some minutes. Your link stays valid.",
            has_button: false,
        },
    };
    let (status, code, weight) = match &done {
        Ok(()) => (StatusCode::OK, Code::Ok, Weight::Request),
        Err(problem) => (problem.status(), problem.code(), problem.weight()),
    };
    match page.render() {
        Ok(html) => PageAnswer {
            code,
            weight,
            response: with_headers(
                Response {
                    status,
                    ..HTML.answer(html)
                }
                .into_http(),
            ),
        },
        Err(error) => {
            let problem = Problem::internal(&error);
            PageAnswer {
                code: problem.code(),
                weight: problem.weight(),
                response: with_headers(problem.into_response().into_http()),
            }
        }
    }
}

/// SECURITY: nothing is looked up before this.
fn customer(service: &Service, token: &str) -> Result<Hex128, Problem> {
    let snapshot = service.gate.load();
    let keys = snapshot.secrets.downloads.as_deref();
    let mut keys = keys.into_iter().flat_map(|keys| keys.all());
    keys.find_map(|key| unsubscribe_token::read(key, token))
        .ok_or(Problem::UnknownLink)
}

async fn unsubscribe(service: &Service, number: Hex128, request: Request<Incoming>) -> Result<(), Problem> {
    let work = async {
        // What it says does not matter: only whoever has the link posts to it.
        body::read(request, MAX_FORM).await?;
        let bindings = service.gate.bindings();
        // Nothing is kept of who was erased.
        if !bindings.is_erased(number) {
            bindings.keep_customer(NewCustomer::unsubscribed(number)).await?;
            tracing::info!(customer = %number, "a customer wants no reminders");
        }
        Ok(())
    };
    let done = tokio::time::timeout(service.request_timeout, work).await;
    done.unwrap_or(Err(Problem::RequestTimeout))
}
