//! The parked mails of this node: to whom, about which license, and why. Tried again or dropped, as by `countersign mail parked`.

use chrono::{DateTime, Utc};

use crate::serve::desk::asked::Asked;
use crate::serve::desk::license_history::mail_words;
use crate::serve::desk::license_rows::LicenseRow;
use crate::serve::desk::page_table::DeskPage;
use crate::serve::desk::sale_changes::blocking;
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::ShownTime;
use countersign_files::json_folder::JsonFolderError;
use countersign_files::queue::{Queue, QueueState, Queued};
use countersign_mail::queued_mail::{self, MailId, QueuedMail};
use countersign_model::license_key::LicenseId;
use countersign_model::text::outside_text::OutsideText;

/// How many of them a page has.
const MOST: usize = 50;

/// Parked mails for a page, the newest first.
#[derive(Default)]
pub(super) struct ParkedMails {
    pub(super) mails: Vec<ParkedMail>,
    /// How many more there are.
    pub(super) more: usize,
}

/// A parked mail.
pub(super) struct ParkedMail {
    pub(super) id: MailId,
    /// What it is about.
    pub(super) about: &'static str,
    pub(super) license: Option<LicenseId>,
    /// The license by its customer, else by its first digits.
    pub(super) name: OutsideText,
    /// `None` where the visitor does not see it.
    pub(super) address: Option<OutsideText>,
    /// The same.
    pub(super) reason: Option<OutsideText>,
    pub(super) queued: ShownTime,
}

impl ParkedMails {
    /// Those of this node.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) async fn of(asked: &Asked<'_>) -> Result<Self, PageProblem> {
        let folder = queued_mail::folder(&asked.state.store);
        let mut parked = blocking(move || parked(Queue::existing(folder))).await?;
        parked.sort_by_key(|(_, mail)| std::cmp::Reverse(mail.queued));
        let more = parked.len().saturating_sub(MOST);
        parked.truncate(MOST);
        let licenses: Vec<_> = parked
            .iter()
            .filter_map(|(_, mail)| mail.item.licenses.first().copied())
            .collect();
        let rows = LicenseRow::of_ids(asked, &licenses).await?;
        let sees = asked.visitor.sees_customers();
        let mails = parked.into_iter().map(|(id, mail)| {
            let license = mail.item.licenses.first().copied();
            let row = rows.iter().find(|row| Some(row.id) == license);
            let tag = || license.map_or_else(OutsideText::default, |license| OutsideText::of(&license.log_tag()));
            ParkedMail {
                id,
                about: mail_words(mail.item.kind()),
                license: row.map(|row| row.id),
                name: row.map_or_else(tag, LicenseRow::shown_name),
                address: sees.then(|| OutsideText::of(mail.item.address.reveal())),
                reason: mail.reason.as_deref().filter(|_| sees).map(OutsideText::of_sentence),
                queued: ShownTime::of(mail.queued, asked.now),
            }
        });
        Ok(Self {
            mails: mails.collect(),
            more,
        })
    }
}

/// The parked mails of a queue. `mail parked list` shows one that cannot be read.
fn parked(queue: Option<Queue<QueuedMail>>) -> Result<Vec<(MailId, Queued<QueuedMail>)>, JsonFolderError> {
    let Some(queue) = queue else {
        return Ok(Vec::new());
    };
    let named = queue.list()?.into_iter();
    let read = named.filter_map(|(id, _)| Some((id, queue.read(id).ok()??)));
    Ok(read.filter(|(_, mail)| mail.state == QueueState::Parked).collect())
}

fn retry(queue: &Queue<QueuedMail>, id: MailId, now: DateTime<Utc>) -> Result<bool, JsonFolderError> {
    queue.retry_changed(id, now, |_| {})
}

/// Has every parked mail tried again.
pub(super) async fn retry_all(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    let folder = queued_mail::folder(&asked.state.store);
    let now = asked.now;
    let work = move || {
        let Some(queue) = Queue::existing(folder) else {
            return Ok(0_usize);
        };
        let ids = queue.list()?.into_iter().map(|(id, _)| id);
        Ok(ids.map(|id| usize::from(retry(&queue, id, now).unwrap_or(false))).sum())
    };
    let retried = blocking(work)
        .await
        .map_err(|problem| problem.back_to("/health".to_owned()))?;
    tracing::info!(mails = retried, by = "operator:desk", "parked mails are tried again");
    Ok(PageAnswer::SeeOther("/health?done=mails".to_owned()))
}

/// Has one parked mail tried again, or drops it.
pub(super) async fn decide(asked: &Asked<'_>, page: DeskPage) -> Result<PageAnswer, PageProblem> {
    let back = |problem: PageProblem| problem.back_to("/health".to_owned());
    let id = asked.name.parse::<MailId>();
    let id = id.map_err(|_| back(PageProblem::refused("The form names no mail.".to_owned())))?;
    let is_drop = page == DeskPage::DropMail;
    let folder = queued_mail::folder(&asked.state.store);
    let now = asked.now;
    let work = move || {
        let Some(queue) = Queue::<QueuedMail>::existing(folder) else {
            return Ok(false);
        };
        match is_drop {
            true if queue.read(id)?.is_some_and(|mail| mail.state == QueueState::Parked) => queue.discard(id),
            true => Ok(false),
            false => retry(&queue, id, now),
        }
    };
    let changed = blocking(work).await.map_err(back)?;
    if changed {
        tracing::info!(mail = %id, by = "operator:desk", is_drop, "a parked mail was decided");
    }
    let done = match (changed, is_drop) {
        (false, _) => "same",
        (true, true) => "dropped",
        (true, false) => "mail",
    };
    Ok(PageAnswer::SeeOther(format!("/health?done={done}")))
}
