//! The work of the thread that sends: looks at the queue, makes each mail that is due, and brings it to the mail server.
//!
//! A mail that is not taken waits, or is parked. Where the mail server itself fails, all mails wait, and the log says so once.
//! [`send_one`] sends a mail that nothing keeps, and waits for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use chrono::{DateTime, Utc};
use crossbeam_channel::{Receiver, bounded};
use tokio::runtime::Runtime;

use crate::account::MailAccount;
use crate::address::MailAddress;
use crate::connection::MailConnection;
use crate::message::OutgoingMail;
use crate::queue::MailQueue;
use crate::queued_mail::{self, MAX_MAILS, MailId, QueuedMail};
use crate::send_error::SendError;
use crate::texts::{MailTexts, RenderedMail};
use crate::values::{MailContent, MailKind};
use countersign_files::queue::{QueueState, QueueView, Queued};
use countersign_model::license_key::LicenseId;

/// The longest time between two looks at the folder: a command may have changed it.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The longest pause after the mail server failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Mails over one connection: some servers close it after a hundred.
const MAILS_PER_CONNECTION: usize = 50;

/// Why nothing can be sent now.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Server(SendError),
    #[error("{0}")]
    Text(String),
    #[error("the sending thread failed")]
    Panic,
}

/// Since when, and how long to pause.
struct Pause {
    reason: String,
    until: Instant,
    length: Duration,
}

/// What became of one mail.
enum Outcome {
    /// The next one, over the same connection.
    Next,
    /// The connection is not usable any more.
    Disconnected,
}

/// The texts that mails are made of.
struct TextsInForce {
    texts: MailTexts,
    /// Whether they made a mail of a made-up license.
    are_tried: bool,
}

struct SenderThread {
    queue: Arc<MailQueue>,
    account: MailAccount,
    registry: PathBuf,
    source: Arc<dyn LicenseSource>,
    runtime: Runtime,
    is_stopping: Arc<AtomicBool>,
    /// The mails as they were read last.
    known: QueueView<QueuedMail>,
    trouble: Option<Pause>,
    texts: Option<TextsInForce>,
    /// What is wrong with the texts in the registry.
    wrong_texts: Option<String>,
}

impl SenderThread {
    pub(super) fn new(
        queue: Arc<MailQueue>,
        account: MailAccount,
        registry: PathBuf,
        source: Arc<dyn LicenseSource>,
        runtime: Runtime,
        is_stopping: Arc<AtomicBool>,
    ) -> Self {
        Self {
            known: QueueView::new(queue.folder.clone()),
            queue,
            account,
            registry,
            source,
            runtime,
            is_stopping,
            trouble: None,
            texts: None,
            wrong_texts: None,
        }
    }

    /// Works until it shall stop.
    pub(super) fn run(mut self) {
        while !self.is_stopping() {
            let due = self.look(Utc::now());
            let is_paused = self.trouble.as_ref().is_some_and(|pause| pause.until > Instant::now());
            // A panic of a library must not end the sending.
            if catch_unwind(AssertUnwindSafe(|| self.read_texts())).is_err() {
                self.texts = None;
            }
            if due.is_empty() || is_paused {
                let _ = self.queue.woken.recv_timeout(self.until_next(Utc::now()));
                continue;
            }
            let sent = catch_unwind(AssertUnwindSafe(|| self.send(&due)));
            match sent.unwrap_or(Err(Trouble::Panic)) {
                Ok(()) => self.recover(),
                Err(trouble) => self.pause(&trouble),
            }
        }
        // A question for an address that nobody answers must not delay the end.
        self.runtime.shutdown_background();
    }

    /// Reads what changed in the folder. Returns the mails that are due, oldest first.
    fn look(&mut self, now: DateTime<Utc>) -> Vec<MailId> {
        let looked = self.known.look(|id, error| {
            // What is damaged is logged when it is read first, and `mail parked list` shows it.
            tracing::warn!(mail = %id, %error, "a mail of the queue cannot be read");
        });
        match looked.and_then(|()| self.known.drop_surplus(MAX_MAILS)) {
            Err(error) => tracing::error!(%error, "cannot look at the queue of mails"),
            Ok(dropped) => {
                for mail in dropped {
                    let licenses: Vec<_> = mail.item.licenses.iter().map(LicenseId::log_tag).collect();
                    tracing::error!(
                        mail = %mail.item.id(),
                        licenses = licenses.join(" "),
                        "{MAX_MAILS} mails are parked, so the oldest one was deleted: its customer did not get it"
                    );
                }
            }
        }
        let (waiting, parked) = self.known.count();
        let in_wait = || self.known.in_state(QueueState::Waiting);
        let oldest = in_wait().map(|(_, mail)| mail.queued.timestamp()).min();
        let counts = &self.queue.counts;
        counts.waiting.store(waiting as u64, Ordering::Relaxed);
        counts.parked.store(parked as u64, Ordering::Relaxed);
        counts.oldest.store(
            u64::try_from(oldest.unwrap_or_default()).unwrap_or_default(),
            Ordering::Relaxed,
        );
        let due = in_wait().filter(|(_, mail)| mail.is_due(now));
        let mut due: Vec<_> = due.map(|(id, mail)| (mail.next, id)).collect();
        due.sort_unstable();
        due.into_iter().map(|(_, id)| id).collect()
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// How long until something may be due.
    fn until_next(&self, now: DateTime<Utc>) -> Duration {
        if let Some(pause) = &self.trouble {
            let left = pause.until.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return left.min(LOOK_EVERY);
            }
        }
        let waiting = self.known.in_state(QueueState::Waiting);
        let next = waiting
            .map(|(_, mail)| mail.next)
            .min()
            .map(|next| (next - now).to_std().unwrap_or_default());
        next.map_or(LOOK_EVERY, |next| next.clamp(Duration::from_millis(10), LOOK_EVERY))
    }

    /// Sends what is due, over one connection.
    fn send(&mut self, due: &[MailId]) -> Result<(), Trouble> {
        if self.texts.is_none() {
            return Err(Trouble::Text(self.wrong_texts.clone().unwrap_or_default()));
        }
        let opened = self.runtime.block_on(MailConnection::open(&self.account));
        let mut connection = opened.map_err(Trouble::Server)?;
        for id in due.iter().take(MAILS_PER_CONNECTION) {
            if self.is_stopping() {
                break;
            }
            match self.send_one(*id, &mut connection)? {
                Outcome::Next => {}
                Outcome::Disconnected => return Ok(()),
            }
        }
        self.runtime.block_on(connection.quit());
        Ok(())
    }

    /// Puts the texts of the registry in force. Where they are wrong, the last ones that made a mail of a made-up license stay.
    /// What is wrong is logged once.
    fn read_texts(&mut self) {
        let read = MailTexts::load(&self.registry).map(|texts| {
            let tried = texts.try_all();
            (texts, tried)
        });
        let (texts, wrong) = match read {
            Ok((texts, tried)) => (Some(texts), tried.err()),
            Err(error) => (None, Some(error)),
        };
        let has_good = self.texts.as_ref().is_some_and(|texts| texts.are_tried);
        if let Some(texts) = texts.filter(|_| wrong.is_none() || !has_good) {
            let are_tried = wrong.is_none();
            self.texts = Some(TextsInForce { texts, are_tried });
        }
        let wrong = wrong.map(|error| error.to_string());
        if let Some(reason) = wrong.as_ref().filter(|_| self.wrong_texts != wrong) {
            match has_good {
                true => tracing::error!(reason, "the texts of mails are wrong; the last good ones stay in force"),
                false => tracing::error!(reason, "the texts of mails are wrong"),
            }
        }
        self.wrong_texts = wrong;
    }

    fn send_one(&self, id: MailId, connection: &mut MailConnection) -> Result<Outcome, Trouble> {
        let Some(TextsInForce { texts, are_tried }) = &self.texts else {
            return Ok(Outcome::Disconnected);
        };
        // Read again: a command may have dropped it.
        let Ok(Some(mail)) = self.queue.folder.read(id) else {
            return Ok(Outcome::Next);
        };
        if self.queue.is_sent(id) {
            // The server ended between its note and the deletion.
            self.queue.forget(id);
            return Ok(Outcome::Next);
        }
        if mail.state == QueueState::Parked {
            return Ok(Outcome::Next);
        }
        let content = match self.source.content(&mail) {
            Ok(Ok(content)) => content,
            Ok(Err(reason)) => {
                tracing::info!(mail = %id, reason, "a mail is not sent");
                self.queue.forget(id);
                return Ok(Outcome::Next);
            }
            Err(reason) => {
                tracing::warn!(mail = %id, reason, "a mail waits for its license");
                self.refuse(id, &mail, reason.to_owned(), false);
                return Ok(Outcome::Next);
            }
        };
        let said = match texts.render(&content) {
            Ok(said) => said,
            // They make no mail at all, perhaps.
            Err(error) if !are_tried => return Err(Trouble::Text(error.to_string())),
            Err(error) => {
                // SECURITY: the message has nothing of a license.
                tracing::error!(mail = %id, %error, "a mail cannot be made and is parked: see `countersign mail parked list`");
                self.refuse(id, &mail, error.to_string(), true);
                return Ok(Outcome::Next);
            }
        };
        let sent = match OutgoingMail::new(&self.account, &mail.item.address, id, mail.queued, &said) {
            Ok(outgoing) => self.runtime.block_on(connection.send(&outgoing)),
            Err(error) => Err(SendError::Unmade(error)),
        };
        let tag = mail.item.licenses.first().map(LicenseId::log_tag).unwrap_or_default();
        match sent {
            Ok(()) => {
                self.queue.note_sent(&mail.item, Utc::now());
                let what = match mail.item.kind() {
                    MailKind::ReminderBefore | MailKind::ReminderAfter => "mailed a reminder",
                    MailKind::SiteClaimed => "mailed that a site was installed again",
                    MailKind::Download => "mailed a download link",
                    MailKind::License => "mailed a license key",
                };
                tracing::info!(mail = %id, license = tag, "{what}");
                Ok(Outcome::Next)
            }
            Err(error) if error.is_of_mail() => {
                let is_parked = self.refuse(id, &mail, error.detail(), error.is_final());
                // SECURITY: the message has no address.
                match is_parked {
                    true => tracing::warn!(mail = %id, license = tag, %error, "a mail is parked"),
                    false => tracing::info!(mail = %id, license = tag, %error, "a mail was not taken"),
                }
                if !error.leaves_connection() {
                    // Perhaps it is the server and not this mail: the others wait a little, too.
                    return Err(Trouble::Server(error));
                }
                match self.runtime.block_on(connection.reset()) {
                    Ok(()) => Ok(Outcome::Next),
                    Err(_) => Ok(Outcome::Disconnected),
                }
            }
            Err(error) => Err(Trouble::Server(error)),
        }
    }

    /// Notes that a mail was not taken; returns whether it is parked.
    fn refuse(&self, id: MailId, mail: &Queued<QueuedMail>, reason: String, is_final: bool) -> bool {
        self.queue.counts.failures.fetch_add(1, Ordering::Relaxed);
        let wait = queued_mail::wait(mail.attempts, self.account.retry).filter(|_| !is_final);
        let refused = |mail: Queued<QueuedMail>| Some(mail.refused(reason, wait, Utc::now()));
        if let Err(error) = self.queue.folder.change(id, refused) {
            tracing::error!(%error, "cannot note that a mail was not taken");
        }
        wait.is_none()
    }

    fn recover(&mut self) {
        if self.trouble.take().is_some() {
            tracing::info!("mails are sent again");
        }
    }

    /// All mails wait, longer each time. A new reason is logged, and the same one is not logged again.
    fn pause(&mut self, trouble: &Trouble) {
        self.queue.counts.failures.fetch_add(1, Ordering::Relaxed);
        let reason = trouble.to_string();
        let before = self.trouble.take();
        let is_news = before.as_ref().is_none_or(|pause| pause.reason != reason);
        if is_news {
            tracing::warn!(reason, "no mail can be sent now; all wait");
        }
        // A twelfth of the wait of a single mail: 5 s.
        let first = (self.account.retry / 12).max(Duration::from_millis(50));
        let length = before.map_or(first, |pause| (pause.length * 2).min(LONGEST_PAUSE));
        self.trouble = Some(Pause {
            reason,
            until: Instant::now() + length,
            length,
        });
    }
}

/// The running thread.
#[derive(Debug)]
pub struct MailSender {
    queue: Arc<MailQueue>,
    is_stopping: Arc<AtomicBool>,
    ended: Receiver<()>,
}

impl MailSender {
    /// Starts the thread. `registry` has the texts.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        queue: Arc<MailQueue>,
        account: MailAccount,
        registry: PathBuf,
        source: Arc<dyn LicenseSource>,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let is_stopping = Arc::new(AtomicBool::new(false));
        let (end, ended) = bounded(0);
        let work = SenderThread::new(
            Arc::clone(&queue),
            account,
            registry,
            source,
            runtime,
            Arc::clone(&is_stopping),
        );
        thread::Builder::new().name("mail".to_owned()).spawn(move || {
            work.run();
            drop(end);
        })?;
        Ok(Self {
            queue,
            is_stopping,
            ended,
        })
    }

    /// Stops the thread once it has sent its current mail. Waits at most `patience`.
    pub fn stop(self, patience: Duration) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.queue.wake();
        let _ = self.ended.recv_timeout(patience);
    }
}

/// Where licenses and their keys come from.
pub trait LicenseSource: Send + Sync {
    /// What a mail says now; `Err` in the result if it is not to be sent any more, with the reason.
    ///
    /// # Errors
    /// Why it is not known now. It is tried again.
    fn content(&self, mail: &Queued<QueuedMail>) -> Result<Result<MailContent, &'static str>, &'static str>;
}

/// The whole mail, as a mail server gets it.
///
/// # Errors
/// [`SendError::Unmade`].
pub fn whole_mail(
    account: &MailAccount,
    to: &MailAddress,
    id: MailId,
    date: DateTime<Utc>,
    said: &RenderedMail,
) -> Result<String, SendError> {
    let mail = OutgoingMail::new(account, to, id, date, said).map_err(SendError::Unmade)?;
    Ok(String::from_utf8_lossy(&mail.bytes).into_owned())
}

/// Sends one mail over a connection of its own.
///
/// # Errors
/// The server did not take it.
pub async fn send_one(
    account: &MailAccount,
    to: &MailAddress,
    id: MailId,
    date: DateTime<Utc>,
    said: &RenderedMail,
) -> Result<(), SendError> {
    let mail = OutgoingMail::new(account, to, id, date, said).map_err(SendError::Unmade)?;
    let mut connection = MailConnection::open(account).await?;
    connection.send(&mail).await?;
    connection.quit().await;
    Ok(())
}
