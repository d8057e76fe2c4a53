//! The header: the comment at the top of a plugin's main file, or of a theme's `style.css`.
//!
//! Parsed exactly as WordPress does (`get_file_data`, `_cleanup_header_comment`, `get_plugin_data`), then converted
//! to plain text. The fields go to the manifest; the version is compared with the tag.

use std::collections::BTreeSet;

use crate::build::source::encoding::decode;
use crate::build::source::html;
use crate::build::source::readme::{ReadmeWarning, platform_version};
use countersign_model::plugin::PluginKind;
use countersign_package::check::MainHeader;

/// WordPress reads this many bytes of a file.
const WINDOW: usize = 8192;

/// The header of a plugin or a theme. Every field is one line of plain text, and empty if it is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginHeader {
    /// `Plugin Name` or `Theme Name`. Empty if the file has no such header.
    pub name: String,
    /// `Version`.
    pub version: String,
    /// The line of `Version`, from 1; 0 if it is missing.
    pub version_line: usize,
    /// `Description`.
    pub description: String,
    /// `Author`.
    pub author: String,
    /// `Author URI`; empty if its scheme is neither http nor https.
    pub author_uri: String,
    /// `Plugin URI` or `Theme URI`; empty if its scheme is neither http nor https.
    pub plugin_uri: String,
    /// `Requires at least`, only the version: `6.6.1` of `WordPress 6.6.1`.
    pub requires: String,
    /// `Requires PHP`, only the version.
    pub requires_php: String,
    /// `Tested up to`, only the version: `4.3` of `4.3 alpha`.
    pub tested: String,
    /// `Update URI`, as written: it may be a host or `false`.
    pub update_uri: String,
    /// `Requires Plugins`: slugs, as WordPress reads them.
    pub requires_plugins: Vec<String>,
    /// `Template`: the folder of a child theme's parent.
    pub template: String,
    /// Values that the CMS cannot compare as they are.
    pub warnings: Vec<ReadmeWarning>,
}

/// What a package is checked for in the header of a file; `None` without a header of this kind.
pub fn main_header(kind: PluginKind, file: &[u8]) -> Option<MainHeader> {
    let header = parse(kind, file);
    (!header.name.is_empty()).then_some(MainHeader {
        version: header.version,
        is_child_theme: !header.template.is_empty(),
    })
}

/// Parses the header of a PHP file or a stylesheet.
pub fn parse(kind: PluginKind, file: &[u8]) -> PluginHeader {
    let [name_field, uri_field] = match kind {
        PluginKind::Plugin => ["Plugin Name", "Plugin URI"],
        PluginKind::Theme => ["Theme Name", "Theme URI"],
    };
    let names = [
        name_field,
        "Version",
        "Description",
        "Author",
        "Author URI",
        uri_field,
        "Requires at least",
        "Requires PHP",
        "Tested up to",
        "Update URI",
        "Requires Plugins",
        "Template",
    ];
    let located = located(file, names);
    let line_of = |index: usize| located[index].map_or(0, |(start, _)| line_number(&file[..start]));
    let version_line = line_of(1);
    let platform_lines = [6, 7, 8].map(line_of);
    let [
        name,
        version,
        description,
        author,
        author_uri,
        plugin_uri,
        requires,
        requires_php,
        tested,
        update_uri,
        requires_plugins,
        template,
    ] = located.map(|found| found.map(|(_, value)| value).unwrap_or_default());
    let written = [plain(requires), plain(requires_php), plain(tested)];
    let strange = |(value, line): (&String, usize)| {
        let message = match &*platform(value) {
            "" => "is not a version such as 6.5 or 6.5.1".to_owned(),
            version => {
                format!("is read as {version}, but WordPress compares the text itself: write {version}")
            }
        };
        let message = format!("\"{}\" {message}", value.escape_debug());
        (!is_platform_version(value)).then_some(ReadmeWarning { line, message })
    };
    let warnings = written.iter().zip(platform_lines).filter_map(strange).collect();
    let [requires, requires_php, tested] = written.map(|value| platform(&value));
    PluginHeader {
        name: plain(name),
        version: plain(version),
        version_line,
        description: plain(description),
        author: plain(author),
        author_uri: web_address(author_uri),
        plugin_uri: web_address(plugin_uri),
        requires,
        requires_php,
        tested,
        update_uri: line(update_uri),
        requires_plugins: slugs(requires_plugins),
        template: match kind {
            PluginKind::Plugin => String::new(),
            PluginKind::Theme => line(template),
        },
        warnings,
    }
}

/// The slugs in `Requires Plugins`, as WordPress' `sanitize_dependency_slugs` has them: what is no slug of WordPress.org
/// is left out, and the rest is sorted.
fn slugs(value: &[u8]) -> Vec<String> {
    let is_word = |word: &[u8]| {
        let is_of_word = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        !word.is_empty() && word.iter().all(is_of_word)
    };
    let slugs = value.split(|byte| *byte == b',').map(trimmed);
    let slugs = slugs.filter(|slug| slug.split(|byte| *byte == b'-').all(is_word));
    let slugs: BTreeSet<String> = slugs.map(|slug| String::from_utf8_lossy(slug).into_owned()).collect();
    slugs.into_iter().collect()
}

/// The version in a value, as WordPress.org's parser cleans it: no platform's name, no `or higher`, no `-RC1`; empty
/// if there is none or more than one. To the CMS, any other text is older than every version, so `WordPress 6.6.1`
/// would never block an update.
fn platform(value: &str) -> String {
    let version = platform_version(value);
    if !version.is_empty() {
        return version;
    }
    // `PHP 8`: the CMS can compare it, although WordPress.org requires two numbers.
    let words: Vec<_> = value
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .map(|word| word.trim_matches('.'))
        .filter(|word| !word.is_empty())
        .collect();
    let mut numbers = words
        .iter()
        .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    match (numbers.next(), numbers.next()) {
        (Some(number), None) if number.bytes().all(|byte| byte.is_ascii_digit()) => (*number).to_owned(),
        _ => String::new(),
    }
}

/// Numbers with dots, perhaps with a suffix: `7.4`, `6.9-RC1`. An empty value is not an error.
fn is_platform_version(value: &str) -> bool {
    let numbers = value.split('-').next().unwrap_or_default();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    value.is_empty() || numbers.split('.').all(is_number)
}

/// WordPress' `get_file_data`, byte for byte: the first line with a name counts, even if its value is empty.
///
/// Works on bytes, as WordPress does, so a file in another encoding has the same header.
pub fn file_data<'a, const N: usize>(file: &'a [u8], names: [&str; N]) -> [&'a [u8]; N] {
    located(file, names).map(|found| found.map(|(_, value)| value).unwrap_or_default())
}

/// The values, each with the start of its line.
fn located<'a, const N: usize>(file: &'a [u8], names: [&str; N]) -> [Option<(usize, &'a [u8])>; N] {
    let mut found = [None; N];
    let mut start = 0;
    let window = &file[..file.len().min(WINDOW)];
    let ends = memchr::memchr2_iter(b'\n', b'\r', window).chain([window.len()]);
    for end in ends {
        let line = &window[start..end];
        let content = after_comment_marks(line);
        if let Some(colon) = memchr::memchr(b':', content)
            && let Some(index) = names
                .iter()
                .position(|name| name.as_bytes().eq_ignore_ascii_case(&content[..colon]))
        {
            found[index].get_or_insert_with(|| (start, value(&content[colon + 1..])));
        }
        start += line.len() + 1;
    }
    found
}

/// From 1; `\r\n` ends one line.
fn line_number(before: &[u8]) -> usize {
    let alone = |pair: &&[u8]| pair[0] == b'\r' && pair[1] != b'\n';
    let ends = before.iter().filter(|&&byte| byte == b'\n').count() + before.windows(2).filter(alone).count();
    1 + ends + usize::from(before.ends_with(b"\r"))
}

/// The line after an opening PHP tag and the marks before a comment's text.
fn after_comment_marks(line: &[u8]) -> &[u8] {
    const TAG: &[u8] = b"<?php";
    let code = skip(line, b" \t");
    let line = match code.split_at_checked(TAG.len()) {
        Some((tag, rest)) if tag.eq_ignore_ascii_case(TAG) => rest,
        _ => line,
    };
    skip(line, b" \t/*#@")
}

/// `_cleanup_header_comment`: the value ends where the comment or the PHP code ends.
fn value(text: &[u8]) -> &[u8] {
    // PHP's `\s` in a pattern is not what PHP's `trim` takes away.
    const SPACES: &[u8] = b" \t\n\x0B\x0C\r";
    // PHP treats the string "0" as false, so `get_file_data` drops it.
    if text == b"0" {
        return b"";
    }
    let end = text.windows(2).position(|pair| matches!(pair, b"*/" | b"?>"));
    let value = end.map_or(text, |end| skip_back(&text[..end], SPACES));
    trimmed(value)
}

/// PHP's `trim`.
fn trimmed(text: &[u8]) -> &[u8] {
    const TRIMMED: &[u8] = b" \t\n\x0B\0\r";
    skip_back(skip(text, TRIMMED), TRIMMED)
}

fn skip<'a>(text: &'a [u8], marks: &[u8]) -> &'a [u8] {
    let start = text.iter().position(|byte| !marks.contains(byte)).unwrap_or(text.len());
    &text[start..]
}

fn skip_back<'a>(text: &'a [u8], marks: &[u8]) -> &'a [u8] {
    let end = text
        .iter()
        .rposition(|byte| !marks.contains(byte))
        .map_or(0, |last| last + 1);
    &text[..end]
}

/// A value as one line: a control character may have been decoded to a line end.
fn line(value: &[u8]) -> String {
    decode(value).replace('\n', " ").trim().to_owned()
}

fn plain(value: &[u8]) -> String {
    html::strip(&line(value))
}

/// Keeps `javascript:` and similar schemes out of an admin screen's links, as `esc_url` does.
fn web_address(value: &[u8]) -> String {
    let address = line(value);
    match url::Url::parse(&address) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") => String::new(),
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn version(line: &str) -> String {
        parse(PluginKind::Plugin, line.as_bytes()).version
    }

    #[test]
    fn a_header_is_read_in_every_comment_style() {
        for line in [
            "Version: 1.2",
            " * Version: 1.2",
            "/* Version: 1.2 */",
            "// version:1.2",
            "# VERSION:\t1.2 ",
            "@Version: 1.2",
            "<?php Version: 1.2",
            "\t<?PHP /** Version: 1.2 ?> tail",
            "<?php\rVersion: 1.2\rAuthor: x",
            "x\r\n * Version: 1.2\r\n",
            "Version: 1.2\nVersion: 1.3",
            "Version: 1.2*/ Version: 1.3",
        ] {
            assert_eq!(version(line), "1.2", "{line:?}");
        }
    }

    #[test]
    fn what_wordpress_does_not_match_is_not_read() {
        for line in [
            "x Version: 1.2",
            "- Version: 1.2",
            "Version : 1.2",
            "The Version: 1.2",
            "Versions: 1.2",
            "\u{FEFF}Version: 1.2",
            "\0Version: 1.2",
            "Version:\nVersion: 1.2",
            "Version:0",
            "Version: */ 1.2",
            "<?php <?php Version: 1.2",
        ] {
            assert_eq!(version(line), "", "{line:?}");
        }
    }

    #[test]
    fn a_value_is_trimmed_as_php_trims() {
        for (line, expected) in [
            ("Version:\0\x0B 1.2\0\x0B ", &b"1.2"[..]),
            ("Version: 1.2\x0C", b"1.2\x0C"),
            ("Version: 1.2\x0C*/", b"1.2"),
            ("Version: 0", b"0"),
        ] {
            assert_eq!(file_data(line.as_bytes(), ["Version"]), [expected], "{line:?}");
        }
    }

    #[test]
    fn only_the_first_eight_kibibytes_count() {
        let file = |padding: usize| format!("{}\nVersion: 1.2.3", "x".repeat(padding));
        assert_eq!(version(&file(WINDOW - 15)), "1.2.3");
        assert_eq!(version(&file(WINDOW - 13)), "1.2");
        assert_eq!(version(&file(WINDOW)), "");
    }

    #[test]
    fn fields_are_plain_text_in_any_encoding() {
        let header = parse(
            PluginKind::Plugin,
            b"<?php\n/*\nPlugin Name: Caf\xE9 &amp; <b>Bar</b>\nDescription: 1 < 2 &copy; <a href='x'>us</a>\n\
              Author: <b>x</b><script>y</script>\nAuthor URI: javascript:alert(1)\nPlugin URI: https://example.com/?a=1&copy=2\n\
              Update URI: false\nTested up to: 6.5\nRequires PHP: 7.4\nRequires at least: 5.0\n*/",
        );
        assert_eq!(header.name, "Café & Bar");
        assert_eq!(header.description, "1 < 2 © us");
        assert_eq!(header.author, "x");
        assert_eq!(header.author_uri, "");
        assert_eq!(header.plugin_uri, "https://example.com/?a=1&copy=2");
        assert_eq!(header.update_uri, "false");
        assert_eq!(
            (&*header.tested, &*header.requires_php, &*header.requires),
            ("6.5", "7.4", "5.0")
        );
    }

    #[test]
    fn the_version_is_read_with_its_line_however_lines_end() {
        for (file, line) in [
            ("Version: 1.2", 1),
            ("<?php\n/*\n\n * Version: 1.2", 4),
            ("<?php\r\n/*\r\n\r\n * Version: 1.2\r\n", 4),
            ("<?php\r/*\r\r * Version: 1.2", 4),
            ("<?php", 0),
        ] {
            assert_eq!(
                parse(PluginKind::Plugin, file.as_bytes()).version_line,
                line,
                "{file:?}"
            );
        }
    }

    #[test]
    fn what_the_cms_cannot_compare_is_reported_with_its_line_and_read_as_a_version() {
        let header = parse(
            PluginKind::Plugin,
            b"<?php\n/*\nTested up to: latest\nRequires at least: WordPress 6\nRequires PHP: 8.\n*/",
        );
        let warnings: Vec<_> = header
            .warnings
            .iter()
            .map(|warning| (warning.line, &*warning.message))
            .collect();
        assert_eq!(
            warnings,
            [
                (
                    4,
                    "\"WordPress 6\" is read as 6, but WordPress compares the text itself: write 6"
                ),
                (
                    5,
                    "\"8.\" is read as 8, but WordPress compares the text itself: write 8"
                ),
                (3, "\"latest\" is not a version such as 6.5 or 6.5.1"),
            ]
        );
        assert_eq!(
            (&*header.tested, &*header.requires, &*header.requires_php),
            ("", "6", "8")
        );
        for (written, expected) in [
            ("WordPress 6.6.1", "6.6.1"),
            ("WP 6.5 or higher", "6.5"),
            ("PHP 7.4+", "7.4"),
            (">= 8.1", "8.1"),
            ("PHP 8+", "8"),
            ("6.9-RC1", "6.9"),
            ("4.3 alpha", "4.3"),
            ("6.5.x", "6.5"),
            ("5.0 - 6.5", ""),
            ("6 or 7", ""),
            ("trunk", ""),
        ] {
            let lines = format!("Tested up to: {written}\nRequires at least: {written}\nRequires PHP: {written}");
            let header = parse(PluginKind::Plugin, lines.as_bytes());
            for field in [&header.tested, &header.requires, &header.requires_php] {
                assert_eq!(field, expected, "{written}");
            }
        }
        for fine in ["6", "6.9", "7.4.0", "6.9-RC1", ""] {
            assert_eq!(
                parse(PluginKind::Plugin, format!("Tested up to: {fine}").as_bytes()).warnings,
                [],
                "{fine}"
            );
        }
    }

    #[test]
    fn a_theme_is_known_by_its_name() {
        let theme = |css: &[u8]| main_header(PluginKind::Theme, css);
        let header = |version: &str, is_child_theme| {
            let version = version.to_owned();
            Some(MainHeader {
                version,
                is_child_theme,
            })
        };
        assert_eq!(theme(b"/*\nTheme Name: Acme\nVersion: 1.2\n*/"), header("1.2", false));
        assert_eq!(theme(b"/*\nTheme Name: Acme\nTemplate: other\n*/"), header("", true));
        assert_eq!(theme(b"/*\nTheme Name: Acme\nTemplate:\n*/"), header("", false));
        assert_eq!(theme(b"/*\nTheme Name:\nTheme URI: x\n*/"), None);
        assert_eq!(theme(b"/*\nPlugin Name: Acme\nVersion: 1.2\n*/"), None);
        assert_eq!(theme(b"body { color: red }"), None);
    }

    #[test]
    fn a_themes_header_is_read_from_its_own_fields() {
        let css = b"/*!\n\tTheme Name: Acme &amp; Co\r\n\tTheme URI: https://acme.example/theme\n\tPlugin URI: https://other.example\n\
              \tPlugin Name: Other\n\tVersion: 1.2\n\tRequires at least: 6.6\n\tTemplate: storefront\n*/\nbody{}";
        let header = parse(PluginKind::Theme, css);
        assert_eq!(header.name, "Acme & Co");
        assert_eq!(header.plugin_uri, "https://acme.example/theme");
        assert_eq!((&*header.version, header.version_line), ("1.2", 6));
        assert_eq!((&*header.requires, &*header.template), ("6.6", "storefront"));
        let plugin = parse(PluginKind::Plugin, css);
        assert_eq!((&*plugin.name, &*plugin.template), ("Other", ""));
    }

    #[test]
    fn required_plugins_are_cleaned_as_wordpress_cleans_them() {
        for (written, expected) in [
            ("woocommerce", "woocommerce"),
            (" my-plugin , woocommerce,\tmy-plugin", "my-plugin woocommerce"),
            ("z, a, 0-x", "0-x a z"),
            (
                "Woo, woo_commerce, -woo, woo-, woo--commerce, woo commerce, woo.php",
                "",
            ),
            ("woo\u{A0}, a", "a"),
            ("", ""),
        ] {
            for kind in [PluginKind::Plugin, PluginKind::Theme] {
                let header = parse(kind, format!("/*\nRequires Plugins: {written}\n*/").as_bytes());
                assert_eq!(header.requires_plugins.join(" "), expected, "{written}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_file_gives_one_line_fields(file: Vec<u8>, field in "(Plugin Name|Description|Plugin URI): ?\\PC*") {
            let header = parse(PluginKind::Plugin, &[&file[..], b"\n", field.as_bytes()].concat());
            for text in [header.name, header.description, header.plugin_uri, header.version, header.author] {
                prop_assert!(!text.contains(|c: char| c.is_control() && c != '\t'), "{text:?}");
            }
        }
    }
}
