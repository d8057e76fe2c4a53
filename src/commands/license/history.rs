//! `license history`: what happened to a license and to those that it replaced, who did it, and why.

use serde::Serialize;

use crate::commands::license::selector::LicenseArg;
use crate::commands::license::view::shown_time;
use crate::commands::output::{self, Table};
use crate::commands::store::{KeptTexts, licenses_or_warning, store_failure, store_source};
use crate::commands::{Exit, Failure};
use countersign_ledger::HistoryEntry;
use countersign_ledger::log::record::LedgerEvent;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license_key::LicenseId;
use countersign_model::stored_text::StoredText;
use countersign_registry::Registry;
use countersign_settings::config::Config;

/// Arguments of `history`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    license: LicenseArg,
    /// Show so many of the latest events
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct History<'a> {
    license: LicenseId,
    /// The newest first.
    events: Vec<Event<'a>>,
    /// How many older events are left out.
    left_out: usize,
}

/// A line of the ledger, for people and programs.
#[derive(Serialize)]
pub(in crate::commands) struct Event<'a> {
    time: String,
    /// The license, or one that it replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    license: Option<LicenseId>,
    /// `issued`, `renewed`, `bound` and so on.
    event: &'static str,
    /// What changed, in words.
    what: Vec<String>,
    /// The token, the shop or the command. A site that was bound or released has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a ChangeScope>,
    /// Who did it, where there is neither scope nor person.
    #[serde(skip)]
    actor: &'static str,
    #[serde(flatten)]
    who: EventAuthor<'a>,
    #[serde(flatten)]
    why: EventReason<'a>,
}

/// The person, unless the name was erased.
#[derive(Serialize)]
struct EventAuthor<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    who: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    who_erased: Option<String>,
}

#[derive(Serialize)]
struct EventReason<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason_erased: Option<String>,
}

/// Prints the table, or the JSON document.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let license = selected(&args.license, config)?;
    let events = events_of(&license, config)?;
    let named = events.iter().map(LedgerEvent::texts);
    let names = named.flat_map(|texts| [texts.who, texts.reason]).flatten();
    let texts = KeptTexts::of(names, config);
    let shown = args.limit.unwrap_or(events.len()).min(events.len());
    let shown_events = (0..shown).map(|number| Event::of(HistoryEntry::of(&events, number), &texts));
    let history = History {
        license,
        events: shown_events.collect(),
        left_out: events.len() - shown,
    };
    output::print(&match args.json {
        true => output::json(&history)?,
        false => history.table(),
    })
}

/// The id of a license of a file or of the ledger.
fn selected(license: &LicenseArg, config: &Config) -> Result<LicenseId, Failure> {
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let issued = licenses_or_warning(config);
    Ok(license.select(&issued, &registry)?.license().id)
}

/// The names of the notes and reasons in all lines of a license.
pub(super) fn texts_of_lines(license: &LicenseArg, config: &Config) -> Result<Vec<Hex128>, Failure> {
    let license = selected(license, config)?;
    let events = events_of(&license, config)?;
    let own = events.iter().filter(|event| event.license() == Some(&license));
    let mut names: Vec<_> = own.flat_map(|event| event.texts().about_license()).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

fn events_of(license: &LicenseId, config: &Config) -> Result<Vec<LedgerEvent>, Failure> {
    countersign_ledger::history(store_source(&config.paths), license).map_err(store_failure)
}

impl History<'_> {
    fn table(&self) -> String {
        if self.events.is_empty() {
            return "Nothing happened to it that the ledger has.\n".to_owned();
        }
        let table = Event::table(&self.events);
        match self.left_out {
            0 => table.to_string(),
            older => format!("{table}{older} older left out\n"),
        }
    }
}

impl<'a> Event<'a> {
    /// What a line says, with the texts that it names.
    pub(in crate::commands) fn of(entry: HistoryEntry<'a>, texts: &'a KeptTexts) -> Self {
        let kept = |name: Option<Hex128>| name.and_then(|name| texts.get(name));
        let who = kept(entry.who);
        let why = kept(entry.reason);
        let erased = |text: Option<&StoredText>| text.and_then(StoredText::erased_at).map(shown_time);
        Self {
            time: shown_time(entry.time),
            license: entry.license,
            event: entry.event,
            what: entry.what,
            by: entry.by,
            actor: entry.actor.words(),
            who: EventAuthor {
                who: who.and_then(StoredText::text),
                who_erased: erased(who),
            },
            why: EventReason {
                reason: why.and_then(StoredText::text),
                reason_erased: erased(why),
            },
        }
    }

    /// Events as rows.
    pub(in crate::commands) fn table(events: &[Self]) -> Table {
        let mut table = Table::new(["TIME", "LICENSE", "WHAT", "BY", "REASON"]);
        for event in events {
            let reason = text_or_erased(event.why.reason, event.why.reason_erased.as_deref());
            let license = event.license.map_or("-".to_owned(), |license| license.log_tag());
            let by = event.by();
            table.row([&event.time, &license, &event.what.join(", "), &by, &reason]);
        }
        table
    }

    /// The person, or else the token, the shop or the command, or else a word such as the server.
    fn by(&self) -> String {
        let person = text_or_erased(self.who.who, self.who.who_erased.as_deref());
        match self.by {
            Some(_) if person != "-" => person,
            Some(by) => by.words(),
            None if person != "-" => person,
            None => self.actor.to_owned(),
        }
    }
}

fn text_or_erased(text: Option<&str>, erased: Option<&str>) -> String {
    match (text, erased) {
        (Some(text), _) => text.to_owned(),
        (None, Some(time)) => format!("erased on {}", time.split('T').next().unwrap_or_default()),
        (None, None) => "-".to_owned(),
    }
}
