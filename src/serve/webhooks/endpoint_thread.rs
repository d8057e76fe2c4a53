//! The work of an endpoint's thread: sends what is kept and due, then what the ledger and the time have.
//!
//! The cursor moves on when a message is taken, or kept in a file. After a crash, some messages are sent again with the same
//! id. Where the endpoint itself fails, the cursor stays, and the log says so once.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::runtime::Runtime;

use crate::serve::state::Service;
use crate::serve::webhooks::endpoint::{Endpoint, EndpointCounts, SendingError};
use crate::serve::webhooks::kept_messages::KeptMessages;
use crate::serve::webhooks::progress_place::{ProgressPlace, SenderTurn};
use crate::serve::webhooks::sending::{Sent, send};
use crate::serve::webhooks::{ledger_events, time_events};
use crate::webhook::event::WebhookEvent;
use crate::webhook::outbox::{EndpointProgress, EndpointTrouble};
use countersign_ledger::ledger_feed::LedgerFeed;
use countersign_ledger::log::Position;

/// The time between two looks at the ledger and the folder.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// The time between two looks for licenses that end, and for refused hosts.
const TIME_EVENTS_EVERY: Duration = Duration::from_secs(600);

/// The first pause after a failure, and the longest: it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The longest pause while the ledger cannot be read.
const LONGEST_DATABASE_PAUSE: Duration = Duration::from_secs(4);

/// Lines of the ledger, or kept messages, that are sent before the cursor is noted.
const BATCH: usize = 128;

pub(super) struct EndpointThread {
    service: Arc<Service>,
    endpoint: Endpoint,
    counts: Arc<EndpointCounts>,
    is_stopping: Arc<AtomicBool>,
    runtime: Runtime,
    /// The ledger's last line when the server started. A new endpoint receives the events after it. `None` until the ledger's end is known.
    begins_after: Option<Position>,
    /// The progress, and the ledger behind it; `None` until the end of the ledger is known.
    open: Option<(EndpointProgress, LedgerFeed)>,
    place: ProgressPlace,
    kept: KeptMessages,
    next_time_events: Instant,
    pause: Duration,
}

impl EndpointThread {
    pub(super) fn new(
        service: Arc<Service>,
        endpoint: Endpoint,
        counts: Arc<EndpointCounts>,
        is_stopping: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let name = endpoint.config.name.as_str();
        let place = ProgressPlace::new(&endpoint.outbox, service.gate.bindings(), name, &is_stopping)?;
        Ok(Self {
            place,
            begins_after: service.gate.bindings().ledger_end(),
            service,
            counts,
            is_stopping,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
            open: None,
            kept: KeptMessages::new(endpoint.config.name.clone(), endpoint.outbox.kept.clone()),
            endpoint,
            next_time_events: Instant::now(),
            pause: FIRST_PAUSE,
        })
    }

    /// Works until it shall stop.
    pub(super) fn run(mut self) {
        while !self.is_stopping() {
            // A panic of a library must not end the sending.
            let worked = catch_unwind(AssertUnwindSafe(|| self.step(Utc::now())));
            match worked.unwrap_or(Err(SendingError::Panic)) {
                Ok(has_more) => {
                    self.recover();
                    if !has_more {
                        self.wait(LOOK_EVERY);
                    }
                }
                Err(error) => {
                    self.fail(&error);
                    self.wait(self.pause);
                    // A database that is back is asked soon; a receiver is spared.
                    let longest = match error {
                        SendingError::Ledger(_) => LONGEST_DATABASE_PAUSE,
                        _ => LONGEST_PAUSE,
                    };
                    self.pause = (self.pause * 2).min(longest);
                }
            }
        }
        self.place.give_up();
        // A question for an address that nobody answers must not delay the end.
        self.runtime.shutdown_background();
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    fn wait(&self, length: Duration) {
        let until = Instant::now() + length;
        while !self.is_stopping() && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY.min(until - Instant::now()));
        }
    }

    /// Does the next piece of work; whether there may be more.
    fn step(&mut self, now: DateTime<Utc>) -> Result<bool, SendingError> {
        self.kept.look(Instant::now())?;
        let (waiting, parked) = self.kept.count();
        self.counts.waiting.store(waiting as u64, Ordering::Relaxed);
        self.counts.parked.store(parked as u64, Ordering::Relaxed);
        match self.place.look()? {
            SenderTurn::Own => {}
            SenderTurn::New => self.open = None,
            SenderTurn::Others => {
                self.open = None;
                return self.send_kept(now);
            }
        }
        let Some((mut progress, mut feed)) = self.open(now)? else {
            return Ok(false);
        };
        let worked = self.send_kept(now).and_then(|has_sent| {
            let has_kept = !has_sent && self.keep_time_events(&mut progress, now)?;
            let has_more = has_sent || has_kept;
            Ok(has_more || self.send_lines(&mut progress, &mut feed, now)?)
        });
        self.counts
            .sequence
            .store(progress.cursor.position.sequence, Ordering::Relaxed);
        self.open = Some((progress, feed));
        match worked {
            // Another node goes on.
            Err(_) if !self.place.may_send() => Ok(false),
            worked => worked,
        }
    }

    /// Takes or loads the progress, and opens the ledger behind it. A new endpoint receives the events after the
    /// start of the server.
    fn open(&mut self, now: DateTime<Utc>) -> Result<Option<(EndpointProgress, LedgerFeed)>, SendingError> {
        if let Some(open) = self.open.take() {
            return Ok(Some(open));
        }
        self.begins_after = self.begins_after.or_else(|| self.service.gate.bindings().ledger_end());
        let Some(begins_after) = self.begins_after else {
            return Ok(None);
        };
        let progress = self.place.load(begins_after, now)?;
        let feed = LedgerFeed::new(self.service.gate.bindings().source(), progress.cursor);
        Ok(Some((progress, feed)))
    }

    /// Sends kept messages that are due, of each license the first one; whether there were any.
    fn send_kept(&mut self, now: DateTime<Utc>) -> Result<bool, SendingError> {
        let due = self.kept.due(BATCH, now);
        if due.is_empty() {
            return Ok(false);
        }
        let events: Vec<_> = due.iter().map(|(_, event)| event.clone()).collect();
        let mut unreachable = None;
        for ((name, _), sent) in due.into_iter().zip(self.send(&events, &|| true)) {
            match sent {
                Sent::Taken => self.kept.taken(name)?,
                Sent::Refused(reason) => self.kept.refused(name, reason, now)?,
                Sent::Unreachable(reason) => unreachable = Some(reason),
                Sent::Behind => {}
            }
        }
        unreachable.map_or(Ok(true), |reason| Err(SendingError::Endpoint(reason)))
    }

    /// Keeps the events that are due by time; whether there was one.
    fn keep_time_events(&mut self, progress: &mut EndpointProgress, now: DateTime<Utc>) -> Result<bool, SendingError> {
        if Instant::now() < self.next_time_events {
            return Ok(false);
        }
        let (events, after) = time_events::due(&self.service, progress, now, self.kept.room())?;
        let has_more = after.day < now.date_naive() || after.copies_after.is_some();
        if !has_more {
            self.next_time_events = Instant::now() + TIME_EVENTS_EVERY;
        }
        let wanted: Vec<_> = events.iter().filter(|event| self.is_wanted(event)).collect();
        for event in &wanted {
            self.kept.keep(event, None, now)?;
        }
        if after != *progress {
            self.place.save(&after)?;
            *progress = after;
        }
        Ok(!wanted.is_empty())
    }

    /// Sends the next lines of the ledger; whether there were any.
    fn send_lines(
        &mut self,
        progress: &mut EndpointProgress,
        feed: &mut LedgerFeed,
        now: DateTime<Utc>,
    ) -> Result<bool, SendingError> {
        let end = self.service.gate.bindings().ledger_end().map_or(0, |end| end.sequence);
        if feed.is_at(end) {
            return Ok(false);
        }
        if self.kept.room() < BATCH {
            return Err(SendingError::Full);
        }
        let lines = feed.next(end, BATCH)?;
        let events = lines
            .iter()
            .filter_map(|line| Some((line.cursor, ledger_events::event_of(line)?)));
        let wanted: Vec<_> = events.filter(|(_, event)| self.is_wanted(event)).collect();
        let blocked = self.kept.blocked();
        let is_blocked = |event: &WebhookEvent| event.license.is_some_and(|license| blocked.contains(&license));
        let (_, events): (Vec<_>, Vec<_>) = wanted.iter().filter(|(_, event)| !is_blocked(event)).cloned().unzip();
        let mut sent = self.send(&events, &|| self.place.may_send()).into_iter();
        let mut last = feed.cursor();
        let mut before = progress.cursor;
        let mut unreachable = None;
        for (cursor, event) in &wanted {
            let outcome = match is_blocked(event) {
                true => Sent::Behind,
                false => sent.next().unwrap_or(Sent::Behind),
            };
            match outcome {
                Sent::Taken => {}
                Sent::Refused(reason) => self.kept.keep(event, Some(reason), now)?,
                Sent::Behind => self.kept.keep(event, None, now)?,
                Sent::Unreachable(reason) => {
                    (last, unreachable) = (before, Some(reason));
                    break;
                }
            }
            before = *cursor;
        }
        if progress.cursor != last {
            progress.cursor = last;
            self.place.save(progress)?;
        }
        match unreachable {
            None => Ok(true),
            Some(reason) => {
                feed.rewind(last);
                Err(SendingError::Endpoint(reason))
            }
        }
    }

    fn is_wanted(&self, event: &WebhookEvent) -> bool {
        let wanted = &self.endpoint.config.events;
        wanted.is_empty() || wanted.contains(&event.kind)
    }

    fn send(&self, events: &[WebhookEvent], may_go_on: &dyn Fn() -> bool) -> Vec<Sent> {
        let sending = send(&self.endpoint.config, events, may_go_on, &self.is_stopping);
        let sent = self.runtime.block_on(sending);
        for outcome in &sent {
            let count = match outcome {
                Sent::Taken => &self.counts.sent,
                Sent::Refused(_) => &self.counts.refused,
                Sent::Unreachable(_) => &self.counts.failures,
                Sent::Behind => continue,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
        sent
    }
}

impl EndpointThread {
    /// Notes that work was done.
    fn recover(&mut self) {
        self.pause = FIRST_PAUSE;
        let was_failing = self.counts.failing_since.swap(0, Ordering::Relaxed) != 0;
        // The server before this one may have noted it.
        let noted = self.open.as_ref().and_then(|(progress, _)| progress.trouble.as_ref());
        if was_failing || noted.is_some() {
            tracing::info!(webhook = %self.endpoint.config.name, "the endpoint takes messages again");
            self.note_trouble(None);
        }
    }

    /// Notes that nothing can be sent, and says so once.
    fn fail(&mut self, error: &SendingError) {
        let now = Utc::now();
        if self.counts.failing_since.load(Ordering::Relaxed) == 0 {
            let since = u64::try_from(now.timestamp()).unwrap_or(1);
            self.counts.failing_since.store(since, Ordering::Relaxed);
            let reason = error.to_string();
            self.note_trouble(Some(EndpointTrouble { since: now, reason }));
            tracing::error!(webhook = %self.endpoint.config.name, %error, "messages wait");
        }
    }

    /// Stores the trouble for commands. Nothing depends on it.
    fn note_trouble(&mut self, trouble: Option<EndpointTrouble>) {
        if let Some((progress, _)) = &mut self.open {
            progress.trouble = trouble;
            let _ = self.place.save(progress);
        }
    }
}
