//! `license history`: what happened to a license and to those that it replaced, who did it, and why.

use serde::Serialize;

use crate::commands::license::issued::licenses_or_warning;
use crate::commands::license::selector::LicenseArg;
use crate::commands::license::texts::KeptTexts;
use crate::commands::license::view::{self, shown_time};
use crate::commands::output::{self, Table};
use crate::commands::serve::store_hint;
use crate::commands::store_source::store_source;
use crate::commands::{Exit, Failure};
use countersign_ledger::log::record::LedgerEvent;
use countersign_ledger::log::{ClaimEntry, LedgerEntry, ReleaseEntry};
use countersign_model::issued_license::{ChangeScope, Hex128, IssuedLicense};
use countersign_model::license::{LicenseStatus, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::remarks::Remarks;
use countersign_model::site_claim::ClaimStep;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::ReleasedBy;
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

#[derive(Serialize)]
struct Event<'a> {
    time: String,
    /// The license, or one that it replaced.
    license: LicenseId,
    /// `issued`, `renewed`, `bound` and so on.
    event: &'static str,
    /// What changed, in words.
    what: Vec<String>,
    /// The token, the shop or the command. A site that was bound or released has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a ChangeScope>,
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
    let names = |remarks: &Remarks| [remarks.who, remarks.reason];
    let names = events.iter().filter_map(remarks).flat_map(names).flatten();
    let texts = KeptTexts::of(names, config);
    let shown = args.limit.unwrap_or(events.len()).min(events.len());
    let shown_events = (0..shown).map(|number| event(&events, number, &texts));
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
    let names = own
        .filter_map(remarks)
        .flat_map(|remarks| [remarks.note, remarks.reason]);
    let mut names: Vec<_> = names.flatten().collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

fn events_of(license: &LicenseId, config: &Config) -> Result<Vec<LedgerEvent>, Failure> {
    countersign_ledger::history(store_source(&config.paths), license).map_err(|error| {
        let hint = store_hint(&error);
        Failure::of_store(error).hint(hint)
    })
}

fn remarks(event: &LedgerEvent) -> Option<&Remarks> {
    match event {
        LedgerEvent::License(issued) => Some(issued.license.details.remarks()),
        _ => None,
    }
}

/// One of the events, which are the newest first.
fn event<'a>(events: &'a [LedgerEvent], number: usize, texts: &'a KeptTexts) -> Event<'a> {
    let event = &events[number];
    let license = *event.license().unwrap_or(&LicenseId::from_bytes([0; 32]));
    let kept = |name: Option<Hex128>| name.and_then(|name| texts.get(name));
    let of_license = remarks(event);
    let who = kept(of_license.and_then(|remarks| remarks.who));
    let why = kept(of_license.and_then(|remarks| remarks.reason));
    let (word, what, by) = match event {
        LedgerEvent::License(issued) => {
            let before = events[number + 1..].iter().find_map(|before| match before {
                LedgerEvent::License(before) if before.license.id == license => Some(&**before),
                _ => None,
            });
            (issued.kind.into(), changes(before, issued), Some(&*issued.scope))
        }
        LedgerEvent::Bound(LedgerEntry { binding, .. }) => ("bound", vec![format!("{} bound", binding.host)], None),
        LedgerEvent::Released(ReleaseEntry { release, .. }) => {
            let (word, what) = match (&release.moved, release.by) {
                (Some(moved), _) => ("moved", format!("{} moved to {}", release.host, moved.to)),
                (None, ReleasedBy::Secret | ReleasedBy::Key) => {
                    ("released", format!("{} gave its seat back", release.host))
                }
                (None, ReleasedBy::Taken) => ("released", format!("{} lost its seat", release.host)),
            };
            (word, vec![what], None)
        }
        LedgerEvent::Claimed(ClaimEntry { claim, .. }) => {
            let what = match claim.step {
                ClaimStep::Begun => "was installed again and waits for its seat",
                ClaimStep::Ended => "waits no more: another secret was seen",
                ClaimStep::Taken => "has a new secret, because the old one was not seen for 14 days",
                ClaimStep::Confirmed => "has a new secret, because the customer said that it was installed again",
                ClaimStep::Returned => "has its old secret again",
            };
            ("claimed", vec![format!("{} {what}", claim.host)], None)
        }
        LedgerEvent::Sale(_)
        | LedgerEvent::Token(_)
        | LedgerEvent::Erased(_)
        | LedgerEvent::Reminded(_)
        | LedgerEvent::Session(_)
        | LedgerEvent::Compacted(_) => ("changed", Vec::new(), None),
    };
    let erased = |text: Option<&StoredText>| text.and_then(StoredText::erased_at).map(shown_time);
    Event {
        time: shown_time(event.time()),
        license,
        event: word,
        what,
        by,
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

/// What a line changes of a license, in words. Without the line before, it is new or its past is gone.
fn changes(before: Option<&IssuedLicense>, after: &IssuedLicense) -> Vec<String> {
    let license = &after.license;
    let Some(before) = before else {
        return first(after);
    };
    let mut changes = Vec::new();
    let mut note = |is_new: bool, words: String| changes.extend(is_new.then_some(words));
    let old = &before.license;
    let status = match license.status {
        LicenseStatus::Active => "resumed",
        LicenseStatus::Suspended => "suspended",
        LicenseStatus::Revoked => "revoked",
    };
    note(license.status != old.status, status.to_owned());
    let until = match license.expires > old.expires {
        true => format!("renewed to {}", license.expires),
        false => format!("set to expire on {}", license.expires),
    };
    note(license.expires != old.expires, until);
    note(license.sites != old.sites, for_sites(license.sites));
    note(
        license.modules != old.modules,
        format!("covers {}", view::modules(license)),
    );
    let grace = own_or_servers(license.grace_period_hours.map(|hours| format!("{hours} hours")));
    note(
        license.grace_period_hours != old.grace_period_hours,
        format!("grace: {grace}"),
    );
    let details = &license.details;
    let old_details = &old.details;
    let staging = own_or_servers(details.staging_sites);
    note(
        details.staging_sites != old_details.staging_sites,
        format!("staging sites: {staging}"),
    );
    let moves = own_or_servers(details.site_moves);
    note(
        details.site_moves != old_details.site_moves,
        format!("moves in 30 days: {moves}"),
    );
    note(
        details.released.all != old_details.released.all,
        "released from every site".to_owned(),
    );
    for (host, time) in &details.released.hosts {
        note(
            old_details.released.hosts.get(host) != Some(time),
            format!("released from {host}"),
        );
    }
    for host in &details.hosts {
        note(!old_details.hosts.contains(host), format!("{host} bound ahead"));
    }
    let is_gone = |host: &&SiteHost| !details.hosts.contains(host) && !details.released.hosts.contains_key(*host);
    for host in old_details.hosts.iter().filter(is_gone) {
        note(
            details.released.all == old_details.released.all,
            format!("{host} no longer bound ahead"),
        );
    }
    let remarks = details.remarks();
    let old_remarks = old_details.remarks();
    note(remarks.metadata != old_remarks.metadata, "other metadata".to_owned());
    note(remarks.note != old_remarks.note, "another note".to_owned());
    note(remarks.holder != old_remarks.holder, "another customer".to_owned());
    note(after.reference != before.reference, "another order".to_owned());
    if changes.is_empty() {
        let by = after
            .status_by
            .as_ref()
            .map_or(String::new(), |by| format!(" by {}", by.words()));
        let word: &str = after.kind.into();
        return vec![match after.status_by == before.status_by {
            true => word.to_owned(),
            false => format!("{word}, also{by}"),
        }];
    }
    changes
}

/// The first line of a license that is there.
fn first(issued: &IssuedLicense) -> Vec<String> {
    let license = &issued.license;
    let word: &str = issued.kind.into();
    let mut words = vec![match &license.details.replaces {
        Some(replaced) if issued.revision == 1 => format!("{word} in place of {}", replaced.log_tag()),
        _ => word.to_owned(),
    }];
    words.push(view::modules(license));
    words.push(for_sites(license.sites));
    words.push(format!("until {}", license.expires));
    words
}

fn for_sites(sites: SiteLimit) -> String {
    match sites {
        SiteLimit::Unlimited => "for any number of sites".to_owned(),
        SiteLimit::DEFAULT => "for 1 site".to_owned(),
        SiteLimit::Limited(limit) => format!("for {limit} sites"),
    }
}

fn own_or_servers(own: Option<impl ToString>) -> String {
    own.map_or("the server's setting".to_owned(), |own| own.to_string())
}

impl History<'_> {
    fn table(&self) -> String {
        if self.events.is_empty() {
            return "Nothing happened to it that the ledger has.\n".to_owned();
        }
        let mut table = Table::new(["TIME", "LICENSE", "WHAT", "BY", "REASON"]);
        for event in &self.events {
            let reason = told(event.why.reason, event.why.reason_erased.as_deref());
            let by = event.by();
            table.row([
                &event.time,
                &event.license.log_tag(),
                &event.what.join(", "),
                &by,
                &reason,
            ]);
        }
        match self.left_out {
            0 => table.to_string(),
            older => format!("{table}{older} older left out\n"),
        }
    }
}

impl Event<'_> {
    /// The person, or else the token, the shop or the command.
    fn by(&self) -> String {
        let person = told(self.who.who, self.who.who_erased.as_deref());
        match self.by {
            Some(_) if person != "-" => person,
            Some(by) => by.words(),
            None => "site".to_owned(),
        }
    }
}

fn told(text: Option<&str>, erased: Option<&str>) -> String {
    match (text, erased) {
        (Some(text), _) => text.to_owned(),
        (None, Some(time)) => format!("erased on {}", time.split('T').next().unwrap_or_default()),
        (None, None) => "-".to_owned(),
    }
}
