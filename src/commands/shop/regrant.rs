//! `countersign shop regrant`: what was sold under an offer gets the terms that the offer has today.

use serde::Serialize;

use crate::build::counted;
use crate::commands::license::order::own_tools;
use crate::commands::output::{self, Table};
use crate::commands::{Exit, Failure, ledger_access, server_questions};
use crate::serve::ops::regrant_answers::{RegrantOrder, RegrantReply, RegrantedLicense, RegrantedSales, SHOWN};
use countersign_model::license::{SiteLimit, module_list};
use countersign_model::sale::terms::SoldGrant;
use countersign_model::sale::terms::Terms;
use countersign_model::slug::Slug;
use countersign_registry::Registry;
use countersign_settings::config::Config;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The name of the offer: its file in registry/offers/, without .toml
    #[arg(value_name = "OFFER")]
    offer: Slug,
    /// Change nothing; show how many licenses would change, and the first ten of them
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Why sales were not granted again.
#[derive(Debug, thiserror::Error)]
#[error("offer {offer}: {reason}")]
struct NotRegranted {
    offer: Slug,
    reason: String,
}

/// What changed, or would.
#[derive(Serialize)]
struct Regranted<'a> {
    offer: &'a Slug,
    dry_run: bool,
    changed: u64,
    licenses: &'a [RegrantedLicense],
}

/// Has all sales of the offer granted again, some in each order.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let failure = |reason: String| {
        let offer = args.offer.clone();
        Failure::input(NotRegranted { offer, reason }).hint("`countersign shop offers` lists the offers")
    };
    let registry = Registry::load(&config.paths.registry)?;
    let offer = registry.offers().named(args.offer.as_str());
    let offer = offer.map_err(|error| failure(error.to_string()))?;
    let mut order = RegrantOrder {
        offer: args.offer.clone(),
        terms: Terms::from(offer),
        dry_run: args.dry_run,
        after: None,
    };
    let mut all = RegrantedSales::default();
    loop {
        let reply = ledger_access::through(
            config,
            || server_questions::regrant(config, &order),
            async |bindings| match own_tools(config, &registry, bindings) {
                Ok(tools) => tools.regrant(order.clone()).await,
                Err(reason) => Ok(RegrantReply::Refused(reason)),
            },
        )?;
        let some = match reply {
            RegrantReply::Done(some) => some,
            RegrantReply::Refused(reason) => return Err(failure(reason)),
        };
        all.changed += some.changed;
        all.licenses.extend(some.licenses);
        all.licenses.truncate(SHOWN);
        all.failed.extend(some.failed);
        order.after = some.next;
        if some.next.is_none() {
            break;
        }
    }
    let regranted = Regranted {
        offer: &args.offer,
        dry_run: args.dry_run,
        changed: all.changed,
        licenses: &all.licenses,
    };
    let text = match args.json {
        true => output::json(&regranted)?,
        false => text(&regranted),
    };
    let printed = match args.dry_run {
        true => output::print(&text)?,
        false => output::print_change(&text)?,
    };
    match all.failed.into_iter().next() {
        Some(reason) => Err(failure(format!("not all licenses are changed: {reason}"))),
        None => Ok(printed),
    }
}

fn text(regranted: &Regranted<'_>) -> String {
    let licenses = counted(regranted.changed, "license");
    let said = match (regranted.dry_run, regranted.changed) {
        (_, 0) => return format!("All licenses of {} have its terms of today.\n", regranted.offer),
        (true, _) => format!("{licenses} would change.\n"),
        (false, _) => format!("{licenses} changed.\n"),
    };
    let mut table = Table::new(["LICENSE", "BEFORE", "AFTER"]);
    for RegrantedLicense { id, before, after } in regranted.licenses {
        table.row([&id.log_tag(), &words(before, after), &words(after, before)]);
    }
    format!("{said}{table}")
}

/// What a license has that another one has not.
fn words(grant: &SoldGrant, other: &SoldGrant) -> String {
    let mut words = Vec::new();
    if grant.status != other.status {
        words.push(grant.status.as_str().to_owned());
    }
    if grant.sites != other.sites {
        words.push(match grant.sites {
            SiteLimit::Limited(sites) => counted(sites.get(), "site"),
            SiteLimit::Unlimited => "unlimited sites".to_owned(),
        });
    }
    if grant.modules != other.modules {
        words.push(module_list(&grant.modules));
    }
    if grant.expires != other.expires {
        words.push(format!("until {}", grant.expires));
    }
    let limits = [
        ("staging sites", grant.staging_sites, other.staging_sites),
        ("moves", grant.site_moves, other.site_moves),
        ("days of grace", grant.renewal_days, other.renewal_days),
    ];
    for (name, limit, _) in limits.iter().filter(|(_, limit, other)| limit != other) {
        words.push(limit.map_or_else(|| format!("default {name}"), |limit| format!("{limit} {name}")));
    }
    words.join(", ")
}
