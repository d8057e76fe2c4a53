//! The desk: the page on which the vendor's people see and change licenses, on a listener of its own.
//!
//! A request passes [`own_host`] (is it for us?), [`page_table`] (does the page exist?), [`visitor`] (who asks, and may they?),
//! and a page. A page uses the functions of the management API and the commands. GET and HEAD change nothing.

mod asked;
mod changes_page;
mod charts;
mod delivery_page;
pub mod door;
mod figures;
mod frame;
mod health_page;
mod kept_figures;
mod license_changes;
mod license_export;
mod license_history;
mod license_list;
mod license_page;
mod license_questions;
mod license_rows;
mod licenses_page;
mod new_license;
mod note_page;
mod own_host;
mod page_table;
mod parked_mails;
mod people_page;
mod plugin_history;
mod plugin_pages;
mod plugin_rollouts;
mod request_ring;
mod sale_changes;
mod sales_look;
mod sales_page;
mod sharing_page;
mod sign_in_pages;
pub mod state;
mod terms_form;
mod today_history;
mod today_page;
mod visitor;
mod withhold_page;

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use hyper::body::Incoming;
use tokio::time::{sleep, timeout};
use warp::http::{Request, header};

use crate::serve::api::body;
use crate::serve::desk::asked::Asked;
use crate::serve::desk::page_table::{DeskPage, PageAccess, PageMethod, PageRow};
use crate::serve::desk::sign_in_pages::SignIn;
use crate::serve::desk::state::DeskState;
use crate::serve::desk::visitor::DeskVisitor;
use crate::serve::license_mails::MailedAgain;
use crate::serve::net::handler::{Handler, Sending};
use crate::serve::net::listener::ListenerConfig;
use crate::serve::pages::answer::{PageAnswer, page_file};
use crate::serve::pages::form::{FormFields, PageOrigin};
use crate::serve::pages::label::PageLabel;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::session::{PageSession, SessionEnds};
use crate::serve::reply::outcome::{Code, Weight};
use crate::serve::state::Service;
use countersign_model::text::outside_text::OutsideText;

/// Size limit of a form in bytes.
const MAX_FORM: usize = 16 << 10;

/// The connection limit: only a few people connect.
const CONNECTIONS: usize = 64;

/// The time between two looks at the counters of requests.
const COUNTED_EVERY: Duration = Duration::from_secs(30);

/// How long the log does not tell again how a proxy has to send `Host`.
const LOGGED_AGAIN: TimeDelta = TimeDelta::minutes(10);

/// The limits of the listener: those of the public one, for fewer connections.
pub(in crate::serve) fn listener_config(service: &Service, public: &ListenerConfig) -> ListenerConfig {
    ListenerConfig {
        connections: service.descriptors.admin_connections(CONNECTIONS),
        ..public.clone()
    }
}

/// The handler of the desk's listener. Spawns what counts requests while it lives.
pub(in crate::serve) fn routes(state: DeskState) -> impl Handler {
    let state = Arc::new(state);
    tokio::spawn(count_requests(Arc::downgrade(&state)));
    DeskHandler(state)
}

/// Counts requests for as long as the desk is open.
async fn count_requests(state: Weak<DeskState>) {
    while let Some(state) = state.upgrade() {
        state.count_requests(Utc::now());
        drop(state);
        sleep(COUNTED_EVERY).await;
    }
}

struct DeskHandler(Arc<DeskState>);

impl Handler for DeskHandler {
    fn failed(&self, client: IpAddr, code: Code) {
        self.0.service.limits.charge(client, code.weight());
    }

    async fn answer(&self, client: IpAddr, request: Request<Incoming>) -> Sending {
        let now = Utc::now();
        let choice = Box::pin(self.choose(client, request, now));
        let answered = timeout(self.0.service.request_timeout, choice).await;
        let answer = answered.unwrap_or_else(|_| Err(Box::new((PageProblem::timeout(), None))));
        match answer {
            Ok(answer) => answer.into_http(),
            Err(refused) => {
                let (problem, visitor) = *refused;
                note_page::page(&problem, visitor.as_ref(), now).into_http()
            }
        }
    }
}

/// A problem, and for whom it is shown.
type Refused = Box<(PageProblem, Option<DeskVisitor>)>;

impl DeskHandler {
    async fn choose(
        &self,
        client: IpAddr,
        request: Request<Incoming>,
        now: DateTime<Utc>,
    ) -> Result<PageAnswer, Refused> {
        let Self(state) = self;
        let service = &state.service;
        let stranger = |problem: PageProblem| Box::new((problem, None));
        service
            .limits
            .check_address(client)
            .map_err(|_| stranger(PageProblem::too_many()))?;
        let snapshot = service.gate.snapshot();
        let Some(secrets) = snapshot.secrets.licensing.clone() else {
            return Err(stranger(PageProblem::no_secrets()));
        };
        let key = secrets.references().current();
        let Some(origin) = self.origin(&request, key, now) else {
            service.limits.charge(client, Code::MisdirectedRequest.weight());
            return Err(stranger(PageProblem::misdirected()));
        };
        let path = request.uri().path().to_owned();
        if let Some((kind, bytes)) = page_file(&path) {
            return Ok(PageAnswer::File(kind, Bytes::from_static(bytes)));
        }
        let found = page_table::find(request.method(), &path);
        let is_post = found.is_some_and(|(row, _)| row.method == PageMethod::Post);
        if is_post && !origin.has_sent(request.headers()) {
            return Err(stranger(PageProblem::foreign_form()));
        }
        let people = snapshot.registry.people();
        let ends = SessionEnds {
            label: PageLabel::DESK,
            key,
            ledger: service.gate.bindings(),
        };
        let session = PageSession::of(ends.label, request.headers(), origin.is_https, key, now);
        let session = session.filter(|session| !ends.has(session));
        let visitor = session.and_then(|session| DeskVisitor::of(session, key, people));
        let Some((row, name)) = found else {
            service.limits.charge(client, Code::NotFound.weight());
            return Err(Box::new((PageProblem::not_found(), visitor)));
        };
        if row.access == PageAccess::Anyone {
            let fields = match row.method {
                PageMethod::Get => FormFields::default(),
                PageMethod::Post => form_of(request).await.map_err(stranger)?,
            };
            let sign_in = SignIn {
                state,
                key,
                origin: &origin,
                people,
                fields: &fields,
                name,
                now,
            };
            let answer = sign_in.answer(row.page).await;
            if matches!(answer, Err(ref problem) if problem.is_guess) {
                service.limits.charge(client, Weight::WrongKey);
            }
            return answer.map_err(stranger);
        }
        let Some(visitor) = visitor else {
            return Ok(PageAnswer::SeeOther("/sign-in".to_owned()));
        };
        let failed = |problem: PageProblem| Box::new((problem, Some(visitor.clone())));
        if matches!(row.access, PageAccess::From(role) if !visitor.may(role)) {
            return Err(failed(PageProblem::forbidden()));
        }
        if row.page == DeskPage::SignOut {
            // The browser forgets it, also while the store cannot be used.
            if let Err(error) = ends.end(&visitor.session, now).await {
                tracing::warn!(%error, "a session of the desk was ended in its browser alone");
            }
            let is_https = origin.is_https;
            return Ok(PageAnswer::SignedOut {
                label: PageLabel::DESK,
                is_https,
            });
        }
        let fields = match row.method {
            PageMethod::Get => FormFields::of(request.uri().query().unwrap_or_default().as_bytes()),
            PageMethod::Post => form_of(request).await.map_err(failed)?,
        };
        let asked = Asked {
            state,
            visitor: &visitor,
            secrets: &secrets,
            snapshot: &snapshot,
            fields: &fields,
            name,
            now,
        };
        require_reason(row, &asked).map_err(failed)?;
        page(row.page, &asked).await.map_err(failed)
    }

    /// By which of our names the request came. If it is none, the log says how a proxy has to send it.
    fn origin(
        &self,
        request: &Request<Incoming>,
        key: &countersign_model::issuing_key::ReferenceKey,
        now: DateTime<Utc>,
    ) -> Option<PageOrigin> {
        let Self(state) = self;
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().unwrap_or_default(),
            _ => "",
        };
        // The host of an absolute target goes before the header (RFC 9112 section 3.2.2), so both have to be the same.
        let of_target = request.uri().authority().map(|authority| authority.as_str());
        let is_one = of_target.is_none_or(|target| target.eq_ignore_ascii_case(host));
        let origin = state.door.origin(key, host).filter(|_| is_one);
        if origin.is_none() && self.shall_log_host(now) {
            let port = state.door.port();
            tracing::warn!(
                host = OutsideText::of(host).as_str(),
                "the desk was asked for by a name that is not its own. A proxy in front has to send the host of `url` in [desk]: \
                 Caddy: desk.example.com {{ reverse_proxy 127.0.0.1:{port} }}; nginx: proxy_set_header Host $host; without a proxy, \
                 `countersign desk` prints an address"
            );
        }
        origin
    }

    fn shall_log_host(&self, now: DateTime<Utc>) -> bool {
        let mut logged = self.0.host_logged.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = logged.is_none_or(|logged| now - logged >= LOGGED_AGAIN);
        if is_due {
            *logged = Some(now);
        }
        is_due
    }
}

async fn form_of(request: Request<Incoming>) -> Result<FormFields, PageProblem> {
    let form = body::read_form(request, MAX_FORM).await?;
    Ok(FormFields::of(&form))
}

/// What the table asks of a form.
fn require_reason(row: &PageRow, asked: &Asked<'_>) -> Result<(), PageProblem> {
    match row.needs_reason && asked.fields.get("reason").trim().is_empty() {
        true => Err(PageProblem::refused(
            "The form does not say why. Go back and give a reason.".to_owned(),
        )),
        false => Ok(()),
    }
}

async fn page(page: DeskPage, asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    match page {
        DeskPage::Today => today_page::page(asked).await,
        DeskPage::Licenses => licenses_page::page(asked).await,
        DeskPage::Export => license_export::file(asked).await,
        DeskPage::NewLicense => new_license::form(asked),
        DeskPage::Issue => new_license::issue(asked).await,
        DeskPage::License => license_page::page(asked).await,
        DeskPage::AskSuspend | DeskPage::AskNewKey | DeskPage::AskRevoke | DeskPage::AskErase => {
            license_questions::page(asked, page).await
        }
        DeskPage::Extend
        | DeskPage::Sites
        | DeskPage::Free
        | DeskPage::Move
        | DeskPage::Note
        | DeskPage::Modules
        | DeskPage::Assign
        | DeskPage::NewAddress
        | DeskPage::Suspend
        | DeskPage::Lift
        | DeskPage::NewKey
        | DeskPage::Revoke => license_changes::change(asked, page).await,
        DeskPage::Erase => license_changes::erase_customer(asked).await,
        DeskPage::MailKey => license_changes::mail_again(asked, MailedAgain::Key).await,
        DeskPage::MailPage => license_changes::mail_again(asked, MailedAgain::Download).await,
        DeskPage::Sales => sales_page::page(asked).await,
        DeskPage::AskMatch => sale_changes::question(asked).await,
        DeskPage::Match => sale_changes::match_offer(asked).await,
        DeskPage::TakeBack => sale_changes::take_back(asked).await,
        DeskPage::AskDelivery => delivery_page::question(asked).await,
        DeskPage::SayAddress | DeskPage::SayKey => delivery_page::say(asked, page).await,
        DeskPage::Attach => delivery_page::attach(asked).await,
        DeskPage::RetryDelivery | DeskPage::DropDelivery => sale_changes::parked(asked, page).await,
        DeskPage::RetryMails => parked_mails::retry_all(asked).await,
        DeskPage::RetryMail | DeskPage::DropMail => parked_mails::decide(asked, page).await,
        DeskPage::Plugins => plugin_pages::all(asked).await,
        DeskPage::Plugin => plugin_pages::one(asked).await,
        DeskPage::Withhold => withhold_page::page(asked).await,
        DeskPage::PauseRollout | DeskPage::ResumeRollout | DeskPage::FinishRollout => {
            plugin_rollouts::change(asked, page).await
        }
        DeskPage::Releases => plugin_pages::releases(asked).await,
        DeskPage::Sharing => sharing_page::page(asked).await,
        DeskPage::Changes => changes_page::page(asked).await,
        DeskPage::Vouch | DeskPage::Unvouch => sharing_page::vouch(asked, page).await,
        DeskPage::Health => health_page::page(asked).await,
        DeskPage::People => Ok(people_page::page(asked)),
        DeskPage::SignOutPerson => people_page::sign_out(asked).await,
        DeskPage::SignIn
        | DeskPage::SendCode
        | DeskPage::Code
        | DeskPage::UseCode
        | DeskPage::MailLink
        | DeskPage::UseMailLink
        | DeskPage::Link
        | DeskPage::UseLink
        | DeskPage::SignOut => Err(PageProblem::not_found()),
    }
}
