//! A token for one git server, from the environment: `COUNTERSIGN_GIT_HOST`, `COUNTERSIGN_GIT_TOKEN`,
//! `COUNTERSIGN_GIT_USER`.
//!
//! git gets it through an inline credential helper that reads the environment. So it is in no process list and no
//! file, and git sends it only to that host. [`git_command`](crate::build::git::git_command) passes it on.

use std::fmt;
use std::process::Command;

use url::{Host, Url};

const HOST: &str = "COUNTERSIGN_GIT_HOST";
const TOKEN: &str = "COUNTERSIGN_GIT_TOKEN";
const USER: &str = "COUNTERSIGN_GIT_USER";

/// The user name that GitHub expects with a token. Other hosts accept any name, or document theirs.
const DEFAULT_USER: &str = "x-access-token";

/// gitcredentials(7): a helper that starts with `!` is shell code.
const HELPER: &str = r#"!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$COUNTERSIGN_GIT_USER" "$COUNTERSIGN_GIT_TOKEN"; }; f"#;

/// A user name, a token, and the host they are for. Its `Debug` does not show the token.
#[derive(Clone)]
pub struct Credentials {
    /// The URLs that the token may be sent to: scheme, host and port.
    scope: String,
    user: String,
    token: String,
}

/// Why the environment's credentials are invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CredentialsError {
    /// A token without a host would go to any server that asks for one.
    #[error("{TOKEN} is set without {HOST}, the host it may be sent to")]
    NoHost,
    /// The host is invalid.
    #[error("{HOST} must be a host, with its port unless it is the usual one: git.example.com:8443")]
    BadHost,
    /// git's credential protocol has one value per line.
    #[error("{0} contains a line break or another control character")]
    ControlCharacter(&'static str),
}

impl Credentials {
    /// The credentials in the environment; `None` without a token.
    pub fn from_environment() -> Result<Option<Self>, CredentialsError> {
        let value = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(token) = value(TOKEN) else { return Ok(None) };
        let host = value(HOST).ok_or(CredentialsError::NoHost)?;
        Self::new(&host, value(USER).as_deref().unwrap_or(DEFAULT_USER), &token).map(Some)
    }

    fn new(host: &str, user: &str, token: &str) -> Result<Self, CredentialsError> {
        let url = Url::parse(&format!("https://{host}/")).map_err(|_| CredentialsError::BadHost)?;
        if !url.authority().eq_ignore_ascii_case(host) || !url.username().is_empty() || host.contains('*') {
            return Err(CredentialsError::BadHost);
        }
        for (name, value) in [(USER, user), (TOKEN, token)] {
            if value.chars().any(char::is_control) {
                return Err(CredentialsError::ControlCharacter(name));
            }
        }
        // SECURITY: unencrypted only on this machine itself.
        let loopback = match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            _ => false,
        };
        let scheme = if loopback { "http" } else { "https" };
        Ok(Self {
            scope: format!("{scheme}://{}", url.authority()),
            user: user.to_owned(),
            token: token.to_owned(),
        })
    }

    /// Adds git's `-c` arguments and the environment that they refer to.
    pub fn give_to(&self, git: &mut Command) {
        // The empty value removes configured helpers, so that the environment takes precedence.
        for helper in ["", HELPER] {
            git.arg("-c").arg(format!("credential.{}.helper={helper}", self.scope));
        }
        git.env(USER, &self.user).env(TOKEN, &self.token);
    }

    /// Removes the token from a text.
    pub fn redact(&self, text: &str) -> String {
        text.replace(&self.token, "[token]")
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_over_https_or_to_this_machine() {
        let scope = |host| Credentials::new(host, "me", "canary").map(|credentials| credentials.scope);
        for (host, expected) in [
            ("git.example.com", "https://git.example.com"),
            ("Git.Example.com:8443", "https://git.example.com:8443"),
            ("127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("[::1]:80", "http://[::1]:80"),
        ] {
            assert_eq!(scope(host), Ok(expected.to_owned()), "{host}");
        }
        for bad in [
            "",
            "https://git.example.com",
            "git.example.com/acme",
            "me@git.example.com",
            "*",
            "*.example.com",
        ] {
            assert_eq!(scope(bad), Err(CredentialsError::BadHost), "{bad}");
        }
    }

    #[test]
    fn a_token_cannot_write_further_lines() {
        let error = Credentials::new("a.com", "me", "canary\nhost=b.com").unwrap_err();
        assert_eq!(error, CredentialsError::ControlCharacter(TOKEN));
        assert!(!error.to_string().contains("canary"));
    }

    #[test]
    fn neither_the_arguments_nor_debug_show_the_token() {
        let credentials = Credentials::new("a.com", "me", "canary").unwrap();
        let mut git = Command::new("git");
        credentials.give_to(&mut git);
        let arguments: Vec<_> = git.get_args().map(|argument| argument.to_string_lossy()).collect();
        assert!(arguments.contains(&"credential.https://a.com.helper=".into()));
        assert!(!format!("{arguments:?} {credentials:?} {}", credentials.redact("a canary")).contains("canary"));
    }
}
