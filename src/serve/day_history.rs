//! Keeps the history: a thread stores what this server counted, and finishes days that are over, once over all nodes. It also stores what
//! waits on this node, for the desks of the others.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::serve::api::licenses::reports;
use crate::serve::background;
use crate::serve::reminders::{ends, is_test};
use crate::serve::state::Service;
use countersign_files::queue::QueueState;
use countersign_ledger::{DayHistory, Ledger, NodeQueues, QueueCounts, StoreError};
use countersign_mail::queue::MailCounts;
use countersign_model::day_counts::{DayCounts, DayLine};
use countersign_model::issued_license::{ChangeKind, ChangeScope, IssuedLicense};
use countersign_model::license::License;
use countersign_registry::offers::Offers;

/// The time between two looks at the clock.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How often counts are stored: what a crash may lose.
const STORE_EVERY: Duration = Duration::from_secs(60);

/// How long after its end a day is finished: every node has stored its counts by then.
const FINISHED_AFTER: TimeDelta = TimeDelta::minutes(5);

/// Sites count that were seen within so many days.
const SITE_DAYS: u16 = 30;

/// The running thread.
pub(super) struct HistoryKeeper {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl HistoryKeeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// It cannot be started, or the system has no random numbers.
    pub(super) fn start(service: Arc<Service>) -> io::Result<Self> {
        let mut instance = [0; 8];
        getrandom::fill(&mut instance).map_err(io::Error::other)?;
        let instance = u64::from_ne_bytes(instance);
        let ledger = service.gate.bindings();
        let node = ledger.node().unwrap_or_default();
        let history = DayHistory::of_server(ledger.source(), node, &format!("{instance:016x}"));
        service.history.open(history);
        let (stop, stopped) = bounded(0);
        let work = HistoryThread {
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
            queues: NodeQueues::of_node(ledger.source(), ledger.node()),
            service,
            history_trouble: LoggedOnce::new(
                "the history cannot be written now; what is counted is kept and written later",
            ),
            queues_trouble: LoggedOnce::new("other nodes cannot see what waits on this one"),
        };
        let thread = thread::Builder::new()
            .name("history".to_owned())
            .spawn(move || work.run(&stopped))?;
        Ok(Self { stop, thread })
    }

    /// Has the last counts stored, and waits for that. Blocks.
    pub(super) fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

struct HistoryThread {
    service: Arc<Service>,
    runtime: tokio::runtime::Runtime,
    /// What waits on this node, where there are others.
    queues: Option<NodeQueues>,
    history_trouble: LoggedOnce,
    queues_trouble: LoggedOnce,
}

/// Something that does not work, which is logged when it begins.
struct LoggedOnce {
    message: &'static str,
    logged: Option<String>,
}

impl LoggedOnce {
    fn new(message: &'static str) -> Self {
        Self { message, logged: None }
    }

    /// Logs why it does not work, unless that was logged last.
    fn note(&mut self, done: Result<(), StoreError>) {
        let error = done.err().map(|error| error.to_string());
        if let Some(reason) = error.as_ref().filter(|_| self.logged != error) {
            tracing::warn!(reason, "{}", self.message);
        }
        self.logged = error;
    }
}

impl HistoryThread {
    fn run(mut self, stop: &Receiver<()>) {
        background::lower_priority();
        let days = |now: DateTime<Utc>| [now, now - FINISHED_AFTER].map(|time| time.date_naive());
        let mut seen = days(Utc::now());
        let mut stored = Instant::now();
        loop {
            let is_stopped = !matches!(stop.recv_timeout(LOOK_EVERY), Err(RecvTimeoutError::Timeout));
            let now = Utc::now();
            if let Some(queues) = &mut self.queues {
                self.queues_trouble.note(queues.store(counted_queues(&self.service)));
            }
            // At the end of a day soon, because another node may finish it, and when it can be finished.
            if is_stopped || days(now) != seen || stored.elapsed() >= STORE_EVERY {
                seen = days(now);
                stored = Instant::now();
                let looked = match self.store() {
                    Ok(()) if !is_stopped => self.finish_days(now),
                    stored => stored,
                };
                self.history_trouble.note(looked);
            }
            if is_stopped {
                // A connection to a database must end on a thread that may wait.
                self.service.history.close();
                return;
            }
        }
    }

    fn store(&self) -> Result<(), StoreError> {
        // The clock may have passed midnight without a request.
        self.service.tally.roll(Utc::now());
        let own = self.service.tally.lines();
        self.service.history.with(|history| history.note(&own))
    }

    fn finish_days(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let before = (now - FINISHED_AFTER).date_naive();
        for day in self.service.history.with(|history| history.unfinished(before))? {
            let more = self.end_of(day);
            self.service.history.with(|history| history.finish(day, &more))?;
        }
        // Those that another node finished, too.
        self.service.tally.forget_before(before);
        Ok(())
    }

    /// What is known at the end of a day: sites by version, and what became of licenses.
    fn end_of(&self, day: NaiveDate) -> Vec<DayLine> {
        let snapshot = self.service.gate.snapshot();
        let plugins: Vec<_> = snapshot.registry.plugins().collect();
        let mut lines: Vec<_> = plugins
            .iter()
            .map(|plugin| DayLine {
                day,
                plugin: Some(plugin.slug.clone()),
                counts: DayCounts::default(),
            })
            .collect();
        let slugs = plugins.iter().map(|plugin| plugin.slug.clone()).collect();
        let usages = self
            .runtime
            .block_on(reports::usage_of(&self.service, slugs, SITE_DAYS));
        match usages {
            Ok(usages) => {
                for (line, usage) in lines.iter_mut().zip(usages) {
                    let used = usage.into_iter().flat_map(|usage| usage.versions);
                    let sites = used.map(|used| (used.version.into(), used.sites as u64));
                    line.counts.sites.extend(sites);
                }
            }
            Err(problem) => tracing::warn!(%day, ?problem, "the sites of this day could not be counted"),
        }
        // Each license once; those of a plugin may cover others, too.
        lines.push(DayLine {
            day,
            plugin: None,
            counts: DayCounts::default(),
        });
        let bindings = self.service.gate.bindings();
        bindings.each_issued(|issued| {
            let Some(change) = LicenseDay::counted(issued, day, bindings, snapshot.registry.offers()) else {
                return;
            };
            for (number, line) in lines.iter_mut().enumerate() {
                let plugin = plugins.get(number);
                if plugin.is_none_or(|plugin| issued.license.modules.contains_key(&plugin.module)) {
                    line.counts.sold += u64::from(change.is_sold);
                    line.counts.renewed += u64::from(change.is_renewed);
                    line.counts.ended += u64::from(change.is_ended);
                }
            }
        });
        lines
    }
}

/// What waits on this node.
fn counted_queues(service: &Service) -> QueueCounts {
    let of_spool = |state| {
        let count = service.hooks.spool().map_or(0, |spool| spool.count(state).0);
        u64::try_from(count).unwrap_or(u64::MAX)
    };
    let mails = service.mail.get().map(|queue| &queue.counts);
    let of_mails =
        |count: fn(&MailCounts) -> &AtomicU64| mails.map_or(0, |counts| count(counts).load(Ordering::Relaxed));
    QueueCounts {
        deliveries_waiting: of_spool(QueueState::Waiting),
        deliveries_parked: of_spool(QueueState::Parked),
        mails_waiting: of_mails(|counts| &counts.waiting),
        mails_parked: of_mails(|counts| &counts.parked),
    }
}

/// What became of a license on a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LicenseDay {
    pub(crate) is_sold: bool,
    pub(crate) is_renewed: bool,
    is_ended: bool,
}

impl LicenseDay {
    /// What counts of a license on a day; `None` if nothing does, or if it is a test.
    pub(crate) fn counted(issued: &IssuedLicense, day: NaiveDate, ledger: &Ledger, offers: &Offers) -> Option<Self> {
        let change = Self::of(issued, day);
        let is_counted = change != Self::default() && !is_test(issued, offers, |sale| Some(ledger.sale(sale)?.1));
        is_counted.then_some(change)
    }

    fn of(issued: &IssuedLicense, day: NaiveDate) -> Self {
        let is_on_day = |time: DateTime<Utc>| time.date_naive() == day;
        let is_over = |license: &License| license.expires == day && ends(license);
        // Another system sold what was imported, and one that takes another's place is not sold.
        let is_sale = *issued.origin.scope != ChangeScope::importer() && issued.license.details.replaces.is_none();
        Self {
            is_sold: is_on_day(issued.origin.issued) && is_sale,
            is_renewed: issued.kind == ChangeKind::Renewed && is_on_day(issued.time),
            is_ended: is_over(&issued.license),
        }
    }
}
