//! Plugins with repositories on a git server that requires a token (`tests/tools/git_http.py`).

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use crate::support::upstream::{
    TOKEN, Upstream, assert_builds, assert_keeps, build, cached, instance, published, run, without_settings,
};

/// The upstream over smart HTTP, for those who know the token. Ends when it is dropped.
struct GitServer {
    child: Child,
    _stdin: ChildStdin,
    host: String,
    lengths: mpsc::Receiver<usize>,
}

impl GitServer {
    fn start(upstream: &Upstream) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/git_http.py");
        let mut python = Command::new("python3");
        python
            .arg(script)
            .arg(upstream.folder.path())
            .args(["x-access-token", TOKEN]);
        let mut child = without_settings(&mut python)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap();
        let (sender, lengths) = mpsc::channel();
        thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line.parse().unwrap()))
        });
        Self {
            _stdin: child.stdin.take().unwrap(),
            child,
            host: format!("127.0.0.1:{port}"),
            lengths,
        }
    }

    fn url(&self) -> String {
        format!("http://{}/acme-forms.git", self.host)
    }

    /// How many bytes were sent since this was asked last.
    fn sent(&self) -> usize {
        self.lengths.try_iter().sum()
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with_token<'a>(command: &'a mut Command, server: &GitServer) -> &'a mut Command {
    command
        .env("COUNTERSIGN_GIT_HOST", &server.host)
        .env("COUNTERSIGN_GIT_TOKEN", TOKEN)
}

#[test]
fn a_second_build_fetches_what_is_new_and_drops_tags_that_are_gone() {
    let upstream = Upstream::with_release("1.0");
    upstream.release("1.1");
    let server = GitServer::start(&upstream);
    let instance = instance(&server.url());
    assert_builds(with_token(&mut build(&instance), &server));
    assert_eq!(published(&instance), ["1.1", "1.0"]);
    let whole = server.sent();
    assert!(whole > 100_000, "{whole}");

    upstream.release("1.2");
    upstream.git(&["tag", "-d", "1.0"]);
    assert_builds(with_token(&mut build(&instance), &server));
    assert_eq!(published(&instance), ["1.2", "1.1"]);
    let part = server.sent();
    assert!((1..10_000).contains(&part), "{part}");
    assert_eq!(cached(&instance), ["acme-forms.git", "lock"]);
}

#[test]
fn without_the_right_token_nobody_is_asked_and_the_reason_is_told() {
    let upstream = Upstream::with_release("1.3");
    let server = GitServer::start(&upstream);
    let instance = instance(&server.url());
    let hint = "set COUNTERSIGN_GIT_HOST and COUNTERSIGN_GIT_TOKEN";
    let no_token = "could not read Username";
    assert_keeps(&instance, &mut build(&instance), no_token);
    assert_keeps(&instance, &mut build(&instance), hint);
    assert_keeps(&instance, build(&instance).env("GIT_ASKPASS", "/bin/echo"), no_token);

    let mut wrong = build(&instance);
    with_token(&mut wrong, &server).env("COUNTERSIGN_GIT_TOKEN", format!("{TOKEN}-not"));
    assert_keeps(&instance, wrong.arg("--json"), "Authentication failed");

    let mut elsewhere = build(&instance);
    with_token(&mut elsewhere, &server).env("COUNTERSIGN_GIT_HOST", "git.example.com");
    assert_keeps(&instance, &mut elsewhere, no_token);
    assert_eq!(cached(&instance), ["lock"], "nothing half-made");

    let (code, text) = run(with_token(&mut build(&instance), &server).env_remove("COUNTERSIGN_GIT_HOST"));
    assert_eq!(code, Some(2), "{text}");
    assert_builds(with_token(&mut build(&instance), &server));
}

#[test]
fn gits_own_credential_helper_is_asked() {
    let upstream = Upstream::with_release("1.3");
    let server = GitServer::start(&upstream);
    let instance = instance(&server.url());
    let settings = upstream.folder.path().join("gitconfig");
    let helper = format!("!f() {{ echo username=x-access-token; echo password={TOKEN}; }}; f");
    let output = Command::new("git")
        .args(["config", "-f"])
        .arg(&settings)
        .args(["credential.helper", &helper])
        .status();
    assert!(output.unwrap().success());
    assert_builds(build(&instance).env("GIT_CONFIG_GLOBAL", settings));
    assert_eq!(published(&instance), ["1.3"]);
}

#[test]
fn a_redirect_leads_to_no_other_host() {
    let upstream = Upstream::with_release("1.3");
    let server = GitServer::start(&upstream);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let instance = instance(&format!("http://{}/acme-forms.git", listener.local_addr().unwrap()));
    let target = server.url();
    let redirecting = thread::spawn(move || {
        use std::io::Write;
        let (mut client, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&client).read_line(&mut line).unwrap();
        let path = line.split(' ').nth(1).unwrap().trim_start_matches("/acme-forms.git");
        let answer = format!(
            "HTTP/1.1 301 Moved Permanently\r\nLocation: {target}{path}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        client.write_all(answer.as_bytes()).unwrap();
    });
    let told = "redirects are not followed: use the address it redirects to";
    assert_keeps(&instance, with_token(&mut build(&instance), &server), told);
    redirecting.join().unwrap();
    assert_eq!(server.sent(), 0);
}
