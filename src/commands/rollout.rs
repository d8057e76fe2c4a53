//! `countersign rollout`: shows how far a release is on its way to all sites, pauses it, and lets it go on.

use chrono::Utc;
use std::fmt::Write as _;

use crate::commands::output::Table;
use crate::commands::{Exit, Failure, ledger_access, output, server_questions};
use crate::serve::ops::rollout_answers::{
    self, ReleaseRollout, RolloutOrder, RolloutReply, RolloutReport, RolloutVerb,
};
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_registry::Registry;
use countersign_settings::config::Config;
use countersign_settings::keys::secret_keys::ReferenceKeys;

/// Show how a release reaches sites in steps, pause it, or give it to everybody
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign rollout acme-forms show
  countersign rollout acme-forms pause --reason 'white pages on PHP 7.4'
  countersign rollout acme-forms resume
  countersign rollout acme-forms finish --release 2.4.0 --json

A plugin's releases come in steps if its entry has a table [rollout]; docs/rollouts.md describes it. \
A pause acts at once: no further site gets the release by its turn. To take a release back, add it to \
`withhold` in the entry and build.")]
pub struct Args {
    /// The plugin
    #[arg(value_name = "SLUG")]
    slug: Slug,
    /// What to do
    #[command(subcommand)]
    verb: Verb,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Show how far the rollouts are
    #[command(after_help = "Examples:
  countersign rollout acme-forms show
  countersign rollout acme-forms show --json")]
    Show,
    /// Pause a rollout: no further site gets the release by its turn
    #[command(after_help = "Example:
  countersign rollout acme-forms pause --reason 'white pages on PHP 7.4'

Security releases, staging copies and sites on a release that was taken back are not held.")]
    Pause(ChangeArgs),
    /// Let a paused rollout go on where it was
    #[command(after_help = "Example:
  countersign rollout acme-forms resume")]
    Resume(ChangeArgs),
    /// Give the release to everybody at once
    #[command(after_help = "Example:
  countersign rollout acme-forms finish")]
    Finish(ChangeArgs),
}

#[derive(clap::Args, Debug)]
struct ChangeArgs {
    /// The release, if the rollouts of several can be changed so
    #[arg(long, value_name = "VERSION")]
    release: Option<Version>,
    /// Why; kept beside the ledger, and can be erased
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Runs the verb.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let (verb, change) = match &args.verb {
        Verb::Show => (None, None),
        Verb::Pause(change) => (Some(RolloutVerb::Pause), Some(change)),
        Verb::Resume(change) => (Some(RolloutVerb::Resume), Some(change)),
        Verb::Finish(change) => (Some(RolloutVerb::Finish), Some(change)),
    };
    let order = RolloutOrder {
        slug: args.slug.clone(),
        version: change.and_then(|change| change.release.clone()),
        verb,
        reason: change.and_then(|change| change.reason.clone()),
    };
    let registry = Registry::load(&config.paths.registry).map_err(Failure::input)?;
    let reply = ledger_access::through(
        config,
        || server_questions::rollout(config, &order),
        async |ledger| {
            let keys = ReferenceKeys::load(&config.paths.references_key, &config.paths.retired_keys).ok();
            let who = keys.map(|(keys, _)| keys.person(server_questions::own_user().as_str()));
            rollout_answers::carry_out(ledger, registry.plugin(order.slug.as_str()), &order, who, Utc::now()).await
        },
    )?;
    let report = match reply {
        RolloutReply::Done(report) => report,
        RolloutReply::Unknown(why) => {
            let hint = "write the table [rollout] into the plugin's entry; docs/rollouts.md describes it";
            return Err(Failure::input(why).hint(hint));
        }
        RolloutReply::Refused(why) => {
            let hint = format!(
                "`countersign rollout {} show` tells how far the rollouts are; --release names one",
                args.slug
            );
            return Err(Failure::input(why).hint(hint));
        }
    };
    let text = match args.json {
        true => output::json(&report)?,
        false => shown(&report),
    };
    match report.changed {
        Some(_) => output::print_change(&text),
        None => output::print(&text),
    }
}

fn shown(report: &RolloutReport) -> String {
    let changed = |release: &&ReleaseRollout| report.changed.as_ref() == Some(&release.version);
    if let Some(release) = report.releases.iter().find(changed) {
        let phase: &str = release.phase.into();
        return format!(
            "The rollout of {} {} is {phase} at {} % of the sites.\n",
            report.plugin, release.version, release.share
        );
    }
    let mut text = format!("Steps: {}\n", report.steps.join(", "));
    if report.releases.is_empty() {
        text.push_str("There was no rollout yet: the next release has one.\n");
        return text;
    }
    let time = |time: &chrono::DateTime<Utc>| time.format("%Y-%m-%d %H:%M").to_string();
    let mut table = Table::new(["RELEASE", "STATE", "SHARE", "STARTED", "HOURS", "NEXT", "LAST CHANGE"]);
    for release in &report.releases {
        let phase: &str = match release.superseded {
            true => "superseded",
            false => release.phase.into(),
        };
        let next = release.next.as_ref();
        let next = next.map_or(String::new(), |next| {
            format!("{} % at {}", next.share, time(&next.time))
        });
        let mut last = String::new();
        if let Some(event) = release.events.last() {
            let _ = write!(last, "{} {}", event.step.as_str(), time(&event.time));
            if let Some(who) = &event.who {
                let _ = write!(last, " by {who}");
            }
            if let Some(reason) = &event.reason {
                let _ = write!(last, ": {reason}");
            }
        }
        table.row([
            &release.version,
            &phase,
            &format!("{} %", release.share),
            &time(&release.started),
            &format!("{:.1}", release.hours),
            &next,
            &last,
        ]);
    }
    let _ = write!(text, "{table}");
    text
}
