//! The customer's page: who gets in, what somebody sees and changes, and what nobody finds out.

use std::collections::HashSet;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use chrono::Utc;
use countersign_model::build_id::BuildId;
use countersign_model::download_key::DownloadKey;
use serde_json::{Value, json};

use crate::deep_inputs::mail_server_with_mails;
use crate::hosted::{SECRET, hosting};
use crate::management::stdout_json;
use crate::support::account::{cookie, session};
use crate::support::http::Client;
use crate::support::instance::{LATEST, question};
use crate::support::server::countersign;
use crate::support::{Instance, License, Response, Server, eventually, eventually_within};

const ANNA: &str = "anna@buyer.example";
const BERT: &str = "bert@buyer.example";
/// The most bytes of a page on a slow phone.
const MOST_BYTES: usize = 15_000;

struct Account {
    instance: Instance,
    server: Server,
    mailed: Arc<Mutex<Vec<String>>>,
}

fn location(answer: &Response) -> &str {
    answer.header("location").unwrap_or_default()
}

/// The value of a field of a form.
fn field<'p>(page: &'p str, name: &str) -> &'p str {
    let value = page.split(&format!("name=\"{name}\" value=\"")).nth(1);
    let value = value.unwrap_or_else(|| panic!("no {name} in {page}"));
    value.split('"').next().unwrap()
}

impl Account {
    fn open(more: &str) -> Self {
        Self::with(Instance::issuing(&[]), more)
    }

    fn with(instance: Instance, more: &str) -> Self {
        let (port, mailed) = mail_server_with_mails();
        let settings = format!(
            "[account]\nname = 'Acme'\ncolor = '#17615a'\nsupport = 'help@acme.example'\n\
             [mail]\nserver = '127.0.0.1'\nport = {port}\ntls = 'none'\nfrom = 'licenses@acme.example'\n\
             [serve]\n{more}"
        );
        instance.write("countersign.toml", &settings);
        let server = Server::start(&instance);
        Self {
            instance,
            server,
            mailed,
        }
    }

    /// Issues a license for two sites and a customer.
    fn issue(&self, address: &str, more: &[&str]) -> License {
        let arguments = [
            "license",
            "issue",
            "--module",
            "forms",
            "--sites",
            "2",
            "--customer",
            address,
        ];
        let issued = stdout_json(
            &self.instance,
            &[&arguments[..], &["--expires", "2099-06-30"], more].concat(),
        );
        License {
            id: issued["id"].as_str().unwrap().to_owned(),
            key: issued["license_key"].as_str().unwrap().to_owned(),
        }
    }

    /// Imports licenses from a table.
    fn import(&self, table: &str) {
        self.instance.write("export.csv", table);
        let imported = countersign(&self.instance)
            .args(["license", "import", "export.csv", "--from", "csv"])
            .current_dir(self.instance.path())
            .output()
            .unwrap();
        assert!(imported.status.success(), "{imported:?}");
    }

    fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let mut head = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let mut client = Client::connect(self.server.address);
        client.send(format!("{head}\r\n{body}").as_bytes()).unwrap();
        match method {
            "HEAD" => client.receive_head().unwrap(),
            _ => client.receive().unwrap(),
        }
    }

    fn get(&self, target: &str, session: &str) -> Response {
        self.send("GET", target, &[("Cookie", &format!("account={session}"))], "")
    }

    fn post(&self, target: &str, session: &str, form: &[(&str, &str)]) -> Response {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(form);
        let cookie = format!("account={session}");
        let headers = [
            ("Cookie", cookie.as_str()),
            ("Sec-Fetch-Site", "same-origin"),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        self.send("POST", target, &headers, &body.finish())
    }

    /// Asks for a mail; the page for the code.
    fn ask(&self, address: &str) -> String {
        let answer = self.post("/account/sign-in", "", &[("address", address)]);
        assert_eq!(answer.status, 303, "{}", answer.text());
        location(&answer).to_owned()
    }

    /// The next mail: its whole text, its code, and the path of its link.
    fn mail(&self) -> (String, String, String) {
        eventually("the mail is there", || !self.mailed.lock().unwrap().is_empty());
        let mail = self.mailed.lock().unwrap().remove(0);
        let mail = mail.replace("=\r\n", "").replace("=3D", "=");
        let code = mail.split("ode: ").nth(1).unwrap()[..9].to_owned();
        let link = mail.split("/account/link/").nth(1).unwrap();
        let link = format!("/account/link/{}", link.split_whitespace().next().unwrap());
        (mail, code, link)
    }

    fn license(&self, id: &str) -> Value {
        stdout_json(&self.instance, &["license", "show", id])
    }

    fn ledger(&self) -> String {
        fs::read_to_string(self.instance.file("store/ledger.jsonl")).unwrap()
    }

    fn bind(&self, license: &License, site: &str, secret: &str) {
        let mut question = question(license, site);
        question["release_hash"] = json!(crate::support::instance::sha256(secret));
        assert_eq!(self.server.ask(&question).code(), "ok", "{site}");
    }
}

#[test]
fn a_customer_signs_in_by_the_address_and_sees_the_licenses_of_nobody_else() {
    let account = Account::open("");
    let own = account.issue(ANNA, &[]);
    let other = account.issue(BERT, &[]);
    account.issue("kim@buyer.example", &[]);
    // Another mailbox that is found as the same address: the mail goes to the one that is kept.
    account.ask("\u{212A}im@buyer.example");
    let (mail, ..) = account.mail();
    assert!(mail.contains("To: kim@buyer.example"), "{mail}");
    account.bind(&own, "https://anna.example", "a");
    account.bind(&other, "https://bert.example", "b");
    let first = account.get("/account", "");
    assert!(first.status == 200 && first.text().contains("Send me the link") && first.text().contains("Acme"));
    let at = account.ask(" Anna@Buyer.example");
    assert_eq!(account.get(&at, "").status, 200);
    let (mail, code, link) = account.mail();
    assert!(mail.contains("Sign in at Acme") && mail.contains(ANNA), "{mail}");
    // A scanner opens every link.
    let before = account.ledger();
    for method in ["GET", "HEAD"] {
        for target in [link.as_str(), &at, "/account", "/account/sign-in"] {
            assert_eq!(account.send(method, target, &[], "").status, 200, "{method} {target}");
        }
    }
    assert_eq!(account.ledger(), before);
    assert_eq!(account.post(&at, "", &[("code", "AAAA-AAAA")]).status, 422);
    let used = account.post(&link, "", &[]);
    assert_eq!(
        (used.status, location(&used)),
        (303, "/account?signed-in"),
        "{}",
        used.text()
    );
    let set = used.header("set-cookie").unwrap();
    assert!(
        set.starts_with("account=") && set.contains("; Max-Age=7200; HttpOnly; SameSite=Lax"),
        "{set}"
    );
    let session = set.split([';', '=']).nth(1).unwrap();
    // The code and the link are one, and work once.
    assert_eq!(account.post(&at, "", &[("code", &code)]).status, 410);
    assert_eq!(account.post(&link, "", &[]).status, 410);
    let page = account.get("/account", session);
    assert_eq!(page.header("cache-control"), Some("no-store"));
    let page = page.text();
    assert!(
        page.contains(&own.id) && !page.contains(&other.id) && page.contains(ANNA),
        "{page}"
    );
    let page = account.get(&format!("/account/licenses/{}", own.id), session).text();
    assert!(
        page.contains("anna.example") && page.contains("1 of 2") && !page.contains("bert.example"),
        "{page}"
    );
    assert!(page.len() <= MOST_BYTES, "{} bytes", page.len());
    // Nothing of another customer, by whatever is guessed.
    let nobody = License::new();
    let mut answers = Vec::new();
    for id in [other.id.as_str(), &nobody.id, &other.id[..12], "x"] {
        for path in ["", "/move?host=bert.example", "/new-key", "/download"] {
            let answer = account.get(&format!("/account/licenses/{id}{path}"), session);
            answers.push((answer.status, answer.text()));
        }
        let forms = [
            ("move", [("host", "bert.example"), ("what", "gone")]),
            ("mail-key", [("once", &"0".repeat(32)), ("x", "")]),
            ("new-key", [("once", &"0".repeat(32)), ("revision", "1")]),
            ("download", [("plugin", "acme-forms"), ("host", "")]),
        ];
        for (path, form) in forms {
            let answer = account.post(&format!("/account/licenses/{id}/{path}"), session, &form);
            answers.push((answer.status, answer.text()));
        }
    }
    answers.dedup();
    assert!(answers.len() == 1 && answers[0].0 == 404, "{answers:?}");
    // The host of another customer on the own license.
    let guessed = account.get(&format!("/account/licenses/{}/move?host=bert.example", own.id), session);
    let unbound = account.get(
        &format!("/account/licenses/{}/move?host=nobody.example", own.id),
        session,
    );
    assert_eq!((guessed.status, guessed.text()), (422, unbound.text()));
    let out = account.post("/account/sign-out", session, &[]);
    assert_eq!((out.status, location(&out)), (303, "/account/sign-in"));
    assert!(out.header("clear-site-data").is_none());
    assert!(account.get("/account", session).text().contains("Send me the link"));
    let log = account.server.log();
    assert!(
        !log.contains(&code) && !log.contains(&link) && !log.to_lowercase().contains("anna@"),
        "{log}"
    );
}

/// How many known and as many unknown addresses are compared at once: what else a machine does changes slowly.
const BLOCK: usize = 10;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Asks for mails for so many known and so many unknown addresses, in turns. Nothing that a stranger sees differs; of the times, the
/// difference of the medians must be no more than known addresses differ among themselves. Gives the figures.
pub fn known_and_unknown_are_alike(each: usize) -> String {
    let account = Account::open("");
    let mut export = "key,expires,modules,customer\n".to_owned();
    for number in 0..each {
        export += &format!("{},2099-06-30,forms,k{number:05}@buyer.example\n", License::new().key);
    }
    account.import(&export);
    let mut times = [Vec::new(), Vec::new()];
    let mut shapes = [HashSet::new(), HashSet::new()];
    for number in 0..each {
        // Each goes first half of the time.
        for turn in 0..2 {
            let known = (number + turn) % 2;
            let address = format!("{}{number:05}@buyer.example", if known == 0 { "k" } else { "u" });
            let began = Instant::now();
            let answer = account.post("/account/sign-in", "", &[("address", &address)]);
            times[known].push(began.elapsed().as_secs_f64() * 1e6);
            let page = account.get(location(&answer), "").text();
            let mut headers: Vec<_> = ["content-length", "cache-control", "content-type", "set-cookie"]
                .map(|name| answer.header(name).map(str::to_owned))
                .into();
            headers.push(Some(location(&answer).len().to_string()));
            let page = page.replace(location(&answer), "");
            shapes[known].insert((answer.status, answer.body.clone(), headers, page));
        }
    }
    assert!(shapes.iter().all(|shapes| shapes.len() == 1), "each answer is the same");
    assert_eq!(shapes[0], shapes[1]);
    let [known, unknown] = &times;
    let every_other = |block: &[f64], first: usize| median(block.iter().copied().skip(first).step_by(2).collect());
    let blocks = known.chunks(BLOCK).zip(unknown.chunks(BLOCK));
    let differences: Vec<_> = blocks
        .map(|(known, unknown)| median(known.to_vec()) - median(unknown.to_vec()))
        .collect();
    // Of half as many each, so it is larger than the noise of the differences.
    let noise: Vec<_> = known
        .chunks(BLOCK)
        .map(|known| (every_other(known, 0) - every_other(known, 1)).abs())
        .collect();
    // A median, so that what else the machine did in some blocks does not count. The standard error of a median is 1.25 times that of a
    // mean, and a standard deviation is 1.48 times the median of what differs from the middle.
    let error = 1.25 * 1.48 * median(noise) / (differences.len() as f64).sqrt();
    let difference = median(differences);
    let [known, unknown] = times.map(median);
    let figures = format!(
        "{each} each: known {known:.0} µs, unknown {unknown:.0} µs; in blocks, known takes {difference:+.1} µs more, with a \
         standard error of {error:.1} µs"
    );
    assert!(difference.abs() < 5.0 * error + known / 50.0, "{figures}");
    eventually_within("each known address got a mail", Duration::from_secs(300), || {
        account.mailed.lock().unwrap().len() == each
    });
    let mails = account.mailed.lock().unwrap();
    let is_known = |mail: &String| mail.contains("To: k") && !mail.contains("To: u");
    assert!(mails.iter().all(is_known));
    figures
}

#[test]
fn nobody_learns_whether_an_address_is_known_by_status_bytes_or_time() {
    eprintln!("{}", known_and_unknown_are_alike(200));
}

#[test]
fn of_a_thousand_mails_for_one_address_three_arrive_and_the_page_says_so() {
    let account = Account::open("");
    account.issue(ANNA, &[]);
    let ask = |address: &str| account.post("/account/sign-in", "", &[("address", address)]);
    let known: Vec<_> = (0..1_000).map(|_| ask(ANNA)).collect();
    let unknown: Vec<_> = (0..10).map(|_| ask(BERT)).collect();
    let count = |answers: &[Response], status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(&known, 303), count(&known, 429)), (3, 997));
    assert_eq!((count(&unknown, 303), count(&unknown, 429)), (3, 7));
    assert!(known[999].text().contains("Enough mails for now"));
    assert_eq!(known[999].text(), unknown[9].text());
    eventually("three mails arrive", || account.mailed.lock().unwrap().len() == 3);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(account.mailed.lock().unwrap().len(), 3);
}

#[test]
fn whoever_guesses_addresses_or_keys_is_slowed() {
    let account = Account::open("");
    drop(account.server);
    let account = Account {
        server: Server::start_with(&account.instance, &["--failures-per-minute", "20"]),
        ..account
    };
    let asked: Vec<_> = (0..60)
        .map(|number| {
            account
                .post(
                    "/account/sign-in",
                    "",
                    &[("address", &format!("u{number}@buyer.example"))],
                )
                .status
        })
        .collect();
    assert!(asked.contains(&429), "{asked:?}");
}

#[test]
fn a_session_is_one_of_these_pages_that_lasts_two_hours_and_a_form_is_one_of_ours() {
    let account = Account::open("");
    let own = account.issue(ANNA, &[]);
    let is_in = |cookie: &str| account.get("/account", cookie).text().contains(&own.id);
    assert!(is_in(&session(ANNA)) && is_in(&cookie("account", 1, ANNA)));
    for stranger in [
        &cookie("account", 2, ANNA),
        &cookie("desk", 0, ANNA),
        &session(BERT),
        "",
        "x",
    ] {
        assert!(!is_in(stranger), "{stranger}");
    }
    let path = format!("/account/licenses/{}", own.id);
    let out = account.get(&path, "");
    assert_eq!((out.status, location(&out)), (303, "/account/sign-in"));
    // Without cookies there is a sentence.
    assert!(
        account
            .get("/account?signed-in", "")
            .text()
            .contains("Your browser keeps no cookies")
    );
    assert!(
        !account
            .get("/account?signed-in", &session(ANNA))
            .text()
            .contains("no cookies")
    );
    let before = account.ledger();
    let signed_in = format!("account={}", session(ANNA));
    for headers in [
        &[("Cookie", signed_in.as_str())][..],
        &[("Cookie", &signed_in), ("Sec-Fetch-Site", "cross-site")],
        &[("Cookie", &signed_in), ("Sec-Fetch-Site", "same-site")],
        &[("Cookie", &signed_in), ("Origin", "https://evil.example")],
    ] {
        for target in [
            format!("{path}/move"),
            format!("{path}/new-key"),
            "/account/sign-out".to_owned(),
        ] {
            assert_eq!(
                account.send("POST", &target, headers, "what=gone").status,
                403,
                "{target}"
            );
        }
    }
    for target in ["/account/x", "/account/licenses", "/account//key"] {
        assert_eq!(account.get(target, &session(ANNA)).status, 404, "{target}");
    }
    assert_eq!(account.send("PUT", "/account", &[], "").status, 405);
    assert_eq!(account.ledger(), before);
    let page = account.get("/account", &session(ANNA));
    for (name, expected) in [
        ("content-security-policy", "default-src 'none'"),
        ("referrer-policy", "same-origin"),
    ] {
        assert!(page.header(name).unwrap().starts_with(expected), "{name}");
    }
    let style = page.text();
    let style = style
        .split("rel=\"stylesheet\" href=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let sheet = account.get(style, "");
    assert!(sheet.status == 200 && sheet.text().contains("--accent:light-dark(#17615a,"));
}

#[test]
fn a_site_that_moved_or_is_gone_gives_its_seat_five_times_in_thirty_days() {
    let account = Account::open("");
    let own = account.issue(ANNA, &[]);
    let anna = session(ANNA);
    let path = format!("/account/licenses/{}", own.id);
    account.bind(&own, "https://old.example", "old");
    account.bind(&own, "https://second.example", "second");
    let question_page = account.get(&format!("{path}/move?host=old.example"), &anna).text();
    assert!(question_page.contains("5 more times"), "{question_page}");
    let moved = |host: &str, to: &str| {
        let form = [("host", host), ("what", "moved"), ("to", to)];
        account.post(&format!("{path}/move"), &anna, &form)
    };
    let done = moved("old.example", "https://www.new.example/blog");
    assert_eq!(location(&done), format!("{path}?done=moved"), "{}", done.text());
    // What was done is so already.
    assert_eq!(
        location(&moved("old.example", "new.example")),
        format!("{path}?done=same")
    );
    let ask = |site: &str| account.server.ask(&question(&own, site)).code();
    assert_eq!(
        (ask("https://new.example"), ask("https://old.example")),
        ("ok".into(), "bound_elsewhere".into())
    );
    let page = account.get(&path, &anna).text();
    assert!(
        page.contains("old.example moved to new.example") && page.contains("new.example</bdi>"),
        "{page}"
    );
    for (to, reason) in [("not a site", "must be like"), ("new.example", "same site")] {
        let refused = moved("new.example", to);
        assert!(
            refused.status == 422 && refused.text().contains(reason),
            "{to}: {}",
            refused.text()
        );
    }
    // That one has a seat already: the old one is given up.
    assert_eq!(moved("new.example", "second.example").status, 303);
    for number in 3..=5 {
        account.bind(&own, &format!("https://site{number}.example"), "s");
        let form = [("host", format!("site{number}.example")), ("what", "gone".to_owned())];
        let form: Vec<_> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let freed = account.post(&format!("{path}/move"), &anna, &form);
        assert_eq!(
            location(&freed),
            format!("{path}?done=freed"),
            "{number}: {}",
            freed.text()
        );
    }
    let sixth = account.post(
        &format!("{path}/move"),
        &anna,
        &[("host", "second.example"), ("what", "gone")],
    );
    assert!(
        sixth.status == 422 && sixth.text().contains("as often as it may"),
        "{}",
        sixth.text()
    );
    assert!(
        account
            .get(&format!("{path}/move?host=second.example"), &anna)
            .text()
            .contains("0 more times")
    );
    // A new key would free all seats.
    let page = account.get(&format!("{path}/new-key"), &anna).text();
    let form = [("once", field(&page, "once")), ("revision", field(&page, "revision"))];
    assert_eq!(account.post(&format!("{path}/new-key"), &anna, &form).status, 422);
    let ledger = account.ledger();
    assert_eq!(ledger.matches("\"how\":\"customer\"").count(), 5, "{ledger}");
    let history = countersign(&account.instance)
        .args(["license", "history", &own.id])
        .output()
        .unwrap();
    let history = String::from_utf8(history.stdout).unwrap();
    assert!(
        history.contains("the customer moved old.example to new.example"),
        "{history}"
    );
    assert!(history.contains("the customer freed site5.example"), "{history}");
}

#[test]
fn who_lost_a_key_gets_it_by_mail_and_who_gave_it_away_gets_a_new_one_once() {
    let account = Account::open("");
    let own = account.issue(ANNA, &[]);
    account.bind(&own, "https://anna.example", "a");
    let anna = session(ANNA);
    let path = format!("/account/licenses/{}", own.id);
    let page = account.get(&path, &anna).text();
    let once = field(&page, "once").to_owned();
    for _ in 0..2 {
        let sent = account.post(&format!("{path}/mail-key"), &anna, &[("once", &once)]);
        assert_eq!(location(&sent), format!("{path}?done=mailed"), "{}", sent.text());
    }
    eventually("the key is mailed", || !account.mailed.lock().unwrap().is_empty());
    let mail = account.mailed.lock().unwrap().remove(0);
    assert!(mail.contains(&own.key) && mail.contains(ANNA), "{mail}");
    assert_eq!(account.ledger().matches("\"event\":\"handed\"").count(), 1);
    let history = stdout_json(&account.instance, &["license", "history", &own.id]);
    assert_eq!(
        (&history["events"][0]["event"], &history["events"][0]["by"]),
        (&json!("key mailed"), &json!("operator:account")),
        "{history}"
    );
    assert!(account.get(&path, &anna).text().contains("The key was mailed to you"));
    let page = account.get(&format!("{path}/new-key"), &anna).text();
    assert!(
        page.contains("sites that use it now (1)") && !page.contains(&own.key),
        "{page}"
    );
    let form = [("once", field(&page, "once")), ("revision", field(&page, "revision"))];
    let first = account.post(&format!("{path}/new-key"), &anna, &form);
    let again = account.post(&format!("{path}/new-key"), &anna, &form);
    assert_eq!(first.status, 303, "{}", first.text());
    assert_eq!(location(&again), location(&first));
    let new = location(&first)
        .strip_prefix("/account/licenses/")
        .unwrap()
        .split('?')
        .next()
        .unwrap();
    assert_eq!(
        (
            account.license(&own.id)["status"].clone(),
            account.license(new)["replaces"].clone()
        ),
        (json!("revoked"), json!(own.id))
    );
    assert!(account.ledger().contains("\"operator:account\""));
    assert_eq!(
        account.server.ask(&question(&own, "https://anna.example")).code(),
        "revoked"
    );
    eventually("the new key is mailed", || !account.mailed.lock().unwrap().is_empty());
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(account.mailed.lock().unwrap().len(), 1);
    let page = account.get(location(&first), &anna).text();
    assert!(
        page.contains("has a new key") && page.contains("The license got a new key"),
        "{page}"
    );
    let list = account.get("/account", &anna).text();
    assert!(list.contains(new) && !list.contains(&own.id), "{list}");
    // Somebody was faster.
    let stale = account.post(
        &format!("/account/licenses/{new}/new-key"),
        &anna,
        &[("once", &"1".repeat(32)), ("revision", "9")],
    );
    assert_eq!(stale.status, 409);
}

#[test]
fn the_first_copy_is_marked_for_the_license_and_the_site_that_the_customer_names() {
    let (instance, _) = hosting(&["# none\n".to_owned()], &[("acme-forms", &[LATEST, "1.1.0"], true)]);
    instance.write_issuing_secrets();
    let account = Account::with(instance, "");
    let own = account.issue(ANNA, &[]);
    let anna = session(ANNA);
    let path = format!("/account/licenses/{}/download", own.id);
    let page = account.get(&path, &anna).text();
    assert!(page.contains(LATEST) && page.contains("Download the ZIP"), "{page}");
    for host in ["", "https://www.New.example/"] {
        let zip = account.post(&path, &anna, &[("plugin", "acme-forms"), ("host", host)]);
        assert_eq!(zip.status, 200, "{}", zip.text());
        assert_eq!(zip.header("content-type"), Some("application/zip"));
        let key = DownloadKey::new(&SECRET);
        let id = own.id.parse().unwrap();
        let today = Utc::now().date_naive();
        let build = match host {
            "" => BuildId::first_copy(&key, &id, today, "acme-forms", LATEST),
            _ => BuildId::new(&key, &id, &"new.example".parse().unwrap(), today, "acme-forms", LATEST),
        };
        let marked = build.unwrap().encrypt(&key).to_string();
        assert!(String::from_utf8_lossy(&zip.body).contains(&marked), "{host}");
    }
    let history = stdout_json(&account.instance, &["license", "history", &own.id]);
    let downloaded = format!("acme-forms {LATEST} was downloaded");
    for (event, host) in [(0, " for new.example"), (1, "")] {
        let event = &history["events"][event];
        assert_eq!(
            (&event["event"], &event["what"]),
            (&json!("downloaded"), &json!([format!("{downloaded}{host}")])),
            "{history}"
        );
    }
    let page = account.get(&format!("/account/licenses/{}", own.id), &anna).text();
    assert!(page.contains("was downloaded"), "{page}");
    for (plugin, host) in [("acme-forms", "not a site"), ("acme-maps", ""), ("", "")] {
        assert_eq!(
            account.post(&path, &anna, &[("plugin", plugin), ("host", host)]).status,
            422,
            "{plugin}"
        );
    }
    let answers: Vec<_> = (0..20)
        .map(|_| {
            account
                .post(&path, &anna, &[("plugin", "acme-forms"), ("host", "")])
                .status
        })
        .collect();
    assert_eq!((answers[17], answers[18]), (200, 429), "{answers:?}");
}

#[test]
fn whoever_bought_a_license_finds_the_page_of_the_shop_that_ends_the_subscription() {
    const PAGE: &str = "https://billing.stripe.com/p/login/test_1?a=b&c=d";
    let account = Account::open("");
    let settings = fs::read_to_string(account.instance.file("countersign.toml")).unwrap();
    let settings = settings.replace("[account]\n", &format!("[account]\nbilling = '{PAGE}'\n"));
    account.instance.write("countersign.toml", &settings);
    drop(account.server);
    let account = Account {
        server: Server::start(&account.instance),
        ..account
    };
    let given = account.issue(ANNA, &[]);
    let token = crate::management::token(&account.instance, "shop", &["licenses:write", "keys:read"]);
    let order = json!({"modules": {"forms": []}, "expires": "2099-06-30", "reference": "order 1"});
    let headers = [
        ("Authorization", token.as_str()),
        ("Idempotency-Key", "order-1"),
        ("Content-Type", "application/json"),
    ];
    let bought = account.send("POST", "/api/v1/licenses", &headers, &order.to_string());
    assert_eq!(bought.status, 201, "{}", bought.text());
    let bought = bought.json()["id"].as_str().unwrap().to_owned();
    stdout_json(&account.instance, &["license", "assign", &bought, "--customer", ANNA]);
    let session = session(ANNA);
    let page = |id: &str| account.get(&format!("/account/licenses/{id}"), &session).text();
    let link = PAGE.replace('&', "&#38;");
    assert!(page(&bought).contains(&format!("href=\"{link}\"")), "{}", page(&bought));
    assert!(!page(&given.id).contains("stripe"), "{}", page(&given.id));
}

#[test]
fn an_agency_makes_a_composer_token_sees_it_once_replaces_it_and_revokes_it() {
    let (instance, _) = hosting(&["# none\n".to_owned()], &[("acme-forms", &[LATEST], true)]);
    instance.write_issuing_secrets();
    let account = Account::with(instance, "composer = 'acme'\n");
    let own = account.issue(ANNA, &[]);
    account.bind(&own, "https://anna.example", "a");
    let anna = session(ANNA);
    let license = format!("/account/licenses/{}", own.id);
    let path = format!("{license}/composer");
    let fetch = |token: &str| {
        let basic = base64::prelude::BASE64_STANDARD.encode(format!("{token}:anna.example"));
        let basic = format!("Basic {basic}");
        let target = "/composer/p2/acme/acme-forms.json";
        account.send("GET", target, &[("Authorization", &basic)], "").status
    };
    let page = account.get(&license, &anna).text();
    assert!(page.contains(&format!("href=\"{path}\"")), "{page}");
    let page = account.get(&path, &anna).text();
    assert!(page.contains("http-basic.127.0.0.1 TOKEN anna.example"), "{page}");
    assert!(!page.contains("Revoke the token"), "{page}");
    let make = |made: &str| account.post(&path, &anna, &[("what", "make"), ("made", made)]);
    let token_of = |page: &str| {
        let (_, rest) = page
            .split_once("<code>c1-")
            .unwrap_or_else(|| panic!("no token in {page}"));
        format!("c1-{}", rest.split('<').next().unwrap())
    };
    let first = token_of(&make("0").text());
    assert_eq!(token_of(&make("0").text()), first, "a form that is sent twice");
    assert_eq!(fetch(&first), 200);
    let page = account.get(&path, &anna).text();
    assert!(!page.contains(&first) && page.contains("Revoke the token"), "{page}");
    assert_eq!(make("7").status, 409, "somebody was faster");
    let second = token_of(&make("1").text());
    assert_eq!((fetch(&first), fetch(&second)), (401, 200));
    let revoke = [("what", "revoke"), ("made", "2")];
    for word in ["revoked-token", "same"] {
        let revoked = account.post(&path, &anna, &revoke);
        assert_eq!(
            location(&revoked),
            format!("{license}?done={word}"),
            "{}",
            revoked.text()
        );
    }
    assert_eq!(fetch(&second), 401);
    let ledger = account.ledger();
    assert!(ledger.contains("\"operator:account\"") && !ledger.contains("c1-"));
    let history = stdout_json(&account.instance, &["license", "history", &own.id]).to_string();
    assert!(
        history.contains("a Composer token was made") && history.contains("the Composer token was revoked"),
        "{history}"
    );
    // Somebody else's license, and a server without a repository.
    account.issue(BERT, &[]);
    assert_eq!(account.get(&path, &session(BERT)).status, 404);
    let none = Account::open("");
    let other = none.issue(ANNA, &[]);
    let license = format!("/account/licenses/{}", other.id);
    assert_eq!(none.get(&format!("{license}/composer"), &anna).status, 404);
    assert!(!none.get(&license, &anna).text().contains("Composer"));
}

#[test]
fn by_the_key_alone_no_site_but_the_own_one_is_named_and_guesses_count() {
    let account = Account::open("");
    let own = account.issue(ANNA, &["--note", "for the agency"]);
    account.bind(&own, "https://first.example", "a");
    account.bind(&own, "https://second.example", "b");
    let look = |key: &str, site: &str| account.post("/account/key", "", &[("license_key", key), ("site_url", site)]);
    let page = look(&own.key, "https://www.first.example/wp").text();
    assert!(
        page.contains("2 of 2") && page.contains("This site has a seat") && page.contains("first.example"),
        "{page}"
    );
    assert!(
        !page.contains("second.example") && !page.contains(ANNA) && !page.contains("agency") && !page.contains(&own.id)
    );
    let page = look(&own.key.to_lowercase().replace('-', " "), "third.example").text();
    assert!(
        page.contains("This site has no seat") && !page.contains("first.example"),
        "{page}"
    );
    assert!(look(&own.key, "").text().contains("2 of 2"));
    assert_eq!(look(&own.key, &own.key).status, 422);
    for wrong in [License::new().key.as_str(), "", "XXXXX"] {
        let answer = look(wrong, "first.example");
        assert!(
            answer.status == 422 && answer.text().contains("no license with this key"),
            "{}",
            answer.text()
        );
        assert!(!answer.text().contains("first.example"));
    }
    assert!(!account.server.log().contains(&own.key));
}

#[test]
fn what_ended_is_said_and_who_was_erased_is_a_stranger() {
    let account = Account::open("renew_url = 'https://shop.example/renew'\n");
    let active = account.issue(ANNA, &[]);
    let expired = License::new();
    let export = format!(
        "key,expires,modules,customer\n{},2026-01-31,forms,{ANNA}\n",
        expired.key
    );
    account.import(&export);
    let suspended = account.issue(ANNA, &[]);
    let revoked = account.issue(ANNA, &[]);
    account.bind(&suspended, "https://held.example", "a");
    for (verb, license) in [("suspend", &suspended), ("revoke", &revoked)] {
        let done = countersign(&account.instance)
            .args(["license", verb, &license.id])
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    let anna = session(ANNA);
    let show = |license: &License| account.get(&format!("/account/licenses/{}", license.id), &anna).text();
    assert!(show(&active).contains("https://shop.example/renew"));
    let page = show(&expired);
    assert!(
        page.contains("This license ended") && page.contains("31 Jan 2026") && page.contains(">Renew<"),
        "{page}"
    );
    let page = show(&suspended);
    assert!(
        page.contains("suspended this license") && !page.contains("name=\"once\""),
        "{page}"
    );
    assert!(show(&revoked).contains("ended for good"));
    let move_it = account.post(
        &format!("/account/licenses/{}/move", suspended.id),
        &anna,
        &[("host", "held.example"), ("what", "gone")],
    );
    assert_eq!(move_it.status, 422);
    let form = [("once", &"2".repeat(32)[..]), ("revision", "1")];
    for license in [&suspended, &revoked] {
        assert_eq!(
            account
                .post(&format!("/account/licenses/{}/new-key", license.id), &anna, &form)
                .status,
            422
        );
        assert_eq!(
            account
                .post(&format!("/account/licenses/{}/mail-key", license.id), &anna, &form)
                .status,
            422
        );
    }
    let german = account.send(
        "GET",
        "/account",
        &[
            ("Cookie", &format!("account={anna}")),
            ("Accept-Language", "de-DE,de;q=0.9,en;q=0.5"),
        ],
        "",
    );
    let german = german.text();
    assert!(
        german.contains("<html lang=\"de\">") && german.contains("Ihre Lizenzen") && german.contains("31.01.2026"),
        "{german}"
    );
    // Erased: the session is over, and no mail comes any more.
    let forgotten = countersign(&account.instance)
        .args(["customer", "forget", ANNA, "--yes"])
        .output()
        .unwrap();
    assert!(forgotten.status.success(), "{forgotten:?}");
    assert!(account.get("/account", &anna).text().contains("Send me the link"));
    account.ask(ANNA);
    std::thread::sleep(Duration::from_millis(500));
    assert!(account.mailed.lock().unwrap().is_empty());
}

#[test]
fn where_no_address_is_kept_the_customer_says_it_again() {
    let account = Account::open("customers = 'hash'\n");
    let own = account.issue(ANNA, &[]);
    let at = account.ask(ANNA);
    let (_, code, _) = account.mail();
    let used = account.post(&at, "", &[("code", &code)]);
    assert_eq!(used.status, 303, "{}", used.text());
    let anna = used
        .header("set-cookie")
        .unwrap()
        .split([';', '='])
        .nth(1)
        .unwrap()
        .to_owned();
    let path = format!("/account/licenses/{}", own.id);
    let page = account.get(&path, &anna).text();
    assert!(page.contains("We keep no address") && !page.contains(ANNA), "{page}");
    let once = field(&page, "once");
    let send = |address: &str| {
        account.post(
            &format!("{path}/mail-key"),
            &anna,
            &[("once", once), ("address", address)],
        )
    };
    for wrong in ["", BERT] {
        assert_eq!(send(wrong).status, 422, "{wrong}");
    }
    assert_eq!(send("Anna@Buyer.example").status, 303);
    eventually("the key is mailed", || !account.mailed.lock().unwrap().is_empty());
    assert!(account.mailed.lock().unwrap()[0].contains(&own.key));
}

#[test]
fn without_a_name_there_is_no_page_and_what_it_lacks_is_said_at_the_start() {
    let server = |settings: &str, with_keys: bool| {
        let instance = if with_keys {
            Instance::issuing(&[])
        } else {
            Instance::with_licenses(&["# none\n".to_owned()])
        };
        instance.write("countersign.toml", settings);
        instance
    };
    let off = server("[account]\nsupport = 'help@acme.example'\n", true);
    let running = Server::start(&off);
    assert_eq!(crate::support::get(running.address, "/account").status, 404);
    let mail = "[mail]\nserver = '127.0.0.1'\nport = 1\ntls = 'none'\nfrom = 'licenses@acme.example'\n";
    for (settings, with_keys, message) in [
        ("[account]\nname = 'Acme'\n".to_owned(), true, "[account] needs [mail]"),
        (
            format!("[account]\nname = 'Acme'\n{mail}"),
            false,
            "[account] needs the keys",
        ),
        (
            format!("[account]\nname = 'Acme'\ncolor = 'red'\n{mail}"),
            true,
            "expected a color",
        ),
    ] {
        let instance = server(&settings, with_keys);
        let started = countersign(&instance)
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&started.stderr);
        assert!(!started.status.success() && said.contains(message), "{said}");
    }
    let words = server(&format!("[account]\nname = 'Acme'\n{mail}"), true);
    words.write("registry/account/de.toml", "lizenzen = 'x'\n");
    let started = countersign(&words)
        .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&started.stderr);
    assert!(said.contains("de.toml: unknown field `lizenzen`"), "{said}");
}

#[test]
fn a_host_of_its_own_is_the_only_one_that_has_the_page() {
    let account = Account::open("");
    let settings = fs::read_to_string(account.instance.file("countersign.toml")).unwrap();
    let settings = settings.replace("[account]\n", "[account]\nurl = 'https://my.acme.example'\n");
    account.instance.write("countersign.toml", &settings);
    drop(account.server);
    let server = Server::start(&account.instance);
    let get = |host: &str, target: &str| {
        let mut client = Client::connect(server.address);
        client
            .send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
            .unwrap();
        client.receive().unwrap()
    };
    assert_eq!(get("localhost", "/account").status, 404);
    assert_eq!(get("my.acme.example", "/account").status, 200);
    let first = get("My.acme.example:443", "/");
    assert_eq!((first.status, location(&first)), (303, "/account"));
}

#[test]
fn a_client_gets_the_page_and_doctor_warns_of_scripts_beside_it() {
    let account = Account::open("");
    let own = account.issue(ANNA, &[]);
    let url = format!("http://{}/account", account.server.address);
    let statement = account.server.ask(&question(&own, "https://anna.example")).json();
    assert_eq!(statement["account_url"], url.as_str());
    let rights = |white_label: &str| {
        let changed = stdout_json(
            &account.instance,
            &["license", "rights", &own.id, "--white-label", white_label],
        );
        (
            changed["changed"].clone(),
            changed["license"].get("white_label").cloned(),
        )
    };
    assert_eq!(rights("yes"), (json!(true), Some(json!(true))));
    assert_eq!(rights("yes"), (json!(false), Some(json!(true))));
    let white = account.server.ask(&question(&own, "https://anna.example"));
    assert_eq!((white.code(), white.json().get("account_url")), ("ok".into(), None));
    assert_eq!(white.json()["white_label"], true);
    assert_eq!(rights("no"), (json!(true), None));
    let again = account.server.ask(&question(&own, "https://anna.example")).json();
    assert_eq!(again["account_url"], url.as_str());
    assert_eq!(again.get("white_label"), None);
    let without = Server::start(&Instance::with_licenses(&["# none\n".to_owned()]));
    assert!(
        without
            .ask(&question(&own, "https://anna.example"))
            .json()
            .get("account_url")
            .is_none()
    );
    let finding = || {
        let output = countersign(&account.instance)
            .args(["doctor", "--json"])
            .output()
            .unwrap();
        let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut findings = findings.as_array().unwrap().clone();
        findings.retain(|finding| finding["part"] == "account");
        assert_eq!(findings.len(), 1, "{findings:?}");
        findings.remove(0)
    };
    assert_eq!(finding()["verdict"], "ok");
    account
        .instance
        .write("public/shop/index.html", "<p><SCRIPT src=x></SCRIPT>");
    let warned = finding();
    assert!(
        warned["verdict"] == "warning" && warned["finding"].as_str().unwrap().contains("shop/index.html"),
        "{warned}"
    );
}

/// The page of a license or of all licenses, and the next ones, each small enough for a slow phone.
fn pages_from(account: &Account, first: &str, session: &str) -> Vec<String> {
    let mut pages = Vec::new();
    let mut next = Some(first.to_owned());
    while let Some(path) = next {
        let asked = Instant::now();
        let answer = account.get(&path, session);
        let took = asked.elapsed();
        assert!(
            answer.status == 200 && took < Duration::from_secs(20),
            "{path}: {took:?}"
        );
        let page = answer.text();
        assert!(page.len() <= MOST_BYTES, "{path}: {} bytes", page.len());
        let link = page.split("rel=\"next\" href=\"").nth(1);
        next = link.map(|link| link.split('"').next().unwrap().replace("&#38;", "&"));
        pages.push(page);
    }
    pages
}

#[test]
fn an_agency_with_500_sites_finds_each_and_frees_it_and_no_page_is_long() {
    let account = Account::open("");
    let sites = |numbers: std::ops::Range<usize>| -> Vec<String> {
        let host = |number| format!("customer-{number:03}.of-the-large-agency.example");
        numbers.map(host).collect()
    };
    let agency = License::new();
    let mut export = format!(
        "key,expires,modules,sites,hosts,customer\n{},2099-06-30,forms,501,{},{ANNA}\n",
        agency.key,
        sites(0..480).join(" ")
    );
    for number in 0..40 {
        export += &format!(
            "{},2099-06-30,forms,1,alone-{number}.example,{ANNA}\n",
            License::new().key
        );
    }
    account.import(&export);
    for site in sites(480..500) {
        account.bind(&agency, &format!("https://{site}"), "s");
    }
    account.bind(&agency, "https://münchen.example", "s");
    let anna = session(ANNA);
    let path = format!("/account/licenses/{}", agency.id);
    let pages = pages_from(&account, &path, &anna);
    let hosts: HashSet<_> = pages
        .iter()
        .flat_map(|page| page.split("/move?host=").skip(1))
        .map(|host| host.split('"').next().unwrap().to_owned())
        .collect();
    assert_eq!(hosts.len(), 501, "each is on a page, once");
    assert!(
        pages[0].contains("501 of 501") && pages[0].contains(" of 501"),
        "{}",
        pages[0]
    );
    let find = |typed: &str| {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("find", typed);
        account.get(&format!("{path}?{}", query.finish()), &anna).text()
    };
    for (typed, host) in [
        ("Customer-123", "customer-123.of-the-large-agency.example"),
        (
            "https://www.customer-123.of-the-large-agency.example/wp-admin/",
            "customer-123.of-the-large-agency.example",
        ),
        ("münchen", "xn--mnchen-3ya.example"),
        ("MÜNCHEN.example", "xn--mnchen-3ya.example"),
    ] {
        let page = find(typed);
        assert_eq!(page.matches("/move?host=").count(), 1, "{typed}: {page}");
        assert!(
            page.contains(&format!("/move?host={host}\"")) && page.contains("1 to 1 of 1"),
            "{typed}"
        );
    }
    for typed in ["nobody", "\"><script>", "alone-1.example"] {
        let page = find(typed);
        assert!(
            page.contains("Nothing is found") && !page.contains("<script"),
            "{typed}: {page}"
        );
        assert!(page.contains("501 of 501"), "{page}");
    }
    // Where a list is shorter than an address says, the last part is shown.
    for from in ["100000", "18446744073709551615", "-1", "x"] {
        let page = account.get(&format!("{path}?from={from}"), &anna).text();
        assert!(page.contains("/move?host="), "{from}: {page}");
    }
    let form = [("host", "customer-123.of-the-large-agency.example"), ("what", "gone")];
    let freed = account.post(&format!("{path}/move"), &anna, &form);
    assert_eq!(location(&freed), format!("{path}?done=freed"), "{}", freed.text());
    assert!(find("customer-123").contains("Nothing is found"));
    // All licenses of the address, and the one of a site.
    let pages = pages_from(&account, "/account", &anna);
    let count = |page: &String| page.matches("class=\"card mine\"").count();
    assert_eq!(pages.iter().map(count).sum::<usize>(), 41);
    let found = account.get("/account?find=alone-17.example", &anna).text();
    assert_eq!(count(&found), 1, "{found}");
    assert_eq!(
        count(&account.get("/account?find=alone-17.example", &session(BERT)).text()),
        0
    );
}

#[test]
fn the_first_page_with_its_style_is_small_enough_for_a_slow_phone() {
    let account = Account::open("");
    let page = account.get("/account", "").text();
    let style = page.split("rel=\"stylesheet\" href=\"").nth(1).unwrap();
    let style = account.get(style.split('"').next().unwrap(), "");
    assert_eq!(
        style.header("cache-control"),
        Some("public, max-age=31536000, immutable"),
        "later pages do without it"
    );
    let size = page.len() + style.body.len();
    assert!(size <= MOST_BYTES, "{size} bytes");
}
