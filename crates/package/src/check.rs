//! Checks whether an archive can be the package of a release: one top-level folder, with the released plugin or theme in it.
//!
//! WordPress knows a plugin by its folder and its main file, and a theme by its folder. An update in another folder becomes a second plugin. If
//! the header has another version than the release, the update is offered again and again.
//! [`archive`](super::archive) has checked the archive itself.

use super::archive::{Archive, ArchiveEntry, ArchiveError};
use super::entry_name::FolderName;
use super::mark;
use super::read_at::ReadAt;
use countersign_model::plugin::{INDEX_TEMPLATES, PluginKind, STYLESHEET};
use countersign_model::text::printable::Printable;
use countersign_model::version::misread_header;

/// WordPress unpacks a package in memory, file by file, so a larger file fails on small sites.
pub const LARGE_FILE: u64 = 32 << 20;

/// The same for all files together: many sites do not have more memory or time.
pub const LARGE_PACKAGE: u64 = 100 << 20;

/// How much of a file the CMS reads to find its header.
pub const HEADER: usize = 8_192;

/// The most PHP files in which to search for the main file.
const MAX_PHP_FILES: usize = 500;

/// What to check; `None` is not checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected<'a> {
    /// The top-level folder.
    pub folder: Option<&'a FolderName>,
    /// What it is; otherwise a theme if its stylesheet has a theme's header, and else a plugin.
    pub kind: Option<PluginKind>,
    /// The main file, relative to the folder; otherwise it is searched for. A theme has its stylesheet.
    pub main_file: Option<&'a str>,
    /// The exact `Version` in the main file.
    pub version: Option<&'a str>,
    /// Whether the package will carry a mark.
    pub marked: bool,
}

/// What the check needs of the header in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MainHeader {
    /// Its `Version`; may be empty.
    pub version: String,
    /// Whether it is the header of a child theme, which has a `Template`.
    pub is_child_theme: bool,
}

/// The result of checking an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The top-level folder, if there is exactly one.
    pub folder: Option<FolderName>,
    /// The main file, relative to the folder.
    pub main_file: Option<String>,
    /// The `Version` in it; empty if the header has none.
    pub version: Option<String>,
    /// Why the archive cannot be the package.
    pub problems: Vec<PackageProblem>,
    /// Warnings: what may fail on some sites.
    pub warnings: Vec<PackageWarning>,
}

/// Why an archive cannot be the package of a release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackageProblem {
    /// It has no file.
    #[error("the archive has no files")]
    Empty,
    /// A file beside the folder.
    #[error("{}: is in no folder; everything must be in one folder on top", Printable(.0))]
    NoFolder(String),
    /// More than one top-level folder.
    #[error("the folders {} and {} are on top; there must be one", Printable(.0), Printable(.1))]
    SeveralFolders(String, String),
    /// Another folder.
    #[error("the folder on top is {}, and must be {}", Printable(.found), .expected)]
    OtherFolder {
        /// The one in the archive.
        found: String,
        /// The expected one.
        expected: String,
    },
    /// The main file is missing, or has no header of this kind.
    #[error("{}: is not there, or has no {} header", Printable(.0), .1.word())]
    NoMainFile(String, PluginKind),
    /// No file with a plugin header.
    #[error("no PHP file in the folder on top has a plugin header")]
    NoPlugin,
    /// Too many to search.
    #[error("the folder on top has {0} PHP files: too many to look for the main file; name it like the folder")]
    TooManyFiles(usize),
    /// Several files with a plugin header.
    #[error("{} and {} both have a plugin header; name the main file like the folder", Printable(.0), Printable(.1))]
    Ambiguous(String, String),
    /// It has another version.
    #[error("{}: its Version is \"{}\", and must be \"{}\"", Printable(.file), Printable(.found), Printable(.expected))]
    Version {
        /// The main file.
        file: String,
        /// Its version; may be empty.
        found: String,
        /// The release's version.
        expected: String,
    },
    /// Sites read its version in another way than it is meant.
    #[error("{}: sites misread its Version \"{}\": {misread}", Printable(.file), Printable(.found))]
    Misread {
        /// The main file.
        file: String,
        /// Its version.
        found: String,
        /// How PHP reads it, and what to write.
        misread: String,
    },
    /// A file has the mark's name.
    #[error("{}: each download has its build id in this file; the archive must not have one", Printable(.0))]
    HasMark(String),
}

/// What may fail on some sites.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackageWarning {
    /// One large file.
    #[error("{}: has {} MiB; files over 32 MiB fail on sites with little memory", Printable(.name), .size >> 20)]
    LargeFile {
        /// Its name.
        name: String,
        /// Its size in bytes.
        size: u64,
    },
    /// A theme without templates.
    #[error("it has no index.php and no templates/index.html: WordPress calls such a theme broken")]
    NoTemplate,
    /// Files that the package will not have.
    #[error("{}{}: never packed", Printable(.first), more(*.count))]
    NeverPacked {
        /// The first of them.
        first: String,
        /// How many there are.
        count: usize,
    },
    /// All files together.
    #[error("the files have {} MiB in all; packages over 100 MiB fail on sites with little room", .0 >> 20)]
    LargePackage(u64),
}

/// Checks an archive. `header` returns the header in the first bytes of a PHP file or a stylesheet, or `None` without a
/// header of this kind.
///
/// # Errors
///
/// The archive can no longer be read. Problems with its content are in the result.
pub fn check<R: ReadAt>(
    archive: &Archive<R>,
    expected: &Expected,
    header: impl Fn(PluginKind, &[u8]) -> Option<MainHeader>,
) -> Result<Checked, ArchiveError> {
    let mut checked = Checked {
        warnings: warnings(archive),
        ..Checked::default()
    };
    match folder(archive) {
        Err(problem) => checked.problems.push(problem),
        Ok(found) => {
            if let Some(expected) = expected.folder
                && *expected != found
            {
                let found = found.to_string();
                let expected = expected.to_string();
                checked.problems.push(PackageProblem::OtherFolder { found, expected });
            }
            if expected.marked {
                checked.problems.extend(own_marks(archive, &found));
            }
            match main_file(archive, &found, expected, &header)? {
                Err(problem) => checked.problems.push(problem),
                Ok((
                    file,
                    MainHeader {
                        version,
                        is_child_theme,
                    },
                )) => {
                    if file == STYLESHEET && !is_child_theme && !has_template(archive, &found) {
                        checked.warnings.push(PackageWarning::NoTemplate);
                    }
                    checked
                        .problems
                        .extend(version_problem(&file, &version, expected.version));
                    checked.main_file = Some(file);
                    checked.version = Some(version);
                }
            }
            checked.folder = Some(found);
        }
    }
    Ok(checked)
}

/// ` and 2 more`, behind the first of `count` names.
fn more(count: usize) -> String {
    match count {
        0 | 1 => String::new(),
        count => format!(" and {} more", count - 1),
    }
}

fn warnings<R: ReadAt>(archive: &Archive<R>) -> Vec<PackageWarning> {
    let large = archive.files().filter(|file| file.size > LARGE_FILE);
    let mut warnings: Vec<_> = large
        .map(|file| PackageWarning::LargeFile {
            name: file.name.to_string(),
            size: file.size,
        })
        .collect();
    let unpacked = archive.unpacked();
    if unpacked > LARGE_PACKAGE {
        warnings.push(PackageWarning::LargePackage(unpacked));
    }
    let mut never = archive.files().filter(|file| file.is_never_packed());
    if let Some(first) = never.next() {
        warnings.push(PackageWarning::NeverPacked {
            first: first.name.to_string(),
            count: 1 + never.count(),
        });
    }
    warnings
}

/// The only top-level folder.
fn folder<R: ReadAt>(archive: &Archive<R>) -> Result<FolderName, PackageProblem> {
    let mut files = archive.files().filter(|file| !file.is_never_packed());
    files.next().ok_or(PackageProblem::Empty)?;
    let mut folder: Option<&str> = None;
    for entry in archive.entries().iter().filter(|entry| !entry.is_never_packed()) {
        let name = entry.name.as_str();
        let top = match name.split_once('/') {
            Some((top, _)) => top,
            None if entry.is_folder => name,
            None => return Err(PackageProblem::NoFolder(name.to_owned())),
        };
        match folder {
            Some(folder) if folder != top => {
                return Err(PackageProblem::SeveralFolders(folder.to_owned(), top.to_owned()));
            }
            _ => folder = Some(top),
        }
    }
    folder
        .and_then(|folder| folder.parse().ok())
        .ok_or(PackageProblem::Empty)
}

/// Anything with the mark's name, also in another case or as a folder.
fn own_marks<R: ReadAt>(archive: &Archive<R>, folder: &FolderName) -> Vec<PackageProblem> {
    let in_place = |entry: &&ArchiveEntry| {
        let below = entry.name.below(folder).unwrap_or_default();
        below
            .split('/')
            .next()
            .is_some_and(|first| first.to_lowercase() == mark::FILE)
    };
    archive
        .entries()
        .iter()
        .filter(in_place)
        .map(|entry| PackageProblem::HasMark(entry.name.to_string()))
        .collect()
}

/// Whether a theme has what WordPress begins each page with.
fn has_template<R: ReadAt>(archive: &Archive<R>, folder: &FolderName) -> bool {
    let mut names = archive.files().filter_map(|file| file.name.below(folder));
    names.any(|name| INDEX_TEMPLATES.contains(&name))
}

/// The main file, relative to the folder, and its header: a theme's stylesheet; the given file; else the one named like the
/// folder; else the only one with a plugin header.
fn main_file<R: ReadAt>(
    archive: &Archive<R>,
    folder: &FolderName,
    expected: &Expected,
    header: &impl Fn(PluginKind, &[u8]) -> Option<MainHeader>,
) -> Result<Result<(String, MainHeader), PackageProblem>, ArchiveError> {
    let header_in = |file: &ArchiveEntry, kind| {
        let start = archive.read_start(file, HEADER as u64)?;
        Ok::<_, ArchiveError>(header(kind, &start))
    };
    let header_of = |name: &str, kind| {
        let mut files = archive.files();
        let file = files.find(|file| file.name.below(folder) == Some(name));
        file.map_or(Ok(None), |file| header_in(file, kind))
    };
    if expected.kind != Some(PluginKind::Plugin) {
        let theme = header_of(STYLESHEET, PluginKind::Theme)?;
        if theme.is_some() || expected.kind == Some(PluginKind::Theme) {
            let absent = || PackageProblem::NoMainFile(STYLESHEET.to_owned(), PluginKind::Theme);
            return Ok(theme.map(|header| (STYLESHEET.to_owned(), header)).ok_or_else(absent));
        }
    }
    if let Some(named) = expected.main_file {
        let absent = || PackageProblem::NoMainFile(named.to_owned(), PluginKind::Plugin);
        let found = header_of(named, PluginKind::Plugin)?;
        return Ok(found.map(|header| (named.to_owned(), header)).ok_or_else(absent));
    }
    let usual = format!("{folder}.php");
    if let Some(header) = header_of(&usual, PluginKind::Plugin)? {
        return Ok(Ok((usual, header)));
    }
    let on_top = |file: &&ArchiveEntry| {
        file.name
            .below(folder)
            .is_some_and(|name| name.ends_with(".php") && !name.contains('/'))
    };
    let php_files = archive.files().filter(on_top).count();
    if php_files > MAX_PHP_FILES {
        return Ok(Err(PackageProblem::TooManyFiles(php_files)));
    }
    let mut found: Option<(String, MainHeader)> = None;
    for file in archive.files().filter(on_top) {
        let Some(header) = header_in(file, PluginKind::Plugin)? else {
            continue;
        };
        let name = file.name.below(folder).unwrap_or_default().to_owned();
        match found {
            Some((first, _)) => return Ok(Err(PackageProblem::Ambiguous(first, name))),
            None => found = Some((name, header)),
        }
    }
    Ok(found.ok_or(PackageProblem::NoPlugin))
}

/// Checks the version of a main file: sites must read it as its author means it, and it must be the expected one.
pub fn version_problem(file: &str, found: &str, expected: Option<&str>) -> Option<PackageProblem> {
    if let Some(misread) = misread_header(found) {
        return Some(PackageProblem::Misread {
            file: file.to_owned(),
            found: found.to_owned(),
            misread,
        });
    }
    let expected = expected.filter(|expected| *expected != found)?;
    Some(PackageProblem::Version {
        file: file.to_owned(),
        found: found.to_owned(),
        expected: expected.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::testing::{Made, zip, zip_of};

    /// A minimal header parser.
    fn header(kind: PluginKind, file: &[u8]) -> Option<MainHeader> {
        let text = String::from_utf8_lossy(file);
        let name = match kind {
            PluginKind::Plugin => "Plugin Name:",
            PluginKind::Theme => "Theme Name:",
        };
        text.contains(name).then(|| MainHeader {
            version: text
                .split_once("Version: ")
                .map_or(String::new(), |(_, rest)| rest.lines().next().unwrap().to_owned()),
            is_child_theme: text.contains("Template:"),
        })
    }

    fn checked(files: &[(&str, &[u8])], expected: &Expected) -> Checked {
        let bytes = zip_of(files);
        check(&Archive::check(&bytes[..]).unwrap(), expected, header).unwrap()
    }

    fn problems(files: &[(&str, &[u8])], expected: &Expected) -> Vec<String> {
        checked(files, expected)
            .problems
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    const PLUGIN: &[u8] = b"<?php\n/* Plugin Name: Acme\nVersion: 1.2.0\n*/";
    const OTHER: &[u8] = b"<?php\n/* Plugin Name: Other */";

    #[test]
    fn the_plugin_and_its_version_are_found() {
        let folder = "acme".parse().unwrap();
        let expected = Expected {
            folder: Some(&folder),
            version: Some("1.2.0"),
            marked: true,
            ..Expected::default()
        };
        let found = checked(
            &[
                ("acme/acme.php", PLUGIN),
                ("acme/other.php", OTHER),
                ("acme/x/y.php", PLUGIN),
            ],
            &expected,
        );
        let right = Checked {
            folder: Some(folder.clone()),
            main_file: Some("acme.php".into()),
            version: Some("1.2.0".into()),
            ..Checked::default()
        };
        assert_eq!(found, right);
        assert_eq!(
            problems(&[("acme/plugin.php", PLUGIN), ("acme/a.php", b"")], &expected),
            [""; 0]
        );
        let named = Expected {
            main_file: Some("src/main.php"),
            ..expected
        };
        assert_eq!(
            problems(&[("acme/acme.php", OTHER), ("acme/src/main.php", PLUGIN)], &named),
            [""; 0]
        );
        assert_eq!(
            problems(&[("acme/acme.php", PLUGIN)], &named),
            ["src/main.php: is not there, or has no plugin header"]
        );
    }

    #[test]
    fn what_cannot_be_the_package_is_reported() {
        let folder = "acme".parse().unwrap();
        let expected = Expected {
            folder: Some(&folder),
            version: Some("1.2.0"),
            marked: true,
            ..Expected::default()
        };
        let reported = |files: &[(&str, &[u8])]| problems(files, &expected);
        assert_eq!(reported(&[]), ["the archive has no files"]);
        assert_eq!(reported(&[("acme/", b"")]), ["the archive has no files"]);
        assert_eq!(
            reported(&[("acme/acme.php", PLUGIN), ("readme.txt", b"")]),
            ["readme.txt: is in no folder; everything must be in one folder on top"]
        );
        assert_eq!(
            reported(&[("acme/acme.php", PLUGIN), ("other/x", b"")]),
            ["the folders acme and other are on top; there must be one"]
        );
        assert_eq!(reported(&[("acme/.DS_Store", b"")]), ["the archive has no files"]);
        assert_eq!(
            reported(&[("acme-main/acme.php", PLUGIN)]),
            ["the folder on top is acme-main, and must be acme"]
        );
        assert_eq!(
            reported(&[("acme/readme.txt", PLUGIN)]),
            ["no PHP file in the folder on top has a plugin header"]
        );
        assert_eq!(
            reported(&[("acme/a.php", PLUGIN), ("acme/b.php", OTHER)]),
            ["a.php and b.php both have a plugin header; name the main file like the folder"]
        );
        assert_eq!(
            reported(&[("acme/acme.php", OTHER)]),
            ["acme.php: its Version is \"\", and must be \"1.2.0\""]
        );
        let elsewhere = Expected {
            version: Some("1.2"),
            ..expected
        };
        assert_eq!(
            problems(&[("acme/acme.php", PLUGIN)], &elsewhere),
            ["acme.php: its Version is \"1.2.0\", and must be \"1.2\""]
        );
        for version in [None, Some("1.2.0"), Some("v1.2.0")] {
            let main: &[u8] = b"<?php /* Plugin Name: Acme\nVersion: v1.2.0\n*/";
            assert_eq!(
                problems(&[("acme/acme.php", main)], &Expected { version, ..expected }),
                ["acme.php: sites misread its Version \"v1.2.0\": PHP does not take it for 1.2.0; write 1.2.0"]
            );
        }
        let mark = "each download has its build id in this file; the archive must not have one";
        for name in ["acme/build-id.php", "acme/Build-Id.PHP", "acme/build-id.php/x"] {
            assert_eq!(
                reported(&[("acme/acme.php", PLUGIN), (name, b"")]),
                [format!("{name}: {mark}")]
            );
        }
        let unmarked = Expected {
            marked: false,
            ..expected
        };
        assert_eq!(
            problems(&[("acme/acme.php", PLUGIN), ("acme/build-id.php", b"")], &unmarked),
            [""; 0]
        );
    }

    #[test]
    fn a_theme_is_found_by_its_stylesheet_and_needs_a_template() {
        const THEME: &[u8] = b"/*\nTheme Name: Acme\nVersion: 1.2.0\n*/";
        const CHILD: &[u8] = b"/*\nTheme Name: Acme\nTemplate: other\nVersion: 1.2.0\n*/";
        let of = |kind| Expected {
            kind,
            version: Some("1.2.0"),
            ..Expected::default()
        };
        let [either, theme, plugin] = [None, Some(PluginKind::Theme), Some(PluginKind::Plugin)].map(of);
        let index = ("acme/index.php", &b"<?php"[..]);
        // A plugin's file beside it changes nothing.
        let files = [("acme/style.css", THEME), ("acme/acme.php", PLUGIN), index];
        for expected in [&either, &theme] {
            let found = checked(&files, expected);
            assert_eq!(found.main_file.as_deref(), Some("style.css"));
            assert_eq!((found.problems, found.warnings), (vec![], vec![]));
        }
        assert_eq!(checked(&files, &plugin).main_file.as_deref(), Some("acme.php"));
        for (files, warns) in [
            (&[("acme/style.css", THEME)][..], true),
            (&[("acme/style.css", THEME), ("acme/sub/index.php", b"")], true),
            (&[("acme/style.css", THEME), ("acme/templates/index.html", b"")], false),
            (&[("acme/style.css", CHILD)], false),
        ] {
            let found = checked(files, &theme);
            assert_eq!(found.problems, []);
            assert_eq!(
                found.warnings,
                vec![PackageWarning::NoTemplate; usize::from(warns)],
                "{files:?}"
            );
        }
        let of_plugin = [("acme/acme.php", PLUGIN), ("acme/style.css", b"a {}")];
        assert_eq!(
            problems(&of_plugin, &theme),
            ["style.css: is not there, or has no theme header"]
        );
        assert_eq!(problems(&of_plugin, &either), [""; 0]);
        let other = [
            ("acme/style.css", &b"/*\nTheme Name: Acme\nVersion: 1.3\n*/"[..]),
            index,
        ];
        assert_eq!(
            problems(&other, &theme),
            ["style.css: its Version is \"1.3\", and must be \"1.2.0\""]
        );
    }

    #[test]
    fn what_is_never_packed_is_warned_of_and_is_no_folder_on_top() {
        let found = checked(
            &[
                ("__MACOSX/acme/._acme.php", b""),
                ("acme/.DS_Store", b""),
                ("acme/acme.php", PLUGIN),
                (".DS_Store", b""),
            ],
            &Expected::default(),
        );
        assert_eq!(found.problems, []);
        let warnings: Vec<_> = found.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings, [".DS_Store and 2 more: never packed"]);
    }

    #[test]
    fn large_files_and_packages_are_warned_of() {
        let large = vec![0; 36 << 20];
        let names = ["f/a", "f/b", "f/c"];
        let bytes = zip(&names.map(|name| Made::stored(name, &large)));
        let archive = Archive::check(&bytes[..]).unwrap();
        let found = check(&archive, &Expected::default(), header).unwrap();
        let warnings: Vec<_> = found.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            warnings[0],
            "f/a: has 36 MiB; files over 32 MiB fail on sites with little memory"
        );
        assert_eq!(
            warnings[3..],
            ["the files have 108 MiB in all; packages over 100 MiB fail on sites with little room"]
        );
    }
}
