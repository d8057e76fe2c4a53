//! The bytes between this program and the mail server: plain or in TLS, and no more of them than a dialog needs.
//!
//! [`connection`](super::connection) opens it and gives it to the SMTP library. The library reads a line of any length,
//! so the limit is here.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use countersign_settings::tls_client::TlsStream;

/// How many bytes a server may send in one connection: a mail needs some hundred.
const MAX_READ: usize = 1 << 20;

/// A connection to a mail server.
#[derive(Debug)]
pub(super) struct MailStream {
    transport: Transport,
    /// What is read before anything that the server sends.
    prefix: &'static [u8],
    /// How many more bytes may come.
    left: usize,
}

#[derive(Debug)]
enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl MailStream {
    /// Without encryption.
    pub(super) fn plain(stream: TcpStream) -> Self {
        Self {
            transport: Transport::Plain(stream),
            prefix: b"",
            left: MAX_READ,
        }
    }

    /// A stream in TLS; it reads `prefix` first, in place of what the server sent before.
    pub(super) fn tls(stream: TlsStream<TcpStream>, prefix: &'static [u8]) -> Self {
        Self {
            transport: Transport::Tls(Box::new(stream)),
            prefix,
            left: MAX_READ,
        }
    }
}

impl AsyncTokioStream for MailStream {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.transport {
            Transport::Plain(stream) => stream.peer_addr(),
            Transport::Tls(stream) => stream.get_ref().0.peer_addr(),
        }
    }
}

impl AsyncRead for MailStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.prefix.is_empty() {
            let now = self.prefix.len().min(buffer.remaining());
            let (given, rest) = self.prefix.split_at(now);
            buffer.put_slice(given);
            self.prefix = rest;
            return Poll::Ready(Ok(()));
        }
        if self.left == 0 {
            return Poll::Ready(Err(io::Error::other("it sends too much")));
        }
        let before = buffer.filled().len();
        let read = match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
        };
        self.left = self.left.saturating_sub(buffer.filled().len() - before);
        read
    }
}

impl AsyncWrite for MailStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Transport::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(context),
            Transport::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
        }
    }
}
