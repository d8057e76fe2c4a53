//! A browser for tests: keeps cookies, follows redirects, sends forms, and returns the text of pages.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Longer than any page takes, so that a test that hangs fails instead.
const PATIENCE: Duration = Duration::from_secs(60);

/// A person's browser on one site.
pub struct Browser {
    address: SocketAddr,
    host: String,
    cookies: BTreeMap<String, String>,
}

/// What came back, redirects followed.
pub struct Page {
    pub status: u16,
    pub path: String,
    pub html: String,
    /// From the first request to the last byte.
    pub took: Duration,
    location: Option<String>,
}

impl Browser {
    /// Asks the server at `address` for the site `host`.
    pub fn new(address: SocketAddr, host: &str) -> Self {
        Self {
            address,
            host: host.into(),
            cookies: BTreeMap::new(),
        }
    }

    pub fn log_in(&mut self) {
        self.log_in_as("admin");
    }

    /// Logs in with the password of all users.
    pub fn log_in_as(&mut self, user: &str) {
        self.get("/wp-login.php");
        let form = [
            ("log", user),
            ("pwd", "password"),
            ("rememberme", "forever"),
            ("testcookie", "1"),
        ];
        let page = self.post("/wp-login.php", &form);
        assert!(page.path.starts_with("/wp-admin"), "{}", page.text());
    }

    pub fn get(&mut self, path: &str) -> Page {
        self.follow("GET", path, "", Vec::new())
    }

    pub fn post(&mut self, path: &str, form: &[(&str, &str)]) -> Page {
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(form)
            .finish();
        self.follow("POST", path, "application/x-www-form-urlencoded", body.into_bytes())
    }

    /// Sends a form with a file.
    pub fn upload(&mut self, path: &str, form: &[(&str, &str)], field: &str, name: &str, file: &[u8]) -> Page {
        let mut body = Vec::new();
        for (name, value) in form {
            body.extend(format!("--==\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n").bytes());
        }
        let head = format!("--==\r\nContent-Disposition: form-data; name=\"{field}\"; filename=\"{name}\"\r\n\r\n");
        let body = [&body, head.as_bytes(), file, b"\r\n--==--\r\n"].concat();
        self.follow("POST", path, "multipart/form-data; boundary===", body)
    }

    fn follow(&mut self, method: &str, path: &str, content_type: &str, body: Vec<u8>) -> Page {
        let asked = Instant::now();
        let mut page = self.ask(method, path, content_type, &body);
        while let Some(location) = page.location.take() {
            page = self.ask("GET", &location, "", b"");
        }
        page.took = asked.elapsed();
        page
    }

    fn ask(&mut self, method: &str, path: &str, content_type: &str, body: &[u8]) -> Page {
        let cookies: Vec<String> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nContent-Type: {content_type}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.host,
            cookies.join("; "),
            body.len()
        );
        let mut stream = TcpStream::connect(self.address).expect("PHP serves the site");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("an answer in time");
        let received = String::from_utf8_lossy(&received);
        let (head, html) = received.split_once("\r\n\r\n").expect("an answer");
        let mut location = None;
        for line in head.lines() {
            let (name, value) = line.split_once(": ").unwrap_or_default();
            if name.eq_ignore_ascii_case("set-cookie") {
                let (name, value) = value.split(';').next().unwrap().split_once('=').unwrap();
                self.cookies.insert(name.into(), value.into());
            } else if name.eq_ignore_ascii_case("location") {
                location = Some(
                    value
                        .strip_prefix(&format!("http://{}", self.host))
                        .unwrap_or(value)
                        .to_owned(),
                );
            }
        }
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .expect("a status");
        Page {
            status,
            path: path.into(),
            html: html.into(),
            took: Duration::ZERO,
            location,
        }
    }
}

impl Page {
    /// What a person reads below the menus, in one line.
    pub fn text(&self) -> String {
        plain(
            self.html
                .split_once("id=\"wpbody-content\"")
                .map_or(&*self.html, |(_, body)| body),
        )
    }

    /// The rest of the page from a mark on.
    pub fn from(&self, mark: &str) -> &str {
        let start = self
            .html
            .find(mark)
            .unwrap_or_else(|| panic!("no {mark} on {}: {}", self.path, self.text()));
        &self.html[start..]
    }

    /// What is between two marks, the first behind a third.
    pub fn between(&self, behind: &str, before: &str, after: &str) -> String {
        let rest = self.from(behind);
        let start = rest
            .find(before)
            .unwrap_or_else(|| panic!("no {before} on {}", self.path))
            + before.len();
        unescaped(&rest[start..start + rest[start..].find(after).expect("its end")])
    }

    /// Where the cross of the plugin's notice leads.
    pub fn dismissal(&self) -> String {
        self.between("class=\"notice-dismiss\"", "href=\"", "\"")
    }

    /// The text of each notice; core's templates of notices have none.
    pub fn notices(&self) -> Vec<String> {
        let notices = self.html.split("<div class=\"notice notice-").skip(1);
        let says = |notice: &str| {
            let inside = notice.split_once('>').unwrap().1.split("</div>").next().unwrap();
            // Not what its cross says.
            plain(inside.split("<a class=\"notice-dismiss\"").next().unwrap())
        };
        let texts = notices.map(says);
        texts.filter(|text| !text.is_empty()).collect()
    }
}

/// What a person reads, in one line.
pub fn plain(html: &str) -> String {
    let mut text = String::new();
    for piece in html.split('<') {
        let (tag, inside) = piece.split_once('>').unwrap_or(("", piece));
        if !tag.starts_with("script") && !tag.starts_with("style") {
            text += &format!(" {inside}");
        }
    }
    unescaped(&text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn unescaped(html: &str) -> String {
    [
        ("&#038;", "&"),
        ("&#8217;", "’"),
        ("&#039;", "'"),
        ("&quot;", "\""),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
    ]
    .iter()
    .fold(html.to_owned(), |text, (escaped, letter)| text.replace(escaped, letter))
}
