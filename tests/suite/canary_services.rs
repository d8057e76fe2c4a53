//! Secrets of shops, mail servers, webhooks, buyers and an import appear in their own files only, also where the other side
//! sends them back.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::imports::{EDD_HEADER, key};
use crate::support::server::countersign;
use crate::support::shop::{BUYER, SECRET, add_shop, deliver, deliver_text, invoice};
use crate::support::stored::files_in;
use crate::support::{Instance, License, Server, eventually, get, request};

const USER: &str = "vendor@acme.example";
const PASSWORD: &str = "CANARY-of-the-mail-server";
const URL_TOKEN: &str = "CANARY-of-the-url";
const WEBHOOK: [u8; 32] = *b"CANARY-of-the-webhook-32-bytes!!";
const CUSTOMER: &str = "CANARY-anna@buyer.example";

/// A secret: what would give it away, and the files and folders that may have it.
struct Canary {
    name: &'static str,
    traces: Vec<Vec<u8>>,
    homes: &'static [&'static str],
}

impl Canary {
    /// A text, as it is and in base64.
    fn text(name: &'static str, text: &str, homes: &'static [&'static str]) -> Self {
        let encoded = STANDARD.encode(text);
        let traces = vec![text.into(), encoded[..encoded.len() - 4].into()];
        Self { name, traces, homes }
    }

    /// Bytes of a key file, as they are, in hex and in base64.
    fn bytes(name: &'static str, bytes: &[u8], homes: &'static [&'static str]) -> Self {
        let hex = const_hex::encode(bytes);
        let traces = vec![
            bytes.to_vec(),
            hex.to_uppercase().into(),
            hex.into(),
            STANDARD.encode(bytes)[..40].into(),
        ];
        Self { name, traces, homes }
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        let has = |trace: &Vec<u8>| bytes.windows(trace.len()).any(|window| window == trace);
        self.traces.iter().any(has)
    }
}

fn assert_clean(place: &str, bytes: &[u8], canaries: &[Canary]) {
    for canary in canaries {
        let text = String::from_utf8_lossy(bytes);
        assert!(!canary.is_in(bytes), "{} is in {place}: {text}", canary.name);
    }
}

/// Answers each connection with `speak`, and tells what was said to it.
fn peer(speak: fn(TcpStream) -> std::io::Result<String>) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (said, heard) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Who tells less than was expected is asked again by the server.
            let _ = speak(stream).map(|text| said.send(text));
        }
    });
    (address, heard)
}

/// A mail server that refuses the login, and sends back what it received.
fn refuse_login(stream: TcpStream) -> std::io::Result<String> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut lines = BufReader::new(stream);
    lines.get_mut().write_all(b"220 ready\r\n")?;
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if line.starts_with("AUTH") {
            let answer = format!("535 5.7.8 {PASSWORD} is wrong: {}\r\n", line.trim_end());
            lines.get_mut().write_all(answer.as_bytes())?;
            return Ok(line);
        }
        lines.get_mut().write_all(b"250-fake\r\n250 AUTH PLAIN LOGIN\r\n")?;
    }
}

/// A receiver of webhooks that fails, and sends back what it was sent.
fn fail_and_echo(stream: TcpStream) -> std::io::Result<String> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let received = format!("{head}{}", String::from_utf8_lossy(&body));
    let secret = STANDARD.encode(WEBHOOK);
    let echo = format!("{received}\nwhsec_{secret} {URL_TOKEN}");
    let length = echo.len();
    let answer = format!("HTTP/1.1 500 {URL_TOKEN}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{echo}");
    reader.get_mut().write_all(answer.as_bytes())?;
    Ok(received)
}

/// The row of an export from Easy Digital Downloads.
fn row(license_key: &str, ends: &str) -> String {
    format!("1,{license_key},active,7,{CUSTOMER},CANARY-Anna,3,Acme Forms,0,2020-01-01,{ends},1,1,a.example\r\n")
}

#[test]
fn secrets_of_services_and_buyers_are_in_their_own_files_only() {
    let (mail, logins) = peer(refuse_login);
    let (receiver, messages) = peer(fail_and_echo);
    let instance = Instance::new();
    add_shop(&instance);
    let settings = format!(
        "[shops.stripe]\n[mail]\nserver = \"127.0.0.1\"\nport = {}\ntls = \"none\"\nfrom = \"{USER}\"\nuser = \"{USER}\"\n\
         password_file = \"keys/mail.password\"\n[webhooks.crm]\nurl = \"http://{receiver}/in?token={URL_TOKEN}\"\n",
        mail.port()
    );
    instance.write("countersign.toml", &settings);
    instance.write_secret("keys/mail.password", PASSWORD);
    let secret = format!("whsec_{}", STANDARD.encode(WEBHOOK));
    instance.write_secret("keys/webhooks/crm.secret", &secret);
    let plugin = instance.file("registry/plugins/acme-forms.toml");
    let entry = fs::read_to_string(&plugin).unwrap();
    fs::write(&plugin, format!("edd_item_name = \"Acme Forms\"\n{entry}")).unwrap();
    let plain = STANDARD.encode(format!("\0{USER}\0{PASSWORD}"));
    let of_file = |path: &str| fs::read(instance.file(path)).unwrap();
    let keys = [key(1), key(2)];
    let imported = ["export.csv", "rejects.csv"].as_slice();
    let canaries = [
        Canary::text("the secret of the shop", SECRET, &["keys/shops/stripe.secret"]),
        Canary::text("the password of the mail server", PASSWORD, &["keys/mail.password"]),
        Canary::text("the login at the mail server", &plain, &[]),
        Canary::text("the URL of the webhook", URL_TOKEN, &["countersign.toml"]),
        Canary::text(
            "the text of the webhook's secret",
            &secret,
            &["keys/webhooks/crm.secret"],
        ),
        Canary::bytes("the webhook's secret", &WEBHOOK, &["keys/webhooks/crm.secret"]),
        Canary::bytes("the issuing key", &of_file("keys/issuing.key"), &["keys/issuing.key"]),
        Canary::bytes(
            "the key of references",
            &of_file("keys/references.key"),
            &["keys/references.key"],
        ),
        Canary::text("a key of the import", &keys[0], imported),
        Canary::text("a key of a rejected row", &keys[1], imported),
        Canary::text(
            "a customer of the import",
            CUSTOMER,
            &["export.csv", "rejects.csv", "store/texts.jsonl"],
        ),
        Canary::text(
            "the buyer's address",
            BUYER,
            &["store/mail", "store/deliveries", "store/texts.jsonl"],
        ),
    ];
    let server = Server::start_with(&instance, &["--foreign-keys", "true"]);

    // A sale, an event that cannot be applied, deliveries that nobody signed, and an import.
    let sale = invoice("in_1", "subscription_create", "price_small", 1, 30);
    assert_eq!(deliver(&server, "invoice.paid", 1, &sale), 200, "{}", server.log());
    deliver_text(&server, &format!("{{\"id\":\"evt_2\",\"type\":\"{BUYER}\""));
    let mut said = Vec::new();
    for signature in [SECRET, "t=1,v1=00", &format!("t={SECRET},v1={SECRET}")] {
        for shop in ["stripe", SECRET] {
            let headers = [("Content-Type", "application/json"), ("Stripe-Signature", signature)];
            let body = format!("{{\"{SECRET}\":\"{BUYER}\"}}");
            let target = format!("/hooks/{shop}?{SECRET}");
            let answer = request(server.address, "POST", &target, &headers, body.as_bytes());
            said.push((target, answer.text() + &format!("{:?}", answer.headers)));
        }
    }
    let rows = [row(&keys[0], "2099-01-01"), row(&keys[1], "no day")].concat();
    fs::write(instance.file("export.csv"), format!("{EDD_HEADER}{rows}")).unwrap();
    let mut run = |arguments: &[&str]| {
        let output = countersign(&instance)
            .args(arguments)
            .current_dir(instance.path())
            .env("COUNTERSIGN_LOG", "trace")
            .env("RUST_LOG", "trace")
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains("panicked"), "{text}");
        said.push((arguments.join(" "), text.clone()));
        text
    };
    let import = ["license", "import", "export.csv", "--from", "edd"];
    let output = run(&[&import[..], &["--rejects", "rejects.csv"]].concat());
    assert!(instance.file("rejects.csv").exists(), "{output}");
    let id = crate::support::instance::sha256(&keys[0]);
    let bought = License {
        key: keys[0].clone(),
        id,
    };
    assert_eq!(server.validate(&bought, "a.example").code(), "ok", "{output}");

    // The other side received the secrets, and sent them back.
    let login = logins.recv_timeout(Duration::from_secs(30)).unwrap();
    assert!(login.contains(&plain), "{login}");
    let message = messages.recv_timeout(Duration::from_secs(30)).unwrap();
    assert!(
        message.contains(URL_TOKEN) && message.contains("webhook-signature"),
        "{message}"
    );
    eventually("the refused login is logged", || server.log().contains("535"));
    for command in [
        &["webhook", "list"][..],
        &["webhook", "test", "crm"],
        &["webhook", "parked", "list", "--json"],
        &["shop", "parked", "list", "--json"],
        &["shop", "offers"],
        &["license", "list", "--json"],
        &["license", "list", "--reference", "sub_1"],
        &["license", "list", "--find", "nobody", "--json"],
        &["license", "show", &bought.id],
        &["customer", "show", "nobody@buyer.example"],
        &["token", "list"],
        &["keys", "list", "--json"],
        &["bindings", "export", "--all"],
        &["review"],
        &["doctor"],
    ] {
        run(command);
    }
    let refused = run(&["mail", "send-test", USER]);
    assert!(
        refused.contains("refused the login with 535: its answer is not shown"),
        "{refused}"
    );
    // It is there to say who waits for a mail; nobody else learns it.
    let listed = run(&["mail", "parked", "list", "--all", "--json"]);
    assert!(listed.contains(BUYER), "{listed}");
    for target in ["/metrics", "/readyz"] {
        said.push((target.to_owned(), get(server.admin, target).text()));
    }
    let log = server.log();
    assert!(!log.contains("panicked"), "{log}");
    said.push(("the log".to_owned(), log));
    assert!(server.stop().success());

    for (place, text) in &said {
        let shows_buyers = place.starts_with("mail parked list");
        let canaries = &canaries[..canaries.len() - usize::from(shows_buyers)];
        assert_clean(place, text.as_bytes(), canaries);
    }
    let mut found = BTreeSet::new();
    for (file, content) in files_in(instance.path()) {
        for canary in canaries.iter().filter(|canary| canary.is_in(&content)) {
            let path = file.strip_prefix(instance.path()).unwrap();
            let is_home = canary.homes.iter().any(|home| path.starts_with(Path::new(home)));
            assert!(is_home, "{} is in {}", canary.name, path.display());
            found.insert(canary.name);
        }
    }
    let missing = canaries
        .iter()
        .filter(|canary| !canary.homes.is_empty() && !found.contains(canary.name));
    assert_eq!(
        missing.map(|canary| canary.name).collect::<Vec<_>>(),
        [""; 0],
        "not where it belongs"
    );
}
