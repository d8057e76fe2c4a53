//! `countersign publish`: puts the releases that another machine built into place, on the server.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;

use crate::build::{self, BuildError, FolderError, FolderOptions, FolderReport, PublishedName, counted};
use crate::commands::build::release_name;
use crate::commands::{Exit, Failure, output};
use countersign_model::plugin::Plugin;
use countersign_model::release_list::ReleaseList;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_registry::{RegistryFiles, plugins};
use countersign_settings::config::Config;

/// How long to wait for a build that publishes to the same folder.
const PATIENCE: Duration = Duration::from_secs(300);

const EXAMPLES: &str = "\
Examples:
  countersign publish incoming            publish what was copied to incoming/
  countersign publish incoming --check    write nothing; exit 1 if it would change something
  countersign publish incoming --withdraw acme-forms/1.3.0
                                          take this release back, or give it another package
  countersign publish incoming /srv/other/releases

FROM has what `countersign build` wrote to releases/: index.json, and a folder for each plugin. Copy it to the \
server first, as with rsync. A file that is published already may be absent from it.

Every file is compared with the digest in the index before anything is replaced. A published release that FROM lacks \
goes only if its entry in the registry withholds it, or --withdraw names it.

Exit codes: 0 done, 1 --check found a difference, 2 usage, 3 FROM is refused, 4 the system failed.";

/// Publish releases that another machine built
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The folder with the releases to publish
    #[arg(value_name = "FROM", value_hint = ValueHint::DirPath)]
    pub from: PathBuf,
    /// The folder to publish to [default: the instance's releases/]
    #[arg(value_name = "TO", value_hint = ValueHint::DirPath)]
    pub to: Option<PathBuf>,
    /// Publish nothing; exit 1 if it would change something
    #[arg(long)]
    pub check: bool,
    /// Let this published release go or have another package; repeatable
    #[arg(long, value_name = "SLUG/VERSION", value_parser = release_name)]
    pub withdraw: Vec<(Slug, Version)>,
    /// Print the report as one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Publishes and reports.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let entries = plugins::load(&RegistryFiles::folder(&config.paths.registry))?;
    // A broken entry withholds nothing: what is published stays.
    let plugins: HashMap<Slug, Plugin> = entries
        .into_iter()
        .filter_map(|entry| entry.plugin.ok())
        .map(|plugin| (plugin.slug.clone(), plugin))
        .collect();
    let mut withdraw = ReleaseList::default();
    args.withdraw
        .iter()
        .for_each(|(slug, version)| withdraw.add(slug, version));
    let options = FolderOptions {
        from: args.from.clone(),
        to: args.to.clone().unwrap_or_else(|| config.paths.releases.clone()),
        check: args.check,
        withdraw,
        is_withheld: &|slug, version| plugins.get(slug).is_some_and(|plugin| plugin.withholds(version)),
        patience: PATIENCE,
    };
    let report = build::publish_folder(&options).map_err(failure)?;
    let text = match args.json {
        true => output::json(&report)?,
        false => summary(&report),
    };
    if args.check {
        output::print(&text)?;
    } else {
        output::print_change(&text)?;
    }
    Ok(match report.check && report.differs {
        true => Exit::Differs,
        false => Exit::Done,
    })
}

fn failure(error: FolderError) -> Failure {
    let hint = match &error {
        FolderError::TakesBack { lacking, changing, .. } => take_back_hint(lacking, changing),
        FolderError::NotWithdrawn { .. } => {
            "withhold the release in its plugin's entry, build, and publish what was built".to_owned()
        }
        FolderError::Unsound(_) => "let the copy end, or copy the folder again, and publish again".to_owned(),
        FolderError::Nested { .. } => "copy the releases to a folder of their own beside releases/".to_owned(),
        FolderError::Build(BuildError::Index(_)) => {
            "restore index.json from the backup, or delete it and publish everything again".to_owned()
        }
        FolderError::Build(BuildError::Busy { .. }) => "wait for it to end".to_owned(),
        FolderError::Build(BuildError::Overtaken { .. }) => "publish again".to_owned(),
        FolderError::Build(_) => return Failure::environment(error),
    };
    match error {
        FolderError::Build(BuildError::Busy { .. } | BuildError::Overtaken { .. }) => Failure::environment(error),
        _ => Failure::input(error),
    }
    .hint(hint)
}

fn take_back_hint(lacking: &[PublishedName], changing: &[PublishedName]) -> String {
    let missing = "build with the newest registry and all tags (git fetch --tags)";
    let other = "raise the version instead";
    let way = match (lacking.is_empty(), changing.is_empty()) {
        (false, true) => missing.to_owned(),
        (true, _) => other.to_owned(),
        (false, false) => format!("{missing}, and {other}"),
    };
    let example = lacking.iter().chain(changing).next();
    let flag = example.map_or(String::new(), |release| format!(" --withdraw {release}"));
    format!("{way}; or, if you mean it, name each release:{flag}")
}

fn summary(report: &FolderReport) -> String {
    let goes = if report.check { "would be " } else { "" };
    let lists = [
        ("added", &report.added),
        ("changed", &report.changed),
        ("removed", &report.removed),
        ("restored", &report.restored),
    ];
    let mut text = String::new();
    for (outcome, releases) in lists {
        for release in releases {
            text += &format!("{} {}  {goes}{outcome}\n", release.plugin, release.version);
        }
    }
    let counts = lists.map(|(outcome, releases)| format!("{} {outcome}", releases.len()));
    let published = report.added.len() + report.changed.len() + report.restored.len() + report.unchanged;
    text += &format!(
        "{}: {}, {} unchanged",
        counted(published, "release"),
        counts.join(", "),
        report.unchanged
    );
    text += match (report.check, report.differs) {
        (true, true) => "; nothing written, publishing would change it\n",
        (true, false) => "; nothing would change\n",
        (false, _) => "\n",
    };
    text
}
