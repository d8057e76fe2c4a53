//! Versions and plugin headers, parsed by PHP and WordPress and by countersign, on generated input.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use countersign::build::source::plugin_header;
use countersign::preview::site::{Level, Site};
use countersign_model::channel::Channel;
use countersign_model::manifest::Manifest;
use countersign_model::plugin::PluginKind;
use countersign_model::stage::Stage;
use countersign_model::version::{Version, php_version_compare};

use serde_json::json;
use tempfile::TempDir;

use crate::support::random::Random;
use crate::tools::program;

#[test]
fn ten_thousand_pairs_of_versions_are_ordered_as_php_orders_them() {
    let mut random = Random::new(0x5DEE_CE66_D1CE_4E5B);
    let pairs: Vec<_> = (0..10_000).map(|_| pair(&mut random)).collect();
    let printed = program::run(
        "php",
        "tests/tools/version_compare.php",
        &serde_json::to_string(&pairs).unwrap(),
    );
    let theirs: Vec<Ordering> = printed
        .lines()
        .map(|line| line.parse::<i8>().unwrap().cmp(&0))
        .collect();
    assert_eq!(theirs.len(), pairs.len());
    let differ: Vec<String> = pairs
        .iter()
        .zip(theirs)
        .filter(|((a, b), theirs)| php_version_compare(a, b) != *theirs)
        .map(|((a, b), theirs)| format!("{a:?} against {b:?}: PHP says {theirs:?}"))
        .collect();
    assert!(
        differ.is_empty(),
        "{} differ:\n{}",
        differ.len(),
        differ[..differ.len().min(20)].join("\n")
    );
}

/// The stage of a suffix against PHP's own order: what is stable is not older than the bare version, what is published
/// and not stable is older, the named stages follow each other, and what is refused is newer, or older than `dev`.
#[test]
fn a_suffix_has_the_stage_that_phps_order_gives_it() {
    let mut random = Random::new(0x9E37_79B9_7F4A_7C15);
    let mut suffixes: Vec<String> = (0..20_000).map(|_| suffix(&mut random)).collect();
    suffixes.sort();
    suffixes.dedup();
    let versions: Vec<(String, Stage)> = suffixes
        .iter()
        .map(|suffix| format!("1.3.0{suffix}"))
        .filter_map(|version| Some((version.clone(), version.parse::<Version>().ok()?.stage())))
        .collect();
    const BESIDE: [&str; 5] = ["1.3.0", "1.3.0-dev", "1.3.0-alpha", "1.3.0-beta", "1.3.0-rc"];
    let pairs: Vec<(&str, &str)> = versions
        .iter()
        .flat_map(|(version, _)| BESIDE.map(|beside| (&**version, beside)))
        .collect();
    let printed = program::run(
        "php",
        "tests/tools/version_compare.php",
        &serde_json::to_string(&pairs).unwrap(),
    );
    let theirs: Vec<i8> = printed.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(theirs.len(), pairs.len());
    let mut counts = [0; 6];
    for ((version, stage), order) in versions.iter().zip(theirs.chunks(BESIDE.len())) {
        let [bare, dev, alpha, beta, rc] = order[..] else {
            panic!("{order:?}")
        };
        let (kind, fits) = match stage {
            Stage::In(Channel::Stable) => (0, bare >= 0),
            Stage::In(Channel::Rc) => (1, bare < 0 && rc >= 0),
            Stage::In(Channel::Beta) => (2, rc < 0 && beta >= 0),
            Stage::In(Channel::Alpha) => (3, beta < 0 && alpha >= 0),
            Stage::Unnamed => (4, bare < 0),
            Stage::Misread(_) => (5, bare > 0 || dev < 0),
        };
        counts[kind] += 1;
        assert!(fits, "{version} is {stage:?}, and PHP orders it {order:?}");
    }
    assert!(counts.iter().all(|count| *count >= 20), "of each stage: {counts:?}");
}

/// What may be behind the numbers of a version.
fn suffix(random: &mut Random) -> String {
    const LETTERS: [char; 16] = [
        'p', 'P', 'r', 'R', 'e', 'l', 'a', 'A', 'b', 'B', 'c', 'C', 't', 'h', 'd', 'v',
    ];
    const MORE: [&str; 16] = [
        "pre", "preview", "Preview", "pro", "premium", "plus", "patch", "Patch", "prod", "packaged", "built", "stable",
        "final", "Rc", "snapshot", "hotfix",
    ];
    let word = match random.below(3) {
        0 => random.pick(&WORDS).to_owned(),
        1 => random.pick(&MORE).to_owned(),
        _ => (0..1 + random.below(4))
            .map(|_| LETTERS[random.below(LETTERS.len())])
            .collect(),
    };
    let word = if random.one_in(12) { String::new() } else { word };
    [
        random.pick(&["", "-", "."]),
        &word,
        random.pick(&["", "", "1", ".1", "-2", "10", ".1.2", "x", "-test"]),
    ]
    .concat()
}

/// Two versions; every other second one is the first with a small change, so that many are close to each other.
fn pair(random: &mut Random) -> (String, String) {
    let first = if random.one_in(2) { real(random) } else { wild(random) };
    let second = match random.below(4) {
        0 => real(random),
        1 => wild(random),
        _ => mutated(random, &first),
    };
    (first, second)
}

const WORDS: [&str; 24] = [
    "dev", "Dev", "DEV", "alpha", "Alpha", "ALPHA", "a", "A", "beta", "Beta", "BETA", "b", "B", "RC", "rc", "Rc", "rC",
    "pl", "PL", "p", "P", "#", "#N#", "foo",
];

/// What plugins call their versions.
fn real(random: &mut Random) -> String {
    let mut numbers: Vec<String> = (0..1 + random.below(5)).map(|_| random.below(12).to_string()).collect();
    if random.one_in(8) {
        numbers[0] = "20210617".into();
    }
    let mut version = numbers.join(".");
    if random.one_in(2) {
        version += random.pick(&["", "-", ".", "_", "+"]);
        version += random.pick(&WORDS);
        version += random.pick(&["", "1", "2", ".1", "-2", "10"]);
    }
    version
}

/// What nobody should call a version.
fn wild(random: &mut Random) -> String {
    const PIECES: [&str; 34] = [
        "0",
        "1",
        "2",
        "9",
        "10",
        "01",
        "007",
        "2147483648",
        "9223372036854775807",
        "9223372036854775808",
        "99999999999999999999999",
        ".",
        "..",
        "-",
        "_",
        "+",
        "--",
        "+-",
        "#",
        "/",
        "@",
        " ",
        "\t",
        "\n",
        "~",
        "v",
        "x",
        "N",
        "\0",
        "é",
        "ß",
        "\u{2028}",
        "٣",
        "😀",
    ];
    let pieces = random.below(8);
    let piece = |_| {
        if random.one_in(3) {
            random.pick(&WORDS)
        } else {
            random.pick(&PIECES)
        }
    };
    (0..pieces).map(piece).collect()
}

fn mutated(random: &mut Random, version: &str) -> String {
    let mut letters: Vec<char> = version.chars().collect();
    for _ in 0..random.below(3) {
        let position = random.below(letters.len() + 1);
        if position < letters.len() && random.one_in(2) {
            letters.remove(position);
        } else {
            letters.insert(position, ['.', '-', '0', '1', '#', 'a', 'b', 'p', ' '][random.below(9)]);
        }
    }
    letters.into_iter().collect()
}

#[test]
fn the_preview_takes_a_site_for_new_enough_where_wordpress_does() {
    let mut random = Random::new(0x5851_F42D_4C95_7F2D);
    let mut version = || {
        let numbers = format!("{}.{}", 5 + random.below(3), random.below(12));
        match random.below(3) {
            // Newer WordPress drops a `.0` at the end of three numbers, and this one does not.
            0 => format!("{numbers}.{}", 1 + random.below(3)),
            _ => numbers,
        }
    };
    let mut cases: Vec<(String, String)> = (0..2_000).map(|_| (version(), version())).collect();
    for suffix in ["-RC1", "-alpha-5", "-beta.2"] {
        cases.extend(["6.8", "6.7", "6.9"].map(|required| (format!("6.8{suffix}"), required.to_owned())));
    }
    cases.push(("6.8".into(), String::new()));
    let input: String = cases
        .iter()
        .map(|(running, required)| format!("{running}\t{required}\n"))
        .collect();
    let printed = program::run("php", "tests/tools/compatible.php", &input);
    assert_eq!(printed.lines().count(), cases.len());
    for ((running, required), theirs) in cases.iter().zip(printed.lines()) {
        let site = Site {
            cms: running.clone(),
            php: "8.3".into(),
            current: String::new(),
        };
        let refused = site
            .notes(&manifest_that_requires(required))
            .iter()
            .any(|note| note.level == Level::Stop);
        assert_eq!(refused, theirs == "0", "{running} where {required} is required");
    }
}

fn manifest_that_requires(required: &str) -> Manifest {
    let texts = [
        "author",
        "author_homepage",
        "changelog",
        "description",
        "download_link",
        "download_url",
        "homepage",
        "last_updated",
        "name",
        "new_version",
        "package",
        "requires_php",
        "tag",
        "tested",
        "upgrade_notice",
        "url",
        "version",
    ];
    let mut manifest: serde_json::Map<_, _> = texts.map(|name| (name.to_owned(), json!(""))).into_iter().collect();
    for (name, value) in [
        ("autoupdate", json!(false)),
        ("banners", json!({})),
        ("icons", json!({})),
        ("requires", json!(required)),
        ("sections", json!({ "changelog": "", "description": "" })),
        ("slug", json!("acme")),
        ("translations", json!([])),
    ] {
        manifest.insert(name.into(), value);
    }
    serde_json::from_value(manifest.into()).unwrap()
}

/// A field's name in a plugin header, and its key in what `get_plugin_data` gives.
const FIELDS: [(&str, &str); 13] = [
    ("Plugin Name", "Name"),
    ("Version", "Version"),
    ("Description", "Description"),
    ("Author", "Author"),
    ("Author URI", "AuthorURI"),
    ("Plugin URI", "PluginURI"),
    ("Requires at least", "RequiresWP"),
    ("Requires PHP", "RequiresPHP"),
    ("Update URI", "UpdateURI"),
    // Only WordPress.org reads this one.
    ("Tested up to", ""),
    // These are of stylesheets, and the last one is of WordPress 6.5.
    ("Theme Name", ""),
    ("Theme URI", ""),
    ("Requires Plugins", ""),
];

/// Fields that the site compares with a version of its own.
const PLATFORM_FIELDS: [&str; 3] = ["Requires at least", "Requires PHP", "Tested up to"];

/// One to three numbers.
fn is_short_version(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split('.').count() <= 3 && text.split('.').all(is_number)
}

#[test]
fn two_thousand_headers_of_plugins_and_themes_are_read_as_wordpress_reads_them() {
    let mut random = Random::new(0x2545_F491_4F6C_DD1D);
    let folder = TempDir::new().unwrap();
    let files: Vec<_> = (0..2_000)
        .map(|number| {
            let path = folder.path().join(format!("{number}.php"));
            let bytes = plugin_file(&mut random);
            fs::write(&path, &bytes).unwrap();
            (path, bytes)
        })
        .collect();
    let names = FIELDS.map(|(name, _)| name);
    let paths: Vec<_> = files.iter().map(|(path, _)| path).collect();
    let input = json!({ "files": paths, "fields": names }).to_string();
    let printed = program::run("php", "tests/tools/plugin_header.php", &input);
    assert_eq!(printed.lines().count(), files.len());

    let mut plain = 0;
    let mut required = 0;
    for ((_, file), line) in files.iter().zip(printed.lines()) {
        let (by_name, by_key, slugs): (BTreeMap<_, _>, BTreeMap<_, _>, BTreeSet<String>) =
            serde_json::from_str(line).unwrap();
        let [by_name, by_key] = [by_name, by_key].map(|fields| {
            fields
                .into_iter()
                .map(|(key, value): (String, String)| (key, BASE64_STANDARD.decode(value).unwrap()))
                .collect::<BTreeMap<_, _>>()
        });
        let ours = plugin_header::file_data(file, names);
        let header = plugin_header::parse(PluginKind::Plugin, file);
        let theme = plugin_header::parse(PluginKind::Theme, file);
        for requires in [&header.requires_plugins, &theme.requires_plugins] {
            let ours: BTreeSet<_> = requires.iter().cloned().collect();
            assert_eq!(ours, slugs, "{}", file.escape_ascii());
        }
        required += slugs.len();
        let parsed = [
            header.name,
            header.version,
            header.description,
            header.author,
            header.author_uri,
            header.plugin_uri,
            header.requires,
            header.requires_php,
            header.update_uri,
            header.tested,
            theme.name,
            theme.plugin_uri,
        ];
        for (((name, key), ours), parsed) in FIELDS.into_iter().zip(ours).zip(parsed) {
            let told = || format!("{name} in {}", file.escape_ascii());
            assert_eq!(
                ours.escape_ascii().to_string(),
                by_name[name].escape_ascii().to_string(),
                "{}",
                told()
            );
            assert_eq!(by_key.get(key).unwrap_or(&by_name[name]), &by_name[name], "{}", told());
            if let Some(text) = plain_text(ours).filter(|text| !name.ends_with("URI") || text.starts_with("https://")) {
                plain += usize::from(!text.is_empty());
                // The manifest has a version that sites can compare: `WordPress 6.6.1` is 6.6.1.
                if PLATFORM_FIELDS.contains(&name) && !is_short_version(text) {
                    let is_version = parsed.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
                    assert!(is_version && text.contains(&*parsed), "{parsed:?}: {}", told());
                } else {
                    assert_eq!(parsed, text, "{}", told());
                }
            }
        }
    }
    assert!(required > 100, "{required} required plugins");
    assert!(plain > 2_000, "{plain} values were plain text already");
}

/// The value where nothing has to be done to make it one line of plain text.
fn plain_text(value: &[u8]) -> Option<&str> {
    let markup = |c: char| c.is_control() || "<&\u{FEFF}\u{2028}".contains(c);
    std::str::from_utf8(value)
        .ok()
        .filter(|text| !text.contains(markup) && text.trim() == *text)
}

/// A plugin's main file, or what somebody took for one.
fn plugin_file(random: &mut Random) -> Vec<u8> {
    const OPENINGS: [&str; 12] = [
        "<?php\n",
        "<?php\n/*\n",
        "<?php\n/**\n",
        "<?php /* ",
        "<?php ",
        " \t<?PHP ",
        "<?php\n//\n",
        "",
        "\u{FEFF}<?php\n",
        "\u{FEFF}",
        "#!/usr/bin/env php\n<?php\n",
        "<p>Version: 7</p>\n",
    ];
    const MARKS: [&str; 16] = [
        " * ", " * ", "", "", " ", "// ", "# ", "\t*\t", "@", "/** ", "* # @ / ", "<?php ", "<?php/*", "- ", "x ",
        "\u{A0}",
    ];
    const SEPARATORS: [&str; 8] = [": ", ": ", ":", ":\t", " : ", "::", "", "："];
    const ENDS: [&str; 8] = ["", "", "", " ", " */", "*/ Version: 3", " ?>", "\t\u{C}*/ ?>"];

    let end_of_line = random.pick(&["\n", "\n", "\r\n", "\r", "\n\r"]);
    let mut text = random.pick(&OPENINGS).to_owned();
    for _ in 0..random.below(24) {
        if random.one_in(60) {
            // The window ends somewhere in the next lines.
            text += &"x".repeat(8192_usize.saturating_sub(text.len() + random.below(120)));
            text.push('\n');
        }
        let (name, _) = FIELDS[random.below(FIELDS.len())];
        let name = match random.below(6) {
            0 => name.to_lowercase(),
            1 => name.to_uppercase(),
            2 => name.replace(' ', random.pick(&["", "  ", "-", "\t"])),
            _ => name.to_owned(),
        };
        text += &[
            random.pick(&MARKS),
            &name,
            random.pick(&SEPARATORS),
            &value(random),
            random.pick(&ENDS),
            "\n",
        ]
        .concat();
    }
    let text = text.replace('\n', end_of_line);
    if random.one_in(4) {
        latin_1(&text)
    } else {
        text.into_bytes()
    }
}

fn value(random: &mut Random) -> String {
    const WHOLE: [&str; 14] = [
        "Acme Forms",
        "1.2.3",
        "6.5",
        "7.4",
        "0",
        "0.0",
        "https://example.com/forms?a=1",
        "javascript:alert(1)",
        "false",
        "Forms – für alle",
        "2.0-beta.1",
        "",
        "woocommerce, acme-forms",
        "acme-maps,Acme, a-, b--c , 0,\u{A0}d",
    ];
    const PIECES: [&str; 30] = [
        "Acme",
        "Forms",
        "1.2",
        "0",
        " ",
        " ",
        "\t",
        "\0",
        "\u{B}",
        "\u{C}",
        "\u{85}",
        "\u{A0}",
        "\u{FEFF}",
        "\u{2028}",
        ":",
        "Version: 9",
        "*",
        "/",
        "?",
        ">",
        "*/",
        "?>",
        "&amp;",
        "&lt;b&gt;",
        "<b>",
        "</b>",
        "<a href=\"https://example.com/?a=1&b=2\">",
        "<script>alert(1)</script>",
        "é",
        "“",
    ];
    if random.one_in(2) {
        return random.pick(&WHOLE).to_owned();
    }
    let pieces = random.below(6);
    (0..pieces).map(|_| random.pick(&PIECES)).collect()
}

fn latin_1(text: &str) -> Vec<u8> {
    text.chars()
        .map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?'))
        .collect()
}
