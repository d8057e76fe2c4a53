//! Validations beside signing alone: of bound sites, and first bindings, which wait for the disk.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use rsa::pkcs8::{DecodePrivateKey, EncodePrivateKey};

use crate::client::validation;
use crate::instance::Instance;
use crate::paced::{self, Paced, p99};
use crate::process::Server;
use crate::report::{Target, heading, median, percentile, row};
use crate::wrk::Questions;

const ROUNDS: usize = 5;

/// First bindings a second that come at a steady pace, and for how long.
const PACE: f64 = 500.0;
const PACED: Duration = Duration::from_secs(20);

/// A run of a server or of signing alone, in seconds.
const SECONDS: u64 = 2;

pub fn run(bench: &Path) -> io::Result<()> {
    for bits in [2048, 3072] {
        heading(&format!(
            "validations with a key of {bits} bits, beside signing alone on all cores (medians of {ROUNDS})"
        ));
        for (name, bound, least) in [
            ("a bound license", true, 0.90),
            ("first bindings, each synced", false, 0.80),
        ] {
            let instance = Instance::new(bench, 100_000, bound, bits)?;
            if !bound {
                instance.clear_store()?;
            }
            compare(bench, &instance, name, least)?;
        }
    }
    at_a_pace(bench)
}

/// Measures how long first bindings wait that come at a steady pace. Each is durable when it is answered.
fn at_a_pace(bench: &Path) -> io::Result<()> {
    let instance = Instance::new(bench, 100_000, false, 2048)?;
    instance.clear_store()?;
    heading(&format!(
        "{PACE} first bindings/s for {} s, 2,048 bits",
        PACED.as_secs()
    ));
    let server = Server::countersign(&instance.folder)?;
    let ask = Arc::new(|at: usize| paced::post(&validation(at)));
    let load = Paced::start(server.address, 64, PACE, ask);
    let began = Instant::now();
    std::thread::sleep(PACED);
    let measured = began..Instant::now();
    let answers = load.stop()?;
    server.stop()?;
    let refused = answers.iter().filter(|(_, status, _)| *status != 200).count();
    row("not answered with 200", refused as f64, "", Target::AtMost(0.0));
    let waits = answers.iter().filter(|(due, ..)| measured.contains(due));
    let p50 = percentile(waits.map(|(.., took)| *took), 0.5) * 1e3;
    let p99 = p99(&answers, &[measured], None) * 1e3;
    row(&format!("p99 (p50 {p50:.1} ms)"), p99, "ms", Target::AtMost(20.0));
    Ok(())
}

fn compare(bench: &Path, instance: &Instance, name: &str, least: f64) -> io::Result<()> {
    let server = Server::countersign(&instance.folder)?;
    let mut questions = Questions::new(bench, "validations", (0..instance.licenses).map(validation))?;
    let mut alone = Vec::new();
    let mut ours = Vec::new();
    for _ in 0..ROUNDS {
        alone.push(sign_alone(instance)?);
        let run = questions.ask(&server, Duration::from_secs(SECONDS))?;
        if run.refused > 0 {
            return Err(io::Error::other(format!(
                "{} of {} validations were refused",
                run.refused, run.requests
            )));
        }
        ours.push(run);
    }
    let alone_rate = median(alone.iter().map(|run| run.0));
    let alone_cpu = median(alone.iter().map(|run| run.1));
    let rate = median(ours.iter().map(|run| run.rate));
    let cpu = median(ours.iter().map(|run| run.cpu));
    let figure = format!(
        "{name}: CPU, a signature : an answer ({:.0} : {:.0} µs)",
        alone_cpu * 1e6,
        cpu * 1e6
    );
    row(&figure, alone_cpu / cpu, "x", Target::AtLeast(least));
    // wrk takes its part of the same cores.
    row(
        &format!("    answers/s : signatures/s ({rate:.0} : {alone_rate:.0})"),
        rate / alone_rate,
        "x",
        Target::None,
    );
    let p50 = median(ours.iter().map(|run| run.p50));
    let p99 = median(ours.iter().map(|run| run.p99));
    row(
        &format!("    p99 (p50 {:.1} ms)", p50 * 1e3),
        p99 * 1e3,
        "ms",
        Target::None,
    );
    Ok(())
}

/// Signs in a loop on every core: signatures a second, and the CPU time of one in seconds.
pub fn sign_alone(instance: &Instance) -> io::Result<(f64, f64)> {
    let pem = fs::read_to_string(instance.file("keys/signing.pem"))?;
    let private = rsa::RsaPrivateKey::from_pkcs8_pem(&pem).map_err(io::Error::other)?;
    let der = private.to_pkcs8_der().map_err(io::Error::other)?;
    let pair = KeyPair::from_pkcs8(der.as_bytes()).map_err(io::Error::other)?;
    let cores = std::thread::available_parallelism()?.get();
    let done: Vec<io::Result<(u64, f64, f64)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(|| sign_in_a_loop(&pair))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Err(io::ErrorKind::Other.into())))
            .collect()
    });
    let done = done.into_iter().collect::<io::Result<Vec<_>>>()?;
    let signatures: u64 = done.iter().map(|(signatures, ..)| signatures).sum();
    let cpu: f64 = done.iter().map(|(_, cpu, _)| cpu).sum();
    let rate = done.iter().map(|(signatures, _, wall)| *signatures as f64 / wall).sum();
    Ok((rate, cpu / signatures as f64))
}

fn sign_in_a_loop(pair: &KeyPair) -> io::Result<(u64, f64, f64)> {
    // As long as an ordinary statement.
    let message = [b'x'; 420];
    let mut signature = vec![0; pair.public_modulus_len()];
    let started = Instant::now();
    let mut signatures = 0;
    while started.elapsed() < Duration::from_secs(SECONDS) {
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), &message, &mut signature)
            .map_err(io::Error::other)?;
        signatures += 1;
    }
    let spent = fs::read_to_string("/proc/thread-self/schedstat")?;
    let spent: f64 = spent
        .split(' ')
        .next()
        .and_then(|spent| spent.parse().ok())
        .unwrap_or(f64::NAN);
    Ok((signatures, spent / 1e9, started.elapsed().as_secs_f64()))
}
