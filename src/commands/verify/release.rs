//! `countersign verify --release`: whether a package, marked or not, is the one that enough people signed. Offline, for
//! a person with a copy.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::commands::{Exit, Failure, output};
use countersign_files::regular_file;
use countersign_model::release_key::{NotAReleaseKey, ReleaseKey};
use countersign_model::text::printable::Printable;
use countersign_package::MAX_PACKED;
use countersign_package::archive::{Archive, ArchiveError};
use countersign_package::release::contents;
use countersign_package::release::copy::{self, CopyMismatch};
use countersign_package::release::signatures::{MAX_FILE, Signatures, SignaturesError};
use countersign_package::release::statement::{MAX_STATEMENT, ReleaseStatement, StatementError};

/// The largest file of keys that is read, in bytes.
const MAX_SIGNERS: u64 = 64 << 10;

/// Whose package to verify, and whom to trust.
#[derive(clap::Args, Debug)]
pub(super) struct ReleaseArgs {
    /// Verify this package of a signed release instead, marked or not
    #[arg(long, value_name = "ZIP", conflicts_with_all = ["file", "key", "at"], requires_all = ["signatures", "signers"])]
    pub(super) release: Option<PathBuf>,
    /// The signatures of the release
    #[arg(long, value_name = "SIG", requires = "release")]
    signatures: Option<PathBuf>,
    /// The statement of the release [default: beside the signatures, with .json]
    #[arg(long, value_name = "JSON", requires = "release")]
    statement: Option<PathBuf>,
    /// The keys that you trust, one `ssh-ed25519 AAAA… comment` a line
    #[arg(long, value_name = "FILE", requires = "release")]
    signers: Option<PathBuf>,
    /// How many of them must have signed
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=16))]
    threshold: u8,
}

/// Why a package is not to be trusted.
#[derive(Debug, thiserror::Error)]
enum ReleaseVerifyError {
    #[error("{}: cannot be read", Printable(path.display()))]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: line {line} is no key", Printable(path.display()))]
    Signer {
        path: PathBuf,
        line: usize,
        source: NotAReleaseKey,
    },
    #[error("{}: not a release statement", Printable(path.display()))]
    Statement { path: PathBuf, source: StatementError },
    #[error("{}: not a file of signatures", Printable(path.display()))]
    Signatures { path: PathBuf, source: SignaturesError },
    #[error("{}: {good} of {needed} signatures are good", Printable(path.display()))]
    TooFew { path: PathBuf, good: usize, needed: usize },
    #[error("{}: not the package that was signed", Printable(path.display()))]
    Package { path: PathBuf, source: CopyMismatch },
    #[error("{}: not taken as a package", Printable(path.display()))]
    Archive { path: PathBuf, source: ArchiveError },
    #[error("{}: its files are not those that were signed", Printable(path.display()))]
    Contents { path: PathBuf },
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    package: String,
    build_id: Option<uuid::Uuid>,
    signed_by: Vec<&'a str>,
    statement: &'a ReleaseStatement,
}

/// Verifies signatures, statement and package, and says what was signed by whom.
pub(super) fn run(package: &Path, args: &ReleaseArgs, json: bool) -> Result<Exit, Failure> {
    let (Some(signatures), Some(signers)) = (&args.signatures, &args.signers) else {
        return Err(Failure::usage("--release needs --signatures and --signers"));
    };
    let signers = keys(signers)?;
    let beside = signatures.with_extension("json");
    let path = args.statement.as_ref().unwrap_or(&beside);
    let bytes = regular_file::read(path, MAX_STATEMENT).map_err(|source| unreadable(path, source))?;
    let good = good_signatures(signatures, args.threshold.into(), &bytes, &signers)?;
    let statement = ReleaseStatement::read(&bytes).map_err(|source| ReleaseVerifyError::Statement {
        path: path.to_owned(),
        source,
    })?;
    let build_id = build_id(package, &statement)?;
    let document = Document {
        package: output::path_text(package),
        build_id,
        signed_by: good.iter().map(|key| key.comment()).collect(),
        statement: &statement,
    };
    output::print(&if json {
        output::json(&document)?
    } else {
        text(&document)
    })
}

/// The keys of a file with a key a line, as `.pub` files have them. Empty lines and comments do not count.
fn keys(path: &Path) -> Result<Vec<ReleaseKey>, ReleaseVerifyError> {
    let text = regular_file::read_to_string(path, MAX_SIGNERS).map_err(|source| unreadable(path, source))?;
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(line, text)| {
            text.parse().map_err(|source| ReleaseVerifyError::Signer {
                path: path.to_owned(),
                line,
                source,
            })
        })
        .collect()
}

/// Those of `signers` that signed the statement, if they are enough.
fn good_signatures<'a>(
    path: &Path,
    needed: usize,
    statement: &[u8],
    signers: &'a [ReleaseKey],
) -> Result<Vec<&'a ReleaseKey>, ReleaseVerifyError> {
    let text = regular_file::read_to_string(path, MAX_FILE).map_err(|source| unreadable(path, source))?;
    let signatures = Signatures::read_unsorted(&text).map_err(|source| ReleaseVerifyError::Signatures {
        path: path.to_owned(),
        source,
    })?;
    let good = signatures.signers(statement, signers);
    match good.len() >= needed {
        true => Ok(good),
        false => Err(ReleaseVerifyError::TooFew {
            path: path.to_owned(),
            good: good.len(),
            needed,
        }),
    }
}

/// The build id in a package that is the signed one; `None` in nobody's copy.
fn build_id(path: &Path, statement: &ReleaseStatement) -> Result<Option<uuid::Uuid>, ReleaseVerifyError> {
    let file = regular_file::open(path, MAX_PACKED).map_err(|source| unreadable(path, source))?;
    let build_id = copy::check(&file, &statement.package).map_err(|source| ReleaseVerifyError::Package {
        path: path.to_owned(),
        source,
    })?;
    let refused = |source| ReleaseVerifyError::Archive {
        path: path.to_owned(),
        source,
    };
    let archive = Archive::check(&file).map_err(refused)?;
    let contents = contents::digest(&archive, statement.package.mark.is_some()).map_err(refused)?;
    match contents == statement.contents {
        true => Ok(build_id),
        false => Err(ReleaseVerifyError::Contents { path: path.to_owned() }),
    }
}

fn unreadable(path: &Path, source: io::Error) -> ReleaseVerifyError {
    ReleaseVerifyError::Read {
        path: path.to_owned(),
        source,
    }
}

fn text(document: &Document) -> String {
    let Document {
        package,
        build_id,
        signed_by,
        statement,
    } = document;
    let build_id = match build_id {
        None => "none: nobody's copy".to_owned(),
        Some(id) => id.to_string(),
    };
    format!(
        "release    {} {}, number {}\ntag        {}, commit {}\nsigned by  {}\nbuild id   {build_id}\n{} is the package that was signed.\n",
        statement.slug,
        statement.version,
        statement.number,
        Printable(&statement.tag),
        statement.commit,
        Printable(signed_by.join(", ")),
        Printable(package),
    )
}

impl From<ReleaseVerifyError> for Failure {
    fn from(error: ReleaseVerifyError) -> Self {
        Self::input(error)
    }
}
