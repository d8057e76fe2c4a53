//! Plugin entries: `registry/plugins/<slug>.toml`, one plugin a file.
//!
//! Entries are independent: the build skips those with errors, the server takes all or none.

use std::path::{Path, PathBuf};

use crate::error::{Diagnostic, RegistryError};
use crate::files::{DirEntry, RegistryFiles};
use crate::reader::DocumentReader;
use crate::rollout_table::rollout;
use crate::signing_table::signing;
use crate::spanned::{Node, SpannedTable, Value};
use crate::urls::{download_url, path_inside, repository, web_url};
use countersign_model::channel::{ChannelRight, ChannelRights};
use countersign_model::edd_items::{EddItems, EddName};
use countersign_model::ignore_rules::is_pattern;
use countersign_model::name::Name;
use countersign_model::period::Period;
use countersign_model::plugin::{AfterExpiry, PackageOrigin, PackageSettings, Plugin, PluginKind, PluginSource};
use countersign_model::release_rules::{BackRules, SecurityRules, VersionLine};
use countersign_model::slug::Slug;
use countersign_model::tag_pattern::TagPattern;
use countersign_model::version::Version;

const FIELDS: &[&str] = &[
    "type",
    "name",
    "module",
    "repository",
    "path",
    "main_file",
    "tags",
    "versions",
    "withhold",
    "channels",
    "composer",
    "download_url",
    "package",
    "signing",
    "rollout",
    "security",
    "back",
    "homepage",
    "author",
    "author_homepage",
    "icons",
    "banners",
    "allow_version_mismatch",
    "edd_item_id",
    "edd_item_name",
];

/// One file in `plugins/`, and its plugin or errors.
#[derive(Clone, Debug)]
pub struct PluginEntry {
    /// The file, as a person would type it.
    pub file: PathBuf,
    /// The slug of its name; `None` if the name is not `<slug>.toml`.
    pub slug: Option<Slug>,
    /// The plugin, or every error in the file.
    pub plugin: Result<Plugin, Vec<Diagnostic>>,
}

/// Reads every entry, sorted by file name.
pub fn load(files: &RegistryFiles) -> Result<Vec<PluginEntry>, RegistryError> {
    Ok(files
        .list("plugins")?
        .into_iter()
        .map(|listed| entry(files, listed))
        .collect())
}

fn entry(files: &RegistryFiles, listed: DirEntry) -> PluginEntry {
    let slug = listed
        .name
        .strip_suffix(".toml")
        .and_then(|stem| stem.parse::<Slug>().ok());
    let plugin = match (files.text(&listed), &slug) {
        (Err(diagnostic), _) => Err(vec![diagnostic]),
        (Ok(_), None) => Err(vec![Diagnostic::of_file(
            &listed.file,
            "not a plugin entry: its name must be <slug>.toml, where a slug has 1 to 64 of a-z, 0-9 and '-'",
        )]),
        (Ok(text), Some(slug)) => read(&listed.file, &text, slug),
    };
    PluginEntry {
        file: listed.file,
        slug,
        plugin,
    }
}

fn read(file: &Path, text: &str, slug: &Slug) -> Result<Plugin, Vec<Diagnostic>> {
    let (mut reader, table) = DocumentReader::toml(file, text);
    let Some(table) = table else {
        return Err(reader.diagnostics());
    };
    let folder = file.parent().unwrap_or(Path::new(""));
    let plugin = plugin(&mut reader, &table, slug, folder);
    if reader.complained() == 0 {
        Ok(plugin)
    } else {
        Err(reader.diagnostics())
    }
}

/// The plugin of a table; valid only if the reader has no diagnostics afterwards.
fn plugin(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>, slug: &Slug, folder: &Path) -> Plugin {
    reader.only(table, FIELDS);
    reader.without_keys(table);
    let path = address(reader, table, "path", path_inside).unwrap_or_default();
    let kind = kind(reader, table);
    let main_file = address(reader, table, "main_file", path_inside);
    if let (PluginKind::Theme, Some(field)) = (kind, table.fields.get("main_file")) {
        let diagnostic = "\"main_file\" is for plugins: the header of a theme is in its style.css";
        reader.complain(field.at, diagnostic);
    }
    let repository = address(reader, table, "repository", |text| repository(text, folder));
    let mut page = |name| address(reader, table, name, web).unwrap_or_default();
    let homepage = page("homepage");
    let author_homepage = page("author_homepage");
    let download = |text: &str| download_url(text).map(|()| text.to_owned());
    Plugin {
        slug: slug.clone(),
        kind,
        name: reader.line_of_text(table, "name").unwrap_or_default(),
        module: reader.parsed(table, "module").unwrap_or_else(|| Name::from(slug)),
        source: repository.map(|repository| PluginSource {
            repository,
            path,
            main_file,
        }),
        tags: tags(reader, table),
        versions: versions(reader, table),
        withhold: versions_of(reader, table, "withhold"),
        channels: channels(reader, table),
        after_expiry: after_expiry(reader, table),
        download_url: address(reader, table, "download_url", download).unwrap_or_default(),
        package: package(reader, table, slug),
        signing: signing(reader, table),
        rollout: rollout(reader, table),
        security: security(reader, table),
        back: back(reader, table),
        homepage,
        author: reader.line_of_text(table, "author").unwrap_or_default(),
        author_homepage,
        icons: reader.string_table(table, "icons", &["1x", "2x", "svg", "default"], |r, t, key| {
            address(r, t, key, web)
        }),
        banners: reader.string_table(table, "banners", &["low", "high"], |r, t, key| address(r, t, key, web)),
        allow_version_mismatch: reader.boolean(table, "allow_version_mismatch").unwrap_or_default(),
        edd: edd_items(reader, table),
    }
}

/// `type`: what it is on a site.
fn kind(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> PluginKind {
    let kinds = [PluginKind::Plugin, PluginKind::Theme];
    let known = |text: &str| {
        let mut kinds = kinds.into_iter();
        kinds
            .find(|kind| kind.word() == text)
            .ok_or_else(|| "must be \"plugin\" or \"theme\"".to_owned())
    };
    address(reader, table, "type", known).unwrap_or_default()
}

/// Who may have pre-releases.
fn channels(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> ChannelRights {
    let Some(inner) = reader.table(table, "channels") else {
        return ChannelRights::default();
    };
    reader.only(inner, &["rc", "beta", "alpha"]);
    let right = |text: &str| match text {
        "off" => Ok(ChannelRight::Off),
        "licensed" => Ok(ChannelRight::Licensed),
        "listed" => Ok(ChannelRight::Listed),
        _ => Err("must be \"off\", \"licensed\" or \"listed\"".to_owned()),
    };
    ChannelRights {
        rc: address(reader, inner, "rc", right),
        beta: address(reader, inner, "beta", right),
        alpha: address(reader, inner, "alpha", right),
    }
}

/// `after_expiry` of table `[composer]`.
fn after_expiry(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> AfterExpiry {
    let Some(inner) = reader.table(table, "composer") else {
        return AfterExpiry::default();
    };
    reader.only(inner, &["after_expiry"]);
    let rule = |text: &str| match text {
        "nothing" => Ok(AfterExpiry::Nothing),
        "earlier" => Ok(AfterExpiry::Earlier),
        _ => Err("must be \"nothing\" or \"earlier\"".to_owned()),
    };
    address(reader, inner, "after_expiry", rule).unwrap_or_default()
}

/// `security`: a list of versions, or a table.
fn security(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> SecurityRules {
    let mut rules = SecurityRules::default();
    let Some(field) = table.fields.get("security") else {
        return rules;
    };
    if let Value::Array(_) = &field.node.value {
        rules.releases = versions_of(reader, table, "security");
        return rules;
    }
    let Some(inner) = reader.table(table, "security") else {
        return rules;
    };
    reader.only(inner, &["releases", "expired", "lines", "for"]);
    rules.releases = versions_of(reader, inner, "releases");
    let expired = |text: &str| match text {
        "tell" => Ok(false),
        "deliver" => Ok(true),
        _ => Err("must be \"tell\" or \"deliver\"".to_owned()),
    };
    rules.delivers = address(reader, inner, "expired", expired).unwrap_or(rules.delivers);
    let lines = |text: &str| {
        text.parse()
            .map_err(|_| "must be \"minor\", \"major\" or \"all\"".to_owned())
    };
    rules.lines = address(reader, inner, "lines", lines).unwrap_or(rules.lines);
    let lasts = |text: &str| match text.parse::<Period>() {
        Ok(period) if !period.is_empty() => Ok(period),
        _ => Err("must be a period such as \"5y\", \"6m\" or \"30d\"".to_owned()),
    };
    rules.lasts = address(reader, inner, "for", lasts).unwrap_or(rules.lasts);
    rules
}

/// Table `[back]`.
fn back(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> BackRules {
    let mut rules = BackRules::default();
    let Some(inner) = reader.table(table, "back") else {
        return rules;
    };
    reader.only(inner, &["allow", "oldest"]);
    let within = |text: &str| match text {
        "off" => Ok(None),
        "minor" => Ok(Some(VersionLine::Major)),
        "major" => Ok(Some(VersionLine::All)),
        _ => Err("must be \"off\", \"minor\" or \"major\"".to_owned()),
    };
    rules.within = address(reader, inner, "allow", within).unwrap_or(rules.within);
    rules.oldest = reader.parsed(inner, "oldest");
    rules
}

/// A list of versions.
fn versions_of(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>, name: &str) -> Vec<Version> {
    let texts = reader.strings(table, name).unwrap_or_default();
    texts
        .into_iter()
        .filter_map(|(at, text)| reader.parse(at, name, text))
        .collect()
}

/// How to make packages; `None` if the entry has a `download_url`.
fn package(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>, slug: &Slug) -> Option<PackageSettings> {
    let is_elsewhere = table.fields.contains_key("download_url");
    if let Some(field) = table.fields.get("package").filter(|_| is_elsewhere) {
        let diagnostic = "use either \"package\" or \"download_url\", not both";
        reader.complain(field.at, diagnostic);
    }
    let mut settings = PackageSettings::defaults(slug);
    if let Some(inner) = reader.table(table, "package") {
        reader.only(inner, &["from", "folder", "exclude", "mark"]);
        let origin = |text: &str| match text {
            "tag" => Ok(PackageOrigin::Tag),
            "file" => Ok(PackageOrigin::File),
            _ => Err("must be \"tag\" or \"file\"".to_owned()),
        };
        settings.from = address(reader, inner, "from", origin).unwrap_or(settings.from);
        settings.folder = reader.parsed(inner, "folder").unwrap_or(settings.folder);
        settings.mark = reader.boolean(inner, "mark").unwrap_or(settings.mark);
        let patterns = reader.strings(inner, "exclude").unwrap_or_default();
        for (at, pattern) in patterns {
            if is_pattern(pattern) {
                settings.exclude.push(pattern.to_owned());
            } else {
                reader.complain(
                    at,
                    format!("\"exclude\" has {pattern:?}, which is no pattern of a .gitignore"),
                );
            }
        }
    }
    (!is_elsewhere).then_some(settings)
}

/// A string that `check` parses; its errors say what it "must be".
fn address<T>(
    reader: &mut DocumentReader<'_>,
    table: &SpannedTable<'_>,
    name: &str,
    check: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    let (at, text) = reader.string(table, name)?;
    check(text)
        .map_err(|reason| reader.complain(at, format!("{name:?} {reason}")))
        .ok()
}

fn web(text: &str) -> Result<String, String> {
    web_url(text).map(|_| text.to_owned())
}

/// One pattern or several.
fn tags(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> Vec<TagPattern> {
    let Some(field) = table.fields.get("tags") else {
        return TagPattern::defaults();
    };
    let texts = match &field.node.value {
        Value::String(text) => vec![(field.node.at, &**text)],
        _ => reader.strings(table, "tags").unwrap_or_default(),
    };
    if matches!(&field.node.value, Value::Array(items) if items.is_empty()) {
        reader.complain(field.node.at, "\"tags\" must not be empty: no tag would be a release");
    }
    texts
        .into_iter()
        .filter_map(|(at, text)| reader.parse(at, "tags", text))
        .collect()
}

fn versions(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> semver::VersionReq {
    let requirement = |text: &str| {
        text.parse()
            .map_err(|error| format!("is not a version requirement such as \">=1.4, <3\": {error}"))
    };
    address(reader, table, "versions", requirement).unwrap_or(semver::VersionReq::STAR)
}

/// Both fields; empty where the entry has none.
pub(super) fn edd_items(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> EddItems {
    let mut items = EddItems::default();
    for node in nodes(table, "edd_item_id") {
        match node.value {
            Value::Integer(id) if id > 0 => items.ids.push(id.unsigned_abs()),
            _ => reader.complain(
                node.at,
                "\"edd_item_id\" must be a whole number of at least 1, or an array of these",
            ),
        }
    }
    for node in nodes(table, "edd_item_name") {
        let name = match &node.value {
            Value::String(text) => EddName::new(text),
            _ => None,
        };
        match name {
            Some(name) => items.names.push(name),
            None => reader.complain(
                node.at,
                "\"edd_item_name\" must be a name with a letter or a digit, or an array of these",
            ),
        }
    }
    items
}

/// The values of a field, of which there may be one or several.
fn nodes<'n, 't>(table: &'n SpannedTable<'t>, name: &str) -> Vec<&'n Node<'t>> {
    match table.fields.get(name).map(|field| &field.node) {
        None => Vec::new(),
        Some(Node {
            value: Value::Array(items),
            ..
        }) => items.iter().collect(),
        Some(node) => vec![node],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::MAX_DIAGNOSTICS;
    use countersign_model::plugin::RepositoryLocation;

    fn registry(entries: &[(&str, &str)]) -> tempfile::TempDir {
        let registry = tempfile::tempdir().unwrap();
        std::fs::create_dir(registry.path().join("plugins")).unwrap();
        for (name, text) in entries {
            std::fs::write(registry.path().join("plugins").join(name), text).unwrap();
        }
        registry
    }

    /// The diagnostics of one entry, without the folder.
    fn diagnostics(name: &str, text: &str) -> Vec<String> {
        let registry = registry(&[(name, text)]);
        let entry = load(&RegistryFiles::folder(registry.path())).unwrap().remove(0);
        let folder = format!("{}/plugins/", registry.path().display());
        let strip = |diagnostic: &Diagnostic| diagnostic.to_string().replace(&folder, "");
        entry.plugin.err().unwrap_or_default().iter().map(strip).collect()
    }

    #[test]
    fn an_entry_that_is_wrong_in_every_line_has_a_limited_number_of_complaints() {
        let unknown: String = (0..50_000).map(|number| format!("a{number} = 1\n")).collect();
        let strings = format!("withhold = [{}]\n", "1,".repeat(50_000));
        for (text, count) in [
            ("=\n".repeat(2 << 20), 1),
            (unknown, MAX_DIAGNOSTICS + 1),
            (strings, MAX_DIAGNOSTICS + 1),
        ] {
            let diagnostics = diagnostics("acme.toml", &text);
            assert_eq!(diagnostics.len(), count, "{:?}", &text[..20]);
            let is_cut = diagnostics.last().unwrap() == "acme.toml: too many errors: the rest is not listed";
            assert_eq!(is_cut, count > 1, "{:?}", diagnostics.last());
        }
    }

    #[test]
    fn an_entry_says_what_it_says() {
        let text = r#"
            name = "Acme Forms"
            module = "forms"
            repository = "../acme-forms"
            path = "plugins/forms/"
            main_file = "acme.php"
            tags = ["forms/{version}", "v{version}"]
            versions = ">=1.4, <3"
            withhold = ["2.0.1"]
            download_url = "https://example.com/{slug}/{version}.zip"
            homepage = "https://example.com/"
            author = "Acme"
            author_homepage = "https://example.com/acme"
            icons = { 1x = "https://example.com/1.png", svg = "https://example.com/i.svg" }
            allow_version_mismatch = true
            [banners]
            low = "https://example.com/low.png"
        "#;
        let text = format!("{}\n", text.trim_end());
        let registry = registry(&[("acme-forms.toml", &text)]);
        let entries = load(&RegistryFiles::folder(registry.path())).unwrap();
        let plugin = entries[0].plugin.as_ref().unwrap();
        assert_eq!(entries[0].slug.as_ref().unwrap().as_str(), "acme-forms");
        assert_eq!(
            (plugin.name.as_str(), plugin.module.as_str(), plugin.author.as_str()),
            ("Acme Forms", "forms", "Acme")
        );
        let source = plugin.source.as_ref().unwrap();
        assert_eq!(
            source.repository,
            RepositoryLocation::Folder(registry.path().join("acme-forms"))
        );
        assert_eq!(
            (source.path.as_str(), source.main_file.as_deref()),
            ("plugins/forms", Some("acme.php"))
        );
        assert_eq!(
            plugin.tags.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["forms/{version}", "v{version}"]
        );
        assert!(
            "2.9"
                .parse::<countersign_model::version::Version>()
                .unwrap()
                .satisfies(&plugin.versions)
        );
        assert_eq!(plugin.withhold, ["2.0.1".parse().unwrap()]);
        assert_eq!(plugin.icons.keys().collect::<Vec<_>>(), ["1x", "svg"]);
        assert_eq!(plugin.banners["low"], "https://example.com/low.png");
        assert!(plugin.allow_version_mismatch);
    }

    #[test]
    fn an_entry_says_whether_it_is_of_a_theme() {
        let kind = |text: &str| {
            let registry = registry(&[("acme.toml", text)]);
            let entry = load(&RegistryFiles::folder(registry.path())).unwrap().remove(0);
            entry.plugin.unwrap().kind
        };
        assert_eq!(kind("repository = '../acme'\n"), PluginKind::Plugin);
        assert_eq!(kind("type = 'plugin'\nmain_file = 'a.php'\n"), PluginKind::Plugin);
        assert_eq!(kind("type = 'theme'\nrepository = '../acme'\n"), PluginKind::Theme);
        assert_eq!(
            diagnostics("acme.toml", "type = 'themes'\n"),
            [r#"acme.toml:1:8: "type" must be "plugin" or "theme""#]
        );
        assert_eq!(
            diagnostics("acme.toml", "type = 'theme'\nmain_file = 'style.css'\n"),
            [r#"acme.toml:2:1: "main_file" is for plugins: the header of a theme is in its style.css"#]
        );
    }

    #[test]
    fn packages_are_hosted_unless_the_entry_names_a_download() {
        let package = |text: &str| {
            let registry = registry(&[("acme.toml", text)]);
            let entry = load(&RegistryFiles::folder(registry.path())).unwrap().remove(0);
            entry.plugin.unwrap().package
        };
        let defaults = PackageSettings::defaults(&"acme".parse().unwrap());
        assert_eq!(package("repository = '../acme'\n"), Some(defaults.clone()));
        assert_eq!(package("[package]\n"), Some(defaults));
        let all = "[package]\nfrom = 'file'\nfolder = 'Acme_Forms'\nexclude = ['/docs', '*.map']\nmark = false\n";
        let settings = PackageSettings {
            from: PackageOrigin::File,
            folder: "Acme_Forms".parse().unwrap(),
            exclude: vec!["/docs".into(), "*.map".into()],
            mark: false,
        };
        assert_eq!(package(all), Some(settings));
        assert_eq!(package("download_url = 'https://example.com/{version}.zip'\n"), None);
    }

    #[test]
    fn mistakes_of_the_package_are_reported_with_their_places() {
        let text = r#"download_url = "https://example.com/{version}.zip"
[package]
from = "zip"
folder = "acme/forms"
exclude = ["/docs", "[z-a]", "", 3]
marks = false
"#;
        assert_eq!(
            diagnostics("acme.toml", text),
            [
                r#"acme.toml:2:2: use either "package" or "download_url", not both"#,
                r#"acme.toml:3:8: "from" must be "tag" or "file""#,
                concat!(
                    r#"acme.toml:4:10: "folder" is not a name: expected 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', "#,
                    "starting with a letter or a digit"
                ),
                r#"acme.toml:5:21: "exclude" has "[z-a]", which is no pattern of a .gitignore"#,
                r#"acme.toml:5:30: "exclude" has "", which is no pattern of a .gitignore"#,
                r#"acme.toml:5:34: "exclude" must be an array of strings, not an integer"#,
                r#"acme.toml:6:1: unknown field "marks" (did you mean "mark"?)"#,
            ]
        );
    }

    #[test]
    fn an_entry_without_fields_has_no_source_and_its_slug_for_a_module() {
        let registry = registry(&[("acme.toml", "# planned\n")]);
        let entry = load(&RegistryFiles::folder(registry.path())).unwrap().remove(0);
        let plugin = entry.plugin.unwrap();
        assert_eq!((plugin.module.as_str(), plugin.source), ("acme", None));
        assert_eq!(plugin.tags, TagPattern::defaults());
        assert!(!plugin.allow_version_mismatch);
    }

    #[test]
    fn every_mistake_of_a_file_is_found_with_its_place() {
        let text = r#"name = "Acme\u001b[2J"
modul = "forms"
module = "my forms"
repository = "https://example.com/acme.git"
tags = ["v{version}", "latest"]
versions = "newest"
withhold = ["2.0.1", "2.0.1", 3]
homepage = "example.com"
path = "../forms"
zzz = 1
allow_version_mismatch = "yes"
[icons]
3x = "https://example.com/3.png"
1x = "javascript:alert(1)"
"#;
        assert_eq!(
            diagnostics("acme.toml", text),
            [
                r#"acme.toml:1:8: "name" contains a control character"#,
                r#"acme.toml:2:1: unknown field "modul" (did you mean "module"?)"#,
                concat!(
                    r#"acme.toml:3:10: "module" is not a name: expected 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', "#,
                    "starting with a letter or a digit"
                ),
                r#"acme.toml:5:23: "tags" is not a tag pattern: expected '{version}' in it exactly once"#,
                concat!(
                    r#"acme.toml:6:12: "versions" is not a version requirement such as ">=1.4, <3": unexpected character 'n' "#,
                    "while parsing major version number"
                ),
                r#"acme.toml:7:22: "withhold" has "2.0.1" twice"#,
                r#"acme.toml:7:31: "withhold" must be an array of strings, not an integer"#,
                r#"acme.toml:8:12: "homepage" is not a URL: relative URL without a base"#,
                r#"acme.toml:9:8: "path" must be a relative path with '/', without '.', '..' and '\'"#,
                r#"acme.toml:10:1: unknown field "zzz""#,
                r#"acme.toml:11:26: "allow_version_mismatch" must be true or false, not a string"#,
                r#"acme.toml:13:1: unknown field "3x""#,
                r#"acme.toml:14:6: "1x" must begin with https:// or http://"#,
            ]
        );
    }

    #[test]
    fn a_license_key_belongs_in_no_entry() {
        let key = countersign_model::license_key::LicenseKey::from_random([7; 20]);
        let text = format!(
            "author = '{0}'\n[icons]\n1x = 'https://example.com/?key={0}'\n",
            key.reveal()
        );
        let refused = |field| format!("\"{field}\" contains a license key: only customers should have keys");
        let expected = [
            format!("acme.toml:1:10: {}", refused("author")),
            format!("acme.toml:3:6: {}", refused("icons")),
        ];
        assert_eq!(diagnostics("acme.toml", &text), expected);
    }

    #[test]
    fn torn_empty_foreign_and_misnamed_files_are_complained_about() {
        let torn = "acme.toml: the file does not end with a newline: it may be half written";
        assert_eq!(diagnostics("acme.toml", ""), ["acme.toml: the file is empty"]);
        assert_eq!(diagnostics("acme.toml", "name = \"Acme\""), [torn]);
        assert_eq!(
            diagnostics("acme.toml", "name = \"Ac\n"),
            ["acme.toml:1:11: invalid basic string, expected `\"`"]
        );
        let misnamed = "not a plugin entry: its name must be <slug>.toml, where a slug has 1 to 64 of a-z, 0-9 and '-'";
        for name in ["Acme.toml", "acme.tml", "acme"] {
            assert_eq!(diagnostics(name, "\n"), [format!("{name}: {misnamed}")]);
        }
    }

    #[test]
    fn a_broken_entry_does_not_hide_the_others_and_editors_leftovers_do_not_count() {
        let leftovers = [".#acme.toml", ".hidden", "README.md", "acme.toml~", ".acme.toml.swp"];
        let mut files = vec![("acme.toml", "\n"), ("beta.toml", "nope = 1\n")];
        files.extend(leftovers.map(|name| (name, "garbage")));
        let registry = registry(&files);
        std::fs::create_dir(registry.path().join("plugins/old")).unwrap();
        std::fs::write(
            registry.path().join("plugins/latin.toml"),
            b"name = 'ok'\nauthor = 'Jos\xe9'\n",
        )
        .unwrap();
        let entries = load(&RegistryFiles::folder(registry.path())).unwrap();
        let outcome = |entry: &PluginEntry| match &entry.plugin {
            Ok(plugin) => plugin.slug.to_string(),
            Err(diagnostics) => diagnostics[0]
                .to_string()
                .replace(&format!("{}/plugins/", registry.path().display()), ""),
        };
        assert_eq!(
            entries.iter().map(outcome).collect::<Vec<_>>(),
            [
                "acme",
                "beta.toml:1:1: unknown field \"nope\"",
                "latin.toml:2:14: not UTF-8",
                "old: unexpected directory",
            ]
        );
    }
}
