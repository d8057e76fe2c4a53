//! Runs OpenSSH: `ssh-keygen -Y sign` makes the signature, with a key in a file, in an agent or in a token.
//!
//! The key's passphrase and the touch of a token are asked for on the terminal, by `ssh-keygen` itself. What comes back is
//! verified by our own reader.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::commands::Failure;
use crate::commands::sign::child::{self, ChildEnd};
use countersign_files::durable_file::{self, Access};
use countersign_files::regular_file;
use countersign_model::release_key::ReleaseKey;
use countersign_model::text::printable::Printable;
use countersign_model::text::stderr;
use countersign_package::release::sshsig::{MAX_ARMORED, NAMESPACE, Sshsig, SshsigError};

/// The largest public key file that is read, in bytes.
const MAX_KEY_FILE: u64 = 16 << 10;

/// How long an agent may take to list its keys, and how much of the list is read, in bytes.
const AGENT: Duration = Duration::from_secs(10);
const MAX_LIST: u64 = 1 << 20;

/// How the names of folders for the work begin; the number of the process follows.
const WORK: &str = "signing-";

/// Where OpenSSH keeps the keys that may sign.
const USUAL_KEYS: [&str; 2] = ["id_ed25519.pub", "id_ed25519_sk.pub"];

/// Why nothing was signed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SigningError {
    #[error("ssh-keygen cannot be run")]
    NoOpenSsh(#[source] io::Error),
    #[error("no key of [signing] is in the ssh agent or in ~/.ssh")]
    NoKey,
    #[error("{}: this key is not in [signing] of the plugin's entry: {key}", Printable(path.display()))]
    NotOurs { path: PathBuf, key: String },
    #[error("{}: a key of a type that cannot sign releases", Printable(path.display()))]
    WrongType { path: PathBuf },
    #[error("{}: cannot be read", Printable(path.display()))]
    Key { path: PathBuf, source: io::Error },
    #[error("ssh-keygen made no signature: it ended with {0}")]
    Refused(std::process::ExitStatus),
    #[error("ssh-keygen made no signature within {} s, and was ended", .0.as_secs())]
    TookTooLong(Duration),
    #[error("interrupted: nothing was signed")]
    Interrupted,
    #[error("ssh-keygen made a signature that is not taken")]
    Unusable(#[source] SshsigError),
    #[error("ssh-keygen made a signature that does not verify")]
    Wrong,
    #[error("{}: cannot be written", Printable(path.display()))]
    Work { path: PathBuf, source: io::Error },
}

/// What signs: a file that `ssh-keygen -f` takes, and the key, where it is known before.
#[derive(Debug)]
pub(super) struct SigningKeyFile {
    path: PathBuf,
    pub(super) key: Option<ReleaseKey>,
}

/// A folder for the files that `ssh-keygen` reads and writes; it goes when this is dropped.
#[derive(Debug)]
pub(super) struct WorkFolder(PathBuf);

impl WorkFolder {
    /// A new folder in `parent`, for its owner only.
    pub(super) fn new(parent: &Path) -> Result<Self, SigningError> {
        let path = parent.join(format!("{WORK}{}", std::process::id()));
        remove_abandoned(parent, &path);
        let made = durable_file::create_folders(&path, Access::Owner);
        made.map_err(|source| SigningError::Work {
            path: path.clone(),
            source,
        })?;
        Ok(Self(path))
    }

    /// A path in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file in it.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, SigningError> {
        let path = self.path(name);
        let written = regular_file::write(&path, bytes);
        written.map_err(|source| SigningError::Work {
            path: path.clone(),
            source,
        })?;
        Ok(path)
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the folders of commands that were killed, and what blocks a new one.
fn remove_abandoned(parent: &Path, own: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().into_string().unwrap_or_default();
        let process = name.strip_prefix(WORK).and_then(|id| Pid::from_raw(id.parse().ok()?));
        let is_gone = process.is_some_and(|id| test_kill_process(id) == Err(Errno::SRCH));
        if is_gone || path == own {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// The key of `--key`, which must be one of `may_sign` as far as that can be seen; without it one of `keys` that the agent or
/// `~/.ssh` has.
pub(super) fn find_key(
    given: Option<&Path>,
    keys: &[ReleaseKey],
    may_sign: &[ReleaseKey],
    work: &WorkFolder,
) -> Result<SigningKeyFile, SigningError> {
    if let Some(path) = given {
        return named_key(path, may_sign);
    }
    let of_agent = agent_keys().into_iter().find(|key| keys.contains(key));
    if let Some(key) = of_agent {
        let path = work.write("key.pub", format!("{key}\n").as_bytes())?;
        return Ok(SigningKeyFile { path, key: Some(key) });
    }
    let home = std::env::home_dir().unwrap_or_default();
    for name in USUAL_KEYS {
        let path = home.join(".ssh").join(name);
        let key = public_key(&path).ok().and_then(Result::ok);
        if let Some(key) = key.filter(|key| keys.contains(key)) {
            let path = path.with_extension("");
            return Ok(SigningKeyFile { path, key: Some(key) });
        }
    }
    Err(SigningError::NoKey)
}

/// A private key beside its `.pub`, or the public one of a key in the agent.
fn named_key(path: &Path, keys: &[ReleaseKey]) -> Result<SigningKeyFile, SigningError> {
    let is_there = regular_file::open(path, MAX_KEY_FILE);
    is_there.map_err(|source| SigningError::Key {
        path: path.to_owned(),
        source,
    })?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".pub");
    let read = match path.extension() == Some(OsStr::new("pub")) {
        true => public_key(path),
        false => public_key(Path::new(&beside)),
    };
    let key = match read {
        // A private key alone: who it is, the signature says.
        Err(_) => None,
        Ok(Err(())) => return Err(SigningError::WrongType { path: path.to_owned() }),
        Ok(Ok(key)) if !keys.contains(&key) => {
            return Err(SigningError::NotOurs {
                path: path.to_owned(),
                key: key.to_string(),
            });
        }
        Ok(Ok(key)) => Some(key),
    };
    Ok(SigningKeyFile {
        path: path.to_owned(),
        key,
    })
}

/// The key in a `.pub` file: no file, another type of key, or a key.
fn public_key(path: &Path) -> io::Result<Result<ReleaseKey, ()>> {
    let text = regular_file::read_to_string(path, MAX_KEY_FILE)?;
    Ok(text.trim().parse().map_err(|_| ()))
}

/// What `ssh-add -L` lists; nothing where there is no agent.
fn agent_keys() -> Vec<ReleaseKey> {
    let listed = || -> io::Result<String> {
        // A file and no pipe: whatever the agent does, there is nothing to wait for.
        let mut list = regular_file::create_nameless()?;
        let mut command = Command::new("ssh-add");
        command.arg("-L").stdin(Stdio::null()).stderr(Stdio::null());
        child::run(command.stdout(list.try_clone()?), AGENT)?;
        list.rewind()?;
        let mut bytes = Vec::new();
        list.take(MAX_LIST).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let listed = listed().unwrap_or_default();
    listed.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Signs a message, and gives a signature that our own reader finds good and that is by one of `keys`.
pub(super) fn sign(
    message: &[u8],
    by: &SigningKeyFile,
    keys: &[ReleaseKey],
    work: &WorkFolder,
    limit: Duration,
) -> Result<Sshsig, SigningError> {
    // A file and not standard input, so that `ssh-keygen` asks for a passphrase on the terminal.
    let file = work.write("statement.json", message)?;
    let mut command = Command::new("ssh-keygen");
    command
        .args(["-q", "-Y", "sign", "-n", NAMESPACE, "-f"])
        .arg(&by.path)
        .arg(&file)
        .stdout(Stdio::null());
    let seconds = limit.as_secs();
    stderr::line(format_args!(
        "ssh-keygen signs: give it the passphrase, or touch the token, within {seconds} s"
    ));
    match child::run(&mut command, limit).map_err(SigningError::NoOpenSsh)? {
        ChildEnd::Itself(status) if status.success() => {}
        ChildEnd::Itself(status) => return Err(SigningError::Refused(status)),
        ChildEnd::TimedOut => return Err(SigningError::TookTooLong(limit)),
        ChildEnd::Interrupted => return Err(SigningError::Interrupted),
    }
    let path = work.path("statement.json.sig");
    let text = regular_file::read_to_string(&path, MAX_ARMORED as u64);
    let text = text.map_err(|source| SigningError::Key { path, source })?;
    let signature = Sshsig::from_armored(&text).map_err(SigningError::Unusable)?;
    if !signature.verify(message) {
        return Err(SigningError::Wrong);
    }
    match keys.contains(signature.key()) {
        true => Ok(signature),
        false => Err(SigningError::NotOurs {
            path: by.path.clone(),
            key: signature.key().to_string(),
        }),
    }
}

impl From<SigningError> for Failure {
    fn from(error: SigningError) -> Self {
        match error {
            SigningError::NoOpenSsh(_) => Self::environment(error).hint("install OpenSSH's client, 8.2 or newer"),
            SigningError::NoKey => Self::input(error).hint("name your key with --key, or add it to the agent: ssh-add"),
            SigningError::NotOurs { .. } => {
                Self::input(error).hint("sign with another --key, or add this one to [signing] by a pull request")
            }
            SigningError::WrongType { .. } => Self::input(error)
                .hint("make one: ssh-keygen -t ed25519, or ssh-keygen -t ed25519-sk for a hardware key"),
            SigningError::Refused(_) => {
                Self::environment(error).hint("it said why above: a passphrase, an agent, a touch")
            }
            SigningError::Unusable(SshsigError::NotTouched) => {
                Self::environment(error).hint("make the key without `-O no-touch-required`")
            }
            SigningError::TookTooLong(_) => {
                Self::environment(error).hint("sign again; --timeout allows more time for the passphrase or the touch")
            }
            SigningError::Interrupted => Self::environment(error),
            SigningError::Key { .. } => Self::input(error),
            SigningError::Unusable(_) | SigningError::Wrong | SigningError::Work { .. } => Self::environment(error),
        }
    }
}
