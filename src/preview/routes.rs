//! All routes of the preview. None of them is shared with `serve`.
//!
//! | method | path | answer |
//! |---|---|---|
//! | GET, HEAD | `/`, `/plugins/<slug>`, `/plugins/<slug>/<version>` | the page |
//! | GET | `/events` | the number of each new snapshot, as server-sent events |
//! | GET, HEAD | `/art/<slug>/<picture>` | a picture out of the repository |
//! | GET, HEAD | `/mail`, `/mail/<licenses>.html` | the mail to a buyer of so many licenses, and its HTML |
//! | GET, HEAD | `/assets/…` | style, script and icon, out of the program |

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::sync::{Semaphore, watch};
use warp::http::header::{self, HeaderValue};
use warp::http::{HeaderMap, Method, StatusCode};
use warp::path::FullPath;
use warp::reply::Response;
use warp::sse::Event;
use warp::{Filter, Reply};

use crate::build::draft;
use crate::preview::live::LatestSnapshot;
use crate::preview::page::{self, Address, RenderedPage};
use crate::preview::target::Target;
use crate::preview::view::Selection;

/// Nothing is loaded from elsewhere, nothing inline runs, nothing is sent elsewhere, nobody frames the page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      frame-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// An image must act as an image even if it is opened by itself: an SVG may have a script.
const PICTURE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'";

/// The HTML of a mail acts as in a mail program: nothing runs, and nothing is loaded. The page shows it in a frame.
const MAIL_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'self'";

const ASSETS: [(&str, &str, &str); 3] = [
    (
        "preview.css",
        "text/css; charset=utf-8",
        include_str!("assets/preview.css"),
    ),
    (
        "preview.js",
        "text/javascript; charset=utf-8",
        include_str!("assets/preview.js"),
    ),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

/// State of all requests.
pub struct Preview {
    /// What to preview.
    pub target: Arc<Target>,
    /// The last snapshot.
    pub latest: watch::Receiver<LatestSnapshot>,
    /// Distinguishes this run of the program from an earlier one on the same port.
    pub run: String,
    /// One permit for each event stream.
    pub streams: Arc<Semaphore>,
    /// Becomes true when the program ends, which ends the event streams.
    pub ending: watch::Receiver<bool>,
}

impl Preview {
    fn stamp(&self, number: u64) -> String {
        format!("{}-{number}", self.run)
    }
}

/// All routes, as one filter that never rejects.
pub fn all(preview: Arc<Preview>) -> impl Filter<Extract = (impl Reply,), Error = Infallible> + Clone {
    let query = warp::query::<HashMap<String, String>>()
        .or(warp::any().map(HashMap::new))
        .unify();
    warp::any()
        .and(warp::method())
        .and(warp::path::full())
        .and(warp::header::headers_cloned())
        .and(query)
        .then(move |method, path: FullPath, headers: HeaderMap, query| {
            let preview = Arc::clone(&preview);
            async move {
                if let Some(refusal) = refused(&method, &headers) {
                    return refusal;
                }
                let parts: Vec<String> = path.as_str().split('/').skip(1).map(str::to_owned).collect();
                let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
                guarded(answer(preview, &parts, query).await)
            }
        })
}

async fn answer(preview: Arc<Preview>, path: &[&str], query: HashMap<String, String>) -> Response {
    match *path {
        [""] => show(preview, None, None, query).await,
        ["plugins", slug] => show(preview, Some(slug), None, query).await,
        ["plugins", slug, version] => show(preview, Some(slug), Some(version), query).await,
        ["mail"] => show_mail(preview).await,
        ["mail", name] => mail_html(&preview, name),
        ["events"] => events(&preview),
        ["art", slug, name] => picture(preview, slug, name).await,
        ["assets", name] => match ASSETS.iter().find(|(known, ..)| *known == name) {
            Some((_, kind, text)) => of_kind(kind, (*text).into_response()),
            None => plain(StatusCode::NOT_FOUND, "There is nothing here.\n"),
        },
        _ => plain(StatusCode::NOT_FOUND, "There is nothing here.\n"),
    }
}

/// SECURITY: another site can make its own name lead to this machine, but cannot make the browser send `localhost`.
fn refused(method: &Method, headers: &HeaderMap) -> Option<Response> {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    let name = host
        .rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let name = name.map_or(host, |(name, _)| name);
    if !["127.0.0.1", "localhost", "[::1]"]
        .iter()
        .any(|own| own.eq_ignore_ascii_case(name))
    {
        return Some(guarded(plain(
            StatusCode::MISDIRECTED_REQUEST,
            "Ask for 127.0.0.1 or localhost.\n",
        )));
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "There is nothing to change here.\n");
        refusal
            .headers_mut()
            .insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(guarded(refusal));
    }
    None
}

async fn show(
    preview: Arc<Preview>,
    plugin: Option<&str>,
    version: Option<&str>,
    mut query: HashMap<String, String>,
) -> Response {
    let tab = query.get("tab").and_then(|name| name.parse().ok()).unwrap_or_default();
    // No real version is longer.
    let mut selection = |name| query.remove(name).map(|value| value.chars().take(64).collect());
    let selection = Selection {
        version: version.map(str::to_owned),
        cms: selection("cms"),
        php: selection("php"),
        current: selection("current"),
    };
    let address = Address {
        plugin: plugin.map(str::to_owned),
        selection,
        tab,
    };
    let rendered = blocking(move || {
        let (number, snapshot) = preview.latest.borrow().clone();
        page::render(&snapshot, &preview.target, &address, &preview.stamp(number))
    });
    shown(rendered.await)
}

async fn show_mail(preview: Arc<Preview>) -> Response {
    let rendered = blocking(move || {
        let (number, snapshot) = preview.latest.borrow().clone();
        page::render_mail(&snapshot, &preview.target, &preview.stamp(number))
    });
    shown(rendered.await)
}

fn shown(rendered: Option<Result<RenderedPage, askama::Error>>) -> Response {
    match rendered {
        Some(Ok(page)) => {
            let status = if page.is_found {
                StatusCode::OK
            } else {
                StatusCode::NOT_FOUND
            };
            of_kind(
                "text/html; charset=utf-8",
                warp::reply::with_status(page.html, status).into_response(),
            )
        }
        _ => plain(StatusCode::INTERNAL_SERVER_ERROR, "The page cannot be made.\n"),
    }
}

fn mail_html(preview: &Preview, name: &str) -> Response {
    let snapshot = Arc::clone(&preview.latest.borrow().1);
    let count = name.strip_suffix(".html").and_then(|count| count.parse().ok());
    let html = count.and_then(|count| snapshot.mail.as_ref()?.html(count));
    let Some(html) = html else {
        return plain(StatusCode::NOT_FOUND, "There is nothing here.\n");
    };
    let mut answer = of_kind("text/html; charset=utf-8", html.to_owned().into_response());
    let policy = HeaderValue::from_static(MAIL_POLICY);
    answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    answer
}

/// The number of the current snapshot, then of each new one.
fn events(preview: &Preview) -> Response {
    let Ok(permit) = Arc::clone(&preview.streams).try_acquire_owned() else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "Too many pages are open.\n");
    };
    let run = preview.run.clone();
    let mut ending = preview.ending.clone();
    let numbers = stream::unfold(
        (preview.latest.clone(), true, permit),
        |(mut latest, first, permit)| async move {
            if !first {
                latest.changed().await.ok()?;
            }
            let number = latest.borrow_and_update().0;
            Some((number, (latest, false, permit)))
        },
    );
    let events = numbers
        .map(move |number| Ok::<_, Infallible>(Event::default().event("snapshot").data(format!("{run}-{number}"))));
    let end = async move { drop(ending.wait_for(|ending| *ending).await) };
    warp::sse::reply(warp::sse::keep_alive().stream(events.take_until(Box::pin(end)))).into_response()
}

async fn picture(preview: Arc<Preview>, slug: &str, name: &str) -> Response {
    let kind = match name.rsplit_once('.') {
        Some((_, "png")) => "image/png",
        Some((_, "jpg")) => "image/jpeg",
        Some((_, "gif")) => "image/gif",
        Some((_, "svg")) => "image/svg+xml",
        _ => return plain(StatusCode::NOT_FOUND, "There is nothing here.\n"),
    };
    let plugin = preview.latest.borrow().1.plugin(slug).cloned();
    let name = name.to_owned();
    let bytes = blocking(move || draft::picture(&plugin?.entry, &preview.target.cache, &name)).await;
    let Some(Some(bytes)) = bytes else {
        return plain(StatusCode::NOT_FOUND, "There is nothing here.\n");
    };
    let mut picture = of_kind(kind, bytes.into_response());
    picture.headers_mut().insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(PICTURE_POLICY),
    );
    picture
}

/// Reads files on a blocking thread; `None` if the work panicked.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    of_kind(
        "text/plain; charset=utf-8",
        warp::reply::with_status(text, status).into_response(),
    )
}

fn of_kind(kind: &'static str, mut response: Response) -> Response {
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Headers of every response.
fn guarded(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static(POLICY));
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (
            header::HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            header::HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
