//! `license import --from registry`: the ledger takes licenses that files declare, as they are in force.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::build::counted;
use crate::commands::license::order;
use crate::commands::license::selector::{LicenseArg, SelectedLicense};
use crate::commands::store::licenses;
use crate::commands::{Exit, Failure, output};
use crate::serve::ops::license_answers::{AdoptedLicense, AdoptionOrder, AdoptionReply, MAX_ADOPTED};
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::text::printable::Printable;
use countersign_model::text::stderr;
use countersign_registry::Registry;
use countersign_settings::config::Config;

/// What became of the licenses.
#[derive(Default, Serialize)]
struct AdoptionReport {
    /// Whether anything was written.
    changed: bool,
    dry_run: bool,
    adopted: usize,
    /// Licenses that the ledger has already.
    unchanged: usize,
    refused: Vec<RefusedAdoption>,
}

#[derive(Serialize)]
struct RefusedAdoption {
    license: LicenseId,
    reason: String,
}

/// Adopts the licenses of these files and these ids.
pub(super) fn run(given: &[PathBuf], dry_run: bool, json: bool, config: &Config) -> Result<Exit, Failure> {
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let issued = licenses(config)?;
    let mut wanted: Vec<AdoptedLicense> = Vec::new();
    let mut report = AdoptionReport {
        dry_run,
        ..AdoptionReport::default()
    };
    for given in given {
        let declared = match of_file(given, &registry)? {
            Some(licenses) => licenses,
            None => match LicenseArg::from(&*given.to_string_lossy()).select(&issued, &registry)? {
                SelectedLicense::Declared(license) => vec![license],
                SelectedLicense::Ledger(_) => {
                    report.unchanged += 1;
                    continue;
                }
            },
        };
        wanted.extend(declared.into_iter().map(|license| AdoptedLicense {
            license: license.id,
            grant: license.grant_digest(),
            note: Some(license.details.note.clone()),
        }));
    }
    // What the ledger has stays as it is there, whatever it was adopted with.
    let all = wanted.len();
    let is_known = |id: &LicenseId| issued.binary_search_by_key(id, |issued| issued.license.id).is_ok();
    wanted.retain(|wanted| !is_known(&wanted.license));
    report.unchanged += all - wanted.len();
    for order in wanted.chunks(MAX_ADOPTED) {
        let replies = match dry_run {
            true => vec![AdoptionReply::Adopted; order.len()],
            false => order::adopt(
                config,
                &registry,
                &AdoptionOrder {
                    licenses: order.to_vec(),
                },
            )?,
        };
        for (wanted, reply) in order.iter().zip(replies) {
            match reply {
                AdoptionReply::Adopted => report.adopted += 1,
                AdoptionReply::Repeated => report.unchanged += 1,
                AdoptionReply::Refused(reason) => report.refused.push(RefusedAdoption {
                    license: wanted.license,
                    reason,
                }),
            }
        }
    }
    report.changed = report.adopted > 0 && !dry_run;
    let text = match json {
        true => output::json(&report)?,
        false => report.text(),
    };
    match report.changed {
        true => output::print_change(&text)?,
        false => output::print(&text)?,
    };
    Ok(match report.refused.is_empty() {
        true => Exit::Done,
        false => Exit::Input,
    })
}

impl AdoptionReport {
    fn text(&self) -> String {
        for RefusedAdoption { license, reason } in &self.refused {
            stderr::line(format_args!("license {}: {}", license.log_tag(), Printable(reason)));
        }
        let would = if self.dry_run { "would be " } else { "" };
        let adopted = counted(self.adopted, "license");
        let mut text = format!(
            "{adopted} {would}taken into the ledger, {} there already",
            self.unchanged
        );
        if !self.refused.is_empty() {
            text += &format!(", {} refused", self.refused.len());
        }
        text += ".\n";
        if self.changed {
            text += "The files may keep their declarations, which do not count any more.\n";
        }
        text
    }
}

/// The licenses that a file declares; `None` if it is no file of the registry's licenses.
fn of_file<'r>(path: &Path, registry: &'r Registry) -> Result<Option<Vec<&'r License>>, Failure> {
    let Ok(path) = path.canonicalize() else {
        return Ok(None);
    };
    let is_there = |license: &&License| {
        let place = registry.place(&license.id);
        place.is_some_and(|(file, _)| file.canonicalize().is_ok_and(|file| file == path))
    };
    let licenses: Vec<_> = registry.licenses_in_order().filter(is_there).collect();
    match licenses.is_empty() {
        false => Ok(Some(licenses)),
        true => Err(Failure::input(format!(
            "{} declares no license of this registry",
            Printable(path.display())
        ))
        .hint("name a file of registry/licenses/, or the ids of licenses")),
    }
}
