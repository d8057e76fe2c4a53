//! `countersign shop parked`, `mail parked` and `webhook parked`: what a person has to decide on this node. A running server
//! notices what changes.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;

use crate::commands::output::{self, Table};
use crate::commands::{Exit, Failure};
use countersign_files::json_folder::JsonFolderError;
use countersign_files::queue::{Queue, QueueItem, QueueState, WholeItem};
use countersign_model::text::printable::Printable;

/// The least number of digits that name an item.
const FEWEST_DIGITS: usize = 8;

/// The number of digits that a table shows.
const SHOWN_DIGITS: usize = 12;

#[derive(clap::Subcommand, Debug)]
pub(super) enum Verb {
    /// List what is parked, and why
    #[command(after_help = "\
Examples, alike for mail and webhook:
  countersign mail parked list
  countersign webhook parked list --all --json")]
    List(ListArgs),
    /// Have it tried again at once, after you mended the reason
    #[command(after_help = "\
Examples, alike for mail and webhook:
  countersign mail parked retry 5f0c2b7e
  countersign webhook parked retry --all

A running server notices within five seconds.")]
    Retry(ChosenArgs),
    /// Delete it: nothing of it is done
    #[command(after_help = "\
Examples, alike for mail and webhook:
  countersign mail parked drop 5f0c2b7e
  countersign webhook parked drop --all")]
    Drop(ChosenArgs),
}

#[derive(clap::Args, Debug)]
pub(super) struct ListArgs {
    /// Also list what waits for its next attempt
    #[arg(long)]
    all: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
pub(super) struct ChosenArgs {
    /// Which, by 8 or more of the first digits that `list` shows
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// All that are parked; `retry` takes those that wait, too
    #[arg(long)]
    all: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl ChosenArgs {
    /// Whether one is named.
    pub(super) fn is_one(&self) -> bool {
        self.ids.len() == 1
    }
}

/// What a queue keeps, in messages.
pub(super) struct QueueWords {
    /// As in "delivery".
    pub one: &'static str,
    /// The command above them, as in "shop".
    pub command: &'static str,
    /// The heading of the column that says whose it is.
    pub whose: &'static str,
}

/// What is done with an item; `false` if it is gone.
type Work<'q> = Box<dyn Fn() -> Result<bool, Failure> + 'q>;

/// An item of a queue, as it is printed.
#[derive(Serialize)]
pub(super) struct ListedItem<'q> {
    pub id: String,
    pub state: ListedState,
    #[serde(flatten)]
    pub about: About,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// When it is tried, at the earliest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip)]
    pub retry: Work<'q>,
    #[serde(skip)]
    pub discard: Work<'q>,
}

/// What is known of an item if its file can be read.
#[derive(Default, Serialize)]
pub(super) struct About {
    #[serde(skip)]
    pub whose: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The subscription that it renews, as the shop shows it, where no license has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription: Option<String>,
    /// The members that only such an item has.
    #[serde(flatten)]
    pub members: serde_json::Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(super) enum ListedState {
    /// It will be tried.
    Waiting,
    /// A person has to decide.
    Parked,
    /// Its file cannot be read.
    Damaged,
}

/// The items of a queue in the order of their names. `about` reads an item and its body.
pub(super) fn listed<'q, T: QueueItem + 'q>(
    queue: Queue<T>,
    id: impl Fn(T::Name) -> String,
    about: impl Fn(T, &[u8]) -> About,
) -> Result<Vec<ListedItem<'q>>, Failure> {
    let mut listed = Vec::new();
    for (name, _) in queue.list()? {
        let known = match queue.read_with_body(name) {
            Ok(None) => continue,
            Ok(Some(known)) => Ok(known),
            Err(error @ JsonFolderError::Damaged(_)) => Err(error.to_string()),
            Err(error) => return Err(error.into()),
        };
        let retried = queue.clone();
        let discarded = queue.clone();
        let (state, reason) = match &known {
            Ok(WholeItem { queued, .. }) if queued.state == QueueState::Waiting => {
                (ListedState::Waiting, queued.reason.clone())
            }
            Ok(WholeItem { queued, .. }) => (ListedState::Parked, queued.reason.clone()),
            Err(reason) => (ListedState::Damaged, Some(reason.clone())),
        };
        let (queued, about) = match known {
            Ok(WholeItem { queued, body }) => (Some(queued.clone()), about(queued.item, &body)),
            Err(_) => (None, About::default()),
        };
        listed.push(ListedItem {
            id: id(name),
            state,
            queued: queued.as_ref().map(|queued| queued.queued),
            attempts: queued.as_ref().map(|queued| queued.attempts),
            next: queued
                .as_ref()
                .map(|queued| queued.next)
                .filter(|_| state == ListedState::Waiting),
            reason,
            about,
            retry: Box::new(move || Ok(retried.retry(name, Utc::now())?)),
            discard: Box::new(move || Ok(discarded.discard(name)?)),
        });
    }
    Ok(listed)
}

/// Runs the verb with all items of a queue.
pub(super) fn run(verb: &Verb, words: &QueueWords, items: Vec<ListedItem<'_>>) -> Result<Exit, Failure> {
    match verb {
        Verb::List(args) => list(args, words, items),
        Verb::Retry(args) => retry(args, words, &items),
        Verb::Drop(args) => discard(args, words, &items),
    }
}

/// Has the chosen items tried again.
pub(super) fn retry(args: &ChosenArgs, words: &QueueWords, items: &[ListedItem<'_>]) -> Result<Exit, Failure> {
    each(args, words, items, true)
}

/// Deletes the chosen items.
pub(super) fn discard(args: &ChosenArgs, words: &QueueWords, items: &[ListedItem<'_>]) -> Result<Exit, Failure> {
    each(args, words, items, false)
}

/// Lists the items that are parked, or all.
pub(super) fn list(args: &ListArgs, words: &QueueWords, mut items: Vec<ListedItem<'_>>) -> Result<Exit, Failure> {
    items.retain(|item| args.all || item.state != ListedState::Waiting);
    output::print(&if args.json {
        output::json(&items)?
    } else if items.is_empty() {
        none(words, args.all)
    } else {
        text(words, &items)
    })
}

fn none(words: &QueueWords, waiting_too: bool) -> String {
    let state = if waiting_too { "waits or is parked" } else { "is parked" };
    format!("No {} {state}.\n", words.one)
}

fn text(words: &QueueWords, items: &[ListedItem<'_>]) -> String {
    let mut table = Table::new(["ID", "STATE", words.whose, "EVENT", "QUEUED", "TRIED", "NEXT", "REASON"]);
    for item in items {
        let time = |time: Option<DateTime<Utc>>| time.map(|time| time.format("%Y-%m-%d %H:%M").to_string());
        let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        table.row([
            &item.id.get(..SHOWN_DIGITS).unwrap_or(&item.id),
            &item.state,
            &Printable(shown(&item.about.whose)),
            &Printable(event(&item.about)),
            &shown(&time(item.queued)),
            &shown(&item.attempts.map(|attempts| attempts.to_string())),
            &shown(&time(item.next)),
            &Printable(shown(&item.reason)),
        ]);
    }
    table.to_string()
}

fn event(about: &About) -> String {
    let event = about.event.as_deref().unwrap_or("-");
    match &about.subscription {
        Some(subscription) => format!("{event} of {subscription}"),
        None => event.to_owned(),
    }
}

/// Has each chosen item tried again, or deletes it. One that fails stops no others, and the first failure is the command's.
fn each(args: &ChosenArgs, words: &QueueWords, items: &[ListedItem<'_>], is_retry: bool) -> Result<Exit, Failure> {
    let is_meant = |item: &&ListedItem<'_>| match item.state {
        ListedState::Waiting => is_retry,
        ListedState::Parked => true,
        ListedState::Damaged => !is_retry,
    };
    let chosen = match args.all {
        true => items.iter().filter(is_meant).collect(),
        false => named(&args.ids, items, words)?,
    };
    let mut done = Vec::new();
    let mut failure = None;
    for item in chosen {
        let work = if is_retry { &item.retry } else { &item.discard };
        match work() {
            Ok(true) => done.push(&item.id),
            // The server or another command was faster.
            Ok(false) if args.all => {}
            Ok(false) => drop(failure.get_or_insert(unknown(&item.id, words))),
            Err(error) => drop(failure.get_or_insert(error)),
        }
    }
    let (member, said) = match is_retry {
        true => ("retried", "waits again"),
        false => ("dropped", "deleted"),
    };
    let text = match (args.json, done.is_empty(), failure.is_some()) {
        (true, _, _) => output::json(&serde_json::json!({ member: done }))?,
        (false, true, true) => String::new(),
        (false, true, false) => none(words, is_retry),
        (false, false, _) => done.iter().map(|id| format!("{id}: {said}\n")).collect(),
    };
    let printed = output::print_change(&text);
    failure.map_or(printed, Err)
}

/// The items whose ids begin so, each once. All must be there before anything is done.
fn named<'i, 'q>(
    beginnings: &[String],
    items: &'i [ListedItem<'q>],
    words: &QueueWords,
) -> Result<Vec<&'i ListedItem<'q>>, Failure> {
    let mut found: Vec<&ListedItem<'_>> = Vec::new();
    for beginning in beginnings {
        if beginning.len() < FEWEST_DIGITS {
            return Err(Failure::usage(format!(
                "{beginning}: expected 8 or more of the first digits of the id of a {}",
                words.one
            )));
        }
        let lower = beginning.to_lowercase();
        let mut fitting = items.iter().filter(|item| item.id.starts_with(&lower));
        let item = match (fitting.next(), fitting.next()) {
            (None, _) => return Err(unknown(beginning, words)),
            (Some(_), Some(_)) => {
                return Err(Failure::input(format!("{beginning}: more than one id begins so")).hint("give more digits"));
            }
            (Some(item), None) => item,
        };
        if found.iter().all(|other| other.id != item.id) {
            found.push(item);
        }
    }
    Ok(found)
}

fn unknown(id: &str, words: &QueueWords) -> Failure {
    let QueueWords { one, command, .. } = words;
    Failure::input(format!("{id}: no such {one} waits or is parked"))
        .hint(format!("see `countersign {command} parked list --all`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: QueueWords = QueueWords {
        one: "mail",
        command: "mail",
        whose: "TO",
    };

    #[test]
    fn an_id_is_named_by_eight_or_more_of_its_digits() {
        let items = ["0123456789ab", "0123456799ab", "fedcba987654"].map(|id| ListedItem {
            id: id.to_owned(),
            state: ListedState::Parked,
            about: About::default(),
            queued: None,
            attempts: None,
            next: None,
            reason: None,
            retry: Box::new(|| Ok(true)),
            discard: Box::new(|| Ok(true)),
        });
        let ask = |beginnings: &[&str]| {
            let beginnings: Vec<String> = beginnings.iter().map(ToString::to_string).collect();
            let found = named(&beginnings, &items, &WORDS);
            found
                .map(|found| found.iter().map(|item| item.id.clone()).collect::<Vec<_>>())
                .map_err(|failure| (failure.exit, failure.error.to_string()))
        };
        assert_eq!(ask(&["FEDCBA98", "fedcba987"]).unwrap(), ["fedcba987654"]);
        assert_eq!(
            ask(&["012345678", "fedcba98"]).unwrap(),
            ["0123456789ab", "fedcba987654"]
        );
        let refused = |beginnings: &[&str]| ask(beginnings).unwrap_err();
        assert_eq!(refused(&["fedcba9"]).0, Exit::Usage);
        let none = "fedcba99: no such mail waits or is parked".to_owned();
        assert_eq!(refused(&["fedcba98", "fedcba99"]), (Exit::Input, none));
        let several = "01234567: more than one id begins so".to_owned();
        assert_eq!(refused(&["01234567"]), (Exit::Input, several));
    }
}
