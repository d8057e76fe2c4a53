//! Closes a connection whose client is slow to send a request or to read a response.
//!
//! hyper's own `header_read_timeout` starts at the end of the last response, so it cannot distinguish an idle
//! connection from a slow head. This stream watches the bytes instead. To hyper, a timeout looks like a disconnected
//! client.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::serve::metrics::{ConnectionCounts, TimedOut};
use crate::serve::net::phase::{ANSWERED, BUSY, EVICTED, HANDED_OVER, HEAD, IDLE, NEW, OPENING, Phase};

/// Time limits of the phases.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From the first byte of a request, or the opening of the connection, to the end of its head.
    pub header: Duration,
    /// From the last byte of a response to the first byte of the next request.
    pub idle: Duration,
    /// Without reading a byte of a response.
    pub write: Duration,
}

/// A stream that ends when its client is too slow.
#[derive(Debug)]
pub struct TimeoutStream<S> {
    stream: S,
    phase: Arc<Phase>,
    timeouts: Timeouts,
    counts: Arc<ConnectionCounts>,
    /// When the current wait began.
    since: Instant,
    /// Whether a head began after `since`. Most heads arrive as a whole, and then the clock need not be read.
    new_head: bool,
    /// Often set too early: setting it for every request would cost more than checking twice.
    timer: Pin<Box<Sleep>>,
    /// Whether the timer will wake the connection's task. The task stays the same, so it need not be registered with
    /// every read.
    timer_is_set: bool,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> TimeoutStream<S> {
    /// A connection that was just opened.
    pub fn new(stream: S, phase: Arc<Phase>, timeouts: Timeouts, counts: Arc<ConnectionCounts>) -> Self {
        phase.opened();
        let since = Instant::now();
        let timer = Box::pin(sleep_until(since + timeouts.header));
        Self {
            stream,
            phase,
            timeouts,
            counts,
            since,
            new_head: false,
            timer,
            timer_is_set: false,
            stalled: None,
        }
    }

    /// Whether the client took too long.
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<TimedOut> {
        let (limit, what) = match self.phase.step() {
            BUSY => return Poll::Pending,
            OPENING | NEW | HEAD => (self.timeouts.header, TimedOut::Header),
            _ => (self.timeouts.idle, TimedOut::Idle),
        };
        if std::mem::take(&mut self.new_head) {
            self.since = Instant::now();
        }
        let deadline = self.since + limit;
        if self.timer.deadline() > deadline {
            self.reset_timer(deadline);
        }
        while !self.timer_is_set || self.timer.is_elapsed() {
            self.timer_is_set = self.timer.as_mut().poll(cx).is_pending();
            if self.timer_is_set {
                break;
            }
            if self.timer.deadline() >= deadline {
                return Poll::Ready(what);
            }
            self.reset_timer(deadline);
        }
        Poll::Pending
    }

    /// Records that a part of a request arrived.
    fn arrived(&mut self) {
        match self.phase.step() {
            // Its time runs from the opening of the connection.
            OPENING | NEW => self.phase.head_begins(),
            ANSWERED | HANDED_OVER | IDLE | EVICTED => {
                self.phase.begin_to_wait(HEAD);
                self.new_head = true;
            }
            _ => {}
        }
    }

    fn reset_timer(&mut self, deadline: Instant) {
        self.timer.as_mut().reset(deadline);
        self.timer_is_set = false;
    }

    /// Records that the client read something, and starts the wait for its next request.
    fn taken(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.since = Instant::now();
            self.new_head = false;
            // If a read was pending before the response, hyper does not read again after it, so the timer must be set
            // here.
            let _ = self.poll_overdue(cx);
        }
        self.bounded(cx, written)
    }

    /// Limits how long a write, a flush or a shutdown is pending.
    fn bounded<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(self.timeouts.write)));
        if stalled.as_mut().poll(cx).is_ready() {
            self.counts.timed_out[TimedOut::Write].inc();
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, buffer) {
            if buffer.filled().len() > before {
                self.arrived();
            }
            return Poll::Ready(read);
        }
        self.poll_overdue(cx).map(|what| {
            self.counts.timed_out[what].inc();
            Ok(())
        })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.taken(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.taken(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.phase.flushed();
        }
        self.bounded(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.bounded(cx, closed)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;
    use crate::serve::net::phase::HandOver;

    const TIMEOUTS: Timeouts = Timeouts {
        header: Duration::from_secs(10),
        idle: Duration::from_secs(75),
        write: Duration::from_secs(5),
    };

    fn timed(room: usize) -> (DuplexStream, TimeoutStream<DuplexStream>, Arc<Phase>) {
        let (client, server) = duplex(room);
        let phase = Arc::new(Phase::default());
        (
            client,
            TimeoutStream::new(server, Arc::clone(&phase), TIMEOUTS, Arc::default()),
            phase,
        )
    }

    /// After how many seconds the next read ends, and with how many bytes.
    async fn read(stream: &mut TimeoutStream<DuplexStream>) -> (u64, usize) {
        let started = Instant::now();
        let read = stream.read(&mut [0; 16]).await.unwrap();
        (started.elapsed().as_secs(), read)
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_its_time_from_the_first_byte_however_it_trickles() {
        let (mut client, mut stream, _phase) = timed(16);
        client.write_all(b"G").await.unwrap();
        assert_eq!(read(&mut stream).await, (0, 1));
        tokio::time::sleep(Duration::from_secs(6)).await;
        client.write_all(b"E").await.unwrap();
        assert_eq!(read(&mut stream).await, (0, 1));
        assert_eq!(
            read(&mut stream).await,
            (4, 0),
            "ended 10 s after the connection was opened"
        );
        assert_eq!(stream.counts.timed_out[TimedOut::Header].get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_may_be_evicted_only_while_nothing_of_a_request_is_there_and_its_answer_is_sent() {
        let (mut client, mut stream, phase) = timed(1);
        let waits = |phase: &Phase| phase.waits_since().is_some();
        assert!(waits(&phase), "opened");
        client.write_all(b"G").await.unwrap();
        assert_eq!(read(&mut stream).await, (0, 1));
        assert!(!waits(&phase) && !phase.evict(), "a head is arriving");
        phase.busy();
        assert!(!waits(&phase) && !phase.evict());
        phase.answered();
        let hand_over = HandOver(Arc::clone(&phase));
        stream.write_all(b"O").await.unwrap();
        stream.flush().await.unwrap();
        assert!(!waits(&phase) && !phase.evict(), "more of the answer is to come");
        drop(hand_over);
        assert!(!waits(&phase) && !phase.evict(), "the rest is not sent");
        stream.flush().await.unwrap();
        assert!(waits(&phase) && phase.evict() && phase.is_evicted());
        client.write_all(b"G").await.unwrap();
        assert_eq!(read(&mut stream).await, (0, 1));
        assert!(!phase.is_evicted(), "the request came first");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_has_longer_than_a_head_and_is_given_its_full_time_after_each_answer() {
        let (mut client, mut stream, phase) = timed(16);
        for _ in 0..3 {
            client.write_all(b"GET").await.unwrap();
            assert_eq!(read(&mut stream).await, (0, 3));
            phase.busy();
            let worked = tokio::time::timeout(Duration::from_secs(100), read(&mut stream)).await;
            assert!(worked.is_err(), "a request under way is no business of the stream");
            phase.answered();
            stream.write_all(b"OK").await.unwrap();
            client.read_exact(&mut [0; 2]).await.unwrap();
            let idle = tokio::time::timeout(Duration::from_secs(74), read(&mut stream)).await;
            assert!(idle.is_err());
        }
        assert_eq!(read(&mut stream).await, (1, 0));
        assert_eq!(stream.counts.timed_out[TimedOut::Idle].get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_woken_though_nobody_reads_after_the_answer() {
        let (mut client, mut stream, phase) = timed(16);
        client.write_all(b"GET").await.unwrap();
        assert_eq!(read(&mut stream).await, (0, 3));
        phase.busy();
        let started = Instant::now();
        let mut answered = false;
        // As hyper does: a pending read, then a response, then nothing until the task is woken.
        let ended = std::future::poll_fn(|cx| {
            let mut bytes = [0; 16];
            let read = Pin::new(&mut stream).poll_read(cx, &mut ReadBuf::new(&mut bytes));
            if !std::mem::replace(&mut answered, true) {
                assert!(read.is_pending());
                phase.answered();
                assert!(Pin::new(&mut stream).poll_write(cx, b"OK").is_ready());
            }
            read
        });
        ended.await.unwrap();
        assert_eq!(started.elapsed().as_secs(), 75);
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_head_is_timed_from_its_own_first_byte() {
        let (mut client, mut stream, phase) = timed(16);
        phase.answered();
        assert!(
            tokio::time::timeout(Duration::from_secs(60), read(&mut stream))
                .await
                .is_err()
        );
        client.write_all(b"G").await.unwrap();
        assert_eq!(read(&mut stream).await, (0, 1));
        assert_eq!(read(&mut stream).await, (10, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_some_of_its_answer_in_time_gets_all_of_it_and_one_that_takes_none_is_left() {
        let (mut client, mut stream, phase) = timed(1);
        phase.answered();
        let taking = tokio::spawn(async move {
            for _ in 0..4 {
                tokio::time::sleep(Duration::from_secs(4)).await;
                client.read_exact(&mut [0; 1]).await.unwrap();
            }
            client
        });
        stream.write_all(b"12345").await.unwrap();
        let _client = taking.await.unwrap();
        let started = Instant::now();
        assert_eq!(
            stream.write_all(b"6").await.unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        assert_eq!(started.elapsed().as_secs(), 5);
        assert_eq!(stream.counts.timed_out[TimedOut::Write].get(), 1);
    }
}
