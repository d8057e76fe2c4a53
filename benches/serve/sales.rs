//! Sales at 200 a second beside updates at 2,000 a second: what updates notice of them, and whether each sale is there once.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use crate::client::updates;
use crate::instance::{Instance, hex};
use crate::paced::{self, Paced};
use crate::process::Server;
use crate::report::{Target, heading, row};

/// Updates a second, and sales a second.
const UPDATES: f64 = 2_000.0;
const SALES: f64 = 200.0;

/// How long updates are measured alone, and beside sales.
const ALONE: Duration = Duration::from_secs(15);
const BESIDE: Duration = Duration::from_secs(60);

/// How long the last sales may take to be applied.
const PATIENCE: Duration = Duration::from_secs(120);

const SECRET: &str = "whsec_of_the_benchmark";

pub fn run(bench: &Path) -> io::Result<()> {
    let instance = instance(bench)?;
    heading("200 sales/s for a minute beside 2,000 updates/s, 10,000 licenses");
    let server = Server::countersign(&instance.folder)?;
    let licenses = instance.licenses;
    let update = Arc::new(move |at: usize| paced::get(&updates(at % licenses, "&current_version=1.19.0")));
    let load = Paced::start(server.address, 16, UPDATES, update);
    std::thread::sleep(Duration::from_secs(1));
    let alone = Instant::now();
    std::thread::sleep(ALONE);
    let beside = Instant::now();
    let sales = Paced::start(server.address, 16, SALES, Arc::new(delivery));
    std::thread::sleep(BESIDE);
    let end = Instant::now();
    let updates = load.stop()?;
    let sales = sales.stop()?;
    let told = sales.iter().filter(|(_, status, _)| *status == 200).count();
    let waited = Instant::now();
    while fs::read_dir(instance.file("store/deliveries"))?.count() > 1 && waited.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
    }
    let behind = waited.elapsed().as_secs_f64();
    server.stop()?;
    let p99_alone = paced::p99(&updates, &[alone..beside], None) * 1e3;
    let p99_beside = paced::p99(&updates, &[beside..end], None) * 1e3;
    let late = updates.iter().filter(|(_, status, _)| *status != 200).count();
    let figure = format!("updates' p99, beside sales : alone ({p99_beside:.1} : {p99_alone:.1} ms)");
    row(&figure, p99_beside / p99_alone, "x", Target::AtMost(2.0));
    row(
        "updates that were not answered with 200",
        late as f64,
        "",
        Target::AtMost(0.0),
    );
    row(
        "sales that were answered with 200",
        told as f64,
        "",
        Target::AtLeast(BESIDE.as_secs_f64() * SALES * 0.98),
    );
    row(
        "    p99 of a sale's answer",
        paced::p99(&sales, &[beside..end], None) * 1e3,
        "ms",
        Target::None,
    );
    row("    until the last one is applied", behind, "s", Target::AtMost(10.0));
    let (lines, licenses) = issued(&instance)?;
    row(
        "    sales that gave no license",
        told as f64 - licenses as f64,
        "",
        Target::AtMost(0.0),
    );
    row(
        "    sales that gave two",
        (lines - licenses) as f64,
        "",
        Target::AtMost(0.0),
    );
    Ok(())
}

/// A copy of the instance of others, each time a new one, with a shop, an offer, and the secrets that keys are derived with.
fn instance(bench: &Path) -> io::Result<Instance> {
    let plain = Instance::new(bench, 10_000, true, 3072)?;
    let instance = plain.copied("sales")?;
    fs::create_dir_all(instance.file("keys/shops"))?;
    fs::create_dir_all(instance.file("registry/offers"))?;
    let settings = fs::read_to_string(instance.file("countersign.toml"))?;
    instance.write("countersign.toml", &format!("{settings}\n[shops.stripe]\n"))?;
    instance.write("keys/shops/stripe.secret", SECRET)?;
    instance.write(
        "registry/offers/small.toml",
        "shop = 'stripe'\nprices = ['price_small']\nperiod = '1y'\nsites = 1\nmodules.forms = []\n",
    )?;
    let secret = instance.file("keys/shops/stripe.secret");
    Command::new("chmod").arg("600").arg(&secret).status()?;
    for name in ["--issuing", "--references"] {
        Command::new(env!("CARGO_BIN_EXE_countersign"))
            .arg("-C")
            .arg(&instance.folder)
            .args(["keys", "generate", name])
            .output()?;
    }
    Ok(instance)
}

/// The request of a paid invoice, as Stripe signs it.
fn delivery(number: usize) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_secs());
    let end = now + 31_536_000;
    let body = format!(
        "{{\"id\":\"evt_{number}\",\"type\":\"invoice.paid\",\"created\":{now},\"livemode\":true,\"data\":{{\"object\":{{\
         \"id\":\"in_{number}\",\"billing_reason\":\"subscription_create\",\"customer_email\":\"a@example.com\",\
         \"parent\":{{\"subscription_details\":{{\"subscription\":\"sub_{number}\"}}}},\"lines\":{{\"data\":[{{\"pricing\":\
         {{\"price_details\":{{\"price\":\"price_small\"}}}},\"quantity\":1,\"period\":{{\"end\":{end}}}}}]}}}}}}}}"
    );
    let mac = <Hmac<Sha256> as hmac::Mac>::new_from_slice(SECRET.as_bytes()).expect("any length does");
    let signature = hex(&mac.chain_update(format!("{now}.{body}")).finalize().into_bytes());
    format!(
        "POST /hooks/stripe HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n\
         Stripe-Signature: t={now},v1={signature}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len(),
    )
}

/// The lines of new licenses in the ledger, and the licenses that they are of.
fn issued(instance: &Instance) -> io::Result<(usize, usize)> {
    let ledger = fs::read_to_string(instance.file("store/ledger.jsonl"))?;
    let lines = ledger.lines().filter(|line| line.contains("\"event\":\"license\""));
    let orders: Vec<_> = lines
        .filter_map(|line| line.split("\"reference\":\"").nth(1)?.split('"').next())
        .collect();
    let distinct = orders.iter().collect::<BTreeSet<_>>().len();
    Ok((orders.len(), distinct))
}
