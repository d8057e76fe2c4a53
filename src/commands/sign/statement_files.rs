//! `signatures/<slug>/` as `countersign sign` writes it: the statement once, and signatures that are added to it.
//!
//! Both files are whole at every moment. Other commands wait while one adds its signature, and a conflict that git left is
//! resolved by what is good in both sides.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::commands::Failure;
use countersign_files::durable_file::{self, Access};
use countersign_files::folder_lock;
use countersign_files::regular_file;
use countersign_model::slug::Slug;
use countersign_model::text::printable::Printable;
use countersign_model::version::Version;
use countersign_package::release::signatures::{MAX_FILE, Signatures, SignaturesError};
use countersign_package::release::sshsig::Sshsig;
use countersign_package::release::statement::MAX_STATEMENT;
use countersign_registry::release_chain::{SignedRelease, signatures_path, statement_path};

/// How long other commands that sign are waited for.
const OTHERS: Duration = Duration::from_secs(60);

/// The files of one release.
#[derive(Debug)]
pub(super) struct StatementFiles {
    folder: PathBuf,
    statement: PathBuf,
    signatures: PathBuf,
}

/// Why a signature is not in its file.
#[derive(Debug, thiserror::Error)]
pub(super) enum FilesError {
    #[error("{}: cannot be written", Printable(path.display()))]
    Write { path: PathBuf, source: io::Error },
    #[error("{}: changed meanwhile", Printable(path.display()))]
    Changed { path: PathBuf },
    #[error("{}: cannot take another signature", Printable(path.display()))]
    Full { path: PathBuf, source: SignaturesError },
}

impl StatementFiles {
    /// The files of a release in the registry.
    pub(super) fn of(registry: &Path, slug: &Slug, version: &Version) -> Self {
        let statement = statement_path(registry, slug, version);
        Self {
            folder: statement.parent().unwrap_or(registry).to_owned(),
            signatures: signatures_path(registry, slug, version),
            statement,
        }
    }

    /// The statement's file.
    pub(super) fn statement(&self) -> &Path {
        &self.statement
    }

    /// The file of its signatures.
    pub(super) fn signatures(&self) -> &Path {
        &self.signatures
    }

    /// The good signatures of a statement that are there already.
    pub(super) fn good(&self, statement: &[u8]) -> Signatures {
        let text = regular_file::read_to_string(&self.signatures, MAX_FILE).unwrap_or_default();
        Signatures::salvage(&text, statement)
    }

    /// Writes the statement where it is new, and adds the signature; gives all good ones. What stood there of a statement that
    /// is `replaced` gets names of its own.
    pub(super) fn add(
        &self,
        statement: &[u8],
        signature: Sshsig,
        replaced: Option<&SignedRelease>,
        seen: Option<&[u8]>,
    ) -> Result<Signatures, FilesError> {
        let write = |path: &Path, source| FilesError::Write {
            path: path.to_owned(),
            source,
        };
        let made = durable_file::create_folders(&self.folder, Access::LikeFolder);
        made.map_err(|source| write(&self.folder, source))?;
        let _lock = folder_lock::hold(&self.folder, OTHERS).map_err(|source| write(&self.folder, source))?;
        let now = match regular_file::read(&self.statement, MAX_STATEMENT) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some(read.map_err(|source| write(&self.statement, source))?),
        };
        if now.as_deref() != Some(statement) && now.as_deref() != seen {
            return Err(FilesError::Changed {
                path: self.statement.clone(),
            });
        }
        if let Some(replaced) = replaced {
            self.put_aside(replaced)?;
        }
        let mut signatures = self.good(statement);
        signatures.add(signature).map_err(|source| FilesError::Full {
            path: self.signatures.clone(),
            source,
        })?;
        if now.as_deref() != Some(statement) || replaced.is_some() {
            // The old signatures are none of the new statement.
            durable_file::replace(&self.statement, statement).map_err(|source| write(&self.statement, source))?;
        }
        let text = signatures.to_text();
        durable_file::replace(&self.signatures, text.as_bytes()).map_err(|source| write(&self.signatures, source))?;
        Ok(signatures)
    }

    /// Gives the files of a statement names with its number.
    fn put_aside(&self, replaced: &SignedRelease) -> Result<(), FilesError> {
        let number = replaced.statement.number;
        for path in [&self.statement, &self.signatures] {
            let stem = path.file_stem().unwrap_or_default().display().to_string();
            let end = path.extension().unwrap_or_default().display().to_string();
            let aside = path.with_file_name(format!("{stem}_{number}.{end}"));
            match fs::rename(path, &aside) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                renamed => renamed.map_err(|source| FilesError::Write { path: aside, source })?,
            }
        }
        Ok(())
    }
}

impl From<FilesError> for Failure {
    fn from(error: FilesError) -> Self {
        match error {
            FilesError::Changed { .. } => Self::environment(error).hint("run the command again"),
            FilesError::Write { .. } => Self::environment(error),
            FilesError::Full { .. } => Self::input(error),
        }
    }
}
