//! A connection to the mail server: SMTP (RFC 5321) by the library, over a stream that this file opens.
//!
//! STARTTLS (RFC 3207) is asked for here and not by the library, so that nothing that was sent before the encryption is
//! read after it. Every wait has an end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use lettre::transport::smtp;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail, Quit, Rcpt, Rset};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use lettre::transport::smtp::response::Response;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::account::{MailAccount, MailAccountError};
use crate::message::OutgoingMail;
use crate::send_error::{SendError, SendStep};
use crate::stream::MailStream;
use countersign_settings::config::MailTls;
use countersign_settings::tls_client;

/// The longest answer before the encryption, in bytes.
const MAX_ANSWER: usize = 64 << 10;

/// How much longer a server may take for the end of a mail (RFC 5321, section 4.5.3.2.6: ten minutes), as a multiple: who
/// gives up earlier sends some mails twice.
const AFTER_CONTENT: u32 = 10;

/// What the library reads as the greeting, which was read before the encryption.
const GREETING: &[u8] = b"220 ready\r\n";

/// An open connection, logged in.
pub(super) struct MailConnection {
    smtp: AsyncSmtpConnection,
    timeout: Duration,
}

impl MailConnection {
    /// Connects, encrypts and logs in.
    pub(super) async fn open(account: &MailAccount) -> Result<Self, SendError> {
        let limit = account.timeout;
        let tcp = connect(account).await?;
        let address = tcp.local_addr().map_err(|error| unreachable(account, &error))?;
        let hello = client_id(address);
        let stream = match account.tls {
            MailTls::Off => MailStream::plain(tcp),
            MailTls::Implicit => MailStream::tls(encrypt(account, tcp).await?, b""),
            MailTls::Starttls => {
                let asked = within(limit, SendStep::Tls, ask_for_tls(tcp, &hello));
                MailStream::tls(encrypt(account, asked.await?).await?, GREETING)
            }
        };
        // The library panics at an answer to EHLO with a line of spaces.
        let greeted = AsyncSmtpConnection::connect_with_transport(Box::new(stream), &hello);
        let greeted = within(limit, SendStep::Connect, async {
            match AssertUnwindSafe(greeted).catch_unwind().await {
                Ok(greeted) => greeted.map_err(|error| failed(SendStep::Connect, &error)),
                Err(_) => Err(not_smtp(SendStep::Connect)),
            }
        });
        let mut connection = Self {
            smtp: greeted.await?,
            timeout: limit,
        };
        if let Some(login) = &account.login {
            let password = login.password()?;
            let credentials = Credentials::new(login.user.clone(), password.to_string());
            let logged_in = connection.log_in(credentials).await;
            logged_in.map_err(|error| error.without_text_if(|text| login.is_quoted(&password, text)))?;
        }
        Ok(connection)
    }

    async fn log_in(&mut self, credentials: Credentials) -> Result<(), SendError> {
        const KNOWN: [Mechanism; 2] = [Mechanism::Plain, Mechanism::Login];
        let offered = self.smtp.server_info().get_auth_mechanism(&KNOWN);
        let mechanism = [offered.ok_or(SendError::NoLogin)?];
        let asked = self.smtp.auth(&mechanism, &credentials);
        within(self.timeout, SendStep::Login, async {
            asked.await.map_err(|error| failed(SendStep::Login, &error))
        })
        .await
        .map(drop)
    }

    /// Sends a mail. When this returns `Ok`, the server has said that it has the mail.
    pub(super) async fn send(&mut self, mail: &OutgoingMail) -> Result<(), SendError> {
        let mut parameters = Vec::new();
        let mut addresses = mail.envelope.to().iter().chain(mail.envelope.from());
        if addresses.any(|address| !address.to_string().is_ascii()) {
            if !self.smtp.server_info().supports_feature(Extension::SmtpUtfEight) {
                return Err(SendError::NoOtherLetters);
            }
            parameters.push(MailParameter::SmtpUtfEight);
        }
        let sender = mail.envelope.from().cloned();
        self.command(SendStep::Sender, Mail::new(sender, parameters)).await?;
        for recipient in mail.envelope.to() {
            let rcpt = Rcpt::new(recipient.clone(), Vec::new());
            self.command(SendStep::Recipient, rcpt).await?;
        }
        self.command(SendStep::Content, Data).await?;
        let sent = self.smtp.message(&mail.bytes);
        within(self.timeout * AFTER_CONTENT, SendStep::Content, async {
            sent.await.map_err(|error| failed(SendStep::Content, &error))
        })
        .await
        .map(drop)
    }

    /// Forgets a mail that was refused, so that the next one can be sent.
    pub(super) async fn reset(&mut self) -> Result<(), SendError> {
        self.command(SendStep::Sender, Rset).await
    }

    /// Says good-bye. Nothing depends on the answer.
    pub(super) async fn quit(mut self) {
        let _ = self.command(SendStep::Connect, Quit).await;
    }

    async fn command(&mut self, step: SendStep, command: impl std::fmt::Display) -> Result<(), SendError> {
        let asked = self.smtp.command(command);
        within(self.timeout, step, async {
            asked.await.map_err(|error| failed(step, &error))
        })
        .await
        .map(drop)
    }
}

/// Connects to the first address that answers.
async fn connect(account: &MailAccount) -> Result<TcpStream, SendError> {
    let looked_up = within(account.timeout, SendStep::Connect, async {
        lookup_host((account.server.as_str(), account.port))
            .await
            .map_err(|error| unreachable(account, &error))
    });
    let addresses: Vec<SocketAddr> = looked_up.await?.collect();
    // SECURITY: a name that leads elsewhere must not get a mail in plain text.
    if account.tls == MailTls::Off && addresses.iter().any(|address| !address.ip().is_loopback()) {
        return Err(SendError::Elsewhere(account.server.clone()));
    }
    let mut last = unreachable(account, &io::Error::other("the name has no address"));
    for address in addresses {
        match timeout(account.timeout, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = unreachable(account, &error),
            Err(_) => {
                last = SendError::TimedOut {
                    step: SendStep::Connect,
                    limit: account.timeout,
                };
            }
        }
    }
    Err(last)
}

/// Reads the greeting, and asks for the encryption.
async fn ask_for_tls(mut tcp: TcpStream, hello: &ClientId) -> Result<TcpStream, SendError> {
    accepted(SendStep::Connect, &answer(&mut tcp).await?)?;
    let offered = ask(&mut tcp, &format!("EHLO {hello}\r\n")).await?;
    accepted(SendStep::Connect, &offered)?;
    let is_offered = offered
        .message()
        .any(|line| line.trim().eq_ignore_ascii_case("STARTTLS"));
    if !is_offered {
        return Err(SendError::NoStartTls);
    }
    accepted(SendStep::Tls, &ask(&mut tcp, "STARTTLS\r\n").await?)?;
    Ok(tcp)
}

async fn ask(tcp: &mut TcpStream, command: &str) -> Result<Response, SendError> {
    let written = tcp.write_all(command.as_bytes()).await;
    written.map_err(|error| broken(SendStep::Tls, &error))?;
    answer(tcp).await
}

/// Reads one answer of one or more lines, and not a byte more.
// SECURITY: what somebody put behind the answer to STARTTLS stays in the socket, where the handshake refuses it.
async fn answer(tcp: &mut TcpStream) -> Result<Response, SendError> {
    let mut text = Vec::new();
    let mut line = 0;
    while text.len() < MAX_ANSWER {
        let byte = tcp.read_u8().await.map_err(|error| broken(SendStep::Tls, &error))?;
        text.push(byte);
        if byte != b'\n' {
            continue;
        }
        // The last line has a space behind its code, the others have a hyphen.
        if text.get(line + 3) != Some(&b'-') {
            let text = String::from_utf8_lossy(&text);
            return text.parse().map_err(|_| not_smtp(SendStep::Tls));
        }
        line = text.len();
    }
    Err(not_smtp(SendStep::Tls))
}

fn accepted(step: SendStep, response: &Response) -> Result<(), SendError> {
    match response.is_positive() {
        true => Ok(()),
        false => Err(SendError::Refused {
            step,
            code: response.code().into(),
            text: response.message().collect::<Vec<_>>().join(" "),
        }),
    }
}

async fn encrypt(account: &MailAccount, tcp: TcpStream) -> Result<tls_client::TlsStream<TcpStream>, SendError> {
    let config = tls_client::config(account.certificates.as_deref(), "mail.certificates")
        .map_err(MailAccountError::Certificates)?;
    let shaken = tls_client::handshake(config, &account.server, tcp);
    within(account.timeout, SendStep::Tls, async {
        shaken.await.map_err(|error| SendError::Handshake(error.to_string()))
    })
    .await
}

/// How this machine names itself (RFC 5321, section 4.1.4: a literal where it may have no name).
fn client_id(local: SocketAddr) -> ClientId {
    match local {
        SocketAddr::V4(address) => ClientId::Ipv4(*address.ip()),
        SocketAddr::V6(address) => ClientId::Ipv6(*address.ip()),
    }
}

async fn within<T>(
    limit: Duration,
    step: SendStep,
    work: impl Future<Output = Result<T, SendError>>,
) -> Result<T, SendError> {
    timeout(limit, work)
        .await
        .unwrap_or(Err(SendError::TimedOut { step, limit }))
}

// SECURITY: an error that is not the server's answer can quote what came instead, so it says only its kind.
fn failed(step: SendStep, error: &smtp::Error) -> SendError {
    match error.status() {
        Some(code) => SendError::Refused {
            step,
            code: code.into(),
            text: std::error::Error::source(error)
                .map(ToString::to_string)
                .unwrap_or_default(),
        },
        None if error.is_response() || error.is_client() => not_smtp(step),
        None => SendError::Broken {
            step,
            reason: std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string),
        },
    }
}

fn not_smtp(step: SendStep) -> SendError {
    SendError::Broken {
        step,
        reason: "it does not speak SMTP, or stopped in the middle".to_owned(),
    }
}

fn broken(step: SendStep, error: &io::Error) -> SendError {
    SendError::Broken {
        step,
        reason: error.to_string(),
    }
}

fn unreachable(account: &MailAccount, error: &io::Error) -> SendError {
    SendError::Unreachable {
        server: account.server(),
        reason: error.to_string(),
    }
}
