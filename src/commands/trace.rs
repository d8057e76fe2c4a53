//! `countersign trace`: to whom a copy of a package was given, by its build id.
//!
//! [`copy_origin`](crate::commands::copy_origin) reads the id; this finds ids in archives and folders, and tells.

use std::path::{Path, PathBuf};

use serde::Serialize;
use uuid::Uuid;

use crate::commands::copy_origin::{CopyOrigin, KnownCopies, TracedId, TracedLicense};
use crate::commands::output::path_text;
use crate::commands::{Exit, Failure, output, stored_sites};
use countersign_ledger::SiteReports;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::text::printable::Printable;
use countersign_model::text::stderr;
use countersign_package::archive::{Archive, ArchiveError};
use countersign_package::mark::search::{self, FoundId};
use countersign_settings::config::Config;

/// Show to whom a copy of a package was given
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  countersign trace 3f2b8c1d-5e6f-8a7b-9c0d-1e2f3a4b5c6d
  countersign trace leaked.zip
  countersign trace /var/www/site/wp-content/plugins --json

A copy is marked by the file build-id.php. Ids of retired keys are read, too. Where a build id fits \
several sites or releases, all are shown. A copy without that file cannot be traced.")]
pub struct Args {
    /// A build id, an archive, or a folder where one was unpacked
    #[arg(value_name = "UUID|FILE|FOLDER")]
    copy: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Nothing to trace.
#[derive(Debug, thiserror::Error)]
#[error("{}: there is no build id in it", .0.display())]
struct NoBuildId(PathBuf);

/// A build id, where it was found, and what is known of it.
#[derive(Debug, Serialize)]
struct TracedCopy {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// The plugin's folder that it was found in, where that is another plugin's than the id says.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_to: Option<String>,
    #[serde(flatten)]
    traced: TracedId,
    /// The sites that report it; absent where the running server does not tell, or the index cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    reported_by: Option<Vec<ReportingSite>>,
}

/// A site that says it runs a copy.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ReportingSite {
    pub license: LicenseId,
    pub host: SiteHost,
}

/// Traces what was named.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let found = find(&args.copy)?;
    let known = KnownCopies::load(config)?;
    let reports = stored_sites::reports(config)?;
    if let Err(error) = &reports {
        stderr::line(format_args!(
            "note: which sites report a copy is not shown: {}",
            Printable(error.line())
        ));
    }
    let traced: Vec<TracedCopy> = found
        .into_iter()
        .map(|found| traced(&known, found, reports.as_ref().ok()))
        .collect();
    if args.json {
        return output::print(&output::json(&traced)?);
    }
    let texts: Vec<String> = traced.iter().map(text).collect();
    output::print(&texts.join("\n"))
}

/// The ids in what was named.
fn find(copy: &str) -> Result<Vec<FoundId>, Failure> {
    let path = Path::new(copy);
    if let (Ok(id), false) = (Uuid::try_parse(copy), path.exists()) {
        let file = PathBuf::new();
        return Ok(vec![FoundId { file, id }]);
    }
    let found = if path.is_dir() {
        search::in_folder(path).map_err(Failure::environment)?
    } else {
        let strict = |error: ArchiveError| {
            let hint = match error.reason() {
                Some(_) => "unpack it, and trace the folder",
                None => "give a build id, or an archive or folder that can be read",
            };
            Failure::input(ArchiveNotRead {
                path: path.to_owned(),
                source: error,
            })
            .hint(hint)
        };
        let archive = Archive::open(path).map_err(strict)?;
        search::in_archive(&archive).map_err(strict)?
    };
    if found.is_empty() {
        return Err(Failure::input(NoBuildId(path.to_owned())).hint("whoever removed build-id.php cannot be traced"));
    }
    Ok(found)
}

/// An archive that somebody packed again may be one that the strict reader refuses.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot be read as an archive", path.display())]
struct ArchiveNotRead {
    path: PathBuf,
    source: ArchiveError,
}

fn traced(known: &KnownCopies, found: FoundId, reports: Option<&SiteReports>) -> TracedCopy {
    let traced = known.trace(found.id);
    let folder = found
        .file
        .parent()
        .and_then(Path::file_name)
        .unwrap_or_default()
        .to_string_lossy();
    let is_own = traced.releases.iter().any(|release| {
        let settings = known
            .licenses
            .registry()
            .plugin(release.plugin.as_str())
            .and_then(|plugin| plugin.package.as_ref());
        let name = settings.map_or(release.plugin.as_str(), |settings| settings.folder.as_str());
        name == folder
    });
    let is_moved = !is_own && !folder.is_empty() && !traced.releases.is_empty();
    let reporting = |reports: &SiteReports| {
        let sites = reports
            .iter()
            .filter(|(_, _, report)| report.build_id == Some(found.id));
        sites
            .map(|(license, host, _)| ReportingSite {
                license: *license,
                host: host.clone(),
            })
            .collect()
    };
    TracedCopy {
        moved_to: is_moved.then(|| folder.into_owned()),
        file: (!found.file.as_os_str().is_empty()).then(|| path_text(&found.file)),
        traced,
        reported_by: reports.map(reporting),
    }
}

fn text(copy: &TracedCopy) -> String {
    let TracedCopy {
        file,
        moved_to,
        traced,
        reported_by,
    } = copy;
    let mut lines = vec![format!("build id   {}", traced.build_id)];
    lines.extend(file.iter().map(|file| format!("file       {}", Printable(file))));
    lines.push(match traced.origin {
        CopyOrigin::Given => "origin     given out by this instance".to_owned(),
        CopyOrigin::Unmarked => "origin     a package as it is kept: given to nobody".to_owned(),
        CopyOrigin::Forged => format!("origin     FORGED: {}", traced.doubts.join(", ")),
        CopyOrigin::Unknown => "origin     unknown: no key here made it, nor one in keys/retired".to_owned(),
    });
    lines.extend(traced.day.map(|day| format!("day        {day}")));
    for release in &traced.releases {
        lines.push(format!("release    {} {}", release.plugin, release.version));
    }
    lines.extend(moved_to.iter().map(|folder| {
        format!(
            "MOVED      it was found in {}, and belongs to another plugin",
            Printable(folder)
        )
    }));
    if traced.first_copy {
        lines.push("site       first copy (or a host whose tag is the same: 1 in a million)".to_owned());
    }
    lines.extend(
        traced
            .licenses
            .iter()
            .flat_map(|license| license_lines(license, traced.first_copy)),
    );
    for site in reported_by.iter().flatten() {
        lines.push(format!(
            "reported   by {} of license {}",
            site.host,
            site.license.log_tag()
        ));
    }
    lines.join("\n") + "\n"
}

fn license_lines(license: &TracedLicense, is_first_copy: bool) -> Vec<String> {
    let mut lines = vec![format!("license    {}", license.id)];
    if !license.note.is_empty() {
        lines.push(format!("note       {}", Printable(&license.note)));
    }
    if license.hosts.is_empty() && !is_first_copy {
        lines.push("site       none of its sites fits: it was bound before the ledger at hand".to_owned());
    }
    lines.extend(license.hosts.iter().map(|host| format!("site       {host}")));
    lines.extend(
        license
            .replaced_by
            .iter()
            .map(|id| format!("replaced   by license {id}")),
    );
    lines
}
