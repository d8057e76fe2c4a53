//! What `countersign sign` shows before it asks for the key, and what it says when it is done: as text, or as one document.

use serde::Serialize;
use serde_json::Value;

use crate::commands::sign::changes::SignedChanges;
use crate::commands::sign::statement_files::StatementFiles;
use countersign_model::text::printable::Printable;
use countersign_package::release::statement::ReleaseStatement;

/// What was shown and done.
#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    pub(super) statement: &'a ReleaseStatement,
    pub(super) file: String,
    pub(super) is_new: bool,
    pub(super) changes: SignedChanges,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) diff: Option<String>,
    /// Sites that would not take the release with this signature.
    pub(super) left_behind: Vec<Value>,
    /// Keys of the entry that are nowhere in the package.
    pub(super) absent_keys: Vec<String>,
    #[serde(skip)]
    pub(super) warnings: String,
    /// The comment or the line of each key that signed.
    pub(super) signed_by: Vec<String>,
    pub(super) threshold: usize,
    pub(super) dry_run: bool,
}

/// What the signer looks at before the key is asked for.
pub(super) fn shown(document: &Document) -> String {
    let ReleaseStatement {
        slug,
        version,
        number,
        tag,
        commit,
        contents,
        package,
        ..
    } = document.statement;
    let is_new = if document.is_new { ", a new statement" } else { "" };
    format!(
        "release    {slug} {version}, number {number}{is_new}\ntag        {}, commit {commit}\npackage    {} bytes, sha256 {}\ncontents   {contents}\n{}{}{}",
        Printable(tag),
        package.size,
        package.sha256,
        document.changes.text(),
        document.diff.as_deref().unwrap_or_default(),
        document.warnings,
    )
}

/// What was done, and what is missing.
pub(super) fn done(document: &Document, place: &StatementFiles) -> String {
    let Document {
        signed_by,
        threshold,
        dry_run,
        ..
    } = document;
    let names = match &signed_by[..] {
        [] => "nobody".to_owned(),
        names => Printable(names.join(", ")).to_string(),
    };
    let count = signed_by.len();
    let state = format!("signed by  {names}: {count} of {threshold} signatures\n");
    match dry_run {
        true => format!("{state}nothing was written: --dry-run\n"),
        false => format!(
            "{state}{}: commit it with the statement beside it\n",
            Printable(place.signatures().display())
        ),
    }
}
