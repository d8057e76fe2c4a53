//! A million licenses in the ledger beside a million in files: start, memory, and CPU for an update.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::instance::{Instance, hex, host, key};
use crate::million::{MILLION, ROUNDS, spread};
use crate::process::Server;
use crate::report::{Target, heading, median, row};

pub fn run(bench: &Path) -> io::Result<()> {
    let issued = instance(bench, Seller::Unknown)?;
    let files = Instance::new(bench, MILLION, true, 3072)?;
    heading("1,000,000 licenses of the ledger, each bound, beside those of a file");
    let mut servers = Vec::new();
    for (name, folder) in [("of the ledger", &issued.folder), ("of a file", &files.folder)] {
        Server::countersign(folder)?.stop()?;
        let server = Server::countersign(folder)?;
        let (resident, most) = server.memory();
        let took = server.started_in.as_secs_f64();
        row(
            &format!("{name}: start after a clean stop"),
            took,
            "s",
            Target::AtMost(10.0),
        );
        let label = format!("{name}: resident (at most {most:.0} MiB on the way)");
        row(&label, resident, "MiB", Target::AtMost(600.0));
        servers.push(server);
    }
    let mut runs = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        for (server, runs) in servers.iter().zip(&mut runs) {
            runs.push(spread(bench, MILLION)?.ask(server, Duration::from_secs(2))?);
        }
    }
    let [ledger, file] = runs.each_ref().map(|runs| median(runs.iter().map(|run| run.cpu)) * 1e6);
    let label = format!("CPU an update, ledger : file ({ledger:.2}, {file:.2} µs, medians of {ROUNDS})");
    row(&label, ledger / file, "x", Target::AtMost(1.2));
    Ok(())
}

/// Whether the ledger knows the sale of each license.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Seller {
    Unknown,
    Shop,
}

/// An instance without licenses in files, whose ledger has as many as the other one's files.
pub fn instance(bench: &Path, seller: Seller) -> io::Result<Instance> {
    let name = match seller {
        Seller::Unknown => format!("{MILLION}-issued-3072"),
        Seller::Shop => format!("{MILLION}-sold-3072"),
    };
    let instance = Instance {
        folder: bench.join(&name),
        licenses: MILLION,
    };
    if instance.file("made").exists() {
        return Ok(instance);
    }
    eprintln!("making {}", instance.folder.display());
    let small = Instance::new(bench, 1_000, true, 3072)?;
    small.copied(&name)?;
    fs::remove_dir_all(instance.file("registry/licenses"))?;
    fs::create_dir(instance.file("registry/licenses"))?;
    instance.clear_store()?;
    write_ledger(&instance, seller)?;
    write_texts(&instance)?;
    instance.write("made", "1")?;
    Ok(instance)
}

/// Writes the ledger of a server that issued each license and bound its site, with the sale if a shop sold it (docs/design.md).
fn write_ledger(instance: &Instance, seller: Seller) -> io::Result<()> {
    let mut lines = BufWriter::new(File::create(instance.file("store/ledger.jsonl"))?);
    let mut previous = Sha256::digest(b"countersign ledger 1\n");
    let (kinds, sold) = match seller {
        Seller::Unknown => (2, ""),
        Seller::Shop => (3, "\"sold\":{\"sale\":\"SALE\"},"),
    };
    for at in 0..kinds * MILLION {
        let number = at % MILLION;
        let id = key(number).id();
        let before = hex(&previous);
        let sequence = at + 1;
        let time = "2026-01-01T00:00:00Z";
        let line = if at >= 2 * MILLION {
            sale_line(number, sequence, &before)
        } else if at < MILLION {
            let features = ["\"pdf\",\"api\"", "\"pdf\"", "", "\"pdf\",\"api\",\"sso\""][number % 4];
            let hash = hash(number);
            let sold = sold.replace("SALE", &hash);
            format!(
                "{{\"event\":\"license\",\"expires\":\"2099-12-31\",\"holder\":\"{hash}\",\"kind\":\"issued\",\"license\":\"{id}\",\"modules\":{{\"forms\":[{features}]}},\
                 \"origin\":{{\"body\":\"{hash}\",\"issued\":\"{time}\",\"key\":\"{hash}\",\"salt\":\"{hash}\",\"scope\":\"shop:stripe\",\
                 \"secret\":1}},\"previous\":\"{before}\",\"reference\":\"{hash}\",\"revision\":1,\"scope\":\"shop:stripe\",\
                 \"sequence\":{sequence},\"sites\":1,{sold}\"status\":\"active\",\"synced\":{at},\"time\":\"{time}\"}}\n"
            )
        } else {
            let host = host(number);
            format!(
                "{{\"event\":\"bound\",\"host\":\"{host}\",\"license\":\"{id}\",\"previous\":\"{before}\",\
                 \"sequence\":{sequence},\"synced\":{at},\"time\":\"{time}\"}}\n"
            )
        };
        previous = Sha256::digest(&line);
        lines.write_all(line.as_bytes())?;
    }
    lines.flush()
}

/// One payment, one minute after the one before.
fn sale_line(number: usize, sequence: usize, before: &str) -> String {
    let hash = hash(number);
    let minutes = number / 60;
    let time = format!(
        "2025-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        1 + minutes / 60 / 24 / 28,
        1 + minutes / 60 / 24 % 28,
        minutes / 60 % 24,
        minutes % 60,
        number % 60
    );
    let terms = "{\"grace_days\":3,\"lasts\":\"lifetime\",\"modules\":{\"forms\":[]},\"offer\":\"forms\",\"quantity\":\"licenses\",\"site_moves\":5,\"sites\":1}";
    format!(
        "{{\"event\":\"sold\",\"facts\":[{{\"payment\":{{\"amount\":1900,\"at\":\"{time}\",\"id\":\"{hash}\",\
         \"lines\":[{{\"amount\":1900,\"item\":\"{hash}\",\"price\":\"price_1\",\"product\":\"price_1\",\"quantity\":1}}],\
         \"paid\":\"{time}\"}}}}],\"names\":[\"{hash}\"],\"previous\":\"{before}\",\"sale\":\"{hash}\",\"scope\":\"shop:stripe\",\
         \"sequence\":{sequence},\"synced\":{},\"terms\":[{{\"price\":\"price_1\",\"sale\":\"{hash}\",\"terms\":{terms}}}],\"time\":\"{time}\"}}\n",
        sequence - 1
    )
}

/// The number of a license's customer, and what the line of a license names by an HMAC.
fn hash(number: usize) -> String {
    hex(&Sha256::digest(number.to_le_bytes()))[..32].to_owned()
}

/// The customer of each license, with address and name, as a server would have written them (docs/design.md).
fn write_texts(instance: &Instance) -> io::Result<()> {
    let mut lines = BufWriter::new(File::create(instance.file("store/texts.jsonl"))?);
    let mut chain = Sha256::digest(b"countersign texts 1\n");
    for number in 0..MILLION {
        let hash = hash(number);
        let rest = format!(
            "\"customer\":{{\"address\":\"mail{number}@example.com\",\"by\":\"shop:stripe\",\"name\":\"Owner {number}\",\
             \"number\":\"{hash}\"}},\"name\":\"{hash}\",\"synced\":{number}}}\n"
        );
        chain = Sha256::digest(hex(&chain) + &rest);
        write!(lines, "{{\"chain\":\"{}\",{rest}", hex(&chain))?;
    }
    lines.flush()?;
    fs::set_permissions(instance.file("store/texts.jsonl"), fs::Permissions::from_mode(0o600))
}
