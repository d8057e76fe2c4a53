//! Checks of a request's head after hyper has parsed it: HTTP's rules (RFC 9112), and our limits.

use hyper::body::Incoming;
use warp::http::uri::Authority;
use warp::http::{HeaderMap, Request, Version, header};

use crate::serve::reply::problem::Problem;

/// The longest path and query in bytes: many times a key, a site address and a plugin.
const MAX_TARGET: usize = 4 * 1024;

/// The largest header fields together in bytes: proxies add some.
const MAX_HEADERS: usize = 8 * 1024;

/// Why a head is refused, whatever it requests.
pub(crate) fn unfit(request: &Request<Incoming>) -> Option<Problem> {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if target > MAX_TARGET {
        return Some(Problem::UriTooLong(MAX_TARGET));
    }
    let headers = request.headers();
    let length: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if length > MAX_HEADERS {
        return Some(Problem::HeadersTooLarge(MAX_HEADERS));
    }
    if !has_its_host(headers, request.version()) {
        return Some(Problem::Malformed(
            "The request must have one 'Host' header that names a host.".to_owned(),
        ));
    }
    (!is_transfer_understood(headers)).then_some(Problem::UnsupportedTransferCoding)
}

/// One valid host; before HTTP/1.1 it may be absent (RFC 9112 section 3.2), and an empty one means none.
fn has_its_host(headers: &HeaderMap, version: Version) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.is_empty() || Authority::try_from(host.as_bytes()).is_ok_and(|host| is_host(&host)),
        (None, _) => version < Version::HTTP_11,
        (Some(_), Some(_)) => false,
    }
}

/// A host, and perhaps a port, which may be empty; no user name.
fn is_host(authority: &Authority) -> bool {
    let text = authority.as_str();
    let has_port = text.len() > authority.host().len() && !text.ends_with(':');
    !text.contains('@') && (!has_port || authority.port_u16().is_some())
}

/// Whether the body has no transfer coding or is chunked (RFC 9112 section 6.1). hyper reads every list of codings
/// that ends in chunked as if it were only that.
fn is_transfer_understood(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use warp::http::HeaderValue;

    use super::*;

    fn headers(name: header::HeaderName, values: &[&'static str]) -> HeaderMap {
        values
            .iter()
            .map(|value| (name.clone(), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn a_request_names_one_host_and_an_old_one_may_name_none() {
        let fit = |values: &[&'static str], version| has_its_host(&headers(header::HOST, values), version);
        for host in [
            "a.example",
            "a.example:8080",
            "192.0.2.1",
            "[2001:db8::1]:80",
            "localhost",
            "xn--bcher-kva.example",
            "",
        ] {
            assert!(
                fit(&[host], Version::HTTP_11) && fit(&[host], Version::HTTP_10),
                "{host}"
            );
        }
        for host in ["a b", "a/b", "a@b", "http://a", "a?b", "[::1", "a:b:c", "a:99999999"] {
            assert!(!fit(&[host], Version::HTTP_11), "{host}");
        }
        assert!(!fit(&[], Version::HTTP_11) && fit(&[], Version::HTTP_10));
        for version in [Version::HTTP_10, Version::HTTP_11] {
            assert!(!fit(&["a", "b"], version) && !fit(&["a", "a"], version));
        }
    }

    #[test]
    fn the_one_transfer_coding_is_chunked() {
        let understood = |values: &[&'static str]| is_transfer_understood(&headers(header::TRANSFER_ENCODING, values));
        assert!(understood(&[]) && understood(&["chunked"]) && understood(&["Chunked "]));
        for codings in [
            &["gzip"][..],
            &["gzip, chunked"],
            &["gzip", "chunked"],
            &["chunked", "chunked"],
            &["identity"],
            &[""],
        ] {
            assert!(!understood(codings), "{codings:?}");
        }
    }
}
