//! `countersign shop check`: what a saved delivery would do with the offers of this registry. Changes nothing.

use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use crate::commands::output;
use crate::commands::shop::checked_delivery::{CheckedDelivery, CheckedLine, PrintedGrant, text};
use crate::commands::{Exit, Failure};
use countersign_files::regular_file;
use countersign_model::offer::{SalesMode, ShopId};
use countersign_model::slug::Slug;
use countersign_registry::Registry;
use countersign_registry::offers::Offers;
use countersign_settings::config::{Config, KeyIssuer, ShopConfig};
use countersign_shops::event::{MAX_DELIVERY, Sale, ShopAction, SoldLine};
use countersign_shops::grant::{grant, one_license};
use countersign_shops::shop::Shop;
use countersign_shops::signature::{self, ShopSecret};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The name of the shop in the offers
    #[arg(value_name = "SHOP")]
    shop: Slug,
    /// The body of the delivery, byte for byte
    #[arg(value_name = "FILE")]
    file: PathBuf,
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
    let offers = Registry::load_offers(&config.paths.registry)?;
    let body = read(&args.file, MAX_DELIVERY as u64)?;
    let now = args.at.unwrap_or_else(Utc::now);
    let (is_refused, signature) = signature_state(args, settings, kind, &body, now)?;
    let mut delivery = countersign_shops::read(kind, &body).map_err(|source| {
        let path = args.file.clone();
        Failure::input(CheckError::Delivery { path, source })
            .hint("save the body of the request as it came, and name the right --kind")
    })?;
    let has_keys_of_shop = settings.is_some_and(|settings| settings.keys == KeyIssuer::Shop);
    if matches!(delivery.action, ShopAction::Key(_)) && !has_keys_of_shop {
        delivery.action = ShopAction::Ignore {
            reason: "licenses of this shop have keys of ours",
        };
    }
    let of_settings = settings.and_then(|settings| settings.mode);
    let mode = args.mode.or(delivery.mode).or(of_settings).unwrap_or(SalesMode::Live);
    let sold_at = delivery.changed_at.unwrap_or(now);
    let mut licenses: Vec<_> = delivery.action.sale().map_or(Vec::new(), |sale| {
        let line = |line| checked_line(&offers, &args.shop, mode, sale, line, sold_at);
        sale.lines.iter().map(line).collect()
    });
    if has_keys_of_shop
        && !licenses.is_empty()
        && let Err(reason) = one_license(licenses.iter().map(|line| line.count))
    {
        for line in &mut licenses {
            line.grants = None;
            line.parked.get_or_insert(reason.to_string());
        }
    }
    let checked = CheckedDelivery {
        shop: &args.shop,
        kind,
        signature,
        offers_of: mode,
        delivery: &delivery,
        licenses,
    };
    output::print(&if args.json {
        output::json(&checked)?
    } else {
        text(&checked)
    })?;
    Ok(if is_refused { Exit::Input } else { Exit::Done })
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

fn checked_line(
    offers: &Offers,
    shop: &Slug,
    mode: SalesMode,
    sale: &Sale,
    line: &SoldLine,
    sold_at: DateTime<Utc>,
) -> CheckedLine {
    let offer = offers.of_line(
        shop,
        mode,
        line.offer.as_deref(),
        line.price.as_ref(),
        line.product.as_ref(),
    );
    let name = offer.as_ref().ok().map(|offer| offer.name.clone());
    let granted = grant(sale, line, offer, sold_at);
    let ids = line.price.iter().chain(&line.product).map(ShopId::as_str);
    let sold: Vec<_> = ids.chain(line.offer.as_deref()).collect();
    CheckedLine {
        sold: sold.join(" "),
        quantity: line.quantity,
        offer: name,
        count: granted.as_ref().map_or(0, |(count, _)| *count),
        parked: granted.as_ref().err().map(ToString::to_string),
        grants: granted.ok().map(|(_, license)| PrintedGrant {
            modules: (*license.modules).clone(),
            sites: license.sites.to_string(),
            expires: license.expires.to_string(),
        }),
    }
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
