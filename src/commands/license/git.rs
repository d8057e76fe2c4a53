//! Runs the `git` command on the registry's checkout, with a time limit, for
//! [`checkout`](crate::commands::license::checkout).
//!
//! Reading runs nothing that the repository configures, because somebody else may have configured it. A commit runs the
//! repository's filters and hooks, as it does by hand.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use countersign_files::time_limit::TookTooLong;
use countersign_model::text::printable::Printable;

/// How long reading may take. git opens files that may be pipes, or on a disk that hangs.
const LOOK: Duration = Duration::from_secs(10);

/// How long a commit may take, with hooks, and with a person who types the passphrase of a signature.
const COMMIT: Duration = Duration::from_secs(300);

/// The time between two checks whether git has ended.
const PAUSE: Duration = Duration::from_millis(5);

/// git's output is complete this soon after its end, unless a process that it started holds the pipe.
const AFTER_THE_END: Duration = Duration::from_secs(1);

/// SECURITY: reading must not run what the repository configures. Filters are handled below.
const QUIET: [&str; 4] = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"];

/// git's answer about the registry, or about one path in it; `None` if git says no (exit code 1, no output).
///
/// # Errors
///
/// Why git failed, in one line.
pub(super) fn look(registry: &Path, arguments: &[&str], path: &Path) -> Result<Option<String>, String> {
    let mut command = looking(registry);
    for name in filters(registry)? {
        // SECURITY: no filter runs, and none is required. git compares the files as they are.
        for setting in ["clean=", "smudge=", "process=", "required=false"] {
            command.arg("-c").arg(format!("filter.{name}.{setting}"));
        }
    }
    said(command.args(arguments).arg("--").arg(path), LOOK)
}

/// Changes the repository.
///
/// # Errors
///
/// git's error, in one line.
pub(super) fn change(registry: &Path, arguments: &[&str]) -> Result<(), String> {
    let said = said(command(registry).args(arguments), COMMIT)?;
    said.map(drop).ok_or_else(|| "git printed nothing".to_owned())
}

/// The names of all configured filters.
fn filters(registry: &Path) -> Result<Vec<String>, String> {
    let listed = said(
        looking(registry).args(["config", "--null", "--name-only", "--get-regexp", r"^filter\."]),
        LOOK,
    )?;
    let listed = listed.unwrap_or_default();
    let mut names: Vec<&str> = listed.split('\0').filter_map(filter_name).collect();
    names.sort_unstable();
    names.dedup();
    // On the command line, a setting's name ends at the first of these.
    match names.iter().find(|name| name.contains('=')) {
        Some(name) => Err(format!(
            "its configuration has a filter with an odd name: {}",
            Printable(name)
        )),
        None => Ok(names.into_iter().map(str::to_owned).collect()),
    }
}

/// The name in `filter.<name>.clean`, which may have dots.
fn filter_name(setting: &str) -> Option<&str> {
    setting.strip_prefix("filter.")?.rsplit_once('.').map(|(name, _)| name)
}

fn looking(registry: &Path) -> Command {
    let mut command = command(registry);
    // SECURITY: a partial clone would fetch what it lacks, by the command that its configuration names.
    command.args(QUIET).envs([
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_ALLOW_PROTOCOL", "none"),
        ("GIT_OPTIONAL_LOCKS", "0"),
    ]);
    command
}

/// git in the registry's folder.
fn command(registry: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(registry).env("LC_ALL", "C");
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        // Set by a hook that started this process, for its own repository.
        command.env_remove(name);
    }
    command
}

fn said(command: &mut Command, limit: Duration) -> Result<Option<String>, String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start git: {error}"))?;
    let stdout = in_background(child.stdout.take());
    let stderr = in_background(child.stderr.take());
    let status = end(&mut child, limit)?;
    let complaint = stderr.recv_timeout(AFTER_THE_END).unwrap_or_default();
    if status.success() {
        let text = stdout
            .recv_timeout(AFTER_THE_END)
            .map_err(|_| "a process that git started is still running".to_owned())?;
        return Ok(Some(String::from_utf8_lossy(&text).into_owned()));
    }
    let complaint = String::from_utf8_lossy(&complaint);
    match complaint.lines().find(|line| !line.trim().is_empty()) {
        Some(first) => Err(Printable(first).to_string()),
        None if status.code() == Some(1) => Ok(None),
        None => Err(format!("git exited with {status}")),
    }
}

/// Waits for git to end, or kills it.
fn end(child: &mut Child, limit: Duration) -> Result<ExitStatus, String> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            // Do not wait for it: on a disk that hangs, even killing takes for ever.
            let _ = child.kill();
            return Err(format!("git: {}", TookTooLong(limit)));
        }
        thread::sleep(PAUSE);
    }
}

/// Reads a stream on its own thread, because a full pipe would block git.
fn in_background(stream: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (done, read) = sync_channel(1);
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // After an error, what was read is all there is. After a timeout, nobody waits for it.
        let _ = stream.map(|mut stream| stream.read_to_end(&mut bytes));
        let _ = done.send(bytes);
    });
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_may_have_dots_in_its_name() {
        assert_eq!(filter_name("filter.lfs.clean"), Some("lfs"));
        assert_eq!(filter_name("filter.a.b.process"), Some("a.b"));
        assert_eq!(filter_name("filter.clean"), None);
    }

    #[test]
    fn what_does_not_end_is_ended() {
        let started = Instant::now();
        let error = said(Command::new("sleep").arg("60"), Duration::from_millis(50)).unwrap_err();
        assert!(
            error.starts_with("git: not done within 0 s") && started.elapsed() < Duration::from_secs(30),
            "{error}"
        );
    }

    #[test]
    fn a_no_is_no_complaint() {
        assert_eq!(said(&mut Command::new("false"), LOOK), Ok(None));
        assert_eq!(
            said(
                Command::new("sh").args(["-c", "echo; echo 'fatal: x' >&2; exit 1"]),
                LOOK
            ),
            Err("fatal: x".into())
        );
        assert!(said(Command::new("sh").args(["-c", "kill -9 $$"]), LOOK).is_err());
    }
}
