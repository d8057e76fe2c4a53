//! How a license verb reports: as text or JSON, at once or when the server uses the change.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::Serialize;

use crate::commands::{Exit, Failure, output, running_server};
use countersign_model::text::printable::{Printable, PrintableLines};
use countersign_model::text::stderr;
use countersign_registry::{RegistryFiles, plugins};
use countersign_settings::config::{self, Config};

use crate::commands::license::done::Done;
use crate::commands::license::view::View;

/// Arguments of every verb that changes a license.
#[derive(clap::Args, Debug)]
pub(super) struct ChangeOptions {
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// Wait until the running server uses the change; fail if that takes longer [default: 30 seconds]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "30",
        value_parser = config::parse::<NonZeroU32>)]
    wait: Option<NonZeroU32>,
}

#[derive(Serialize)]
struct Document<'a> {
    changed: bool,
    message: &'a str,
    notes: &'a [String],
    license: View<'a>,
    /// Absent without `--wait`.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_force: Option<bool>,
}

impl ChangeOptions {
    /// Reports a change, with `--wait` after the server uses it.
    pub(super) fn tell(&self, done: &Done, config: &Config) -> Result<Exit, Failure> {
        let print = if done.changed {
            output::print_change
        } else {
            output::print
        };
        let told = if self.json {
            Ok(Exit::Done)
        } else {
            print(&PrintableLines(done.text()).to_string())
        };
        if done.changed {
            note_other_nodes(config);
        }
        // Also if stdout cannot be written: whoever waits goes on with something that needs the change.
        let in_force = self.wait(config)?;
        if self.json {
            let license = View::new(&done.license, &done.registry, done.today);
            let message = done.message.trim_end();
            let document = Document {
                changed: done.changed,
                message,
                notes: &done.notes,
                license,
                in_force,
            };
            return print(&output::json(&document)?);
        }
        told
    }

    /// Whether to wait until the change is in force.
    pub(super) fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// Waits with `--wait`, and warns of what keeps the server from reloading; `None` without it.
    pub(super) fn wait(&self, config: &Config) -> Result<Option<bool>, Failure> {
        for diagnostic in broken_plugins(config) {
            stderr::line(format_args!("warning: {}", Printable(&diagnostic)));
        }
        let Some(seconds) = self.wait else { return Ok(None) };
        let limit = Duration::from_secs(seconds.get().into());
        running_server::wait_for_registry(config, limit).map_err(|error| {
            Failure::environment(error).hint("the change is written, and a running server reloads it")
        })?;
        Ok(Some(true))
    }
}

/// Says of a change in a file that other nodes have files of their own.
pub(super) fn note_other_nodes(config: &Config) {
    if config.paths.database.is_some() {
        stderr::line(format_args!(
            "note: this changed the registry of this node; each other node uses it when its own registry has it, too"
        ));
    }
}

/// Errors in plugin entries. A license is changed all the same, but the server does not reload until they are
/// corrected.
fn broken_plugins(config: &Config) -> Vec<String> {
    let entries = plugins::load(&RegistryFiles::folder(&config.paths.registry)).unwrap_or_default();
    let diagnostics: Vec<_> = entries
        .into_iter()
        .filter_map(|entry| entry.plugin.err())
        .flatten()
        .collect();
    let Some(first) = diagnostics.first() else {
        return Vec::new();
    };
    vec![format!(
        "the server does not reload the registry until its plugins are correct: {first}"
    )]
}
