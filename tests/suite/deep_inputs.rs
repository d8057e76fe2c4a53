//! Text that others wrote, nested 60,000 levels deep: an error where it is read, and never the end of the program.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::management::{stdout_json, token};
use crate::support::instance::{LATEST, question, sha256};
use crate::support::preview::{Preview, Workplace, print};
use crate::support::server::{countersign, countersign_in};
use crate::support::shop::{add_shop, deliver_text};
use crate::support::{Instance, License, Server, eventually, get, request};

const LEVELS: usize = 60_000;

/// The exit code of a program that ended by itself, and what it said.
fn ended(output: &Output) -> (i32, String) {
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let code = output
        .status
        .code()
        .unwrap_or_else(|| panic!("{}: {said}", output.status));
    (code, said)
}

fn command(instance: &Instance, arguments: &[&str]) -> (i32, String) {
    ended(&countersign(instance).args(arguments).output().unwrap())
}

/// A mail server that takes every mail; its port.
fn mail_server() -> u16 {
    mail_server_with_mails().0
}

/// The same with the mails that it took.
pub fn mail_server_with_mails() -> (u16, Arc<Mutex<Vec<String>>>) {
    fn speak(stream: TcpStream, taken: &Mutex<Vec<String>>) -> std::io::Result<()> {
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut lines = BufReader::new(stream);
        lines.get_mut().write_all(b"220 ready\r\n")?;
        let mut in_mail = false;
        let mut mail = String::new();
        let mut line = String::new();
        while lines.read_line(&mut line)? > 0 {
            let answer = match (in_mail, line.trim_end()) {
                (true, ".") => {
                    taken.lock().unwrap().push(std::mem::take(&mut mail));
                    "250 taken\r\n"
                }
                (true, _) => {
                    mail += &line;
                    ""
                }
                (false, "DATA") => "354 go on\r\n",
                (false, _) => "250 ok\r\n",
            };
            in_mail = answer.starts_with("354") || in_mail && answer.is_empty();
            lines.get_mut().write_all(answer.as_bytes())?;
            line.clear();
        }
        Ok(())
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let taken = Arc::default();
    let mails = Arc::clone(&taken);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mails = Arc::clone(&mails);
            thread::spawn(move || speak(stream, &mails));
        }
    });
    (port, taken)
}

/// An instance that mails through this port, and issues licenses to machines.
fn mailing(port: u16) -> Instance {
    let instance = Instance::new();
    for key in ["--issuing", "--references"] {
        assert_eq!(command(&instance, &["keys", "generate", key]).0, 0);
    }
    instance.write("countersign.toml", &mail_settings(port));
    instance
}

fn mail_settings(port: u16) -> String {
    format!(
        "[mail]\nserver = \"127.0.0.1\"\nport = {port}\ntls = \"none\"\nfrom = \"licenses@acme.example\"\nretry_seconds = 1\n"
    )
}

/// Issues a license with these modules and orders its mail.
fn order(server: &Server, bearer: &str, name: &str, modules: &Value) {
    let post = |target: &str, key: &str, body: &Value| {
        let headers = [
            ("Authorization", bearer),
            ("Content-Type", "application/json"),
            ("Idempotency-Key", key),
        ];
        let target = format!("/api/v1/licenses{target}");
        request(server.address, "POST", &target, &headers, body.to_string().as_bytes())
    };
    let issued = post("", name, &json!({ "modules": modules, "expires": "never" }));
    assert_eq!(issued.status, 201, "{}", issued.text());
    let target = format!("/{}/resend", issued.json()["id"].as_str().unwrap());
    let ordered = post(&target, name, &json!({ "address": "anna@example.com" }));
    assert_eq!(ordered.status, 202, "{}", ordered.text());
}

fn mails(instance: &Instance) -> Vec<Value> {
    let listed = stdout_json(instance, &["mail", "parked", "list", "--all"]);
    listed.as_array().unwrap_or_else(|| panic!("{listed}")).clone()
}

#[test]
fn a_template_that_is_too_deep_ends_no_server_no_start_and_no_command() {
    let instance = mailing(mail_server());
    let server = Server::start(&instance);
    let bearer = token(&instance, "shop", &["licenses:write", "keys:read"]);
    for (name, template) in [
        ("a", format!("{{{{ {}1 }}}}", "not ".repeat(LEVELS))),
        ("b", "{% set n = namespace() %}{% set n.x = n %}{{ n }}".to_owned()),
    ] {
        let place = "mail/license.txt:3: ";
        let logged = || {
            server
                .log()
                .matches("the texts of mails are wrong; the last good ones stay in force")
                .count()
        };
        let before = logged();
        instance.write("registry/mail/license.txt", &format!("Subject: a\n\n{template}\n"));
        eventually("the text is known to be wrong", || {
            server.log().contains(place) && logged() > before
        });
        // The built-in text stays in force.
        order(&server, &bearer, name, &json!({ "forms": ["pdf"] }));
        eventually("the mail is sent", || mails(&instance).is_empty());
        for arguments in [&["mail", "preview"][..], &["doctor"]] {
            let (code, said) = command(&instance, arguments);
            assert!(code == 3 && said.contains(place), "{arguments:?}: {code}: {said}");
        }
    }
    assert!(server.stop().success());

    // There is no last good text: mails wait.
    let server = Server::start(&instance);
    order(&server, &bearer, "c", &json!({ "forms": ["pdf"] }));
    eventually("the reason is logged", || {
        server.log().contains("no mail can be sent now")
    });
    assert_eq!(mails(&instance)[0]["state"], "waiting");
    instance.write("registry/mail/license.txt", "Subject: a\n\n{{ license.key }}\n");
    eventually("the mail is sent", || mails(&instance).is_empty());
}

#[test]
fn a_mail_that_cannot_be_made_is_parked_and_the_others_are_sent() {
    let instance = mailing(mail_server());
    let text = "Subject: a\n\n{% if license.modules|length > 1 %}{{ license.modules[1].features[0] }}{% endif %}\n";
    instance.write("registry/mail/license.txt", text);
    let server = Server::start(&instance);
    let bearer = token(&instance, "shop", &["licenses:write", "keys:read"]);
    order(&server, &bearer, "bad", &json!({ "forms": [], "maps": [] }));
    order(&server, &bearer, "good", &json!({ "forms": ["pdf"] }));
    eventually("one is sent and one is parked", || {
        let left = mails(&instance);
        left.len() == 1 && left[0]["state"] == "parked"
    });
    let reason = mails(&instance)[0]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("license.txt:3: there is no"), "{reason}");
    let (_, said) = command(&instance, &["doctor"]);
    assert!(said.contains("1 mail parked"), "{said}");
    assert!(server.stop().success());
    let again = Server::start(&instance);
    assert_eq!(get(again.admin, "/readyz").status, 200, "{}", again.log());
}

#[test]
fn a_server_starts_with_a_broken_template_and_a_mail_that_waits() {
    // Nobody listens on port 1.
    let instance = mailing(1);
    let server = Server::start(&instance);
    let bearer = token(&instance, "shop", &["licenses:write", "keys:read"]);
    order(&server, &bearer, "bad", &json!({ "forms": [], "maps": [] }));
    assert_eq!(mails(&instance)[0]["state"], "waiting");
    server.kill();
    for (template, place) in [
        (
            format!("Subject: a\n\n{{{{ {}1 }}}}\n", "not ".repeat(LEVELS)),
            "license.txt:3: ",
        ),
        (
            "Subject: a\n\n{% set n = namespace() %}{% set n.x = n %}{{ n }}\n".to_owned(),
            "license.txt:3: ",
        ),
    ] {
        instance.write("registry/mail/license.txt", &template);
        let server = Server::start(&instance);
        eventually("the reason is logged", || server.log().contains(place));
        assert_eq!(get(server.admin, "/readyz").status, 200, "{}", server.log());
        let left = mails(&instance);
        assert_eq!((left.len(), &left[0]["state"]), (1, &json!("waiting")), "{left:?}");
        assert!(server.stop().success());
    }
    // A text that makes other mails, and not this one.
    let text = "Subject: a\n\n{% if license.modules|length > 1 %}{{ license.modules[1].features[0] }}{% endif %}\n";
    instance.write("registry/mail/license.txt", text);
    instance.write("countersign.toml", &mail_settings(mail_server()));
    let server = Server::start(&instance);
    eventually("the mail is parked", || mails(&instance)[0]["state"] == "parked");
    assert_eq!(get(server.admin, "/readyz").status, 200, "{}", server.log());
    let left = mails(&instance);
    let reason = left[0]["reason"].as_str().unwrap();
    assert!(left.len() == 1 && reason.contains("license.txt:3: "), "{left:?}");
    let (_, said) = command(&instance, &["mail", "parked", "list"]);
    assert!(said.contains("license.txt:3: "), "{said}");
}

#[test]
fn deep_files_of_the_registry_and_the_configuration_are_errors() {
    let nested = |open: &str, close: &str| format!("{}{}", open.repeat(LEVELS), close.repeat(LEVELS));
    let tomls = [
        format!("a = {}", nested("[", "]")),
        format!("a = {}1{}", "{a = ".repeat(LEVELS), "}".repeat(LEVELS)),
        format!("a{} = 1", ".a".repeat(LEVELS)),
        format!("[a{}]", ".a".repeat(LEVELS)),
        format!("[[a{}]]", ".a".repeat(LEVELS)),
        format!("a = {}", "[".repeat(LEVELS)),
        format!("a = {}", "{a = ".repeat(LEVELS)),
    ];
    for text in &tomls {
        for file in [
            "registry/plugins/deep.toml",
            "registry/licenses/deep.toml",
            "registry/offers/deep.toml",
            "countersign.toml",
        ] {
            let instance = Instance::new();
            instance.write(file, &format!("{text}\n"));
            // Who only lists licenses reads neither plugins nor offers.
            let listed = match file {
                "registry/licenses/deep.toml" | "countersign.toml" => 3,
                _ => 0,
            };
            for (arguments, expected) in [(&["license", "list"][..], listed), (&["doctor"], 3)] {
                let (code, said) = command(&instance, arguments);
                assert_eq!(code, expected, "{arguments:?} {file}: {text:.20}: {said:.500}");
                assert!(
                    code == 0 || said.contains(&format!("{file}:1:")) && said.contains("recurs"),
                    "{arguments:?} {file}: {text:.20}: {said:.500}"
                );
            }
        }
    }
    for line in [
        nested("[", "]"),
        format!("{{\"id\":{}}}", nested("[", "]")),
        format!("{{\"id\":{}1{}}}", "{\"a\":".repeat(LEVELS), "}".repeat(LEVELS)),
        "{\"a\":[".repeat(LEVELS),
    ] {
        let instance = Instance::new();
        instance.write("registry/licenses/deep.jsonl", &format!("{line}\n"));
        let (code, said) = command(&instance, &["license", "list"]);
        assert_eq!(code, 3, "{line:.20}: {said:.500}");
        assert!(
            said.contains("registry/licenses/deep.jsonl:1:"),
            "{line:.20}: {said:.500}"
        );
    }
    for (file, text) in [
        ("releases/index.json", nested("[", "]")),
        (
            "releases/index.json",
            format!("{{\"plugins\":{{\"acme-forms\":{}}}}}", nested("[", "]")),
        ),
        ("releases/index.json", format!("{{\"x\":{}}}", nested("[", "]"))),
        ("releases/acme-forms/1.2.0.json", nested("[", "]")),
    ] {
        let instance = Instance::new();
        instance.publish(LATEST);
        instance.write(file, &text);
        let (code, said) = command(&instance, &["doctor"]);
        assert!(
            code == 3 && said.contains("BROKEN   catalog") && said.contains(file),
            "{file}: {text:.20}: {code}: {said:.500}"
        );
    }
}

#[test]
fn deep_requests_and_deliveries_are_refused() {
    let instance = Instance::new();
    add_shop(&instance);
    let server = Server::start(&instance);
    let bearer = token(&instance, "shop", &["licenses:write"]);
    let license = License::new();
    let deep = format!("{}{}", "[".repeat(3_000), "]".repeat(3_000));
    let question = question(&license, "a.com").to_string();
    // An unknown field of a question is ignored, whatever it has.
    let ignored = question.replacen('{', &format!("{{\"x\":{deep},"), 1);
    for (target, body, expected) in [
        ("validate-license", deep.clone(), 400),
        ("validate-license", ignored, 200),
        ("release-site", deep.clone(), 400),
        ("licenses", format!("{{\"modules\":{deep}}}"), 400),
        ("licenses", format!("{{\"modules\":{}", "{\"a\":".repeat(1_200)), 400),
    ] {
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Idempotency-Key", "a"),
        ];
        let target = format!("/api/v1/{target}");
        let answer = request(server.address, "POST", &target, &headers, body.as_bytes());
        assert_eq!(answer.status, expected, "{target}: {}", answer.text());
    }
    for body in [
        format!("{}{}", "[".repeat(LEVELS), "]".repeat(LEVELS)),
        format!("{{\"data\":{}1{}}}", "{\"a\":".repeat(LEVELS), "}".repeat(LEVELS)),
    ] {
        let status = deliver_text(&server, &body);
        assert!((200..500).contains(&status), "{status}");
    }
    assert_eq!(get(server.admin, "/readyz").status, 200, "{}", server.log());
    assert!(server.stop().success());
}

#[test]
fn deep_files_of_a_plugin_are_read_or_refused_by_build_and_preview() {
    let readme = |description: &str| {
        format!(
            "=== Acme ===\nStable tag: 1.3.0\nTested up to: 6.5\n\n== Description ==\n\n{description}\n\n== Changelog ==\n\n= 1.3.0 =\n\n{description}\n"
        )
    };
    let lists: String = (0..200).map(|level| format!("{}- a\n", "  ".repeat(level))).collect();
    let readmes = [
        "<div>", "<b></i>", "<svg><p>", ">", "- ", "[", "![", "**a ", "*a _b ", "<!--", "`", "&", "~~",
    ]
    .map(|repeated| readme(&repeated.repeat(LEVELS)));
    let braces = [
        format!("{}a{} export-ignore\n", "{a,".repeat(LEVELS), "}".repeat(LEVELS)),
        format!("{} export-ignore\n", "{".repeat(LEVELS)),
        format!("{} export-ignore\n", "[[".repeat(LEVELS)),
    ];
    let mut files: Vec<(&str, String)> = readmes.into_iter().map(|text| ("readme.txt", text)).collect();
    files.push(("CHANGELOG.md", format!("# Changelog\n\n## 1.3.0\n\n{lists}")));
    files.extend(
        braces
            .iter()
            .flat_map(|line| [(".gitattributes", line.clone()), (".distignore", line.clone())]),
    );
    files.push(("package.json", format!("{{\"scripts\":{}", "{\"a\":".repeat(LEVELS))));
    files.push(("composer.json", format!("{{\"require\":{}", "[".repeat(LEVELS))));

    let work = Workplace::new();
    // Hosted, so that it is packed, too.
    work.write(
        "registry/plugins/acme-forms.toml",
        "repository = \"../../acme-forms\"\n",
    );
    // A package of nothing but one repeated word is refused.
    let noise: String = (0..1_000).map(|number| sha256(&number.to_string())).collect();
    work.write("acme-forms/noise.txt", &noise);
    for (number, (name, content)) in files.iter().enumerate() {
        work.write(&format!("acme-forms/{name}"), content);
        let (code, said) = ended(&print(work.path(), &["acme-forms"]));
        assert!(
            code == 0 && said.starts_with("Acme Forms 1.3.0 (working tree"),
            "{name} {number}: {content:.20}: {code}: {said:.500}"
        );
        work.git(&["add", "--all"]);
        work.git(&["commit", "--quiet", "--message", "deep"]);
        work.git(&["update-ref", "refs/tags/1.3.0", "HEAD"]);
        let built = countersign_in(work.path()).args(["build", "--check"]).output().unwrap();
        let (code, said) = ended(&built);
        // A check whose build would add a release ends with 1.
        assert!(
            code == 1 && said.contains("4 tags: 4 built") && said.contains("would add 1: 1.3.0"),
            "{name} {number}: {content:.20}: {code}: {said:.500}"
        );
        work.git(&["rm", "--quiet", "-f", name]);
    }
    let exclude = format!(
        "repository = \"../../acme-forms\"\n[package]\nexclude = [\"{}a{}\"]\n",
        "{a,".repeat(LEVELS),
        "}".repeat(LEVELS)
    );
    work.write("registry/plugins/acme-forms.toml", &exclude);
    let built = countersign_in(work.path()).args(["build", "--check"]).output().unwrap();
    let (code, said) = ended(&built);
    assert!(
        code == 3
            && said.contains("which is no pattern of a .gitignore")
            && said.contains("registry/plugins/acme-forms.toml:3:"),
        "{code}: {said:.500}"
    );
}

#[test]
fn the_preview_shows_what_is_wrong_with_a_template_that_is_too_deep() {
    let work = Workplace::new();
    let template = format!("Subject: a\n\n{{{{ license{} }}}}\n", ".key".repeat(LEVELS));
    work.write("registry/mail/license.txt", &template);
    let preview = Preview::start(work.path(), &[]);
    let page = preview.get("/mail").text();
    assert!(page.contains("license.txt:3: "), "{page:.500}");
    assert_eq!(preview.stop(), Some(0));
}
