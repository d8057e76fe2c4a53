//! `countersign desk`: asks the running server for a link that signs in at the desk, once.

use chrono::SecondsFormat;
use serde::Serialize;

use crate::commands::{Exit, Failure, output, server_questions};
use crate::serve::ops::desk_answers::{DeskLink, DeskLinkReply};
use countersign_files::regular_file;
use countersign_settings::config::Config;

/// The name of this machine, as Linux tells it.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// The longest name of a machine, in bytes, and more.
const MAX_HOST_NAME: u64 = 256;

/// Sign in at the desk, the page on which you see and change licenses
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  countersign desk
  countersign desk --json

Prints a link for a browser. It signs you in as admin, works once, and for ten minutes. The server \
must run, with `listen` in [desk] of countersign.toml. docs/desk.md has more.")]
pub struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What is printed with `--json`.
#[derive(Serialize)]
struct PrintedLink<'a> {
    #[serde(flatten)]
    link: &'a DeskLink,
    /// What a person runs on another machine first.
    ssh: &'a str,
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
#[error("there is no link: {0}")]
struct NoLink(String);

/// Prints the link.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    output::refuse_unseen()?;
    let link = match server_questions::desk_link(config)? {
        DeskLinkReply::Made(link) => link,
        DeskLinkReply::Refused(reason) => return Err(Failure::input(NoLink(reason)).hint("docs/desk.md says how")),
    };
    let port = link.port;
    let ssh = format!("ssh -L {port}:127.0.0.1:{port} {}", host_name());
    output::print(&match args.json {
        true => output::json(&PrintedLink { link: &link, ssh: &ssh })?,
        false => text(&link, &ssh),
    })
}

fn text(link: &DeskLink, ssh: &str) -> String {
    let until = link.expires.to_rfc3339_opts(SecondsFormat::Secs, true);
    let mut text = format!("This link signs you in once, until {until}:\n\n  {}\n\n", link.link);
    match &link.address_link {
        Some(address) => text += &format!("If your browser does not find it, as Safari: {address}\n"),
        None => text += &format!("In a browser on this machine: {}\n", link.local_link),
    }
    text + &format!("From another machine, run this there first: {ssh}\n")
}

/// The name of this machine, for a line that a person changes.
fn host_name() -> String {
    let name = regular_file::read_to_string(HOST_NAME.as_ref(), MAX_HOST_NAME).unwrap_or_default();
    let name = name.trim();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    match !name.is_empty() && name.bytes().all(is_name) {
        true => name.to_owned(),
        false => "SERVER".to_owned(),
    }
}
