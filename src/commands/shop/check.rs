//! `countersign shop check`: the facts of saved deliveries, and what they would grant with the offers of this registry. Changes
//! nothing.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use crate::commands::output;
use crate::commands::shop::checked_delivery::{CheckedDelivery, CheckedSales, renewal_token, text};
use crate::commands::{Exit, Failure};
use countersign_files::regular_file;
use countersign_model::offer::{SalesMode, ShopId};
use countersign_model::sale::facts::SaleFacts;
use countersign_model::sale::terms::Terms;
use countersign_model::slug::Slug;
use countersign_registry::Registry;
use countersign_registry::offers::Offers;
use countersign_settings::config::{Config, ShopConfig};
use countersign_shops::event::{Content, MAX_DELIVERY};
use countersign_shops::shop::Shop;
use countersign_shops::signature::{self, ShopSecret};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The name of the shop in the offers
    #[arg(value_name = "SHOP")]
    shop: Slug,
    /// The bodies of deliveries of one customer, byte for byte, in any order
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// What the shop is, such as woocommerce; without it, countersign.toml or its name says it
    #[arg(long, value_name = "KIND")]
    kind: Option<&'static Shop>,
    /// A header of the delivery, such as 'Stripe-Signature: t=1700000000,v1=5f...'; with it, the signature is checked
    #[arg(long, value_name = "HEADER", value_parser = parse_header)]
    header: Vec<(String, String)>,
    /// A file with the secret that the shop signs with; without it, the one of countersign.toml
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// When the delivery arrived; without it, now
    #[arg(long, value_name = "TIME", requires = "header", value_parser = parse_time)]
    at: Option<DateTime<Utc>>,
    /// The offers of live sales or of the test mode; without it, the delivery or countersign.toml says it, or it is live
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    mode: Option<SalesMode>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Why a delivery cannot be checked.
#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error("{}: cannot be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("it is not known what the shop {0} is")]
    Kind(Slug),
    #[error("there is no secret to check the signature with")]
    NoSecret,
    #[error("some deliveries are live, and some are of the test mode")]
    Modes,
    #[error("a header belongs to one delivery, and here are {0}")]
    ManyFiles(usize),
    #[error("{}", path.display())]
    Secret {
        path: PathBuf,
        source: signature::WeakSecret,
    },
    #[error("{}", path.display())]
    Delivery {
        path: PathBuf,
        source: countersign_shops::event::DeliveryError,
    },
}

/// Reads the delivery and prints what it would do.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let settings = config.shops.iter().find(|settings| settings.name == args.shop);
    let kind = args.kind.or(settings.map(|settings| settings.kind));
    let kind = kind.or_else(|| args.shop.as_str().parse().ok()).ok_or_else(|| {
        Failure::usage(CheckError::Kind(args.shop.clone())).hint(format!("add --kind: {}", countersign_shops::EXPECTED))
    })?;
    if !args.header.is_empty() && args.files.len() > 1 {
        return Err(Failure::usage(CheckError::ManyFiles(args.files.len())).hint("check one file at a time"));
    }
    let offers = Registry::load_offers(&config.paths.registry)?;
    let now = args.at.unwrap_or_else(Utc::now);
    let mut is_refused = false;
    let mut deliveries = Vec::new();
    let mut facts = SaleFacts::default();
    let mut modes = BTreeSet::new();
    for file in &args.files {
        let body = read(file, MAX_DELIVERY as u64)?;
        let (is_wrong, signature) = signature_state(args, settings, kind, &body, now)?;
        is_refused |= is_wrong;
        let delivery = countersign_shops::read(kind, &body).map_err(|source| {
            let path = file.clone();
            Failure::input(CheckError::Delivery { path, source })
                .hint("save the body of the request as it came, and name the right --kind")
        })?;
        let of_settings = settings.and_then(|settings| settings.mode);
        let mode = args.mode.or(delivery.mode).or(of_settings).unwrap_or(SalesMode::Live);
        modes.insert(mode.as_str());
        if let Content::Record(record) = &delivery.content {
            record.facts.iter().cloned().for_each(|fact| facts.take(fact));
            remember(&mut facts, &offers, &args.shop, mode);
            facts.assign_places();
        }
        deliveries.push(CheckedDelivery {
            file: output::path_text(file),
            signature,
            offers_of: mode,
            renewal_token: renewal_token(&delivery.content),
            delivery,
        });
    }
    if modes.len() > 1 {
        return Err(Failure::input(CheckError::Modes).hint("live sales and those of the test mode never meet"));
    }
    let checked = CheckedSales::new(&args.shop, kind, deliveries, facts.grants());
    output::print(&if args.json {
        output::json(&checked)?
    } else {
        text(&checked)
    })?;
    Ok(if is_refused { Exit::Input } else { Exit::Done })
}

/// Remembers what is granted by prices that are sold for the first time.
fn remember(facts: &mut SaleFacts<String>, offers: &Offers, shop: &Slug, mode: SalesMode) {
    let found = facts.without_terms().into_iter().filter_map(|(sale, thing)| {
        let named = thing.offer.map(ShopId::as_str);
        let offer = offers
            .of_line(shop, mode, named, Some(thing.price), Some(thing.product))
            .ok()?;
        Some((sale, thing.price.clone(), Terms::from(offer)))
    });
    for (sale, price, terms) in found.collect::<Vec<_>>() {
        facts.remember(sale, price, terms);
    }
}

fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    let failed = |source| {
        let path = path.to_owned();
        Failure::environment(CheckError::Read { path, source })
    };
    regular_file::read(path, limit).map_err(failed)
}

/// Whether the delivery would be refused for its signature, and the signature's state as text.
fn signature_state(
    args: &Args,
    settings: Option<&ShopConfig>,
    kind: &Shop,
    body: &[u8],
    now: DateTime<Utc>,
) -> Result<(bool, String), Failure> {
    let of_settings = settings.filter(|_| !args.header.is_empty());
    let path = args
        .secret_file
        .as_ref()
        .or(of_settings.map(|settings| &settings.secret_file));
    let Some(path) = path else {
        if args.header.is_empty() {
            return Ok((false, "not_checked".to_owned()));
        }
        let hint = format!(
            "name the file with --secret-file, or add [shops.{}] to countersign.toml",
            args.shop
        );
        return Err(Failure::input(CheckError::NoSecret).hint(hint));
    };
    if signature::is_unsigned_ping(kind, body) {
        return Ok((false, "not_needed".to_owned()));
    }
    let text =
        read(path, 4_096).map_err(|failure| failure.hint("copy the secret that the shop signs with into this file"))?;
    let text = String::from_utf8(text).unwrap_or_default();
    // While a secret is replaced, the file has two.
    let secrets: Result<Vec<_>, _> = text.trim().split('\n').map(ShopSecret::new).collect();
    let secrets = secrets.map_err(|source| {
        let path = path.clone();
        Failure::input(CheckError::Secret { path, source })
    })?;
    let name = kind.signature_header;
    let header = args.header.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
    let header = header.map(|(_, value)| value.as_str());
    Ok(match signature::verify(kind, &secrets, header, body, now) {
        Ok(()) => (false, "right".to_owned()),
        Err(error) => (true, error.to_string()),
    })
}

fn parse_header(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text
        .split_once(':')
        .ok_or("expected a header such as 'X-Signature: 5f...'")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn parse_time(text: &str) -> Result<DateTime<Utc>, &'static str> {
    let time = DateTime::parse_from_rfc3339(text).map(|time| time.to_utc());
    time.map_err(|_| "expected a time such as 2026-11-20T10:17:03Z")
}

fn parse_mode(text: &str) -> Result<SalesMode, &'static str> {
    [SalesMode::Live, SalesMode::Test]
        .into_iter()
        .find(|mode| mode.as_str() == text)
        .ok_or("expected live or test")
}
