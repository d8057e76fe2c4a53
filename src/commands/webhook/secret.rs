//! `countersign webhook secret`: makes a secret, or one more while the old one is replaced.

use std::io;

use zeroize::Zeroizing;

use crate::commands::webhook::endpoints::endpoint;
use crate::commands::{Exit, Failure, output};
use countersign_files::durable_file::{self, Access};
use countersign_model::slug::Slug;
use countersign_settings::config::Config;
use countersign_settings::keys::webhook_secrets::{self, WebhookSecret};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The endpoint
    name: Slug,
    /// Put a new secret in front of the old ones
    #[arg(long)]
    rotate: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let path = &endpoint(config, &args.name)?.secret_file;
    let failed = |error: io::Error| Failure::environment(format!("{}: {error}", path.display()));
    let new = WebhookSecret::generate().map_err(failed)?;
    if args.rotate {
        // SECURITY: only a file that was a secret is read and written again.
        webhook_secrets::read(&args.name, path)?;
        let old = webhook_secrets::text(&args.name, path)?;
        let both = Zeroizing::new(format!("{}\n{}", *new, *old));
        durable_file::replace(path, both.as_bytes()).map_err(failed)?;
    } else {
        let folder = path.parent().unwrap_or(path);
        durable_file::create_folders(folder, Access::Owner).map_err(failed)?;
        let line = Zeroizing::new(format!("{}\n", *new));
        durable_file::create_new(path, line.as_bytes(), Access::Owner).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Failure::input(format!("{}: there is a secret already", path.display()))
                .hint("to replace it, add --rotate, and delete its line once the receiver knows the new one"),
            _ => failed(error),
        })?;
    }
    let file = path.display().to_string();
    output::print(&if args.json {
        output::json(&serde_json::json!({ "webhook": args.name, "secret": *new, "file": file }))?
    } else {
        format!(
            "{}\n\nThis is shown once. Messages to {} are signed with it; it is in {file}.\n",
            *new, args.name
        )
    })
}
