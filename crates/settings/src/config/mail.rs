//! Table `[mail]`: which mail server takes the buyers' mails, as given and as resolved.
//!
//! The room `mail` checks what the texts say, and reads the files.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Value;

use crate::config::tables::settings_table;
use crate::config::value::Setting;
use countersign_model::reminder::ReminderRule;

const TIMEOUT_SECONDS: NonZeroU32 = NonZeroU32::new(60).unwrap();
const RETRY_SECONDS: NonZeroU32 = NonZeroU32::new(60).unwrap();

/// How the connection to the mail server is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailTls {
    /// It begins in plain text, and TLS is a must before anything else is said (RFC 3207).
    Starttls,
    /// TLS from the first byte (RFC 8314).
    Implicit,
    /// Never: for a mail server on this machine.
    Off,
}

impl MailTls {
    /// The port that the registry of IANA has for it.
    fn port(self) -> u16 {
        match self {
            Self::Starttls => 587,
            Self::Implicit => 465,
            Self::Off => 25,
        }
    }
}

impl Setting for MailTls {
    const EXPECTED: &'static str = "expected \"starttls\", \"tls\" or \"none\"";

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "starttls" => Some(Self::Starttls),
            "tls" => Some(Self::Implicit),
            "none" => Some(Self::Off),
            _ => None,
        }
    }
}

settings_table! {
    /// Table `[mail]`.
    MailSettings {
        server: String,
        port: u16,
        tls: MailTls,
        certificates: PathBuf,
        user: String,
        password_file: PathBuf,
        from: String,
        reply_to: String,
        timeout_seconds: NonZeroU32,
        retry_seconds: NonZeroU32,
        reminders_before: ReminderDays<0>,
        reminders_after: ReminderDays<1>,
    }
}

/// Days before or after the end of a license, each at least `LEAST`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ReminderDays<const LEAST: u16>(Vec<u16>);

impl<const LEAST: u16> ReminderDays<LEAST> {
    fn of(days: Vec<u16>) -> Option<Self> {
        let is_rule = ReminderRule::new(&days, &[]).is_ok() && days.iter().all(|day| *day >= LEAST);
        is_rule.then_some(Self(days))
    }
}

impl<const LEAST: u16> Setting for ReminderDays<LEAST> {
    const EXPECTED: &'static str = "expected a list of at most 10 numbers of days from 0 to 366, each once, such as [30, 7, 1]; after the end, from 1";

    fn from_text(text: &str) -> Option<Self> {
        let days = text.split(',').map(str::trim).filter(|day| !day.is_empty());
        Self::of(days.map(|day| day.parse().ok()).collect::<Option<_>>()?)
    }

    fn from_value(value: &Value) -> Option<Self> {
        let days = value.as_array()?.iter();
        Self::of(
            days.map(|day| day.as_integer()?.try_into().ok())
                .collect::<Option<_>>()?,
        )
    }
}

/// The resolved settings of `[mail]`, if there is a mail server. An empty text is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailConfig {
    /// Its name or IP address.
    pub server: String,
    /// Its port.
    pub port: u16,
    /// How the connection is encrypted.
    pub tls: MailTls,
    /// The certificates to trust, PEM; `None` for those of the system.
    pub certificates: Option<PathBuf>,
    /// The name to log in with.
    pub user: Option<String>,
    /// The file of the password.
    pub password_file: Option<PathBuf>,
    /// The sender: an address, or a name and an address in angle brackets.
    pub from: Option<String>,
    /// Where answers go, in the same form.
    pub reply_to: Option<String>,
    /// How long the server may take for one answer.
    pub timeout: Duration,
    /// How long to wait before a mail is sent again; it doubles each time.
    pub retry: Duration,
}

impl MailSettings {
    /// When customers are reminded of the end of their licenses; never, if it has no days.
    pub(super) fn reminders(&self) -> ReminderRule {
        let before = self.reminders_before.as_ref().map_or(&[][..], |days| &days.0);
        let after = self.reminders_after.as_ref().map_or(&[][..], |days| &days.0);
        ReminderRule::new(before, after).unwrap_or_default()
    }
}

impl MailConfig {
    /// The settings of the file in `instance`; `None` if no server is named.
    pub(super) fn of_file(instance: &Path, file: MailSettings) -> Option<Self> {
        let text = |text: Option<String>| text.filter(|text| !text.is_empty());
        let path = |path: Option<PathBuf>| {
            path.filter(|path| !path.as_os_str().is_empty())
                .map(|path| instance.join(path))
        };
        let seconds =
            |given: Option<NonZeroU32>, default: NonZeroU32| Duration::from_secs(given.unwrap_or(default).get().into());
        let tls = file.tls.unwrap_or(MailTls::Starttls);
        Some(Self {
            server: text(file.server)?,
            port: file.port.filter(|port| *port != 0).unwrap_or(tls.port()),
            tls,
            certificates: path(file.certificates),
            user: text(file.user),
            password_file: path(file.password_file),
            from: text(file.from),
            reply_to: text(file.reply_to),
            timeout: seconds(file.timeout_seconds, TIMEOUT_SECONDS),
            retry: seconds(file.retry_seconds, RETRY_SECONDS),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<MailConfig> {
        let settings = toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        MailConfig::of_file(Path::new("/srv"), settings)
    }

    #[test]
    fn without_a_server_there_is_no_mail_and_the_port_follows_the_encryption() {
        assert_eq!(read(""), None);
        assert_eq!(read("server = \"\"\nfrom = \"a@b.example\"\n"), None);
        for (tls, port) in [
            ("", 587),
            ("tls = \"tls\"", 465),
            ("tls = \"none\"", 25),
            ("port = 2525", 2525),
        ] {
            assert_eq!(read(&format!("server = \"x\"\n{tls}\n")).unwrap().port, port, "{tls}");
        }
        let full = read("server = \"x\"\npassword_file = \"keys/mail\"\nreply_to = \"\"\nretry_seconds = 5\n").unwrap();
        assert_eq!(full.password_file, Some("/srv/keys/mail".into()));
        assert_eq!(
            (full.reply_to, full.timeout.as_secs(), full.retry.as_secs()),
            (None, 60, 5)
        );
    }

    #[test]
    fn reminders_are_off_until_days_are_named() {
        let rule = |days: &str| toml::from_str::<MailSettings>(days).map(|settings| settings.reminders());
        assert_eq!(rule(""), Ok(ReminderRule::default()));
        let both = rule("reminders_before = [30, 0]\nreminders_after = [3]\n");
        assert_eq!(both, Ok(ReminderRule::new(&[30, 0], &[3]).unwrap()));
        for bad in [
            "reminders_after = [0]",
            "reminders_before = [7, 7]",
            "reminders_before = [400]",
            "reminders_before = 7",
        ] {
            assert!(toml::from_str::<MailSettings>(bad).is_err(), "{bad}");
        }
        assert_eq!(ReminderDays::<0>::from_text("30, 7"), Some(ReminderDays(vec![30, 7])));
        assert_eq!(ReminderDays::<1>::from_text("0"), None);
    }
}
