//! What pages answer with, the headers of every answer, and the style sheet and the icon.

use std::sync::LazyLock;

use askama::Template;
use bytes::Bytes;
use warp::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::serve::net::handler::Sending;
use crate::serve::pages::label::PageLabel;
use crate::serve::reply::body::ReplyBody;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{ContentType, Response};
use countersign_model::digest::Digest;

const HTML: ContentType = ContentType("text/html; charset=utf-8");

/// SECURITY: no script runs, nothing is loaded from elsewhere, no other page frames it, and nobody elsewhere learns an address.
/// `no-referrer` would have browsers send `Origin: null` with our own forms.
const HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("x-robots-tag"), "noindex"),
];

/// An answer.
#[derive(Debug)]
pub(in crate::serve) enum PageAnswer {
    /// A page.
    Page(StatusCode, String),
    /// After a form: look there. A path of ours.
    SeeOther(String),
    /// The same, with a session.
    SignedIn {
        /// For which pages.
        label: PageLabel,
        /// The value of the cookie.
        cookie: String,
        /// Whether the browser speaks TLS.
        is_https: bool,
    },
    /// The browser forgets the session.
    SignedOut {
        /// Of which pages.
        label: PageLabel,
        /// Whether the browser speaks TLS.
        is_https: bool,
    },
    /// A file that never changes under its name.
    File(ContentType, Bytes),
    /// A file to keep, which is made while it is sent.
    Download {
        /// What it is.
        kind: ContentType,
        /// Its name: letters, digits, `-` and `.`.
        name: String,
        /// What is in it.
        body: ReplyBody,
    },
}

impl PageAnswer {
    /// A page that is made of a template.
    pub(in crate::serve) fn page(status: StatusCode, page: &impl Template) -> Self {
        match page.render() {
            Ok(html) => Self::Page(status, html),
            Err(error) => {
                // It logs the error.
                let _ = Problem::internal(&error);
                Self::Page(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "The page could not be made.".to_owned(),
                )
            }
        }
    }

    /// A page that was asked for and is there.
    pub(in crate::serve) fn ok(page: &impl Template) -> Self {
        Self::page(StatusCode::OK, page)
    }

    /// The answer for hyper.
    pub(in crate::serve) fn into_http(self) -> Sending {
        let mut more = HeaderMap::new();
        let mut download = None;
        let response = match self {
            Self::Page(status, html) => Response {
                status,
                ..HTML.answer(html)
            },
            Self::SeeOther(path) => see_other(&path, &mut more),
            Self::SignedIn {
                label,
                cookie,
                is_https,
            } => {
                set_cookie(&mut more, label, is_https, &cookie, label.lasts().num_seconds());
                see_other(label.home, &mut more)
            }
            Self::SignedOut { label, is_https } => {
                set_cookie(&mut more, label, is_https, "", 0);
                if label.has_own_host {
                    let all = HeaderValue::from_static("\"cookies\", \"storage\"");
                    more.insert(HeaderName::from_static("clear-site-data"), all);
                }
                see_other(label.sign_in, &mut more)
            }
            Self::File(kind, bytes) => {
                let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
                more.insert(header::CACHE_CONTROL, forever);
                kind.answer(bytes)
            }
            Self::Download { kind, name, body } => {
                if let Ok(value) = HeaderValue::try_from(format!("attachment; filename=\"{name}\"")) {
                    more.insert(header::CONTENT_DISPOSITION, value);
                }
                download = Some(body);
                kind.answer("")
            }
        };
        let mut response: Sending = response.into_http();
        if let Some(body) = download {
            *response.body_mut() = body;
        }
        for (name, value) in HEADERS {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response.headers_mut().extend(more);
        response
    }
}

fn see_other(path: &str, more: &mut HeaderMap) -> Response {
    if let Ok(path) = HeaderValue::try_from(path) {
        more.insert(header::LOCATION, path);
    }
    Response {
        status: StatusCode::SEE_OTHER,
        ..HTML.answer("")
    }
}

/// `SameSite=Lax`: with `Strict`, who follows a link from a mail would not be signed in.
fn set_cookie(more: &mut HeaderMap, label: PageLabel, is_https: bool, value: &str, seconds: i64) {
    let name = label.cookie_name(is_https);
    let secure = if is_https { "; Secure" } else { "" };
    let cookie = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        more.append(header::SET_COOKIE, cookie);
    }
}

/// The style sheet of all pages, small enough for a slow phone.
pub(in crate::serve) const STYLE: &str = include_str!("../templates/pages.css");
/// The style sheet of the desk: that one, and what only the desk has.
const DESK_STYLE: &str = concat!(
    include_str!("../templates/pages.css"),
    include_str!("../templates/desk/desk.css")
);
const ICON: &[u8] = include_bytes!("../templates/desk/icon.svg");

/// The addresses of the style sheet and the icon. Each has the digest of the content in it, so browsers may cache the file for ever.
pub(in crate::serve) static STYLE_PATH: LazyLock<String> =
    LazyLock::new(|| named("/desk-", DESK_STYLE.as_bytes(), ".css"));
pub(in crate::serve) static ICON_PATH: LazyLock<String> = LazyLock::new(|| named("/icon-", ICON, ".svg"));

fn named(before: &str, bytes: &[u8], behind: &str) -> String {
    let digest = Digest::of(bytes).to_string();
    format!("{before}{}{behind}", &digest[..16])
}

/// The file at this path.
pub(in crate::serve) fn page_file(path: &str) -> Option<(ContentType, &'static [u8])> {
    if path == *STYLE_PATH {
        Some((ContentType("text/css; charset=utf-8"), DESK_STYLE.as_bytes()))
    } else if path == *ICON_PATH {
        Some((ContentType("image/svg+xml"), ICON))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_a_cookie_of_the_host_alone() {
        let label = PageLabel::DESK;
        let cookie = |is_https| {
            let answer = PageAnswer::SignedIn {
                label,
                cookie: "v".to_owned(),
                is_https,
            };
            let answer = answer.into_http();
            assert_eq!(
                (answer.status(), &answer.headers()["location"]),
                (StatusCode::SEE_OTHER, &"/".parse().unwrap())
            );
            answer.headers()["set-cookie"].to_str().unwrap().to_owned()
        };
        assert_eq!(
            cookie(true),
            "__Host-desk=v; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax; Secure"
        );
        assert_eq!(cookie(false), "desk=v; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax");
        let shared = PageAnswer::SignedOut {
            label: PageLabel::ACCOUNT,
            is_https: true,
        };
        let shared = shared.into_http();
        assert!(
            !shared.headers().contains_key("clear-site-data"),
            "others have cookies of this host"
        );
        let out = PageAnswer::SignedOut { label, is_https: true }.into_http();
        assert!(out.headers().contains_key("clear-site-data"));
        assert!(
            out.headers()["set-cookie"]
                .to_str()
                .unwrap()
                .starts_with("__Host-desk=; Path=/; Max-Age=0;")
        );
    }

    #[test]
    fn a_file_is_found_by_the_digest_of_what_it_is() {
        assert!(page_file(&STYLE_PATH).is_some() && page_file(&ICON_PATH).is_some());
        for path in ["/desk.css", "/desk-.css", "/desk-0000000000000000.css", "/icon.svg"] {
            assert!(page_file(path).is_none(), "{path}");
        }
        // The policy of the pages forbids `style=""` and everything from elsewhere.
        assert!(!DESK_STYLE.contains("url(") && !DESK_STYLE.contains("@import"));
    }
}
