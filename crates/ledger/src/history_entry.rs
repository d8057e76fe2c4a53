//! What happened to a license, line by line and in words.

use chrono::{DateTime, Utc};

use countersign_model::issued_license::{ChangeScope, Hex128, IssuedLicense};
use countersign_model::license::{Details, LicenseStatus, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::period::NEVER;
use countersign_model::rights::RightsEdit;
use countersign_model::rollout::RolloutStep;
use countersign_model::site_claim::ClaimStep;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::ReleasedBy;

use crate::log::record::LedgerEvent;
use crate::log::{
    ClaimEntry, HandedPackage, Handout, LedgerEntry, ReleaseEntry, ReminderEntry, RolloutEntry, SessionMark,
};

/// A line of a license's history, for people.
#[derive(Debug)]
pub struct HistoryEntry<'a> {
    /// When.
    pub time: DateTime<Utc>,
    /// The license, or one that it replaced; `None` if the line is about something else.
    pub license: Option<LicenseId>,
    /// `issued`, `renewed`, `bound` and so on.
    pub event: &'static str,
    /// What changed, in words.
    pub what: Vec<String>,
    /// The token, the shop or the command. What a site, a customer or the server does by itself has none.
    pub by: Option<&'a ChangeScope>,
    /// Whose doing it is where the line names nobody.
    pub actor: LineActor,
    /// The name of the text that says who did it.
    pub who: Option<Hex128>,
    /// The name of the text that says why.
    pub reason: Option<Hex128>,
}

/// Whose doing a line is that names neither a token, a shop, a command nor a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineActor {
    /// A site that validates.
    Site,
    /// The customer, by a click.
    Customer,
    /// A person or a command whose name is not known.
    Somebody,
    /// The server, of itself.
    Server,
}

impl LineActor {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Site => "the site",
            Self::Customer => "the customer",
            Self::Somebody => "somebody",
            Self::Server => "the server",
        }
    }

    fn of(event: &LedgerEvent) -> Self {
        match event {
            LedgerEvent::Bound(_) => Self::Site,
            LedgerEvent::Released(ReleaseEntry { release, .. }) => match release.by {
                ReleasedBy::Customer => Self::Customer,
                ReleasedBy::Secret | ReleasedBy::Key | ReleasedBy::Taken => Self::Site,
            },
            LedgerEvent::Claimed(ClaimEntry { claim, .. }) => match claim.step {
                ClaimStep::Begun | ClaimStep::Ended | ClaimStep::Returned => Self::Site,
                ClaimStep::Taken => Self::Server,
                ClaimStep::Confirmed => Self::Customer,
            },
            LedgerEvent::Reminded(_) | LedgerEvent::Rollout(_) | LedgerEvent::Compacted(_) => Self::Server,
            LedgerEvent::License(_)
            | LedgerEvent::Vouched(_)
            | LedgerEvent::Handed(_)
            | LedgerEvent::Token(_)
            | LedgerEvent::Erased(_)
            | LedgerEvent::Session(_)
            | LedgerEvent::Sale(_) => Self::Somebody,
        }
    }
}

impl<'a> HistoryEntry<'a> {
    /// The event with this index in `events`, a license's events with the newest first ([`crate::history()`]).
    pub fn of(events: &'a [LedgerEvent], index: usize) -> Self {
        let event = &events[index];
        let before = events[index + 1..].iter().find_map(|before| match before {
            LedgerEvent::License(before) if Some(&before.license.id) == event.license() => Some(&**before),
            _ => None,
        });
        Self::after(event, before)
    }

    /// An event. `before` is its license as the line before had it; without it, the license is described as a new one.
    pub fn after(event: &'a LedgerEvent, before: Option<&IssuedLicense>) -> Self {
        let (word, what, by) = match event {
            LedgerEvent::License(issued) => (issued.kind.into(), changes(before, issued), Some(&*issued.scope)),
            LedgerEvent::Bound(LedgerEntry { binding, .. }) => ("bound", vec![format!("{} bound", binding.host)], None),
            LedgerEvent::Released(ReleaseEntry { release, .. }) => {
                let (word, what) = match (&release.moved, release.by) {
                    (Some(moved), ReleasedBy::Customer) => {
                        ("moved", format!("the customer moved {} to {}", release.host, moved.to))
                    }
                    (Some(moved), _) => ("moved", format!("{} moved to {}", release.host, moved.to)),
                    (None, ReleasedBy::Customer) => ("released", format!("the customer freed {}", release.host)),
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
            LedgerEvent::Vouched(entry) => {
                let (word, what) = match entry.until {
                    Some(until) => ("vouched", format!("vouched for until {until}")),
                    None => ("unvouched", "no longer vouched for".to_owned()),
                };
                (word, vec![what], Some(&*entry.scope))
            }
            LedgerEvent::Handed(entry) => {
                let (word, what) = match &entry.what {
                    Handout::Key => ("key mailed", "the key was mailed again".to_owned()),
                    Handout::Page => ("page mailed", "the download page was mailed again".to_owned()),
                    Handout::Address => ("address", "the customer has a new mail address".to_owned()),
                    Handout::Package(HandedPackage { plugin, version, host }) => {
                        let host = host.as_ref().map_or(String::new(), |host| format!(" for {host}"));
                        ("downloaded", format!("{plugin} {version} was downloaded{host}"))
                    }
                };
                (word, vec![what], Some(&*entry.scope))
            }
            LedgerEvent::Token(token) => {
                let (word, what) = match (token.revoked, token.used) {
                    (true, _) => ("token revoked", "revoked"),
                    (false, None) => ("token made", "made"),
                    (false, Some(_)) => ("token used", "used"),
                };
                (word, vec![format!("token {} {what}", token.name)], None)
            }
            LedgerEvent::Erased(_) => ("customer erased", vec!["a customer was erased".to_owned()], None),
            LedgerEvent::Reminded(entry) => match &**entry {
                ReminderEntry::Sent(sent) => {
                    let licenses = match sent.licenses.len() {
                        1 => "1 license".to_owned(),
                        count => format!("{count} licenses"),
                    };
                    let what = format!("reminder of {licenses} to {}", sent.expires);
                    ("reminded", vec![what], None)
                }
                ReminderEntry::Switched { on: true, .. } => {
                    ("reminders on", vec!["reminders are sent from now on".to_owned()], None)
                }
                ReminderEntry::Switched { on: false, .. } => {
                    ("reminders off", vec!["reminders are no longer sent".to_owned()], None)
                }
            },
            LedgerEvent::Rollout(RolloutEntry { slug, version, mark }) => {
                let what = match mark.step {
                    RolloutStep::Alarmed => format!("many sites do not run {slug} {version}"),
                    step => format!("rollout of {slug} {version} {}", step.as_str()),
                };
                ("rollout", vec![what], None)
            }
            LedgerEvent::Session(entry) => {
                let what = match entry.mark {
                    SessionMark::Code(_) => "somebody signed in",
                    SessionMark::Session(_) => "somebody signed out",
                    SessionMark::Owner(_) => "a person was signed out everywhere",
                };
                ("session", vec![what.to_owned()], None)
            }
            LedgerEvent::Sale(entry) => ("sold", vec!["a sale changed".to_owned()], Some(&*entry.scope)),
            LedgerEvent::Compacted(_) => ("compacted", vec!["the ledger was compacted".to_owned()], None),
        };
        let texts = event.texts();
        Self {
            time: event.time(),
            license: event.license().copied(),
            event: word,
            what,
            by,
            actor: LineActor::of(event),
            who: texts.who,
            reason: texts.reason,
        }
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
        _ if license.expires == NEVER => "set to never end".to_owned(),
        true if after.scope.is_shop() => format!("renewed to {}", license.expires),
        true => format!("extended to {}", license.expires),
        false => format!("shortened to {}", license.expires),
    };
    note(license.expires != old.expires, until);
    let renewal = |details: &Details| details.renewal_days.is_some();
    let renews = match renewal(&license.details) {
        true => "renews by itself",
        false => "no longer renews by itself",
    };
    note(renewal(&license.details) != renewal(&old.details), renews.to_owned());
    note(license.sites != old.sites, for_sites(license.sites));
    note(
        license.modules != old.modules,
        format!("covers {}", license.module_list()),
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
    for outcome in RightsEdit::between(&old_details.rights, &details.rights).outcomes() {
        note(true, outcome);
    }
    let composer = match details.rights.composer.valid {
        true => "a Composer token was made",
        false => "the Composer token was revoked",
    };
    note(
        details.rights.composer != old_details.rights.composer,
        composer.to_owned(),
    );
    note(
        details.released.all != old_details.released.all,
        "all seats freed".to_owned(),
    );
    for (host, time) in &details.released.hosts {
        note(
            old_details.released.hosts.get(host) != Some(time),
            format!("seat of {host} freed"),
        );
    }
    for host in &details.hosts {
        note(!old_details.hosts.contains(host), format!("seat reserved for {host}"));
    }
    let is_gone = |host: &&SiteHost| !details.hosts.contains(host) && !details.released.hosts.contains_key(*host);
    for host in old_details.hosts.iter().filter(is_gone) {
        note(
            details.released.all == old_details.released.all,
            format!("seat no longer reserved for {host}"),
        );
    }
    let remarks = details.remarks();
    let old_remarks = old_details.remarks();
    note(remarks.metadata != old_remarks.metadata, "other metadata".to_owned());
    note(remarks.note != old_remarks.note, "another note".to_owned());
    note(remarks.holder != old_remarks.holder, "another customer".to_owned());
    note(after.reference != before.reference, "another order".to_owned());
    if changes.is_empty() && remarks.sold != old_remarks.sold {
        changes.push("the shop’s word of the sale changed, and what the license grants did not".to_owned());
    }
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
    words.push(license.module_list());
    words.push(for_sites(license.sites));
    words.push(match license.expires {
        NEVER => "never ends".to_owned(),
        expires => format!("until {expires}"),
    });
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
