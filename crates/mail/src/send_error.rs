//! Why a mail server did not take a mail, and whose fault it is: of this mail, or of all.

use std::time::Duration;

use strum::IntoStaticStr;

use crate::account::MailAccountError;
use countersign_model::first_copy_link;
use countersign_model::license_key::LicenseKey;
use countersign_model::text::printable::Printable;

/// The longest text of a mail server that is kept, in characters.
const MAX_TEXT: usize = 300;

/// How far a sending came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum SendStep {
    /// The connection and the server's greeting.
    Connect,
    /// The encryption.
    Tls,
    /// The login.
    Login,
    /// The sender.
    Sender,
    /// The buyer's address.
    Recipient,
    /// The mail itself.
    Content,
}

impl SendStep {
    fn name(self) -> &'static str {
        match self {
            Self::Connect => "the connection",
            Self::Tls => "TLS",
            Self::Login => "the login",
            Self::Sender => "the sender",
            Self::Recipient => "the buyer's address",
            Self::Content => "the mail",
        }
    }
}

/// Why a mail was not taken.
// SECURITY: no message has an address or what the server wrote, because both go to logs. `SendError::detail` has more.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The settings are not usable now.
    #[error(transparent)]
    Account(#[from] MailAccountError),
    /// The server cannot be reached.
    #[error("{server}: {reason}")]
    Unreachable {
        /// Its name and port.
        server: String,
        /// Why.
        reason: String,
    },
    /// The server's name leads to another machine, and there is no encryption.
    #[error("{0} is not this machine, and mail.tls is \"none\"")]
    Elsewhere(String),
    /// The server cannot encrypt.
    #[error("the mail server offers no STARTTLS")]
    NoStartTls,
    /// The handshake failed.
    #[error("no TLS with the mail server: {0}")]
    Handshake(String),
    /// The server has no way to log in that this program knows.
    #[error("the mail server offers no login with a password (PLAIN or LOGIN)")]
    NoLogin,
    /// The server takes only addresses in ASCII.
    #[error("the mail server takes no address with other letters than ASCII (SMTPUTF8)")]
    NoOtherLetters,
    /// The server answered with an error.
    #[error("the mail server refused {} with {code}", .step.name())]
    Refused {
        /// What it refused.
        step: SendStep,
        /// The reply code (RFC 5321, section 4.2).
        code: u16,
        /// What it wrote.
        text: String,
    },
    /// The server took too long.
    #[error("the mail server did not answer within {} s: {}", .limit.as_secs(), .step.name())]
    TimedOut {
        /// What it was asked.
        step: SendStep,
        /// The time limit.
        limit: Duration,
    },
    /// The connection ended, or what came is not SMTP.
    #[error("the connection to the mail server broke: {}: {reason}", .step.name())]
    Broken {
        /// What it was asked.
        step: SendStep,
        /// Why.
        reason: String,
    },
    /// The mail could not be made.
    #[error("the mail cannot be made: {0}")]
    Unmade(lettre::error::Error),
}

impl SendError {
    /// The step, where it is known.
    pub fn step(&self) -> SendStep {
        match self {
            Self::Account(_) | Self::Unreachable { .. } | Self::Elsewhere(_) => SendStep::Connect,
            Self::NoStartTls | Self::Handshake(_) => SendStep::Tls,
            Self::NoLogin => SendStep::Login,
            Self::NoOtherLetters => SendStep::Recipient,
            Self::Refused { step, .. } | Self::TimedOut { step, .. } | Self::Broken { step, .. } => *step,
            Self::Unmade(_) => SendStep::Content,
        }
    }

    /// Whether this mail will never be taken (RFC 5321, section 4.2.1: 5yz about the recipient or the content).
    pub fn is_final(&self) -> bool {
        match self {
            Self::Refused { code, .. } => *code >= 500 && self.is_of_mail(),
            Self::NoOtherLetters | Self::Unmade(_) => true,
            _ => false,
        }
    }

    /// Whether it is about this mail, so that others can be sent meanwhile. With 421, the server closes for all.
    pub fn is_of_mail(&self) -> bool {
        let is_late = matches!(self.step(), SendStep::Recipient | SendStep::Content);
        is_late && !matches!(self, Self::Refused { code: 421, .. })
    }

    /// Whether the connection can take another mail.
    pub fn leaves_connection(&self) -> bool {
        self.is_of_mail() && !matches!(self, Self::TimedOut { .. } | Self::Broken { .. })
    }

    /// The same without what the server wrote, if `is_secret` says so of it.
    pub(super) fn without_text_if(mut self, is_secret: impl FnOnce(&str) -> bool) -> Self {
        if let Self::Refused { text, .. } = &mut self
            && is_secret(text)
        {
            "its answer is not shown, because it has the password".clone_into(text);
        }
        self
    }

    /// The message with what the server wrote: for the queue's own file and for the terminal of the operator.
    // SECURITY: a server may quote the mail with its key.
    pub fn detail(&self) -> String {
        let text = match self {
            Self::Refused { text, .. } => format!("{self}: {text}"),
            _ => self.to_string(),
        };
        let short: String = first_copy_link::redact(&LicenseKey::redact(&text))
            .chars()
            .take(MAX_TEXT)
            .collect();
        Printable(short).to_string()
    }

    /// What to do.
    pub fn hint(&self) -> String {
        match self {
            Self::Account(error) => error.hint(),
            Self::Unreachable { .. } => "compare mail.server and mail.port with what your mail provider says".to_owned(),
            Self::Elsewhere(_) | Self::NoStartTls => {
                "set mail.tls to what your mail provider offers: \"starttls\" (port 587) or \"tls\" (port 465)".to_owned()
            }
            Self::Handshake(_) => {
                "mail.server must be the name in the server's certificate; for a certificate of your own, name the one that \
                 signed it with mail.certificates"
                    .to_owned()
            }
            Self::NoLogin => "remove mail.user and mail.password_file, or ask your mail provider".to_owned(),
            Self::NoOtherLetters => "ask the buyer for an address in ASCII".to_owned(),
            Self::Refused { step, .. } => match step {
                SendStep::Login => "compare mail.user and the password with what your mail provider says".to_owned(),
                SendStep::Sender => "mail.from must be an address that this account may send from".to_owned(),
                SendStep::Recipient => "look at the address".to_owned(),
                _ => "the mail server's own log says more".to_owned(),
            },
            Self::TimedOut { .. } | Self::Broken { .. } => {
                "compare mail.port and mail.tls with what your mail provider says".to_owned()
            }
            Self::Unmade(_) => "report this error with your version".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(step: SendStep, code: u16) -> SendError {
        SendError::Refused {
            step,
            code,
            text: "5.1.1 <anna@example.com>: unknown\r\n".to_owned(),
        }
    }

    #[test]
    fn what_is_final_and_whose_fault_it_is_follow_from_step_and_code() {
        // (final, of this mail alone, the connection can take another mail)
        let judged = |error: &SendError| (error.is_final(), error.is_of_mail(), error.leaves_connection());
        assert_eq!(judged(&refused(SendStep::Recipient, 550)), (true, true, true));
        assert_eq!(judged(&refused(SendStep::Content, 554)), (true, true, true));
        assert_eq!(judged(&refused(SendStep::Recipient, 451)), (false, true, true));
        assert_eq!(judged(&refused(SendStep::Recipient, 421)), (false, false, false));
        for step in [SendStep::Connect, SendStep::Tls, SendStep::Login, SendStep::Sender] {
            assert_eq!(judged(&refused(step, 535)), (false, false, false), "{step:?}");
        }
        let limit = Duration::from_secs(1);
        let step = SendStep::Content;
        assert_eq!(judged(&SendError::TimedOut { step, limit }), (false, true, false));
    }

    #[test]
    fn only_the_detail_has_what_the_server_wrote_and_no_key() {
        let error = refused(SendStep::Recipient, 550);
        assert_eq!(
            error.to_string(),
            "the mail server refused the buyer's address with 550"
        );
        assert!(error.detail().contains("anna@example.com") && !error.detail().contains('\r'));
        let key = LicenseKey::from_random([7; 20]);
        let quoting = SendError::Refused {
            step: SendStep::Content,
            code: 554,
            text: format!("spam: {}", key.reveal()),
        };
        assert!(
            quoting.detail().ends_with("spam: [license key]"),
            "{}",
            quoting.detail()
        );
    }
}
