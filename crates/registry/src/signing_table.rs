//! Table `[signing]` of a plugin entry: whose signatures its releases need, and how many of them.

use crate::reader::DocumentReader;
use crate::spanned::SpannedTable;
use countersign_model::plugin::SigningSettings;
use countersign_model::release_key::ReleaseKey;
use countersign_package::release::statement::MAX_KEYS;

/// What the table says; `None` where the entry has none. Only worth something where the reader has no diagnostics afterwards.
pub(super) fn signing(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> Option<SigningSettings> {
    let field = table.fields.get("signing")?;
    if table.fields.contains_key("download_url") {
        let diagnostic =
            "\"signing\" and \"download_url\" exclude each other: only packages that are hosted here are signed";
        reader.complain(field.at, diagnostic);
    }
    let inner = reader.table(table, "signing")?;
    reader.only(inner, &["keys", "threshold", "leave_behind"]);
    reader.require(inner, "keys");
    let keys = keys(reader, inner)?;
    let most = u32::try_from(MAX_KEYS).unwrap_or(u32::MAX);
    let threshold = reader.integer(inner, "threshold", 1..=most).unwrap_or(1) as usize;
    if let Some(field) = inner.fields.get("threshold").filter(|_| threshold > keys.len()) {
        let count = keys.len();
        let diagnostic = format!("\"threshold\" cannot be met: it asks for {threshold} different keys of {count}");
        reader.complain(field.node.at, diagnostic);
    }
    Some(SigningSettings {
        keys,
        threshold,
        leave_behind: leave_behind(reader, inner),
    })
}

/// Versions whose sites may be left behind.
fn leave_behind(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> Option<semver::VersionReq> {
    let (at, text) = reader.string(table, "leave_behind")?;
    let parsed = text.parse().map_err(|error| {
        reader.complain(
            at,
            format!("\"leave_behind\" is not a version requirement such as \"<1.5\": {error}"),
        );
    });
    parsed.ok()
}

/// The keys, each of them once. Those that cannot be read count, so that one mistake is not reported as two.
fn keys(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> Option<Vec<ReleaseKey>> {
    let at = table.fields.get("keys")?.node.at;
    let lines = reader.strings(table, "keys")?;
    if !(1..=MAX_KEYS).contains(&lines.len()) {
        reader.complain(at, format!("\"keys\" must have 1 to {MAX_KEYS} keys"));
    }
    let mut keys: Vec<ReleaseKey> = Vec::new();
    let mut is_whole = true;
    for (at, line) in lines {
        let Some(key) = reader.parse::<ReleaseKey>(at, "keys", line) else {
            is_whole = false;
            continue;
        };
        if keys.iter().any(|other| other.point() == key.point()) {
            reader.complain(
                at,
                "\"keys\" has this key twice: forms and comments do not make two keys of one",
            );
        }
        keys.push(key);
    }
    is_whole.then_some(keys)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const ANNA: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea";
    const BERT: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID1AF8PoQ4lakrcKp00bfrycmCzPLsSWjMDNVfEq9GYM";

    /// The settings, and what is complained about with its place.
    fn read(text: &str) -> (Option<SigningSettings>, Vec<String>) {
        let (mut reader, table) = DocumentReader::toml(Path::new("acme.toml"), text);
        let settings = signing(&mut reader, &table.unwrap());
        (settings, reader.diagnostics().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn keys_and_their_number_are_read() {
        assert_eq!(read("name = 'Acme'\n"), (None, vec![]));
        let (settings, diagnostics) = read(&format!(
            "[signing]\nkeys = ['{ANNA} anna@acme', '{BERT}']\nthreshold = 2\n"
        ));
        let settings = settings.unwrap();
        assert_eq!(diagnostics, [""; 0]);
        assert_eq!((settings.threshold, settings.keys.len()), (2, 2));
        assert_eq!(settings.keys[0].comment(), "anna@acme");
        let (settings, _) = read(&format!("[signing]\nkeys = ['{ANNA}']\n"));
        assert_eq!(settings.unwrap().threshold, 1);
    }

    #[test]
    fn versions_that_may_be_left_behind_are_a_requirement() {
        let text = |requirement: &str| format!("[signing]\nkeys = ['{ANNA}']\nleave_behind = '{requirement}'\n");
        let (settings, diagnostics) = read(&text("<1.5"));
        assert_eq!(
            (settings.unwrap().leave_behind.unwrap().to_string(), diagnostics),
            ("<1.5".into(), vec![])
        );
        let (_, diagnostics) = read(&text("old"));
        assert!(
            diagnostics[0].starts_with("acme.toml:3:16: \"leave_behind\" is not a version requirement"),
            "{diagnostics:?}"
        );
    }

    #[test]
    fn mistakes_are_reported_with_their_places() {
        let diagnostics = |text: &str| read(text).1;
        assert_eq!(diagnostics("[signing]\n"), ["acme.toml:1:1: missing field \"keys\""]);
        assert_eq!(
            diagnostics("[signing]\nkeys = []\n")[0],
            "acme.toml:2:8: \"keys\" must have 1 to 16 keys"
        );
        assert_eq!(
            diagnostics(&format!(
                "[signing]\nkeys = ['{ANNA}', 'ssh-rsa AAAA']\nkey = 1\nthreshold = 0\n"
            )),
            [
                "acme.toml:2:93: \"keys\" is not a release key: expected \"ssh-ed25519 AAAA…\" or \"sk-ssh-ed25519@openssh.com AAAA…\"",
                "acme.toml:3:1: unknown field \"key\" (did you mean \"keys\"?)",
            ]
        );
        assert_eq!(
            diagnostics(&format!("[signing]\nkeys = ['{ANNA}', '{ANNA} again']\n")),
            ["acme.toml:2:93: \"keys\" has this key twice: forms and comments do not make two keys of one"]
        );
        assert_eq!(
            diagnostics(&format!("[signing]\nkeys = ['{ANNA}']\nthreshold = 2\n")),
            ["acme.toml:3:13: \"threshold\" cannot be met: it asks for 2 different keys of 1"]
        );
        assert_eq!(
            diagnostics(&format!("[signing]\nkeys = ['{ANNA}']\nthreshold = 0\n")),
            ["acme.toml:3:13: \"threshold\" must be an integer from 1 to 16"]
        );
        let elsewhere = format!("download_url = 'https://a.example/{{version}}'\n[signing]\nkeys = ['{ANNA}']\n");
        let exclude =
            "\"signing\" and \"download_url\" exclude each other: only packages that are hosted here are signed";
        assert_eq!(diagnostics(&elsewhere), [format!("acme.toml:2:2: {exclude}")]);
    }
}
