//! The pace of a connection: closes it when its client is slow to send a request or to read an answer.
//!
//! hyper's own `header_read_timeout` runs from the end of the last answer, so it cannot tell an idle connection from a slow
//! head. Here the bytes are watched instead, and what stalls looks to hyper like a client that hung up.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::serve::coarse_clock;
use crate::serve::metrics::{ConnectionCounts, TimedOut};

/// How long each phase may last.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// From the first byte of a request, or the opening of the connection, to the end of its head.
    pub header: Duration,
    /// From the last byte of an answer to the first of the next request.
    pub idle: Duration,
    /// Without a byte taken of an answer.
    pub write: Duration,
}

/// What a connection is doing; its service says so, and its stream acts on it. One that waits for a request may be evicted.
#[derive(Debug, Default)]
pub struct Phase {
    step: AtomicU8,
    /// Since when it waits, in milliseconds of [`coarse_clock`].
    since: AtomicU64,
    /// The connection's task, which closes it when it was evicted.
    task: AtomicWaker,
}

/// It is being opened: a TLS handshake is under way.
const OPENING: u8 = 0;
/// Its first head is awaited, and nothing of it has arrived.
const NEW: u8 = 1;
/// A head is arriving.
const HEAD: u8 = 2;
/// A request is being worked on; it has a deadline of its own.
const BUSY: u8 = 3;
/// The last request is answered, and the answer is not yet sent.
const ANSWERED: u8 = 4;
/// All of the answer was handed to the stream, and some of it may not be on its way.
const HANDED_OVER: u8 = 5;
/// The next request is awaited.
const IDLE: u8 = 6;
/// It is to be closed for another connection, unless a request arrives first.
const EVICTED: u8 = 7;
/// The same in the middle of a handshake or a head: what else arrives of it does not keep it open.
const CUT_OFF: u8 = 8;

/// A head or a handshake that takes no longer than this is not cut off for another connection: it crosses the world twice.
const UNDISTURBED: Duration = Duration::from_secs(1);

impl Phase {
    /// The connection is open, and nothing has arrived.
    pub fn opened(&self) {
        self.begin_to_wait(NEW);
    }

    /// Something arrived before the first request: a TLS handshake.
    pub fn opening(&self) {
        self.step.store(OPENING, Ordering::Relaxed);
    }

    /// The head of a request was read. Where the connection was to be closed, it is not: the request came first.
    pub fn busy(&self) {
        self.step.store(BUSY, Ordering::Relaxed);
    }

    /// The request has its answer.
    pub fn answered(&self) {
        self.step.store(ANSWERED, Ordering::Relaxed);
    }

    /// The answer's last byte was taken from its body.
    fn handed_over(&self) {
        self.change(ANSWERED, HANDED_OVER);
    }

    /// Everything that was handed to the stream is on its way.
    fn flushed(&self) {
        if self.step.load(Ordering::Relaxed) == HANDED_OVER {
            self.begin_to_wait(IDLE);
        }
    }

    fn begin_to_wait(&self, step: u8) {
        self.since.store(coarse_clock::now().as_millis() as u64, Ordering::Relaxed);
        self.step.store(step, Ordering::Release);
    }

    /// Since when it waits for a request of which nothing has arrived, by the coarse clock; `None` where it does not.
    pub fn waits_since(&self) -> Option<Duration> {
        let waits = matches!(self.step.load(Ordering::Acquire), NEW | IDLE);
        waits.then(|| Duration::from_millis(self.since.load(Ordering::Relaxed)))
    }

    /// Closes the connection, if it waits for a request. A request that arrives first is answered all the same.
    pub fn evict(&self) -> bool {
        let evicted = self.change(IDLE, EVICTED) || self.change(NEW, EVICTED);
        if evicted {
            self.task.wake();
        }
        evicted
    }

    /// Since when a handshake or a head has been arriving that takes longer than an honest one; `None` where none does.
    pub fn dawdles_since(&self, now: Duration) -> Option<Duration> {
        let arrives = matches!(self.step.load(Ordering::Acquire), OPENING | HEAD);
        let since = Duration::from_millis(self.since.load(Ordering::Relaxed));
        (arrives && now.saturating_sub(since) > UNDISTURBED).then_some(since)
    }

    /// Closes the connection in the middle of its handshake or head.
    pub fn cut_off(&self) -> bool {
        let cut_off = self.change(HEAD, CUT_OFF) || self.change(OPENING, CUT_OFF);
        if cut_off {
            self.task.wake();
        }
        cut_off
    }

    /// Whether it is to be closed for another connection.
    pub fn is_evicted(&self) -> bool {
        matches!(self.step.load(Ordering::Relaxed), EVICTED | CUT_OFF)
    }

    /// Whether it is to be closed without waiting for what has begun to arrive.
    pub fn is_cut_off(&self) -> bool {
        self.step.load(Ordering::Relaxed) == CUT_OFF
    }

    /// Wakes this task when the connection is evicted.
    pub fn wake_when_evicted(&self, task: &Waker) {
        self.task.register(task);
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.step.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// It has waited since then.
    #[cfg(test)]
    pub fn wait_from(&self, since: Duration) {
        self.since.store(since.as_millis() as u64, Ordering::Relaxed);
        self.step.store(IDLE, Ordering::Relaxed);
    }

    /// A head has been arriving since then.
    #[cfg(test)]
    pub fn dawdle_from(&self, since: Duration) {
        self.since.store(since.as_millis() as u64, Ordering::Relaxed);
        self.step.store(HEAD, Ordering::Relaxed);
    }
}

/// Held by an answer's body: when it is dropped, all of the answer was handed to the stream.
#[derive(Debug)]
pub struct HandOver(pub Arc<Phase>);

impl Drop for HandOver {
    fn drop(&mut self) {
        self.0.handed_over();
    }
}

/// A stream that ends when its client is too slow.
#[derive(Debug)]
pub struct Paced<S> {
    stream: S,
    phase: Arc<Phase>,
    patience: Patience,
    counts: Arc<ConnectionCounts>,
    /// When what is awaited began.
    since: Instant,
    /// Whether a head began after `since`: most arrive whole, and then nobody need look at the clock.
    new_head: bool,
    /// Often earlier than what it stands for: setting it anew for every request would cost more than looking twice.
    timer: Pin<Box<Sleep>>,
    /// Whether the timer will wake the connection's task: it stays the same one, so that it need not be told with every read.
    timer_is_set: bool,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Paced<S> {
    /// A connection that was opened now.
    pub fn new(stream: S, phase: Arc<Phase>, patience: Patience, counts: Arc<ConnectionCounts>) -> Self {
        phase.opened();
        let since = Instant::now();
        let timer = Box::pin(sleep_until(since + patience.header));
        Self { stream, phase, patience, counts, since, new_head: false, timer, timer_is_set: false, stalled: None }
    }

    /// Whether the client let itself be waited for too long.
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<TimedOut> {
        let (limit, what) = match self.phase.step.load(Ordering::Relaxed) {
            BUSY => return Poll::Pending,
            OPENING | NEW | HEAD => (self.patience.header, TimedOut::Header),
            _ => (self.patience.idle, TimedOut::Idle),
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

    /// Takes note that some of a request arrived.
    fn arrived(&mut self) {
        match self.phase.step.load(Ordering::Relaxed) {
            // Its time runs from the opening of the connection.
            OPENING | NEW => self.phase.step.store(HEAD, Ordering::Relaxed),
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

    /// Takes note that the client took something, and begins to wait for its next request.
    fn taken(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.since = Instant::now();
            self.new_head = false;
            // hyper does not read again after an answer where a read was pending before it, so the timer must be set here.
            let _ = self.poll_overdue(cx);
        }
        self.bounded(cx, written)
    }

    /// Bounds how long a write, a flush or a shutdown is pending.
    fn bounded<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(self.patience.write)));
        if stalled.as_mut().poll(cx).is_ready() {
            self.counts.timed_out.add(TimedOut::Write);
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, buffer) {
            if buffer.filled().len() > before {
                self.arrived();
            }
            return Poll::Ready(read);
        }
        self.poll_overdue(cx).map(|what| {
            self.counts.timed_out.add(what);
            Ok(())
        })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
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

    const PATIENCE: Patience =
        Patience { header: Duration::from_secs(10), idle: Duration::from_secs(75), write: Duration::from_secs(5) };

    fn paced(room: usize) -> (DuplexStream, Paced<DuplexStream>, Arc<Phase>) {
        let (client, server) = duplex(room);
        let phase = Arc::new(Phase::default());
        (client, Paced::new(server, Arc::clone(&phase), PATIENCE, Arc::default()), phase)
    }

    /// After how many seconds the next read ends, and with how many bytes.
    async fn read(stream: &mut Paced<DuplexStream>) -> (u64, usize) {
        let started = Instant::now();
        let read = stream.read(&mut [0; 16]).await.unwrap();
        (started.elapsed().as_secs(), read)
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_its_time_from_the_first_byte_however_it_trickles() {
        let (mut client, mut stream, _phase) = paced(16);
        client.write_all(b"G").await.unwrap();
        assert_eq!(read(&mut stream).await, (0, 1));
        tokio::time::sleep(Duration::from_secs(6)).await;
        client.write_all(b"E").await.unwrap();
        assert_eq!(read(&mut stream).await, (0, 1));
        assert_eq!(read(&mut stream).await, (4, 0), "ended 10 s after the connection was opened");
        assert_eq!(stream.counts.timed_out.of(TimedOut::Header), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_may_be_evicted_only_while_nothing_of_a_request_is_there_and_its_answer_is_sent() {
        let (mut client, mut stream, phase) = paced(1);
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
        let (mut client, mut stream, phase) = paced(16);
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
        assert_eq!(stream.counts.timed_out.of(TimedOut::Idle), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_woken_though_nobody_reads_after_the_answer() {
        let (mut client, mut stream, phase) = paced(16);
        client.write_all(b"GET").await.unwrap();
        assert_eq!(read(&mut stream).await, (0, 3));
        phase.busy();
        let started = Instant::now();
        let mut answered = false;
        // As hyper does it: a read that is pending, then an answer, then nothing until the task is woken.
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
        let (mut client, mut stream, phase) = paced(16);
        phase.answered();
        assert!(tokio::time::timeout(Duration::from_secs(60), read(&mut stream)).await.is_err());
        client.write_all(b"G").await.unwrap();
        assert_eq!(read(&mut stream).await, (0, 1));
        assert_eq!(read(&mut stream).await, (10, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_some_of_its_answer_in_time_gets_all_of_it_and_one_that_takes_none_is_left() {
        let (mut client, mut stream, phase) = paced(1);
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
        assert_eq!(stream.write_all(b"6").await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(started.elapsed().as_secs(), 5);
        assert_eq!(stream.counts.timed_out.of(TimedOut::Write), 1);
    }
}
