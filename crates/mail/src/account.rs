//! The account that sends: the settings of `[mail]`, checked, with their files.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lettre::message::Mailbox;
use zeroize::Zeroizing;

use countersign_files::regular_file;
use countersign_settings::config::{MailConfig, MailTls};
use countersign_settings::keys::secret_file::{self, SecretFileError};
use countersign_settings::tls_client;

/// The longest password, in bytes.
const MAX_PASSWORD: usize = 1024;

/// Which mail server, and who sends.
#[derive(Clone, Debug)]
pub struct MailAccount {
    pub(super) server: String,
    pub(super) port: u16,
    pub(super) tls: MailTls,
    pub(super) certificates: Option<PathBuf>,
    pub(super) login: Option<Login>,
    pub(super) from: Mailbox,
    pub(super) reply_to: Option<Mailbox>,
    /// How long the server may take for one answer.
    pub(super) timeout: Duration,
    /// How long a mail waits before it is sent again, the first time.
    pub(super) retry: Duration,
}

/// Who logs in.
#[derive(Clone, Debug)]
pub(super) struct Login {
    pub(super) user: String,
    password_file: PathBuf,
}

/// Why the settings of `[mail]` are not usable, in one line each. [`MailAccountError::hint`] says what to do.
#[derive(Debug, thiserror::Error)]
pub enum MailAccountError {
    /// `from` is missing.
    #[error("mail.server is set, but mail.from is not")]
    NoSender,
    /// `from` or `reply_to` is not an address.
    #[error("mail.{setting}: not a mail address")]
    NotAnAddress {
        /// The setting.
        setting: &'static str,
    },
    /// A user without a password, or a password without a user.
    #[error("mail.{given} is set, but mail.{missing} is not")]
    HalfOfLogin {
        /// The setting that is given.
        given: &'static str,
        /// The setting that is missing.
        missing: &'static str,
    },
    /// Plain text to another machine.
    #[error("mail.tls is \"none\", but {0} is not this machine")]
    PlainText(String),
    /// The password's file is missing or cannot be read.
    #[error("{}: the password of the mail server cannot be read: {reason}", path.display())]
    ReadPassword {
        /// The file.
        path: PathBuf,
        /// Why. Part of the message, so it is not a source.
        reason: io::Error,
    },
    /// Other users can read the password.
    #[error("{}: others can read the password of the mail server (mode {mode:04o})", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is not one line.
    #[error("{}: not a password, which is one line of at most {MAX_PASSWORD} bytes", .0.display())]
    NotAPassword(PathBuf),
    /// The certificates to trust are not usable.
    #[error("{0}")]
    Certificates(io::Error),
}

impl MailAccountError {
    /// What to do.
    pub fn hint(&self) -> String {
        match self {
            Self::NoSender => "set mail.from to the address that your buyers see".to_owned(),
            Self::NotAnAddress { .. } => {
                "write it as \"licenses@acme.example\" or as \"Acme Licenses <licenses@acme.example>\"".to_owned()
            }
            Self::HalfOfLogin { .. } => "set both, or neither where the mail server asks for no login".to_owned(),
            Self::PlainText(_) => "set mail.tls to \"starttls\" or \"tls\"".to_owned(),
            Self::ReadPassword { .. } => {
                "write the password into the file, as the user that runs the server".to_owned()
            }
            Self::Exposed { path, .. } => regular_file::exposed_hint(path),
            Self::NotAPassword(_) => "write the password into the file, and nothing else".to_owned(),
            Self::Certificates(_) => {
                "name a file of certificates in PEM with mail.certificates, or remove the setting".to_owned()
            }
        }
    }
}

impl MailAccount {
    /// Checks the settings. [`check_files`](Self::check_files) looks at the files, which are read at each connection.
    pub fn new(config: &MailConfig) -> Result<Self, MailAccountError> {
        let from = config.from.as_deref().ok_or(MailAccountError::NoSender)?;
        let login = match (&config.user, &config.password_file) {
            (Some(user), Some(file)) => Some(Login {
                user: user.clone(),
                password_file: file.clone(),
            }),
            (None, None) => None,
            (Some(_), None) => {
                return Err(MailAccountError::HalfOfLogin {
                    given: "user",
                    missing: "password_file",
                });
            }
            (None, Some(_)) => {
                return Err(MailAccountError::HalfOfLogin {
                    given: "password_file",
                    missing: "user",
                });
            }
        };
        if config.tls == MailTls::Off && !may_be_loopback(&config.server) {
            return Err(MailAccountError::PlainText(config.server.clone()));
        }
        Ok(Self {
            server: config.server.clone(),
            port: config.port,
            tls: config.tls,
            certificates: config.certificates.clone(),
            login,
            from: mailbox(from, "from")?,
            reply_to: config
                .reply_to
                .as_deref()
                .map(|text| mailbox(text, "reply_to"))
                .transpose()?,
            timeout: config.timeout,
            retry: config.retry,
        })
    }

    /// Whether the password and the certificates can be read now.
    pub fn check_files(&self) -> Result<(), MailAccountError> {
        if let Some(login) = &self.login {
            login.password()?;
        }
        if self.tls != MailTls::Off {
            tls_client::config(self.certificates.as_deref(), "mail.certificates")
                .map_err(MailAccountError::Certificates)?;
        }
        Ok(())
    }

    /// The sender, as buyers see it.
    pub fn from(&self) -> String {
        self.from.to_string()
    }

    /// Where answers go, if not to the sender.
    pub fn reply_to(&self) -> Option<String> {
        self.reply_to.as_ref().map(ToString::to_string)
    }

    /// The mail server with its port.
    pub fn server(&self) -> String {
        match self.server.parse() {
            Ok(IpAddr::V6(ip)) => format!("[{ip}]:{}", self.port),
            _ => format!("{}:{}", self.server, self.port),
        }
    }
}

impl Login {
    /// Whether a text has the password, as it is or as PLAIN and LOGIN send it.
    pub(super) fn is_quoted(&self, password: &str, text: &str) -> bool {
        let plain = Zeroizing::new(format!("\0{}\0{password}", self.user));
        let sent = [plain.as_str(), password].map(|said| Zeroizing::new(STANDARD.encode(said)));
        text.contains(password) || sent.iter().any(|sent| text.contains(sent.as_str()))
    }

    /// The password that is in force now: a change of the file needs no restart of the server.
    pub(super) fn password(&self) -> Result<Zeroizing<String>, MailAccountError> {
        let path = || self.password_file.clone();
        let text = secret_file::read(&self.password_file).map_err(|error| match error {
            SecretFileError::Missing => MailAccountError::ReadPassword {
                path: path(),
                reason: io::ErrorKind::NotFound.into(),
            },
            SecretFileError::Read(reason) => MailAccountError::ReadPassword { path: path(), reason },
            SecretFileError::NotAFile => MailAccountError::NotAPassword(path()),
            SecretFileError::Exposed(mode) => MailAccountError::Exposed { path: path(), mode },
        })?;
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        match line.is_empty() || line.len() > MAX_PASSWORD || line.contains(char::is_control) {
            true => Err(MailAccountError::NotAPassword(path())),
            false => Ok(Zeroizing::new(line.to_owned())),
        }
    }
}

/// Whether a name can be this machine. Where it leads is checked again at each connection.
fn may_be_loopback(server: &str) -> bool {
    match server.parse::<IpAddr>() {
        Ok(ip) => ip.is_loopback(),
        Err(_) => server == "localhost",
    }
}

// SECURITY: a control character in a name could end its header.
fn mailbox(text: &str, setting: &'static str) -> Result<Mailbox, MailAccountError> {
    let not_an_address = MailAccountError::NotAnAddress { setting };
    if text.chars().any(char::is_control) {
        return Err(not_an_address);
    }
    text.parse().map_err(|_| not_an_address)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn config() -> MailConfig {
        MailConfig {
            server: "smtp.acme.example".to_owned(),
            port: 587,
            tls: MailTls::Starttls,
            certificates: None,
            user: None,
            password_file: None,
            from: Some("Acme Licenses <licenses@acme.example>".to_owned()),
            reply_to: None,
            timeout: Duration::from_secs(60),
            retry: Duration::from_secs(60),
        }
    }

    fn error(change: impl FnOnce(&mut MailConfig)) -> String {
        let mut changed = config();
        change(&mut changed);
        let error = MailAccount::new(&changed).unwrap_err();
        assert!(!error.hint().is_empty());
        error.to_string()
    }

    #[test]
    fn what_is_missing_or_wrong_is_reported_by_its_setting() {
        let account = MailAccount::new(&config()).unwrap();
        assert_eq!(account.from(), "Acme Licenses <licenses@acme.example>");
        assert_eq!(account.server(), "smtp.acme.example:587");
        assert_eq!(
            error(|config| config.from = None),
            "mail.server is set, but mail.from is not"
        );
        for bad in ["Acme", "a@b.example\r\nBcc: c@d.example", "A\n <a@b.example>", ""] {
            assert_eq!(
                error(|config| config.from = Some(bad.to_owned())),
                "mail.from: not a mail address"
            );
        }
        assert_eq!(
            error(|config| config.reply_to = Some("nobody".to_owned())),
            "mail.reply_to: not a mail address"
        );
        assert_eq!(
            error(|config| config.user = Some("acme".to_owned())),
            "mail.user is set, but mail.password_file is not"
        );
        assert_eq!(
            error(|config| config.password_file = Some("p".into())),
            "mail.password_file is set, but mail.user is not"
        );
    }

    #[test]
    fn plain_text_never_leaves_the_machine() {
        let off = |server: &str| {
            let server = server.to_owned();
            MailAccount::new(&MailConfig {
                tls: MailTls::Off,
                server,
                ..config()
            })
        };
        for own in ["127.0.0.1", "127.8.0.1", "::1", "localhost"] {
            assert!(off(own).is_ok(), "{own}");
        }
        for other in [
            "smtp.acme.example",
            "192.0.2.1",
            "::2",
            "localhost.example",
            "127.0.0.1.example",
        ] {
            assert!(matches!(off(other), Err(MailAccountError::PlainText(_))), "{other}");
        }
    }

    #[test]
    fn a_password_is_one_line_that_only_its_owner_can_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let login = Login {
            user: "acme".to_owned(),
            password_file: file.clone(),
        };
        assert!(matches!(login.password(), Err(MailAccountError::ReadPassword { .. })));
        let write = |text: &str, mode: u32| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            login.password()
        };
        for text in ["p w:ü", "p w:ü\n", "p w:ü\r\n"] {
            assert_eq!(*write(text, 0o600).unwrap(), "p w:ü");
        }
        for text in ["", "\n", "a\nb\n", "a\0", &"x".repeat(MAX_PASSWORD + 1)] {
            assert!(
                matches!(write(text, 0o600), Err(MailAccountError::NotAPassword(_))),
                "{text:?}"
            );
        }
        let exposed = write("p", 0o644).unwrap_err();
        assert!(
            matches!(exposed, MailAccountError::Exposed { mode: 0o644, .. }) && exposed.hint().starts_with("chmod")
        );
    }
}
