//! `countersign mail write-texts`: the built-in texts as files, to be changed.

use std::io;

use serde::Serialize;

use crate::commands::output;
use crate::commands::{Exit, Failure};
use countersign_files::durable_file::{self, Access};
use countersign_mail::texts::{FILES, FOLDER};
use countersign_settings::config::Config;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What was written.
#[derive(Serialize)]
struct WrittenTexts {
    written: Vec<String>,
    /// Files that were there.
    kept: Vec<String>,
}

/// Writes each file that is not there.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let folder = config.paths.registry.join(FOLDER);
    let failed = |error: io::Error| Failure::environment(format!("{}: {error}", folder.display()));
    durable_file::create_folders(&folder, Access::LikeFolder).map_err(failed)?;
    let mut texts = WrittenTexts {
        written: Vec::new(),
        kept: Vec::new(),
    };
    for (name, text) in FILES {
        let path = folder.join(name);
        let listed = output::path_text(&path);
        match durable_file::create_new(&path, text.as_bytes(), Access::LikeFolder) {
            Ok(()) => texts.written.push(listed),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => texts.kept.push(listed),
            Err(error) => return Err(failed(error)),
        }
    }
    output::print_change(&if args.json {
        output::json(&texts)?
    } else {
        let line =
            |verb: &str, files: &[String]| -> String { files.iter().map(|file| format!("{verb} {file}\n")).collect() };
        line("wrote", &texts.written) + &line("kept", &texts.kept)
    })
}
