//! Checks what shares its host with the customer's page.

use std::fs;
use std::path::{Path, PathBuf};

use crate::commands::doctor::finding::{Finding, ok, warning};
use countersign_files::regular_file;
use countersign_settings::config::Config;

/// The most files that are looked at, and the size limit of each in bytes.
const MOST_FILES: usize = 2_000;
const MAX_FILE: u64 = 1 << 20;

/// The customer's page, if there is one. SECURITY: a script on its host could act for a customer who is signed in.
pub(super) fn findings(config: &Config) -> Option<Finding> {
    let account = config.account.as_ref()?;
    if let Some(url) = &account.url {
        return Some(ok(
            "account",
            format!(
                "the customer's page is at {}/account, on a host of its own",
                url.origin()
            ),
        ));
    }
    Some(match with_script(&config.paths.public) {
        Some(file) => warning(
            "account",
            format!(
                "{} has a <script>, and the customer's page is on the same host",
                file.display()
            ),
            "give the page a host of its own: \"url\" in [account]",
        ),
        None => ok(
            "account",
            "no file of the public folder that was looked at has a <script> beside the customer's page",
        ),
    })
}

/// A page in this folder that has a script.
fn with_script(folder: &Path) -> Option<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<_> = fs::read_dir(&folder)
            .ok()?
            .flatten()
            .map(|entry| entry.path())
            .collect();
        entries.sort();
        for path in entries {
            seen += 1;
            if seen > MOST_FILES {
                return None;
            }
            let is_page = path.extension().is_some_and(|extension| {
                ["html", "htm", "xhtml", "svg"]
                    .iter()
                    .any(|known| extension.eq_ignore_ascii_case(known))
            });
            if path.is_dir() {
                folders.push(path);
            } else if is_page && has_script(&path) {
                return Some(path);
            }
        }
    }
    None
}

fn has_script(path: &Path) -> bool {
    let read = regular_file::read(path, MAX_FILE).unwrap_or_default();
    read.windows(b"<script".len())
        .any(|part| part.eq_ignore_ascii_case(b"<script"))
}
