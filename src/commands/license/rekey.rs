//! `license rekey`: a new key for a license whose key was lost or leaked.
//!
//! The new license has the same grant, names the old one in `replaces`, and has no site yet. The old one is revoked,
//! with a note.

use std::path::{Path, PathBuf};

use chrono::NaiveDate;
use serde::Serialize;

use crate::commands::output::path_text;
use crate::commands::{Exit, Failure, output};
use countersign_model::license::{Details, License, LicenseDetails, LicenseStatus};
use countersign_model::license_change::LicenseChange;
use countersign_model::license_key::LicenseKey;
use countersign_model::text::printable::Printable;
use countersign_model::text::stderr;
use countersign_registry::edit::Editor;
use countersign_settings::config::Config;

use crate::commands::license::change::refuse_revoked;
use crate::commands::license::change_options::{ChangeOptions, note_other_nodes};
use crate::commands::license::issue::{new_key, show_key};
use crate::commands::license::selector::LicenseArg;

/// Arguments of `rekey`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) license: LicenseArg,
    #[command(flatten)]
    pub(super) told: ChangeOptions,
}

#[derive(Serialize)]
struct Rekeyed<'a> {
    license_key: &'a str,
    id: String,
    replaces: String,
    file: String,
}

/// Both licenses before they are written, and the new key.
struct Replacement {
    editor: Editor,
    key: LicenseKey,
    old: License,
    /// The changes of the old one.
    changes: [LicenseChange; 2],
    new: License,
    /// The file that both are in.
    file: PathBuf,
}

/// Writes both licenses, then prints the key.
pub(super) fn run(args: &Args, config: &Config, today: NaiveDate) -> Result<Exit, Failure> {
    let draft = draft(args, &config.paths.registry, today)?;
    let id = draft.key.id();
    let text = if args.told.json {
        let replaces = draft.old.id.to_string();
        let file = path_text(&draft.file);
        output::json(&Rekeyed {
            license_key: draft.key.reveal(),
            id: id.to_string(),
            replaces,
            file,
        })?
    } else {
        format!("{}\n", draft.key.reveal())
    };
    output::refuse_unseen()?;
    let (_key, old, file) = draft.write()?;
    // Nothing may fail between the two: the key is nowhere else.
    let shown = show_key(&text, &id.log_tag());
    if shown.is_ok() && !args.told.json {
        stderr::line(format_args!(
            "License {} replaces {}, which is now revoked; both are in {}. Its sites bind again with the new key. Save the key: it is shown only once and not stored.",
            id.log_tag(),
            old.id.log_tag(),
            Printable(file.display())
        ));
    }
    note_other_nodes(config);
    let waited = args.told.wait(config);
    shown.and(waited)?;
    Ok(Exit::Done)
}

impl Replacement {
    /// Writes both; returns the key, the old license before the change, and the file.
    fn write(self) -> Result<(LicenseKey, License, PathBuf), Failure> {
        let Self {
            editor,
            key,
            old,
            changes,
            new,
            file,
        } = self;
        editor.replace(&old, &changes, &new).map_err(Failure::from)?;
        Ok((key, old, file))
    }
}

fn draft(args: &Args, registry: &Path, today: NaiveDate) -> Result<Replacement, Failure> {
    let key = new_key()?;
    let editor = Editor::open(registry)?;
    let old = args.license.find(editor.registry())?.clone();
    refuse_revoked(&old)?;
    let file = editor
        .registry()
        .place(&old.id)
        .map_or(PathBuf::new(), |(file, _)| file.to_owned());
    let note = &old.details.note;
    let new = License {
        id: key.id(),
        details: Details::from(LicenseDetails {
            note: note.clone(),
            replaces: Some(old.id),
            staging_sites: old.details.staging_sites,
            site_moves: old.details.site_moves,
            ..LicenseDetails::default()
        }),
        ..old.clone()
    };
    let ended = format!("replaced by license {} on {today}", key.id().log_tag());
    let ended = if note.is_empty() {
        ended
    } else {
        format!("{note}; {ended}")
    };
    let changes = [
        LicenseChange::Status(LicenseStatus::Revoked),
        LicenseChange::Note(ended),
    ];
    Ok(Replacement {
        editor,
        key,
        old,
        changes,
        new,
        file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::license::testing::{Instance, parse, today};

    fn rekey(args: &Args, registry: &Path, today: NaiveDate) -> Result<(LicenseKey, License, PathBuf), Failure> {
        draft(args, registry, today).and_then(Replacement::write)
    }

    #[test]
    fn a_new_key_has_what_the_old_one_had_and_the_old_one_ends() {
        let instance = Instance::new();
        let line = Instance::key(1).reveal().to_owned();
        let (key, before, file) = rekey(&parse(&line), instance.path(), today()).unwrap();
        assert!(file.ends_with("licenses/licenses.toml") && !instance.text().contains(key.reveal()));
        let registry = instance.registry();
        let old = registry.license(&before.id).unwrap();
        let new = registry.license(&key.id()).unwrap();
        let ended = format!("first; replaced by license {} on 2026-11-20", key.id().log_tag());
        assert_eq!(
            (old.status, old.details.note.as_str()),
            (LicenseStatus::Revoked, ended.as_str())
        );
        assert_eq!(
            (new.status, new.expires, &new.modules, new.sites),
            (before.status, before.expires, &before.modules, before.sites)
        );
        assert_eq!(
            (new.details.replaces, new.details.note.as_str()),
            (Some(before.id), "first")
        );
        assert!(new.details.released.is_empty() && new.details.hosts.is_empty());
        let again = rekey(&parse(&line), instance.path(), today()).unwrap_err();
        assert!(again.error.to_string().ends_with("is revoked, which cannot be undone"));
    }

    #[test]
    fn a_suspended_license_stays_suspended_under_its_new_key() {
        let instance = Instance::new();
        let (key, ..) = rekey(&parse(&Instance::key(2).id().to_string()), instance.path(), today()).unwrap();
        let registry = instance.registry();
        let new = registry.license(&key.id()).unwrap();
        assert_eq!(
            (new.status, new.details.released.is_empty()),
            (LicenseStatus::Suspended, true)
        );
    }
}
