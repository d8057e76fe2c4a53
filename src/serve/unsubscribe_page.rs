//! `/unsubscribe/<token>`: the page with which a customer says no to reminders, by the link in one.
//!
//! GET and HEAD change nothing. POST changes it: that of the button, and that of a mail program by one click (RFC 8058).

use hyper::body::Incoming;
use warp::http::{Method, Request};

use crate::serve::api::body;
use crate::serve::first_copy_page::CountedPage;
use crate::serve::link_page::{LinkPage, MAX_FORM};
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_model::customer::NewCustomer;
use countersign_model::issued_license::Hex128;
use countersign_model::unsubscribe_token;

/// Answers GET, HEAD and POST; `token` is the part after [`PATH`](unsubscribe_token::PATH).
pub(super) async fn reply(service: &Service, token: &str, request: Request<Incoming>) -> CountedPage {
    let is_post = request.method() == Method::POST;
    let done = match customer(service, token) {
        Ok(number) if is_post => unsubscribe(service, number, request).await,
        Ok(_) => Ok(()),
        Err(problem) => Err(problem),
    };
    let page = match &done {
        Ok(()) if is_post => LinkPage {
            title: "No more reminders",
            sentence: "You get no reminders of the end of your licenses any more.".to_owned(),
            button: None,
        },
        Ok(()) => LinkPage {
            title: "No more reminders?",
            sentence: "We remind you by mail when one of your licenses ends. The button stops that for all your licenses here."
                .to_owned(),
            button: Some("No more reminders"),
        },
        Err(Problem::UnknownLink) => LinkPage::unknown(),
        Err(_) => LinkPage::failed(),
    };
    page.answer(done.as_ref().err())
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
        // What it says does not matter: only a person with the link posts to it.
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
