//! `/first-copy/<token>`: the page from which a buyer downloads the first copy, by the link in the license mail.
//!
//! GET and HEAD do nothing and count nothing, because mail scanners open every link. A button is a plain POST form to
//! `<token>/<slug>`, and is asked everything again. Each state has its own sentence.

use std::net::IpAddr;
use std::sync::Arc;

use askama::Template;
use bytes::Bytes;
use chrono::{DateTime, NaiveDate, Utc};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use warp::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};

use crate::serve::api::body;
use crate::serve::api::downloads::valid_link;
use crate::serve::first_copies::CopyRecipient;
use crate::serve::found_license::{self, FoundLicense};
use crate::serve::gate::{PermittedDownload, Snapshot};
use crate::serve::links;
use crate::serve::net::handler::Sending;
use crate::serve::package_answer::{self, Opened, PackageQuestion};
use crate::serve::reply::outcome::{Code, Weight};
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{ContentType, ExtraHeader, Response};
use crate::serve::state::Service;
use countersign_model::entitlement::{self, Refusal};
use countersign_model::first_copies::{DAYS, FirstCopyLimit, MOST_NETWORKS, MOST_PACKAGES};
use countersign_model::first_copy_link::FirstCopyLink;
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::plugin::PluginKind;
use countersign_model::site_host::SiteHost;
use countersign_model::slug::Slug;
use countersign_model::version::Version;

/// The name of the style sheet beside the pages.
const STYLE: &str = "style.css";

pub(super) const HTML: ContentType = ContentType("text/html; charset=utf-8");
const CSS: ContentType = ContentType("text/css; charset=utf-8");

/// Size limit of a form in bytes. It has no fields.
const MAX_FORM: usize = 1024;

/// SECURITY: the address of the page is a secret. No script runs, nothing is loaded from elsewhere, no other page frames it, and
/// no page behind it learns its address.
const HEADERS: [(HeaderName, &str); 3] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("x-robots-tag"), "noindex"),
];

/// An answer, and what it costs the client.
pub(super) struct CountedPage {
    pub code: Code,
    pub weight: Weight,
    pub response: Sending,
}

#[derive(Template)]
#[template(path = "first_copies.html")]
struct FirstCopyPage<'a> {
    said: &'a PageText,
    downloads: &'a [OfferedPackage],
    /// The way to the folder of the pages.
    base: &'a str,
    token: &'a str,
    until: String,
}

/// What a page says.
struct PageText {
    title: &'static str,
    sentences: Vec<String>,
}

/// A package behind a button.
pub(super) struct OfferedPackage {
    pub(super) kind: PluginKind,
    pub(super) slug: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) size: String,
}

/// A first copy that somebody asks for.
pub(super) struct CopyOrder<'a> {
    pub(super) slug: &'a str,
    /// The site that it is for, if somebody says it: it is marked with it.
    pub(super) host: Option<SiteHost>,
    /// The day of the mark.
    pub(super) day: NaiveDate,
    pub(super) client: IpAddr,
    pub(super) now: DateTime<Utc>,
}

/// A first copy that is sent.
pub(super) struct OpenedCopy {
    pub(super) plugin: Slug,
    pub(super) version: Version,
    opened: Opened,
}

/// What a link leads to.
struct LinkedLicense {
    id: LicenseId,
    link: FirstCopyLink,
    packages: Vec<OfferedPackage>,
}

/// Why a page has no button.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NoPage {
    Problem(Problem),
    /// The vendor turned first copies off.
    Off,
    /// The license was revoked, because it has a new key.
    Rekeyed,
    /// A shop suspended or revoked the license.
    TakenBack,
    /// After this day.
    Expired(NaiveDate),
}

impl From<Problem> for NoPage {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// Answers GET, HEAD and POST; `path` is the part after [`PATH`](countersign_model::first_copy_link::PATH).
pub(super) async fn reply(
    service: &Arc<Service>,
    client: IpAddr,
    path: &str,
    request: Request<Incoming>,
) -> CountedPage {
    if path == STYLE {
        return style();
    }
    let (token, slug) = match path.split_once('/') {
        None => (path, None),
        Some((token, slug)) => (token, Some(slug)),
    };
    let base = if slug.is_some() { "../" } else { "" };
    let is_post = request.method() == Method::POST;
    let done = match slug.filter(|_| is_post) {
        Some(slug) => download(service, client, token, slug, request).await.map(Ok),
        None => show(service, token).await.map(Err),
    };
    match done {
        Ok(Ok((code, response))) => CountedPage {
            code,
            weight: code.weight(),
            response,
        },
        Ok(Err(linked)) => page(token, base, &linked),
        Err(reason) => no_page(base, &reason),
    }
}

fn style() -> CountedPage {
    let css = CSS.answer(Bytes::from_static(include_bytes!("templates/first_copies.css")));
    CountedPage {
        code: Code::Ok,
        weight: Weight::Request,
        response: with_headers(css.into_http()),
    }
}

/// The packages that the page of this token offers.
async fn show(service: &Arc<Service>, token: &str) -> Result<LinkedLicense, NoPage> {
    service.catch_up().await;
    let now = Utc::now();
    let link = read_link(service, token, now)?;
    let shown = {
        let link = link.clone();
        move |service: &Arc<Service>| linked(service, &link, now)
    };
    let shown = package_answer::decide(service, shown).await;
    named(service, &link, shown).await
}

/// The package of a button.
async fn download(
    service: &Arc<Service>,
    client: IpAddr,
    token: &str,
    slug: &str,
    request: Request<Incoming>,
) -> Result<(Code, Sending), NoPage> {
    let form = body::read_form(request, MAX_FORM);
    let form = tokio::time::timeout(service.request_timeout, form).await;
    form.map_err(|_| Problem::RequestTimeout)??;
    service.catch_up().await;
    let now = Utc::now();
    let link = read_link(service, token, now)?;
    let open = {
        let link = link.clone();
        let slug = slug.to_owned();
        move |service: &Arc<Service>| open(service, client, &link, &slug, now)
    };
    let opened = package_answer::decide(service, open).await;
    let copy = named(service, &link, opened).await?;
    let (code, response) = saved(service, copy);
    Ok((code, with_headers(response)))
}

/// The answer with a package for a browser, whose user looks for it by its name.
pub(super) fn saved(service: &Arc<Service>, copy: OpenedCopy) -> (Code, Sending) {
    let file = links::file_name(copy.plugin.as_str(), copy.version.as_str());
    let (code, mut response) = package_answer::answer(service, copy.opened);
    if let Ok(named) = HeaderValue::try_from(format!("attachment; filename=\"{file}\"")) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, named);
    }
    (code, response)
}

/// SECURITY: nothing is looked up before this.
fn read_link(service: &Service, token: &str, now: DateTime<Utc>) -> Result<FirstCopyLink, NoPage> {
    if !service.first_copies.are_on() {
        return Err(NoPage::Off);
    }
    let snapshot = service.gate.load();
    let keys = snapshot.secrets.downloads.as_deref();
    let keys = keys.ok_or(Problem::UnknownLink)?;
    let read = |key: &_| FirstCopyLink::read(key, token);
    Ok(valid_link(keys, read, |link| now < link.expires)?)
}

fn license<'s>(service: &Service, snapshot: &'s Snapshot, link: &FirstCopyLink) -> Option<FoundLicense<'s>> {
    found_license::beginning_with(&snapshot.registry, service.gate.bindings(), &link.license)
}

/// Everything that the license covers and this server has. Blocks.
fn linked(service: &Service, link: &FirstCopyLink, now: DateTime<Utc>) -> Result<LinkedLicense, Problem> {
    let snapshot = service.gate.snapshot();
    let found = license(service, &snapshot, link);
    let license = entitlement::require_active(found.as_deref(), now.date_naive()).map_err(Problem::Refused)?;
    Ok(LinkedLicense {
        id: license.id,
        link: link.clone(),
        packages: offered_packages(service, &snapshot, license, now),
    })
}

/// The newest package of each plugin that a license covers.
pub(super) fn offered_packages(
    service: &Service,
    snapshot: &Snapshot,
    license: &License,
    now: DateTime<Utc>,
) -> Vec<OfferedPackage> {
    let newest = |slug: &str| service.gate.first_copy(snapshot, Some(license), (slug, None), now);
    let offered = snapshot.registry.plugins().filter_map(|plugin| {
        let package: PermittedDownload = newest(plugin.slug.as_str()).ok()??;
        let name = plugin.shown_name(snapshot.catalog.plugin_name(&plugin.slug));
        Some(OfferedPackage {
            kind: plugin.kind,
            slug: plugin.slug.to_string(),
            name: name.to_owned(),
            version: package.version.to_string(),
            size: shown_size(package.package.size),
        })
    });
    let mut packages: Vec<_> = offered.collect();
    packages.sort_by(|one, other| (&one.name, &one.slug).cmp(&(&other.name, &other.slug)));
    packages
}

/// The package of one plugin. Blocks.
fn open(
    service: &Service,
    client: IpAddr,
    link: &FirstCopyLink,
    slug: &str,
    now: DateTime<Utc>,
) -> Result<OpenedCopy, Problem> {
    let snapshot = service.gate.snapshot();
    let found = license(service, &snapshot, link);
    let order = CopyOrder {
        slug,
        host: None,
        day: link.day(),
        client,
        now,
    };
    open_copy(service, &snapshot, found.as_deref(), order)
}

/// A first copy. It is counted. Blocks.
pub(super) fn open_copy(
    service: &Service,
    snapshot: &Snapshot,
    license: Option<&License>,
    order: CopyOrder<'_>,
) -> Result<OpenedCopy, Problem> {
    let CopyOrder {
        slug,
        host,
        day,
        client,
        now,
    } = order;
    let permitted = service.gate.first_copy(snapshot, license, (slug, None), now);
    let permitted = permitted.map_err(Problem::Refused)?.ok_or(Problem::NoPackage)?;
    let permitted = PermittedDownload { host, ..permitted };
    let id = permitted.license;
    service.limits.check_license(&id)?;
    let keys = snapshot.secrets.downloads.clone();
    let recipient = CopyRecipient::new(keys.as_ref().map(|keys| keys.current()), &id, client, now);
    let question = PackageQuestion {
        keys,
        day,
        // A part of an answer to POST is nothing (RFC 9110 section 14.2).
        headers: HeaderMap::new(),
        sends_bytes: true,
    };
    let plugin = permitted.slug.clone();
    let version = permitted.version.clone();
    let opened = question.open(service, permitted, |bytes, size| {
        service
            .first_copies
            .take(service.gate.bindings(), &id, recipient, (bytes, size))
    })?;
    tracing::info!(license = id.log_tag(), plugin = slug, "gave a first copy");
    Ok(OpenedCopy {
        plugin,
        version,
        opened,
    })
}

/// Says more of a refusal: whether the license has a new key, or a shop took it back.
async fn named<T>(service: &Arc<Service>, link: &FirstCopyLink, done: Result<T, Problem>) -> Result<T, NoPage> {
    let refusal = match done {
        Ok(done) => return Ok(done),
        Err(Problem::Refused(refusal)) => refusal,
        Err(problem) => return Err(problem.into()),
    };
    let work = {
        let service = Arc::clone(service);
        let link = link.clone();
        move || reason(&service, &link, refusal)
    };
    let reason = tokio::task::spawn_blocking(work).await;
    Err(reason.unwrap_or(NoPage::Problem(Problem::Refused(refusal))))
}

/// One look at a time at every license: it takes milliseconds where there are a million.
static SCAN: Semaphore = Semaphore::const_new(1);

/// Looks at every license for the one that replaced a revoked one. Blocks.
fn reason(service: &Service, link: &FirstCopyLink, refusal: Refusal) -> NoPage {
    let plain = NoPage::Problem(Problem::Refused(refusal));
    let snapshot = service.gate.snapshot();
    let Some(found) = license(service, &snapshot, link) else {
        return plain;
    };
    let is_by_shop = match &found {
        FoundLicense::Ledger(issued) => issued.status_by.as_ref().is_some_and(|by| by.is_shop()),
        FoundLicense::Declared(_) => false,
    };
    let id = found.id;
    let replaces = |license: &License| license.details.replaces == Some(id);
    let is_replaced = || {
        // A client that asks often learns less, and costs no more.
        let scan = service
            .limits
            .check_license(&id)
            .ok()
            .and_then(|()| SCAN.try_acquire().ok());
        if scan.is_none() {
            return false;
        }
        !service.gate.bindings().issued_after(None, 1, &replaces).is_empty()
            || snapshot.registry.licenses().any(replaces)
    };
    match refusal {
        Refusal::LicenseExpired => NoPage::Expired(found.expires),
        Refusal::LicenseRevoked if is_replaced() => NoPage::Rekeyed,
        Refusal::LicenseSuspended | Refusal::LicenseRevoked if is_by_shop => NoPage::TakenBack,
        _ => plain,
    }
}

fn page(token: &str, base: &str, linked: &LinkedLicense) -> CountedPage {
    let LinkedLicense { id, link, packages } = linked;
    let last_day = link.expires.date_naive().pred_opt().unwrap_or_default();
    let said = match packages.len() {
        0 => PageText {
            title: "Nothing to download yet",
            sentences: vec!["What this license includes has no release here yet. Please look again later.".to_owned()],
        },
        count => PageText {
            title: title(count, packages),
            sentences: Vec::new(),
        },
    };
    tracing::debug!(license = id.log_tag(), "showed the page with first copies");
    let page = FirstCopyPage {
        said: &said,
        downloads: packages,
        base,
        token,
        until: format!("{} (UTC)", last_day.format("%-d %B %Y")),
    };
    answer(StatusCode::OK, (Code::Ok, Weight::Request), &page)
}

/// The title above `count` packages, which are not none.
fn title(count: usize, packages: &[OfferedPackage]) -> &'static str {
    let are_all = |kind| packages.iter().all(|package| package.kind == kind);
    match count {
        1 if are_all(PluginKind::Plugin) => "Download your plugin",
        1 => "Download your theme",
        _ if are_all(PluginKind::Plugin) => "Download your plugins",
        _ if are_all(PluginKind::Theme) => "Download your themes",
        _ => "Download your plugins and themes",
    }
}

impl FirstCopyPage<'_> {
    fn has(&self, kind: PluginKind) -> bool {
        self.downloads.iter().any(|download| download.kind == kind)
    }
}

fn no_page(base: &str, reason: &NoPage) -> CountedPage {
    let said = reason.text();
    let page = FirstCopyPage {
        said: &said,
        downloads: &[],
        base,
        token: "",
        until: String::new(),
    };
    let problem = match reason {
        NoPage::Problem(problem) => problem.clone(),
        NoPage::Off => Problem::NotFound,
        NoPage::Rekeyed => Problem::Refused(Refusal::LicenseRevoked),
        // Whichever it is: the shop did both for one reason.
        NoPage::TakenBack => Problem::Refused(Refusal::LicenseSuspended),
        NoPage::Expired(_) => Problem::Refused(Refusal::LicenseExpired),
    };
    // A person with a valid link of a license that is gone does not guess.
    let weight = match problem {
        Problem::Refused(_) => Weight::Request,
        _ => problem.weight(),
    };
    let mut answer = answer(problem.status(), (problem.code(), weight), &page);
    if let Some((name, value)) = problem.extra().map(ExtraHeader::header) {
        answer.response.headers_mut().insert(name, value);
    }
    answer
}

/// The answer with a page that a link in a mail leads to.
pub(super) fn answer(status: StatusCode, (code, weight): (Code, Weight), page: &impl Template) -> CountedPage {
    match page.render() {
        Ok(html) => CountedPage {
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
            CountedPage {
                code: problem.code(),
                weight: problem.weight(),
                response: with_headers(problem.into_response().into_http()),
            }
        }
    }
}

pub(super) fn with_headers(mut response: Sending) -> Sending {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn shown_size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

impl NoPage {
    fn text(&self) -> PageText {
        let text = |title, sentences: &[&str]| PageText {
            title,
            sentences: sentences.iter().map(|sentence| (*sentence).to_owned()).collect(),
        };
        match self {
            Self::Off => text(
                "No downloads here",
                &["The seller of this license sends downloads in another way. Please ask there."],
            ),
            Self::Rekeyed => text(
                "This license has a new key",
                &["The license key was replaced by a new one. Please use the link in the mail with the new key."],
            ),
            Self::TakenBack => text(
                "The payment for this license does not stand",
                &[
                    "It was refunded, is in dispute, or was not made, so that this license gives no downloads now.",
                    "If that is wrong, please write to the shop where you bought it.",
                ],
            ),
            Self::Expired(last) => PageText {
                title: "This license has expired",
                sentences: vec![
                    format!("Its last day was {}.", last.format("%-d %B %Y")),
                    "Renew it where you bought it. Then this page gives downloads again.".to_owned(),
                ],
            },
            Self::Problem(problem) => match problem {
                Problem::UnknownLink => text(
                    "This link is not valid",
                    &["Please copy the whole link from the mail with your license key, up to its last character."],
                ),
                Problem::LinkExpired => text(
                    "This link is too old",
                    &[
                        "Links to downloads work for 14 days.",
                        "To get a new one, ask where you bought the license to have its key mailed to you again. That mail has a new \
                         link.",
                    ],
                ),
                Problem::Refused(Refusal::UnknownLicense) => text(
                    "This license does not exist any more",
                    &["Please ask where you bought it."],
                ),
                Problem::Refused(Refusal::LicenseSuspended) => text(
                    "This license is suspended",
                    &["The seller has suspended it, so that it gives no downloads now. Please ask there why."],
                ),
                Problem::Refused(Refusal::LicenseRevoked) => text(
                    "This license was revoked",
                    &["The seller has revoked it, so that it gives no downloads any more. Please ask there why."],
                ),
                Problem::Refused(_) => text(
                    "This license does not include that download",
                    &["Please open the link in your mail again: the page shows what the license includes."],
                ),
                Problem::NoPackage => text(
                    "This download is not offered now",
                    &["Please open the link in your mail again: the page shows what you can download."],
                ),
                Problem::TooManyFirstCopies(limit, _) => too_many(*limit),
                Problem::TooManyRequests(_) => text("Too many requests", &["Please wait a minute, and try again."]),
                problem if problem.status().is_server_error() => text(
                    "The download does not work now",
                    &["Please try again in some minutes. Your link stays valid."],
                ),
                _ => text(
                    "This request is not valid",
                    &["Please open the link in your mail again, and use the button on the page."],
                ),
            },
        }
    }
}

fn too_many(limit: FirstCopyLimit) -> PageText {
    let reached = match limit {
        FirstCopyLimit::Packages { .. } => {
            format!("It gave {MOST_PACKAGES} packages in {DAYS} days, which is the most.")
        }
        FirstCopyLimit::Networks { .. } => {
            format!("It gave downloads to {MOST_NETWORKS} networks today, which is the most.")
        }
    };
    PageText {
        title: "This license gave too many downloads",
        sentences: vec![
            reached,
            format!(
                "Please try again after {} UTC, or ask where you bought the license. Sites where it is active get their updates as \
                 before.",
                limit.until().format("%H:%M on %-d %B %Y")
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_a_title_of_its_own() {
        let until = DateTime::UNIX_EPOCH;
        let mut states = vec![
            NoPage::Off,
            NoPage::Rekeyed,
            NoPage::TakenBack,
            NoPage::Expired(NaiveDate::MIN),
        ];
        let problems = [
            Problem::UnknownLink,
            Problem::LinkExpired,
            Problem::Refused(Refusal::UnknownLicense),
            Problem::Refused(Refusal::LicenseSuspended),
            Problem::Refused(Refusal::LicenseRevoked),
            Problem::Refused(Refusal::PluginNotCovered),
            Problem::NoPackage,
            Problem::TooManyFirstCopies(FirstCopyLimit::Packages { until }, 1),
            Problem::TooManyRequests(1),
            Problem::PackageUnavailable,
            Problem::UnsupportedMediaType,
        ];
        states.extend(problems.map(NoPage::Problem));
        let mut titles: Vec<_> = states.iter().map(|state| state.text().title).collect();
        titles.sort_unstable();
        titles.dedup();
        assert_eq!(titles.len(), states.len());
    }

    #[test]
    fn a_size_is_shown_as_people_say_it() {
        assert_eq!(
            [1, 1_001, 999_999, 1_250_000].map(shown_size),
            ["1 kB", "2 kB", "1000 kB", "1.2 MB"]
        );
    }
}
