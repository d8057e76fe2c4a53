//! The mail as the mail server takes it (RFC 5322), with text and HTML as alternatives (RFC 2046, section 5.1.4).

use std::time::SystemTime;

use chrono::{DateTime, Utc};
use lettre::Message;
use lettre::address::Envelope;
use lettre::message::header::{Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart, SinglePart};
use url::Host;
use zeroize::Zeroizing;

use crate::account::MailAccount;
use crate::address::MailAddress;
use crate::queued_mail::MailId;
use crate::texts::RenderedMail;

/// A mail with its envelope.
pub(super) struct OutgoingMail {
    pub(super) envelope: Envelope,
    /// ASCII, with line ends of CRLF.
    pub(super) bytes: Zeroizing<Vec<u8>>,
}

/// No machine answers it (RFC 3834, section 5): nobody's holiday message comes back.
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

/// Where the customer says no to further mails of this kind (RFC 2369 section 3.2).
#[derive(Clone)]
struct ListUnsubscribe(String);

impl Header for ListUnsubscribe {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("List-Unsubscribe")
    }

    fn parse(value: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self(value.to_owned()))
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), format!("<{}>", self.0))
    }
}

/// A mail program may do so with one POST (RFC 8058).
#[derive(Clone)]
struct ListUnsubscribePost;

impl Header for ListUnsubscribePost {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("List-Unsubscribe-Post")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "List-Unsubscribe=One-Click".to_owned())
    }
}

impl OutgoingMail {
    /// The mail `id` to `to`. The same arguments give the same header, so that a repeated sending is recognized.
    ///
    /// # Errors
    /// The library does not take the parts, which all were checked before.
    pub(super) fn new(
        account: &MailAccount,
        to: &MailAddress,
        id: MailId,
        date: DateTime<Utc>,
        said: &RenderedMail,
    ) -> Result<Self, lettre::error::Error> {
        let mut builder = Message::builder()
            .from(account.from.clone())
            .to(Mailbox::new(None, to.as_address().clone()))
            .subject(said.subject.clone())
            .date(SystemTime::from(date))
            .message_id(Some(id.message_id(&ascii_domain(&account.from))))
            .header(AutoSubmitted);
        if let Some(reply_to) = &account.reply_to {
            builder = builder.reply_to(reply_to.clone());
        }
        if let Some(link) = &said.unsubscribe {
            builder = builder
                .header(ListUnsubscribe(link.clone()))
                .header(ListUnsubscribePost);
        }
        let text = said.text.clone();
        let message = match &said.html {
            Some(html) => builder.multipart(MultiPart::alternative_plain_html(text, html.clone())),
            None => builder.singlepart(SinglePart::plain(text)),
        }?;
        Ok(Self {
            envelope: message.envelope().clone(),
            bytes: Zeroizing::new(message.formatted()),
        })
    }
}

/// The sender's domain in ASCII: a Message-ID has no other letters.
fn ascii_domain(from: &Mailbox) -> String {
    match Host::parse(from.email.domain()) {
        Ok(Host::Domain(domain)) => domain,
        _ => "localhost".to_owned(),
    }
}
