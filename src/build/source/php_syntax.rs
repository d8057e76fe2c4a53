//! Checks the syntax of PHP files with the `php` in PATH: one process parses them all, runs none of them, and has a
//! time limit.
//!
//! Results are cached, so an edit costs only the edited files. [`review`](crate::build::review) makes remarks of them.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use countersign_model::digest::Digest;

/// Time limit; files not parsed by then give no result.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Limit of PHP's output in bytes.
const MAX_SAID: u64 = 4 << 20;

/// Size of the cache in files.
const REMEMBERED: usize = 50_000;

/// Repeatedly reads a length and as many bytes; prints for each file the line and the error, or 0.
///
/// SECURITY: `token_get_all` only parses, so no code of a file can run.
const SCRIPT: &str = r"
if (PHP_VERSION_ID < 70000 || !function_exists('token_get_all')) { exit(3); }
while (($length = fgets(STDIN)) !== false) {
    $code = (int) $length > 0 ? stream_get_contents(STDIN, (int) $length) : '';
    try {
        token_get_all($code, TOKEN_PARSE);
        echo '0';
    } catch (Throwable $error) {
        echo $error->getLine(), ' ', str_replace([chr(10), chr(13)], ' ', $error->getMessage());
        echo ' (PHP ', PHP_MAJOR_VERSION, '.', PHP_MINOR_VERSION, ')';
    }
    echo chr(10);
    flush();
}";

/// Switches off what the machine's settings may add: other code, caches, messages.
const SETTINGS: [&str; 7] = [
    "auto_prepend_file=",
    "auto_append_file=",
    "opcache.enable_cli=0",
    "error_reporting=0",
    "display_errors=0",
    "log_errors=0",
    "memory_limit=512M",
];

/// Why a file does not parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// From 1.
    pub line: usize,
    /// PHP's error, with its version.
    pub message: String,
}

static KNOWN: Mutex<Option<HashMap<Digest, Option<SyntaxError>>>> = Mutex::new(None);

/// The error in each file; `None` if there is none or it is unknown: no PHP, no time.
pub(crate) fn errors(files: &[Vec<u8>]) -> Vec<Option<SyntaxError>> {
    let digests: Vec<Digest> = files.iter().map(|file| Digest::of(file)).collect();
    let new: Vec<(Digest, &[u8])> = {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        if known.len() > REMEMBERED {
            known.clear();
        }
        digests
            .iter()
            .copied()
            .zip(files.iter().map(Vec::as_slice))
            .filter(|(digest, _)| !known.contains_key(digest))
            .collect()
    };
    let said = if new.is_empty() {
        Vec::new()
    } else {
        parse("php", &new, TIME_LIMIT)
    };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    known.extend(new.iter().map(|(digest, _)| *digest).zip(said));
    digests
        .iter()
        .map(|digest| known.get(digest).cloned().flatten())
        .collect()
}

/// PHP's results for the files, in order; fewer if PHP is missing, fails or takes too long.
fn parse(php: &str, files: &[(Digest, &[u8])], time_limit: Duration) -> Vec<Option<SyntaxError>> {
    let mut command = Command::new(php);
    for setting in SETTINGS {
        command.args(["-d", setting]);
    }
    command.args(["-r", SCRIPT]).current_dir("/");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else {
        return Vec::new();
    };
    let said = said(&mut child, files, time_limit);
    let _ = child.kill();
    let _ = child.wait();
    said.lines().map(error).collect()
}

/// PHP's output until it ended or the time was over.
fn said(child: &mut Child, files: &[(Digest, &[u8])], time_limit: Duration) -> String {
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return String::new();
    };
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        scope.spawn(move || {
            let mut said = Vec::new();
            let _ = stdout.take(MAX_SAID).read_to_end(&mut said);
            let _ = sender.send(said);
        });
        scope.spawn(move || {
            let _ = files.iter().try_for_each(|(_, file)| -> io::Result<()> {
                writeln!(stdin, "{}", file.len())?;
                stdin.write_all(file)
            });
        });
        let said = receiver.recv_timeout(time_limit).unwrap_or_default();
        // Ends both threads if they still run, because their pipes break.
        let _ = child.kill();
        String::from_utf8_lossy(&said).into_owned()
    })
}

fn error(line: &str) -> Option<SyntaxError> {
    let (number, message) = line.split_once(' ')?;
    Some(SyntaxError {
        line: number.parse().ok()?,
        message: message.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Instant;

    use super::*;

    fn files(texts: &[&str]) -> Vec<Vec<u8>> {
        texts.iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    #[test]
    fn php_says_which_file_does_not_parse_and_in_which_line_and_runs_none() {
        let folder = tempfile::tempdir().unwrap();
        let proof = folder.path().join("ran");
        let runs = format!("<?php\nfile_put_contents('{}', 'x');", proof.display());
        let errors_found = errors(&files(&[
            "<?php\necho 1;",
            "<?php\n\nfunction {",
            "",
            &runs,
            "no PHP <b>",
            "<?php echo 'ü' ;;",
        ]));
        assert_eq!(
            errors_found.iter().map(Option::is_some).collect::<Vec<_>>(),
            [false, true, false, false, false, false]
        );
        let error = errors_found[1].clone().unwrap();
        assert_eq!(error.line, 3);
        assert!(
            error.message.starts_with("syntax error, unexpected") && error.message.contains("(PHP "),
            "{error:?}"
        );
        assert!(!proof.exists());
        assert_eq!(errors(&files(&["<?php\n\nfunction {"])), [Some(error)], "remembered");
    }

    #[test]
    fn a_php_that_hangs_or_is_absent_says_nothing_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let hangs = folder.path().join("php");
        fs::write(&hangs, "#!/bin/sh\nexec sleep 600\n").unwrap();
        fs::set_permissions(&hangs, fs::Permissions::from_mode(0o755)).unwrap();
        let blanks = vec![b' '; 1 << 20];
        let large = [(Digest::of(b""), &blanks[..])];
        let start = Instant::now();
        assert_eq!(parse(hangs.to_str().unwrap(), &large, Duration::from_millis(200)), []);
        assert_eq!(parse("/nowhere/php", &large, Duration::from_millis(200)), []);
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}
