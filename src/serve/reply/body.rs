//! The body of a response: bytes in memory, in one piece or several, or a file that is read while it is sent.
//!
//! hyper copies head and body into the connection's buffer and sends both at once. It gets the body in pieces, so
//! that a long response to a slow client takes no more memory than a short one.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};

use crate::serve::net::phase::HandOver;

/// An error while a body is read.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// How much of a response hyper buffers before it sends.
const PIECE: usize = 16 * 1024;

/// What an answer says, before it is a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// In one piece.
    Whole(Bytes),
    /// In several, of which none is copied to make one.
    Pieces(Vec<Bytes>),
}

/// A body, sent in pieces.
#[derive(Debug, Default)]
pub struct ReplyBody {
    /// The rest of the bytes in memory.
    held: Bytes,
    /// What is there, too, and is sent next.
    next: vec::IntoIter<Bytes>,
    /// What follows them.
    more: Option<BoxBody<Bytes, BodyError>>,
    /// Notified when the whole body was taken or dropped.
    _hand_over: Option<HandOver>,
}

impl From<Payload> for ReplyBody {
    fn from(payload: Payload) -> Self {
        let (held, next) = match payload {
            Payload::Whole(whole) => (whole, Vec::new()),
            Payload::Pieces(pieces) => (Bytes::new(), pieces),
        };
        Self {
            held,
            next: next.into_iter(),
            ..Self::default()
        }
    }
}

/// For who takes one piece only.
impl From<Payload> for Bytes {
    fn from(payload: Payload) -> Self {
        match payload {
            Payload::Whole(whole) => whole,
            Payload::Pieces(pieces) => pieces.concat().into(),
        }
    }
}

impl From<Bytes> for ReplyBody {
    fn from(held: Bytes) -> Self {
        Payload::Whole(held).into()
    }
}

impl ReplyBody {
    /// A body that is produced while it is sent.
    pub fn read_while_sent<B>(body: B) -> Self
    where
        B: Body<Data = Bytes, Error: Into<BodyError>> + Send + Sync + 'static,
    {
        Self {
            more: Some(body.map_err(Into::into).boxed()),
            ..Self::default()
        }
    }

    /// Drops `hand_over` when the whole body was taken.
    pub fn tell(self, hand_over: HandOver) -> Self {
        Self {
            _hand_over: Some(hand_over),
            ..self
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        while self.held.is_empty()
            && let Some(next) = self.next.next()
        {
            self.held = next;
        }
        if self.held.is_empty()
            && let Some(more) = &mut self.more
        {
            match ready!(Pin::new(more).poll_frame(cx)).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.held = data,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        if self.held.is_empty() {
            return Poll::Ready(None);
        }
        let piece = self.held.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.held.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty()
            && self.next.as_slice().iter().all(Bytes::is_empty)
            && self.more.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let next: usize = self.next.as_slice().iter().map(Bytes::len).sum();
        let held = (self.held.len() + next) as u64;
        let Some(more) = &self.more else {
            return SizeHint::with_exact(held);
        };
        let more = more.size_hint();
        let mut all = SizeHint::new();
        all.set_lower(more.lower() + held);
        if let Some(upper) = more.upper() {
            all.set_upper(upper + held);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};

    use super::*;

    /// The lengths of the pieces, and all their bytes.
    async fn pieces(mut content: ReplyBody) -> (Vec<usize>, Vec<u8>) {
        let mut lengths = Vec::new();
        let mut all = Vec::new();
        while let Some(frame) = content.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            lengths.push(data.len());
            all.extend_from_slice(&data);
        }
        (lengths, all)
    }

    #[tokio::test]
    async fn what_is_long_is_sent_in_pieces_and_its_length_is_known_before() {
        let long: Vec<u8> = (0..40_000_u32).map(|number| number as u8).collect();
        for content in [
            ReplyBody::from(Bytes::from(long.clone())),
            ReplyBody::read_while_sent(Full::new(Bytes::from(long.clone()))),
        ] {
            assert_eq!(
                (content.size_hint().exact(), content.is_end_stream()),
                (Some(40_000), false)
            );
            assert_eq!(
                pieces(content).await,
                (vec![PIECE, PIECE, 40_000 - 2 * PIECE], long.clone())
            );
        }
    }

    #[tokio::test]
    async fn what_is_short_is_one_piece_and_nothing_is_none() {
        assert_eq!(
            pieces(ReplyBody::from(Bytes::from_static(b"{}"))).await,
            (vec![2], b"{}".to_vec())
        );
        assert_eq!(pieces(ReplyBody::default()).await, (vec![], vec![]));
    }

    #[tokio::test]
    async fn what_is_in_pieces_is_sent_as_one_and_empty_pieces_are_none() {
        let piece = Bytes::from_static;
        let payload = Payload::Pieces(vec![piece(b""), piece(b"one"), piece(b""), piece(b"two"), piece(b"")]);
        assert_eq!(Bytes::from(payload.clone()), piece(b"onetwo"));
        let content = ReplyBody::from(payload);
        assert_eq!((content.size_hint().exact(), content.is_end_stream()), (Some(6), false));
        assert_eq!(pieces(content).await, (vec![3, 3], b"onetwo".to_vec()));
        assert!(ReplyBody::from(Payload::Pieces(vec![Bytes::new()])).is_end_stream());
    }

    #[tokio::test]
    async fn the_last_piece_is_known_to_be_the_last() {
        let mut content = ReplyBody::from(Bytes::from(vec![b'x'; PIECE + 1]));
        for is_last in [false, true] {
            content.frame().await.unwrap().unwrap();
            assert_eq!(content.is_end_stream(), is_last);
        }
    }

    #[tokio::test]
    async fn a_file_arrives_as_it_is_read() {
        let parts = [&b"one"[..], b"two"].map(|part| Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(part))));
        let content = ReplyBody::read_while_sent(StreamBody::new(futures_util::stream::iter(parts)));
        assert_eq!(content.size_hint().exact(), None);
        assert_eq!(pieces(content).await, (vec![3, 3], b"onetwo".to_vec()));
    }
}
