//! Load from wrk: 64 keep-alive connections that send the requests of a file in turn.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::process::Server;

/// What wrk runs: the questions come from a file, the figures go to the last line.
const SCRIPT: &str = r#"
local questions, count, at = {}, 0, 0
function init(arguments)
    at = tonumber(arguments[2])
    for line in io.lines(arguments[1]) do
        count = count + 1
        if line:sub(1, 1) == "/" then
            questions[count] = wrk.format("GET", line)
        else
            local headers = { ["Content-Type"] = "application/json" }
            questions[count] = wrk.format("POST", "/api/v1/validate-license", headers, line)
        end
    end
end
function request()
    at = at + 1
    return questions[(at - 1) % count + 1]
end
function done(summary, latency)
    local errors = summary.errors
    local lost = errors.connect + errors.read + errors.write + errors.timeout
    io.write(string.format("figures %d %d %d %d %d %d\n", summary.requests, summary.duration, latency:percentile(50),
        latency:percentile(99), errors.status, lost))
end
"#;

/// A file with a question a line: targets of GET, or bodies of validations.
pub struct Questions {
    file: PathBuf,
    script: PathBuf,
    /// Where the next run goes on: first bindings are first once only.
    at: usize,
    /// The nice value of wrk.
    nice: u8,
}

/// What a run showed of a server.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Requests a second.
    pub rate: f64,
    /// The server's CPU time a request, in seconds.
    pub cpu: f64,
    /// Latency, in seconds.
    pub p50: f64,
    pub p99: f64,
    /// Answers of 400 and above.
    pub refused: u64,
    pub requests: u64,
}

impl Questions {
    /// Writes the questions to the folder `bench`.
    pub fn new(bench: &Path, name: &str, lines: impl Iterator<Item = String>) -> io::Result<Self> {
        let file = bench.join(name.replace(char::is_whitespace, "-") + ".questions");
        let script = bench.join("questions.lua");
        let mut writer = io::BufWriter::new(fs::File::create(&file)?);
        for line in lines {
            writeln!(writer, "{line}")?;
        }
        writer.flush()?;
        fs::write(&script, SCRIPT)?;
        Ok(Self {
            file,
            script,
            at: 0,
            nice: 0,
        })
    }

    /// The same by a load generator that leaves the cores to others.
    pub fn at_low_priority(self) -> Self {
        Self { nice: 15, ..self }
    }

    /// Asks them for as long as `duration`, in whole seconds.
    pub fn ask(&mut self, server: &Server, duration: Duration) -> io::Result<Run> {
        let seconds = duration.as_secs().max(1);
        let before = server.cpu();
        let started = Instant::now();
        let output = Command::new("nice")
            .args(["-n", &self.nice.to_string(), "timeout"])
            .arg((seconds + 30).to_string())
            .args([
                "wrk",
                "--threads",
                "1",
                "--connections",
                "64",
                "--duration",
                &format!("{seconds}s"),
                "--script",
            ])
            .arg(&self.script)
            .arg(format!("http://{}", server.address))
            .arg("--")
            .arg(&self.file)
            .arg(self.at.to_string())
            .output()?;
        let cpu = server.cpu().since(&before);
        let text = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<f64> = text
            .lines()
            .find_map(|line| line.strip_prefix("figures "))
            .map(|line| line.split(' ').filter_map(|number| number.parse().ok()).collect())
            .unwrap_or_default();
        let [requests, microseconds, p50, p99, refused, lost] = numbers[..] else {
            let told = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!(
                "wrk after {:?}: {text}{told}",
                started.elapsed()
            )));
        };
        if lost > 0.0 {
            return Err(io::Error::other(format!("{lost} requests had no answer")));
        }
        // Some more were sent than answered when time was up.
        self.at += requests as usize + 64;
        Ok(Run {
            rate: requests / microseconds * 1e6,
            cpu: cpu / requests,
            p50: p50 / 1e6,
            p99: p99 / 1e6,
            refused: refused as u64,
            requests: requests as u64,
        })
    }
}
