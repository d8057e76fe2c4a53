//! Headless browsers: Chromium, driven by Playwright through tests/tools/browser.mjs, and Firefox, driven by Puppeteer through firefox.mjs.
//! `make tools` installs all of them.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// One browser with one page; it is ended when it is dropped.
pub struct Browser {
    child: Child,
    told: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Browser {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts with more flags for Chromium.
    pub fn start_with(flags: &[&str]) -> Self {
        Self::driven_by("browser.mjs", flags)
    }

    /// Firefox. It has no pictures, and knows of no requests.
    pub fn firefox() -> Self {
        Self::driven_by("firefox.mjs", &[])
    }

    fn driven_by(script: &str, flags: &[&str]) -> Self {
        let mut child = Command::new("node")
            .arg(script)
            .args(flags)
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node is installed: make tools");
        let told = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, told, answers }
    }

    /// A browser at `address`, whose page is complete and follows the server.
    pub fn at(address: &str) -> Self {
        let mut browser = Self::start();
        browser.open(address);
        browser
    }

    pub fn open(&mut self, address: &str) {
        self.does("open", &[address]);
        self.does("shows", &["#live", "Live"]);
    }

    /// A verb of browser.mjs that gives nothing.
    pub fn does(&mut self, verb: &str, given: &[&str]) {
        self.asks(verb, json!(given));
    }

    /// A verb of browser.mjs that gives something.
    pub fn asks(&mut self, verb: &str, given: Value) -> Value {
        let mut line = vec![json!(verb)];
        line.extend(given.as_array().cloned().unwrap_or_default());
        writeln!(self.told.as_mut().unwrap(), "{}", Value::Array(line.clone())).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(&answer).expect("the browser answers: make tools");
        assert_eq!(answer["error"], Value::Null, "{line:?}");
        answer["is"].clone()
    }

    /// What a person reads there.
    pub fn text(&mut self, selector: &str) -> String {
        self.asks("text", json!([selector])).as_str().unwrap().to_owned()
    }

    pub fn evaluate(&mut self, expression: &str) -> Value {
        self.asks("evaluate", json!([expression]))
    }

    pub fn screen(&mut self, width: u32, height: u32, scheme: &str) {
        self.asks("screen", json!([width, height, scheme]));
    }

    /// Everything the page asked the network for.
    pub fn requests(&mut self) -> Vec<String> {
        self.strings("requests")
    }

    /// Errors and warnings of the console, script errors and dialogs.
    pub fn complaints(&mut self) -> Vec<String> {
        self.strings("complaints")
    }

    fn strings(&mut self, verb: &str) -> Vec<String> {
        serde_json::from_value(self.asks(verb, json!([]))).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver closes Chromium at the end of its input.
        drop(self.told.take());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while std::time::Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
