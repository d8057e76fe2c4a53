//! A buyer's mail address: checked once, at the edge.

use std::fmt;
use std::str::FromStr;

use lettre::Address;

/// The longest address that a mail server takes, in bytes (RFC 5321, section 4.5.3.1.3, without the angle brackets).
const MAX_LENGTH: usize = 254;

/// An address in its plain form: no display name, no comment, no quotes.
// SECURITY: it is personal. Its `Debug` is redacted, and it is in no log line and in no metric.
#[derive(Clone, PartialEq, Eq)]
pub struct MailAddress(Address);

/// The text is not a mail address. The error does not say what it was.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a mail address: expected one such as anna@example.com, without a name and without quotes")]
pub struct NotAMailAddress;

impl MailAddress {
    /// The address as text, for the mail itself and for the queue's file.
    pub fn reveal(&self) -> &str {
        self.0.as_ref()
    }

    /// The same for the library.
    pub(super) fn as_address(&self) -> &Address {
        &self.0
    }
}

impl FromStr for MailAddress {
    type Err = NotAMailAddress;

    fn from_str(text: &str) -> Result<Self, NotAMailAddress> {
        // SECURITY: what could end a header or a command, or begin another address, is refused before anything parses it.
        let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && !"\"<>()[],;:\\".contains(c);
        if text.len() > MAX_LENGTH || !text.chars().all(is_plain) {
            return Err(NotAMailAddress);
        }
        text.parse().map(Self).map_err(|_| NotAMailAddress)
    }
}

impl fmt::Debug for MailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MailAddress(redacted)")
    }
}

impl serde::Serialize for MailAddress {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.reveal())
    }
}

impl<'de> serde::Deserialize<'de> for MailAddress {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_addresses_are_taken_and_whatever_could_smuggle_a_header_or_a_recipient_is_not() {
        for good in [
            "anna@example.com",
            "a.b+tag@mail.example.co.uk",
            "o'neil@example.com",
            "jürgen@exämple.de",
            "x_y@xn--exmple-cua.com",
        ] {
            let address: MailAddress = good.parse().unwrap_or_else(|error| panic!("{good}: {error}"));
            assert_eq!(address.reveal(), good);
            assert_eq!(format!("{address:?}"), "MailAddress(redacted)");
        }
        let long = format!("{}@example.com", "a".repeat(250));
        for bad in [
            "",
            "anna",
            "@example.com",
            "anna@",
            "Anna <anna@example.com>",
            "<anna@example.com>",
            "anna@example.com\r\nBcc: eve@example.com",
            "anna@example.com\nDATA",
            "anna@example.com,eve@example.com",
            "anna@example.com>\r\nRCPT TO:<eve@example.com",
            "\"anna\r\n\"@example.com",
            "\"a b\"@example.com",
            "anna@example.com\0",
            "an na@example.com",
            "anna@example.com ",
            "anna@[127.0.0.1]",
            "anna@exam\u{2028}ple.com",
            &long,
        ] {
            assert!(bad.parse::<MailAddress>().is_err(), "{bad:?}");
        }
    }
}
