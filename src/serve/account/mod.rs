//! The customer's page, `/account`: what somebody has, by the address that it was bought with, or by the key alone.
//!
//! A request passes [`page_table`] (does the page exist?), the session (who asks?), and a page. It shares signing in, sessions, answers
//! and forms with the desk, under another label, and its steps call what the desk and the clients call. GET and HEAD change nothing.

mod asked;
mod by_key;
mod changes;
mod composer_tokens;
mod downloads;
mod frame;
mod license_page;
mod licenses;
mod list_part;
mod page_table;
mod problem;
pub mod setup;
mod shown_license;
mod sign_in;
pub mod words;

use std::net::IpAddr;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use hyper::body::Incoming;
use tokio::time::timeout;
use warp::http::Request;

use crate::serve::account::asked::{AccountAsked, AccountVisitor};
use crate::serve::account::by_key::KeyLookUp;
use crate::serve::account::page_table::AccountPage;
use crate::serve::account::problem::{AccountProblem, AccountRefusal};
use crate::serve::account::setup::AccountSetup;
use crate::serve::account::sign_in::AccountSignIn;
use crate::serve::account::words::AccountWords;
use crate::serve::api::body;
use crate::serve::first_copy_page::CountedPage;
use crate::serve::net::handler::Sending;
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::form::FormFields;
use crate::serve::pages::label::PageLabel;
use crate::serve::pages::session::{PageSession, SessionEnds};
use crate::serve::reply::outcome::{Code, Weight};
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::ContentType;
use crate::serve::state::Service;

const CSS: ContentType = ContentType("text/css; charset=utf-8");

/// Size limit of a form in bytes.
const MAX_FORM: usize = 8 << 10;

/// An answer that is made.
enum Answered {
    Page(PageAnswer),
    /// A package.
    Package(Code, Sending),
}

impl From<PageAnswer> for Answered {
    fn from(page: PageAnswer) -> Self {
        Self::Page(page)
    }
}

/// Answers GET, HEAD and POST.
pub(super) async fn reply(
    service: &Arc<Service>,
    setup: &Arc<AccountSetup>,
    client: IpAddr,
    request: Request<Incoming>,
) -> CountedPage {
    let (style, sheet) = &setup.style;
    if request.uri().path() == style {
        let sheet = PageAnswer::File(CSS, sheet.clone());
        return counted(Code::Ok, Weight::Request, sheet.into_http());
    }
    let Some(words) = setup.texts.of(request.headers()) else {
        let problem = Problem::internal(&"there are no words for the customer's page");
        return counted(problem.code(), problem.weight(), problem.into_response().into_http());
    };
    let is_mail = request.uri().path() == PageLabel::ACCOUNT.sign_in && request.method() == warp::http::Method::POST;
    let visit = Visit {
        service,
        setup,
        words,
        client,
        now: Utc::now(),
    };
    let answered = timeout(service.request_timeout, Box::pin(visit.answer(request))).await;
    match answered.unwrap_or_else(|_| Err(AccountRefusal::NotNow.into())) {
        // A client that asks for mails for many addresses guesses, whether they are known or not.
        Ok(Answered::Page(page)) if is_mail => counted(Code::Ok, Weight::WrongKey, page.into_http()),
        Ok(Answered::Page(page)) => counted(Code::Ok, Weight::Request, page.into_http()),
        Ok(Answered::Package(code, response)) => counted(code, Weight::Request, response),
        Err(problem) => {
            let page = frame::problem_page(setup, words, &problem);
            counted(problem.code(), problem.weight(), page.into_http())
        }
    }
}

fn counted(code: Code, weight: Weight, response: Sending) -> CountedPage {
    CountedPage { code, weight, response }
}

/// A request, and what it is answered with.
struct Visit<'a> {
    service: &'a Arc<Service>,
    setup: &'a Arc<AccountSetup>,
    words: &'a AccountWords,
    client: IpAddr,
    now: DateTime<Utc>,
}

impl Visit<'_> {
    async fn answer(&self, request: Request<Incoming>) -> Result<Answered, AccountProblem> {
        let Self {
            service,
            setup,
            words,
            client,
            now,
        } = *self;
        let path = request.uri().path().to_owned();
        if path == "/" {
            return Ok(PageAnswer::SeeOther("/account".to_owned()).into());
        }
        let found = page_table::find(request.method(), &path);
        let (page, is_post, name) = found.ok_or(AccountRefusal::NotFound)?;
        if is_post && !setup.origin.has_sent(request.headers()) {
            return Err(AccountRefusal::ForeignForm.into());
        }
        let snapshot = service.gate.snapshot();
        let Some(secrets) = snapshot.secrets.licensing.clone() else {
            tracing::warn!("the customer's page is closed: the keys that sessions are signed with are not there");
            return Err(AccountRefusal::NotNow.into());
        };
        let key = secrets.references().current();
        let ends = SessionEnds {
            label: PageLabel::ACCOUNT,
            key,
            ledger: service.gate.bindings(),
        };
        let session = PageSession::of(ends.label, request.headers(), setup.origin.is_https, key, now);
        let session = session.filter(|session| !ends.has(session));
        let is_back = request.uri().query() == Some("signed-in");
        let fields = match is_post {
            false => FormFields::of(request.uri().query().unwrap_or_default().as_bytes()),
            true => FormFields::of(&body::read_form(request, MAX_FORM).await?),
        };
        let sign_in = AccountSignIn {
            service,
            setup,
            secrets: &secrets,
            words,
            fields: &fields,
            name,
            now,
        };
        if matches!(page, AccountPage::Key | AccountPage::LookUp) {
            let look_up = KeyLookUp {
                service,
                setup,
                words,
                fields: &fields,
                now,
            };
            return Ok(look_up.answer(page).await?.into());
        }
        if page.is_for_anyone() {
            return Ok(sign_in.answer(page).await?.into());
        }
        let visitor = match session {
            Some(session) => AccountVisitor::of(session, service.gate.bindings()).await?,
            None => None,
        };
        let Some(visitor) = visitor else {
            return Ok(match page {
                AccountPage::Licenses => sign_in.first_page(is_back),
                _ => PageAnswer::SeeOther(PageLabel::ACCOUNT.sign_in.to_owned()),
            }
            .into());
        };
        if page == AccountPage::SignOut {
            // The browser forgets it, also while the store cannot be used.
            if let Err(error) = ends.end(&visitor.session, now).await {
                tracing::warn!(%error, "a session of a customer was ended in its browser alone");
            }
            return Ok(PageAnswer::SignedOut {
                label: ends.label,
                is_https: setup.origin.is_https,
            }
            .into());
        }
        let asked = AccountAsked {
            service,
            setup,
            secrets: &secrets,
            snapshot: &snapshot,
            visitor: &visitor,
            words,
            fields: &fields,
            name,
            client,
            now,
        };
        Ok(match page {
            AccountPage::Licenses => licenses::page(&asked).await?,
            AccountPage::License => license_page::page(&asked).await?,
            AccountPage::AskMove => license_page::ask_move(&asked).await?,
            AccountPage::Move => changes::move_site(&asked).await?,
            AccountPage::MailKey => changes::mail_key(&asked).await?,
            AccountPage::AskNewKey => license_page::ask_new_key(&asked).await?,
            AccountPage::NewKey => changes::new_key(&asked).await?,
            AccountPage::Downloads => downloads::page(&asked).await?,
            AccountPage::AskComposer => composer_tokens::page(&asked).await?,
            AccountPage::Composer => composer_tokens::change(&asked).await?,
            AccountPage::Download => {
                let (code, response) = downloads::package(&asked).await?;
                return Ok(Answered::Package(code, response));
            }
            _ => return Err(AccountRefusal::NotFound.into()),
        }
        .into())
    }
}
