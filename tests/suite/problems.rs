//! Problem documents: each row of the table of errors, with its full body.

use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::http::Client;
use crate::support::instance::question;
use crate::support::server::updates;
use crate::support::{Instance, License, Response, Server, eventually, get, post_json, request};

const VALIDATE: &str = "/api/v1/validate-license";

fn assert_problem(response: &Response, status: u16, code: &str, detail: &str) {
    assert_problem_with(response, status, code, detail, json!({}));
}

fn assert_problem_with(response: &Response, status: u16, code: &str, detail: &str, more: Value) {
    let title = match status {
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Payload Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        412 => "Precondition Failed",
        416 => "Range Not Satisfiable",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        other => panic!("{other} is not in the table"),
    };
    let mut expected =
        json!({ "type": "about:blank", "title": title, "status": status, "detail": detail, "code": code });
    for (name, value) in more.as_object().unwrap() {
        match (name.as_str(), value) {
            // What is wrong with a field of a body has its place.
            ("pointer", place) => expected["errors"] = json!([{ "pointer": place, "detail": detail }]),
            _ => expected[name] = value.clone(),
        }
    }
    assert_eq!(response.status, status, "{}", response.text());
    assert_eq!(
        response.header("content-type"),
        Some("application/problem+json"),
        "{code}"
    );
    assert_eq!(response.header("cache-control"), Some("no-store"), "{code}");
    assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{code}");
    assert_eq!(response.json(), expected);
}

fn serve() -> (License, Instance, Server) {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start(&instance);
    (license, instance, server)
}

fn ask_raw(server: &Server, body: &[u8]) -> Response {
    request(
        server.address,
        "POST",
        VALIDATE,
        &[("Content-Type", "application/json")],
        body,
    )
}

#[test]
fn a_body_that_is_no_object_of_strings_each_once_is_malformed() {
    let (license, _instance, server) = serve();
    let rule = "The body must be one JSON object in UTF-8. Its fields must be strings, each at most once";
    for body in ["", "[]", "null", "\"x\""] {
        let expected = format!("{rule}.");
        assert_problem(&ask_raw(&server, body.as_bytes()), 400, "malformed_request", &expected);
    }
    let twice = format!("{{\"license_key\":\"{0}\",\"license_key\":\"{0}\"}}", license.key);
    for (body, place, pointer) in [
        ("{", "line 1, column 1", None),
        ("{\"site_url\":1}", "line 1, column 13", Some("#/site_url")),
        (&twice, "line 1, column 60", Some("#/license_key")),
    ] {
        let expected = format!("{rule}; see {place}.");
        let more = pointer.map_or(json!({}), |pointer| json!({ "pointer": pointer }));
        let answer = ask_raw(&server, body.as_bytes());
        assert_problem_with(&answer, 400, "malformed_request", &expected, more);
    }
    let target = updates("acme-forms", &license, "a.com", "&site_url=a.com");
    let expected = "'site_url' is given more than once.";
    assert_problem(&get(server.address, &target), 400, "malformed_request", expected);
}

#[test]
fn a_missing_field_is_named() {
    let (license, _instance, server) = serve();
    let assert_missing = |response: Response, field: &str| {
        let detail = format!("'{field}' is required.");
        assert_problem_with(&response, 400, "missing_field", &detail, json!({ "field": field }));
    };
    let assert_missing_in_body = |response: Response, field: &str| {
        let detail = format!("'{field}' is required.");
        let more = json!({ "field": field, "pointer": format!("#/{field}") });
        assert_problem_with(&response, 400, "missing_field", &detail, more);
    };
    assert_missing_in_body(server.ask(&json!({ "site_url": "a.com" })), "license_key");
    assert_missing_in_body(server.ask(&json!({ "license_key": license.key })), "site_url");
    assert_missing(
        get(server.address, "/api/v1/updates/acme-forms?site_url=a.com"),
        "license_key",
    );
    let target = format!("/api/v1/updates/acme-forms?license_key={}", license.key);
    assert_missing(get(server.address, &target), "site_url");
}

#[test]
fn refusals_of_the_update_operation_have_their_bodies() {
    let all: Vec<License> = (0..6).map(|_| License::new()).collect();
    let [good, unbound, expired, suspended, revoked, unknown] = &all[..] else {
        unreachable!()
    };
    let instance = Instance::with_licenses(&[
        good.toml(""),
        unbound.toml(""),
        expired.toml_with("2001-01-01", "", "forms = []"),
        suspended.toml("status = \"suspended\""),
        revoked.toml("status = \"revoked\""),
    ]);
    let server = Server::start(&instance);
    server.validate(good, "a.com");
    for (slug, license, site, status, code, detail) in [
        (
            "acme-forms",
            unknown,
            "a.com",
            403,
            "unknown_license",
            "This license key is unknown.",
        ),
        (
            "acme-forms",
            expired,
            "a.com",
            403,
            "license_expired",
            "This license has expired. Renew it to get updates.",
        ),
        (
            "acme-forms",
            suspended,
            "a.com",
            403,
            "license_suspended",
            "The vendor has suspended this license. Ask the vendor why.",
        ),
        (
            "acme-forms",
            revoked,
            "a.com",
            403,
            "license_revoked",
            "The vendor has revoked this license. Ask the vendor why.",
        ),
        (
            "acme-forms",
            unbound,
            "a.com",
            403,
            "license_not_bound",
            "This license is not bound to this site. Validate it on this site first.",
        ),
        (
            "acme-forms",
            good,
            "b.com",
            403,
            "bound_elsewhere",
            "This license is bound to another site.",
        ),
        (
            "acme-maps",
            good,
            "a.com",
            403,
            "plugin_not_covered",
            "This license does not include the plugin's module.",
        ),
        (
            "nothing",
            good,
            "a.com",
            404,
            "unknown_plugin",
            "This plugin is unknown.",
        ),
        (
            "acme-bare",
            good,
            "a.com",
            404,
            "source_not_configured",
            "This server has no releases of this plugin.",
        ),
    ] {
        assert_problem(
            &get(server.address, &updates(slug, license, site, "")),
            status,
            code,
            detail,
        );
    }
}

#[test]
fn addresses_and_methods_that_do_not_exist_say_so() {
    let (_license, _instance, server) = serve();
    for target in [
        "/nothing",
        "/api",
        "/api/v1/updates",
        "/api/v1/updates/a/b",
        "/api/v2/validate-license",
        "/../x",
        "/%2e%2e/keys/signing.pem",
    ] {
        let detail = "There is nothing at this address.";
        assert_problem(&get(server.address, target), 404, "not_found", detail);
    }
    for (method, target, allowed) in [
        ("GET", VALIDATE, "POST"),
        ("PUT", VALIDATE, "POST"),
        ("POST", "/api/v1/updates/acme-forms", "GET, HEAD"),
        ("POST", "/index.html", "GET, HEAD"),
    ] {
        let response = request(server.address, method, target, &[], b"");
        let detail = format!("Use {allowed} for this address.");
        assert_problem(&response, 405, "method_not_allowed", &detail);
        assert_eq!(response.header("allow"), Some(allowed));
    }
}

#[test]
fn a_body_that_does_not_arrive_times_out() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start_with(&instance, &["--request-timeout-seconds", "1"]);
    let mut client = Client::connect(server.address);
    client
        .send(b"POST /api/v1/validate-license HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\n{")
        .unwrap();
    let response = client.receive().unwrap();
    let detail = "The request took too long.";
    assert_problem(&response, 408, "request_timeout", detail);
    assert_eq!(response.header("connection"), Some("close"));
}

#[test]
fn headers_that_do_not_arrive_close_the_connection() {
    let instance = Instance::new();
    let server = Server::start_with(&instance, &["--header-timeout-seconds", "1"]);
    let mut client = Client::connect(server.address);
    client.send(b"GET /index.html HTTP/1.1\r\nHos").unwrap();
    assert!(client.receive().is_err(), "closed without an answer");
}

#[test]
fn what_is_too_large_is_refused_with_its_limit() {
    let (license, _instance, server) = serve();
    let detail = "The body may be at most 8192 bytes long.";
    let mut largest = question(&license, "a.com").to_string();
    largest += &" ".repeat(8192 - largest.len());
    assert_eq!(
        ask_raw(&server, largest.as_bytes()).code(),
        "ok",
        "8192 bytes are taken"
    );
    let response = ask_raw(&server, (largest.clone() + " ").as_bytes());
    assert_problem(&response, 413, "payload_too_large", detail);

    let mut stream = TcpStream::connect(server.address).unwrap();
    write!(
        stream,
        "POST {VALIDATE} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n2001\r\n{largest} \r\n0\r\n\r\n"
    )
    .unwrap();
    drop(stream);
    let mut client = Client::connect(server.address);
    let chunked = format!(
        "POST {VALIDATE} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n2001\r\n{largest} \r\n0\r\n\r\n"
    );
    client.send(chunked.as_bytes()).unwrap();
    assert_problem(&client.receive().unwrap(), 413, "payload_too_large", detail);

    let target = format!("/index.html?{}", "x".repeat(4096));
    let detail = "The path and query may be at most 4096 bytes long.";
    assert_problem(&get(server.address, &target), 414, "uri_too_long", detail);

    let response = request(
        server.address,
        "GET",
        "/index.html",
        &[("X-Long", &"x".repeat(8192))],
        b"",
    );
    let detail = "All header fields together may be at most 8192 bytes long.";
    assert_problem(&response, 431, "headers_too_large", detail);
}

#[test]
fn a_body_that_is_not_json_by_its_own_account_is_not_supported() {
    let (license, _instance, server) = serve();
    let body = question(&license, "a.com").to_string();
    let ask = |headers: &[(&str, &str)]| request(server.address, "POST", VALIDATE, headers, body.as_bytes());
    for bad in [
        ("Content-Type", "text/plain"),
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Content-Type", "jsonp"),
        ("Content-Encoding", "gzip"),
        ("Content-Encoding", "identity, gzip"),
        ("Content-Encoding", "x-identity"),
    ] {
        let detail = "Send the body as application/json, uncompressed.";
        assert_problem(&ask(&[bad]), 415, "unsupported_media_type", detail);
    }
    for good in [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/vnd.acme+json",
    ] {
        assert_eq!(ask(&[("Content-Type", good)]).code(), "ok", "{good}");
    }
    for none in ["identity", "Identity", "identity, identity", ""] {
        assert_eq!(ask(&[("Content-Encoding", none)]).code(), "ok", "{none:?} is as it is");
    }
}

#[test]
fn values_that_do_not_parse_say_which_and_why() {
    let (license, _instance, server) = serve();
    let with = |field: &str, value: &str| {
        let mut question = question(&license, "a.com");
        question[field] = json!(value);
        server.ask(&question)
    };
    let malformed = "A license key has five groups of five letters or digits.";
    let at = |field: &str| json!({ "pointer": format!("#/{field}") });
    let key = at("license_key");
    let response = with("license_key", "abc");
    assert_problem_with(&response, 422, "malformed_license_key", malformed, key.clone());
    let checksum = "The license key is mistyped: its check symbols do not match.";
    let mistyped = format!(
        "{}{}",
        &license.key[..28],
        if license.key.ends_with('0') { '1' } else { '0' }
    );
    let response = with("license_key", &mistyped);
    assert_problem_with(&response, 422, "license_key_checksum", checksum, key);
    assert_problem_with(
        &with("site_url", "ftp://a.com"),
        422,
        "malformed_site_url",
        "'site_url' is not a site's address: its scheme is not http:// or https://.",
        json!({ "reason": "bad_scheme", "pointer": "#/site_url" }),
    );
    let detail = "'build_id' must be a UUID such as 018f3b2e-7c1a-7000-8000-3f1c2d4e5f60.";
    let response = with("build_id", "42");
    assert_problem_with(&response, 422, "malformed_build_id", detail, at("build_id"));
    for (field, limit) in [("nonce", 128), ("plugin_version", 64)] {
        assert_eq!(with(field, &"1".repeat(limit)).code(), "ok", "{field}");
        let detail = format!("'{field}' may be at most {limit} bytes long.");
        let response = with(field, &"1".repeat(limit + 1));
        let more = json!({ "field": field, "pointer": format!("#/{field}") });
        assert_problem_with(&response, 422, "field_too_long", &detail, more);
    }
}

#[test]
fn every_refused_site_address_says_its_reason() {
    let (license, _instance, server) = serve();
    let vectors = include_str!("../vectors/hosts.tsv")
        .lines()
        .skip(2)
        .map(|line| line.split('\t').collect::<Vec<_>>());
    let mut refused = 0;
    for columns in vectors {
        let Some(reason) = columns[1].strip_prefix('!') else {
            continue;
        };
        let site_url: String = serde_json::from_str(columns[0]).unwrap();
        let response = post_json(server.address, VALIDATE, &question(&license, &site_url));
        assert_eq!(
            (response.status, response.code().as_str()),
            (422, "malformed_site_url"),
            "{}",
            columns[0]
        );
        assert_eq!(response.json()["reason"], reason, "{}", columns[0]);
        refused += 1;
    }
    assert!(refused > 40);
}

#[test]
fn a_license_asked_about_too_often_and_a_guesser_are_asked_to_come_back_later() {
    let license = License::new();
    let other = License::new();
    let instance = Instance::with_licenses(&[license.toml(""), other.toml("")]);
    let flags = ["--requests-per-license", "1", "--failures-per-minute", "2"];
    let server = Server::start_with(&instance, &flags);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    assert_eq!(server.validate(&license, "a.com").code(), "too_many_requests");
    assert_eq!(
        server.validate(&other, "a.com").code(),
        "ok",
        "another license is not affected"
    );
    assert_eq!(server.validate(&License::new(), "a.com").code(), "unknown_license");
    assert_eq!(
        server.ask(&json!({ "license_key": "guess" })).code(),
        "malformed_license_key"
    );
    // The bucket is all but empty. As soon as a little is there again, one more guess is answered, and then the
    // bucket owes for half a minute.
    eventually("the last guess", || {
        server.validate(&License::new(), "a.com").code() == "unknown_license"
    });
    // A client that guesses learns nothing more: neither of a wrong key nor of a right one.
    for response in [
        server.validate(&License::new(), "a.com"),
        server.updates(&License::new(), "a.com", ""),
        server.updates(&other, "a.com", ""),
        get(server.address, "/index.html"),
    ] {
        assert_eq!((response.status, response.code().as_str()), (429, "too_many_requests"));
    }
}

#[test]
fn everything_that_arrives_takes_from_its_address_and_what_is_malformed_takes_more() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    // How many of a kind are answered before the address is refused, and in which time; the bucket holds 40.
    let answered = |ask: &dyn Fn(&Server) -> Option<u16>| {
        let server = Server::start_with(&instance, &["--requests-per-minute", "40"]);
        let started = Instant::now();
        let answered = (0..200)
            .take_while(|_| ask(&server).is_none_or(|status| status != 429))
            .count();
        (answered, started.elapsed())
    };
    let long = format!("/{}", "x".repeat(5_000));
    let raw = |server: &Server, bytes: &str| {
        let mut client = Client::connect(server.address);
        client.send(bytes.as_bytes()).unwrap();
        client.receive().ok().map(|response| response.status)
    };
    type Kind<'a> = (&'a str, &'a dyn Fn(&Server) -> Option<u16>);
    let kinds: [Kind; 11] = [
        ("a public file", &|server| {
            Some(get(server.address, "/index.html").status)
        }),
        ("an update", &|server| {
            Some(server.updates(&license, "a.com", "").status)
        }),
        ("a validation", &|server| {
            Some(server.validate(&license, "a.com").status)
        }),
        ("404", &|server| Some(get(server.address, "/nothing").status)),
        ("405", &|server| {
            Some(request(server.address, "PUT", VALIDATE, &[], b"").status)
        }),
        ("a malformed body", &|server| Some(ask_raw(server, b"{").status)),
        ("a malformed query", &|server| {
            Some(get(server.address, "/api/v1/updates/acme-forms?site_url=a&site_url=a").status)
        }),
        ("a malformed site", &|server| {
            Some(server.ask(&question(&license, "ftp://a")).status)
        }),
        ("a long path", &|server| Some(get(server.address, &long).status)),
        ("no host", &|server| raw(server, "GET /index.html HTTP/1.1\r\n\r\n")),
        ("two hosts", &|server| {
            raw(server, "GET /index.html HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n")
        }),
    ];
    for (at, (kind, ask)) in kinds.into_iter().enumerate() {
        let cost = if at < 3 { 1 } else { 10 };
        let expected = 40 / cost;
        let (answered, took) = answered(ask);
        // A token comes back every one and a half seconds, which are many on a busy machine.
        let returned = (took.as_millis() as usize * 40).div_ceil(60_000);
        let most = expected + 4 + returned.div_ceil(cost);
        assert!(
            (expected..=most).contains(&answered),
            "{kind}: {answered} answered in {took:?}"
        );
    }
    // What the HTTP library refuses by itself is not answered 429, and what comes afterwards is.
    let server = Server::start_with(&instance, &["--requests-per-minute", "40"]);
    for _ in 0..8 {
        assert_eq!(raw(&server, "nonsense\r\n\r\n"), Some(400));
    }
    assert_eq!(get(server.address, "/index.html").status, 429);
}

#[test]
fn a_request_names_one_host_and_no_coding_but_chunks() {
    let (license, _instance, server) = serve();
    let ask = |head: &str| {
        let mut client = Client::connect(server.address);
        client.send(format!("{head}\r\n\r\n").as_bytes()).unwrap();
        client.receive().unwrap()
    };
    for head in [
        "GET /index.html HTTP/1.1",
        "GET /index.html HTTP/1.1\r\nHost: a\r\nHost: b",
        "GET /index.html HTTP/1.1\r\nHost: a\r\nHost: a",
        "GET /index.html HTTP/1.0\r\nHost: a\r\nHost: b",
        "GET /index.html HTTP/1.1\r\nHost: a/b",
        "GET /api/v1/updates/acme-forms HTTP/1.1",
    ] {
        assert_problem(
            &ask(head),
            400,
            "malformed_request",
            "The request must have one 'Host' header that names a host.",
        );
    }
    for head in [
        "GET /index.html HTTP/1.0",
        "GET /index.html HTTP/1.1\r\nHost:",
        "GET /index.html HTTP/1.1\r\nHost: [::1]:8080",
    ] {
        assert_eq!(ask(head).status, 200, "{head}");
    }
    for codings in [
        "gzip, chunked",
        "chunked, chunked",
        "gzip\r\nTransfer-Encoding: chunked",
        "identity, chunked",
    ] {
        let response = ask(&format!(
            "POST {VALIDATE} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: {codings}\r\n\r\n2\r\n{{}}\r\n0"
        ));
        let detail = "'chunked' is the only transfer coding this server supports.";
        assert_problem(&response, 501, "unsupported_transfer_coding", detail);
        assert_eq!(response.header("connection"), Some("close"), "{codings}");
    }
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    let counted = |code| {
        server.metric(&format!(
            "countersign_requests_total{{operation=\"public\",code=\"{code}\"}}"
        ))
    };
    assert_eq!(
        (counted("malformed_request"), counted("unsupported_transfer_coding")),
        (Some(6.0), Some(4.0))
    );
}

#[test]
fn head_is_answered_as_get_is_without_its_body() {
    let (license, instance, server) = serve();
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    instance.write("public/large.bin", &"x".repeat(200_000));
    let whole = |target: &str| (server.address, target.to_owned());
    let targets = [
        whole("/index.html"),
        whole("/large.bin"),
        whole("/"),
        whole("/nothing"),
        whole(&updates("acme-forms", &license, "a.com", "")),
        whole(&updates("acme-forms", &license, "a.com", "&current_version=99")),
        whole(&updates("nosuch", &license, "a.com", "")),
        whole("/api/v1/updates/acme-forms"),
        whole(VALIDATE),
        (server.admin, "/healthz".to_owned()),
        (server.admin, "/readyz".to_owned()),
        (server.admin, "/nothing".to_owned()),
    ];
    for (address, target) in targets {
        // `/readyz` says in which second files were checked, so a round counts in which both answers to GET are equal.
        let rounds = std::iter::repeat_with(|| {
            let got = get(address, &target);
            let mut client = Client::connect(address);
            client
                .send(format!("HEAD {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
                .unwrap();
            let head = client.receive_head().unwrap();
            // Nothing follows but the next answer.
            let next = client.request("GET", &target, &[], b"");
            (got, head, next)
        });
        let mut rounds = rounds.take(20).filter(|(got, _, next)| next.body == got.body);
        let (got, head, _) = rounds.next().expect(&target);
        let said = |response: &Response| {
            let headers = response.headers.iter().filter(|(name, _)| name != "date");
            (response.status, headers.cloned().collect::<Vec<_>>())
        };
        assert_eq!(said(&head), said(&got), "{target}");
        assert!(head.header("content-length").is_some(), "{target}");
    }
}

#[test]
fn a_proxy_that_is_not_named_is_logged_once() {
    let instance = Instance::new();
    let ask = |server: &Server| {
        for _ in 0..3 {
            request(
                server.address,
                "GET",
                "/index.html",
                &[("X-Forwarded-For", "198.51.100.1")],
                b"",
            );
        }
        server.log().matches("X-Forwarded-For").count()
    };
    assert_eq!(ask(&Server::start(&instance)), 1);
    assert_eq!(ask(&Server::start_with(&instance, &["--proxies", "127.0.0.1"])), 0);
}

#[test]
fn behind_a_proxy_it_is_the_clients_address_that_counts() {
    let licenses: Vec<License> = (0..4).map(|_| License::new()).collect();
    let instance = Instance::with_licenses(&licenses.iter().map(|license| license.toml("")).collect::<Vec<_>>());
    let code = |server: &Server, license: &License, forwarded: &str| {
        let body = question(license, "a.com").to_string();
        request(
            server.address,
            "POST",
            VALIDATE,
            &[("X-Forwarded-For", forwarded)],
            body.as_bytes(),
        )
        .code()
    };
    let server = Server::start_with(&instance, &["--requests-per-minute", "1", "--proxies", "127.0.0.0/8"]);
    assert_eq!(code(&server, &licenses[0], "198.51.100.1"), "ok");
    assert_eq!(code(&server, &licenses[1], "198.51.100.2"), "ok");
    assert_eq!(
        code(&server, &licenses[2], "198.51.100.3, 198.51.100.1"),
        "too_many_requests",
        "the proxy's own entry"
    );
    server.stop();
    let server = Server::start_with(&instance, &["--requests-per-minute", "1"]);
    assert_eq!(code(&server, &licenses[0], "198.51.100.1"), "ok");
    assert_eq!(
        code(&server, &licenses[1], "198.51.100.2"),
        "too_many_requests",
        "nobody is believed by default"
    );
}

#[test]
fn an_address_holds_no_more_connections_than_it_may() {
    let server_flags = ["--connections-per-address", "2"];
    let instance = Instance::new();
    let server = Server::start_with(&instance, &server_flags);
    let mut held: Vec<Client> = (0..2).map(|_| Client::connect(server.address)).collect();
    assert!(
        held.iter_mut()
            .all(|client| client.request("GET", "/index.html", &[], b"").status == 200)
    );
    let mut third = Client::connect(server.address);
    assert!(third.try_request("GET", "/index.html", &[], b"").is_err(), "closed");
    held.pop();
    eventually("a seat is free", || {
        Client::connect(server.address)
            .try_request("GET", "/index.html", &[], b"")
            .is_ok()
    });
}

#[test]
fn whoever_asks_too_often_learns_when_to_come_back() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start_with(&instance, &["--requests-per-minute", "2"]);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    assert_eq!(server.updates(&license, "a.com", "").status, 200);
    for response in [
        server.validate(&license, "a.com"),
        server.updates(&license, "a.com", ""),
    ] {
        let seconds: u64 = response.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=30).contains(&seconds));
        let detail = format!("Try again in {seconds} seconds.");
        assert_problem(&response, 429, "too_many_requests", &detail);
    }
}
