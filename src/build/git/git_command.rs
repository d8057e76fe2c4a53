//! Runs the `git` command to fetch: with restricted protocols, its own credentials, a time limit and a size limit.
//!
//! git supports credential helpers, ssh agents and proxies. Here it never prompts, never runs a hook, and never
//! outlives its time limit or this process. [`mirror`](crate::build::git::mirror) fetches with it.

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::build::git::credentials::Credentials;
use countersign_model::text::printable::Printable;

/// Protocols that git may always use, because the user's configuration (`insteadOf`) may rewrite a URL to one of them.
// SECURITY: never `ext`, which runs any command in the URL. Unencrypted protocols only if the vendor's URL has them.
const PROTOCOLS: &str = "https:ssh";

/// Starts git, and in its process group a watchdog that waits for the end of standard input. When the other end of
/// that pipe is closed, also because this process was killed, the watchdog kills the group: git, its helpers, ssh.
const LEASH: &str = r#"exec 3<&0; (read -r _ <&3; kill -s KILL 0) >/dev/null 2>&1 & exec git "$@" </dev/null 3<&-"#;

/// No prompts, English messages, and a repository format that libgit2 can read.
const ENVIRONMENT: [(&str, &str); 8] = [
    // SECURITY: objects are read as they are, whatever `refs/replace/` says.
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // Set but empty, so that neither core.askPass nor SSH_ASKPASS is used (git-credential(7)).
    ("GIT_ASKPASS", ""),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("LC_ALL", "C"),
    ("GIT_TRACE_REDACT", "1"),
    ("GIT_DEFAULT_HASH", "sha1"),
    ("GIT_DEFAULT_REF_FORMAT", "files"),
];

/// Set by a hook that started this process, for its own repository.
const NOT_INHERITED: [&str; 6] = [
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
];

const CONFIGURATION: [&str; 7] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    // SECURITY: an allowed host must not redirect to a forbidden one.
    "http.followRedirects=false",
    // Gives up on a server that sends nothing for a minute.
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
    // git cleans up in the foreground, while the mirror is locked.
    "gc.autoDetach=false",
    "maintenance.autoDetach=false",
];

const SSH: &str = "ssh -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=15";

/// How many bytes of the end of git's output are kept; a server can send any amount.
const MAX_SAID: usize = 8 << 10;

/// How often the size of git's folder is checked.
const BETWEEN_MEASUREMENTS: Duration = Duration::from_millis(200);

/// How many of its lines are shown.
const LINES_SHOWN: usize = 4;

/// Runs of git with a common deadline.
pub(crate) struct Git<'a> {
    credentials: Option<&'a Credentials>,
    protocols: String,
    timeout: Duration,
    deadline: Instant,
    /// Size limit of the folder that git writes to, in bytes.
    limit: u64,
}

/// Why git failed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// git was not found.
    #[error("the git command is not installed or not in PATH")]
    NotInstalled,
    /// It took too long and was killed, with everything it had started.
    #[error("not done within {} s; --fetch-timeout allows more", .0.as_secs())]
    TimedOut(Duration),
    /// It failed with this message.
    #[error("{0}")]
    Failed(String),
    /// It was killed because its folder became larger than this many bytes.
    #[error("larger than {} MiB; --fetch-limit allows more", .0 >> 20)]
    TooLarge(u64),
    /// No process could be started.
    #[error("cannot start git")]
    Start(#[source] io::Error),
}

impl<'a> Git<'a> {
    /// All runs share `timeout`, which starts now, and the size limit `limit` in bytes. They may use `scheme` and
    /// encrypted protocols.
    pub(crate) fn new(credentials: Option<&'a Credentials>, scheme: &str, timeout: Duration, limit: u64) -> Self {
        let protocols = format!("{PROTOCOLS}:{scheme}");
        Self {
            credentials,
            protocols,
            timeout,
            deadline: Instant::now() + timeout,
            limit,
        }
    }

    /// The remaining time.
    pub(crate) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Runs `git` with these arguments on the repository at `path`.
    pub(crate) fn run(&self, path: &Path, arguments: &[&str]) -> Result<(), GitError> {
        let (status, said) = self.end_of(path, self.command(path, arguments))?;
        match status.code() {
            // A fast run was not measured while it ran.
            Some(0) if size_of(path) > self.limit => Err(GitError::TooLarge(self.limit)),
            Some(0) => Ok(()),
            // The exit code of a shell for an unknown command.
            Some(127) => Err(GitError::NotInstalled),
            _ => Err(GitError::Failed(self.failure_text(&said, status))),
        }
    }

    fn command(&self, path: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", LEASH, "git"]);
        for setting in CONFIGURATION {
            command.args(["-c", setting]);
        }
        if let Some(credentials) = self.credentials {
            credentials.give_to(&mut command);
        }
        command
            .args(arguments)
            .env("GIT_DIR", path)
            .envs(ENVIRONMENT)
            .env("GIT_ALLOW_PROTOCOL", &self.protocols);
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        if !has_ssh_command() {
            command.env("GIT_SSH_COMMAND", SSH);
        }
        // SECURITY: without its own process group, the watchdog would kill the group of this process's parent.
        command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// Waits for git to end, or kills it. Returns its status and the end of its output.
    fn end_of(&self, path: &Path, mut command: Command) -> Result<(ExitStatus, Vec<u8>), GitError> {
        let mut child = command.spawn().map_err(GitError::Start)?;
        let leash = child.stdin.take();
        let stderr = child.stderr.take();
        let said = in_background(move || stderr.map(end_of_stream).unwrap_or_default());
        let ended = in_background(move || child.wait());
        let status = loop {
            if let Ok(status) = ended.recv_timeout(self.time_left().min(BETWEEN_MEASUREMENTS)) {
                break status;
            }
            let error = match () {
                () if self.time_left().is_zero() => GitError::TimedOut(self.timeout),
                () if size_of(path) > self.limit => GitError::TooLarge(self.limit),
                () => continue,
            };
            drop(leash);
            let _ = ended.recv();
            return Err(error);
        };
        drop(leash);
        // An ssh process for later connections may hold the pipe for ever.
        let said = said.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        Ok((status.map_err(GitError::Start)?, said))
    }

    /// The last lines of git's output for a report: one line, escaped, without secrets.
    fn failure_text(&self, said: &[u8], status: ExitStatus) -> String {
        let said = String::from_utf8_lossy(said);
        let mut lines: Vec<_> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        // After its last error, git only gives advice.
        let is_error = |line: &&str| line.starts_with("fatal:") || line.starts_with("error:");
        lines.truncate(lines.iter().rposition(is_error).map_or(lines.len(), |last| last + 1));
        let text = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("; ");
        let text = if text.is_empty() {
            format!("git exited with {status}")
        } else {
            text
        };
        let wants_credentials = ["terminal prompts disabled", "Authentication failed"]
            .iter()
            .any(|s| text.contains(s));
        let text = without_user_info(
            &self
                .credentials
                .map_or(text.clone(), |credentials| credentials.redact(&text)),
        );
        let is_redirect = text.contains("returned error: 30");
        let hint = if is_redirect {
            "; redirects are not followed: use the address it redirects to"
        } else if wants_credentials {
            "; give git a credential helper, or set COUNTERSIGN_GIT_HOST and COUNTERSIGN_GIT_TOKEN"
        } else {
            ""
        };
        format!("{}{hint}", Printable(text))
    }
}

/// Whether the user has configured how ssh is started.
fn has_ssh_command() -> bool {
    let configured = || {
        let mut git = Command::new("git");
        git.args(["config", "--get", "core.sshCommand"])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        git.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    ["GIT_SSH_COMMAND", "GIT_SSH"]
        .iter()
        .any(|name| std::env::var_os(name).is_some())
        || configured()
}

/// The size of the files in a folder; files that git removes meanwhile count as 0.
pub(crate) fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(size).fold(0, u64::saturating_add)
}

fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    // The receiver may have given up.
    thread::spawn(move || sender.send(work()).ok());
    receiver
}

fn end_of_stream(mut stream: impl Read) -> Vec<u8> {
    let mut end = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        end.extend_from_slice(&buffer[..read]);
        end.drain(..end.len().saturating_sub(MAX_SAID));
    }
    end
}

/// Removes `user:password@` from URLs; a redirect may contain one.
fn without_user_info(text: &str) -> String {
    let mut parts = text.split("://");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |clean, part| {
        let end = part.find(['/', '\'', '"', ' ']).unwrap_or(part.len());
        let start = part[..end].rfind('@').map_or(0, |at| at + 1);
        clean + "://" + &part[start..]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(timeout: Duration) -> Git<'static> {
        Git::new(None, "file", timeout, u64::MAX)
    }

    #[test]
    fn what_git_says_is_shown_in_one_clean_line() {
        let said =
            "remote: \x1b[2Jno\nssh: nobody\nfatal: 'https://u:canary@host/x' is not there\n\nPlease make sure\n";
        let failed = Command::new("false").status().unwrap();
        let text = git(Duration::ZERO).failure_text(said.as_bytes(), failed);
        assert_eq!(
            text,
            r"remote: \u{1b}[2Jno; ssh: nobody; fatal: 'https://host/x' is not there"
        );
        assert_eq!(
            git(Duration::ZERO).failure_text(b"", failed),
            "git exited with exit status: 1"
        );
    }

    #[test]
    fn of_a_server_that_never_stops_talking_only_the_end_is_kept() {
        let said = end_of_stream(io::repeat(b'x').take(1 << 20).chain(&b"fatal: no"[..]));
        assert_eq!(said.len(), MAX_SAID);
        assert!(said.ends_with(b"fatal: no"));
    }

    #[test]
    fn an_address_that_would_run_a_command_is_refused_by_git() {
        let folder = tempfile::tempdir().unwrap();
        let proof = folder.path().join("proof");
        let git = git(Duration::from_secs(60));
        let error = git
            .run(
                folder.path(),
                &["ls-remote", "--", &format!("ext::touch {}", proof.display())],
            )
            .unwrap_err();
        assert!(error.to_string().contains("transport 'ext' not allowed"), "{error}");
        assert!(!proof.exists());
    }

    #[test]
    fn what_takes_too_long_is_ended_with_all_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // git's grandchild holds the pipe open, so reading ends when the last of them is gone.
        let alias = format!("alias.stay=!sh -c 'echo here; exec sleep 600' >{}", pipe.display());
        let heard = in_background({
            let pipe = pipe.clone();
            move || std::fs::read_to_string(pipe).unwrap()
        });
        // Long enough for all of them to begin on a busy machine.
        let error = git(Duration::from_secs(5))
            .run(folder.path(), &["-c", &alias, "stay"])
            .unwrap_err();
        assert!(matches!(error, GitError::TimedOut(_)), "{error}");
        assert_eq!(heard.recv_timeout(Duration::from_secs(30)).unwrap(), "here\n");
    }
}
