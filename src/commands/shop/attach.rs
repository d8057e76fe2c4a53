//! `countersign shop attach`: says which license a subscription renews.

use chrono::Utc;
use serde::Serialize;

use crate::commands::license::order::own_tools;
use crate::commands::license::selector::LicenseArg;
use crate::commands::output;
use crate::commands::store::licenses;
use crate::commands::{Exit, Failure, ledger_access, server_questions};
use crate::serve::ops::attach_answers::{AttachOrder, AttachReply};
use crate::serve::waiting_sales;
use countersign_model::license_key::LicenseId;
use countersign_model::offer::SalesMode;
use countersign_model::slug::Slug;
use countersign_registry::Registry;
use countersign_settings::config::{Config, KeyIssuer, ShopConfig};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The subscription, as the shop shows its id: sub_1MowQVLkdIwHu7ix, or 1207
    #[arg(value_name = "SUBSCRIPTION")]
    subscription: String,
    #[command(flatten)]
    license: LicenseArg,
    /// The shop, if there are several
    #[arg(long, value_name = "NAME")]
    shop: Option<Slug>,
    /// It is a subscription of the shop's test mode
    #[arg(long)]
    test: bool,
    /// Why, for the license's history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Why a subscription was not attached.
#[derive(Debug, thiserror::Error)]
#[error("license {tag}: {reason}")]
struct NotAttached {
    tag: String,
    reason: String,
}

/// What is printed.
#[derive(Serialize)]
struct Attached<'a> {
    subscription: &'a str,
    license: LicenseId,
    changed: bool,
}

/// Has the subscription renew the license, and parked renewals of it tried again.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let shop = shop(args.shop.as_ref(), config)?;
    let name = shop.kind.ids.subscription(&args.subscription);
    let subscription = name.map_err(|error| Failure::usage(format!("{}: {error}", args.subscription)))?;
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let issued = licenses(config)?;
    let selected = args.license.select(&issued, &registry)?;
    let license = selected.id_in_ledger("no sale changes a file")?;
    let order = AttachOrder {
        shop: shop.name.clone(),
        mode: match args.test {
            true => SalesMode::Test,
            false => shop.mode.unwrap_or(SalesMode::Live),
        },
        subscriptions: vec![(subscription, license)],
        reason: args.reason.clone(),
    };
    let changed = match carry_out(&order, &registry, config)?.pop() {
        Some(AttachReply::Done { changed }) => changed,
        Some(AttachReply::Refused(reason)) => {
            let tag = license.log_tag();
            return Err(Failure::input(NotAttached { tag, reason }).hint("`countersign license show` shows it"));
        }
        None => false,
    };
    waiting_sales::retry_renewals(&config.paths.store, Utc::now())?;
    let attached = Attached {
        subscription: &args.subscription,
        license,
        changed,
    };
    let word = if changed { "now" } else { "already" };
    output::print_change(&match args.json {
        true => output::json(&attached)?,
        false => format!(
            "Subscription {} {word} renews license {}.\n",
            args.subscription,
            license.log_tag()
        ),
    })
}

/// Has an order carried out.
pub(in crate::commands) fn carry_out(
    order: &AttachOrder,
    registry: &Registry,
    config: &Config,
) -> Result<Vec<AttachReply>, Failure> {
    ledger_access::through(
        config,
        || server_questions::attach(config, order),
        async |bindings| match own_tools(config, registry, bindings) {
            Ok(tools) => tools.attach(order.clone()).await,
            Err(reason) => Ok(vec![AttachReply::Refused(reason); order.subscriptions.len()]),
        },
    )
}

/// The shop of this name, or the only one, if licenses of it have our keys.
pub(in crate::commands) fn shop<'c>(name: Option<&Slug>, config: &'c Config) -> Result<&'c ShopConfig, Failure> {
    let named = |shop: &&ShopConfig| name.is_none_or(|name| *name == shop.name);
    let mut found = config.shops.iter().filter(named);
    match (found.next(), found.next()) {
        (Some(shop), None) if shop.keys == KeyIssuer::Shop => Err(Failure::input(format!(
            "shop {} makes the license keys: its subscriptions renew the licenses of these keys",
            shop.name
        ))),
        (Some(shop), None) => Ok(shop),
        (Some(_), Some(_)) => {
            Err(Failure::usage("countersign.toml has several shops").hint("say which one: --shop NAME"))
        }
        (None, _) => Err(Failure::input("there is no such shop in countersign.toml")
            .hint("a shop is a table [shops.NAME]: see docs/shops.md")),
    }
}
