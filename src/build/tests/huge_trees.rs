//! Trees of a few objects that expand to very many folders: an error that names its limit, or read once.

use std::time::Instant;

use git2::Oid;

use crate::build::fixture::{COMMITTED, FILE, Fixture, entry, header, signature};
use crate::build::tests::outcomes;
use countersign_model::plugin::{PackageSettings, Plugin, PluginSource};
use countersign_package::archive::Archive;

const FOLDER: i32 = 0o040_000;

fn tree(made: &Fixture, entries: &[(&str, Oid, i32)]) -> Oid {
    let mut builder = made.git.treebuilder(None).unwrap();
    for (name, id, mode) in entries {
        builder.insert(name, *id, *mode).unwrap();
    }
    builder.write().unwrap()
}

fn blob(made: &Fixture, text: &str) -> Oid {
    made.git.blob(text.as_bytes()).unwrap()
}

/// A plugin of version 1.0 whose folder `d` is this tree, with a tag.
fn release(made: &Fixture, below: Oid) {
    let main = blob(made, &header("1.0"));
    release_root(
        made,
        tree(made, &[("acme.php", main, FILE.cast_signed()), ("d", below, FOLDER)]),
    );
}

/// A plugin of version 1.0 that is this tree, with a tag.
fn release_root(made: &Fixture, root: Oid) {
    let root = made.git.find_tree(root).unwrap();
    let who = signature(COMMITTED);
    let commit = made.git.commit(None, &who, &who, "Work", &root, &[]).unwrap();
    made.tag("1.0", commit);
}

/// `levels` trees, each of which has the next one under every name of `names`; the last one has the file.
fn bomb(made: &Fixture, levels: usize, names: &[&str], last: &[(&str, Oid, i32)]) -> Oid {
    let last = tree(made, last);
    (0..levels).fold(last, |below, _| {
        let entries: Vec<_> = names.iter().map(|name| (*name, below, FOLDER)).collect();
        tree(made, &entries)
    })
}

fn hosted(made: &Fixture) -> Plugin {
    let plugin = made.plugin();
    Plugin {
        download_url: String::new(),
        package: Some(PackageSettings::defaults(&plugin.slug)),
        ..plugin
    }
}

#[test]
fn a_tree_that_has_itself_twice_at_each_level_is_an_error_that_names_the_limit() {
    for last in [&[][..], &["f.php"]] {
        let made = Fixture::new();
        let file = blob(&made, "<?php");
        let last: Vec<_> = last.iter().map(|name| (*name, file, FILE.cast_signed())).collect();
        release(&made, bomb(&made, 40, &["a", "b"], &last));
        let began = Instant::now();
        let report = made.build(hosted(&made));
        let described = format!("{:?}", report.tags);
        assert!(
            described.contains("262,144 files and folders") || described.contains("65,535 files"),
            "{described}"
        );
        // Without packages, only PHP files are looked for, and each folder is read once.
        assert_eq!(outcomes(&made.build(made.plugin())), ["1.0 built"]);
        // Unoptimised, on a busy machine; it took the whole time that a build may take.
        assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    }
}

#[test]
fn a_tree_that_is_very_deep_or_has_long_names_is_an_error_that_names_the_limit() {
    let made = Fixture::new();
    let file = blob(&made, "<?php");
    release(
        &made,
        bomb(&made, 3_000, &["a"], &[("f.php", file, FILE.cast_signed())]),
    );
    let described = format!("{:?}", made.build(hosted(&made)).tags);
    assert!(described.contains("more than 512 folders deep"), "{described}");

    let made = Fixture::new();
    let file = blob(&made, "<?php");
    let long = "n".repeat(60_000);
    release(
        &made,
        bomb(&made, 40, &[&long, "m"], &[("f.php", file, FILE.cast_signed())]),
    );
    let described = format!("{:?}", made.build(hosted(&made)).tags);
    assert!(described.contains("4,096 bytes"), "{described}");
}

#[test]
fn a_plugin_that_moved_is_looked_for_once_in_each_folder() {
    let made = Fixture::new();
    let file = blob(&made, "<?php");
    let names: Vec<String> = (0..190).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let many: Vec<String> = (0..20_000).map(|number| format!("f{number}.txt")).collect();
    let many: Vec<_> = many
        .iter()
        .map(|name| (name.as_str(), file, FILE.cast_signed()))
        .collect();
    release(&made, bomb(&made, 1, &names, &many));
    let mut plugin = made.plugin();
    plugin.source = Some(PluginSource {
        path: "nowhere".to_owned(),
        ..plugin.source.unwrap()
    });
    let began = Instant::now();
    let report = made.run(&[entry(plugin)], true, &[]).plugins.remove(0);
    assert!(
        format!("{:?}", report.tags).contains("Moved(\"\")"),
        "{:?}",
        report.tags
    );
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}

/// A tree with this file of rules, one that it leaves out and one that it does not.
fn with_rules(made: &Fixture, rules: &str) -> Oid {
    let rules = blob(made, rules);
    let file = blob(made, "x");
    tree(
        made,
        &[
            (".gitattributes", rules, FILE.cast_signed()),
            ("a7-b", file, FILE.cast_signed()),
            ("kept.txt", file, FILE.cast_signed()),
        ],
    )
}

#[test]
fn a_file_of_rules_in_very_many_folders_is_compiled_once() {
    let made = Fixture::new();
    let rules: String = (0..20_000)
        .map(|number| format!("a{number}*b export-ignore\n"))
        .collect();
    let last = with_rules(&made, &rules);
    let names: Vec<String> = (0..2_000).map(|number| format!("n{number}")).collect();
    let folders: Vec<_> = names.iter().map(|name| (name.as_str(), last, FOLDER)).collect();
    release(&made, tree(&made, &folders));
    let began = Instant::now();
    assert_eq!(outcomes(&made.build(hosted(&made))), ["1.0 built"]);
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    let package = std::fs::File::open(made.releases().join("acme/1.0.zip")).unwrap();
    let package = Archive::check(&package).unwrap();
    // One in each folder, the main file and the mark.
    assert_eq!(package.files().count(), 2_002);
}

#[test]
fn rules_in_very_many_folders_are_an_error_that_names_the_file() {
    let made = Fixture::new();
    let rules = "*.md export-ignore\n";
    let nested = (0..100).fold(with_rules(&made, rules), |below, _| {
        let rules = blob(&made, rules);
        tree(
            &made,
            &[("n", below, FOLDER), (".gitattributes", rules, FILE.cast_signed())],
        )
    });
    let rules = |folder: usize| -> String {
        let line = |number: usize| format!("a{number}*b{folder} export-ignore\n");
        (0..20_000).map(line).collect()
    };
    let names = ["a", "b", "c"];
    let own: Vec<_> = (0..3)
        .map(|folder| (names[folder], with_rules(&made, &rules(folder)), FOLDER))
        .collect();
    for below in [nested, tree(&made, &own)] {
        release(&made, below);
        let began = Instant::now();
        let described = format!("{:?}", made.build(hosted(&made)).tags);
        assert!(
            described.contains(".gitattributes: there are more patterns than can be matched"),
            "{described:.500}"
        );
        assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    }
}

#[test]
fn patterns_that_are_slow_over_very_many_long_names_are_an_error_that_names_the_file() {
    let made = Fixture::new();
    let file = blob(&made, "x");
    // Each `*` stays open over the whole name.
    let names: Vec<String> = (0..500)
        .map(|number| format!("{}{number}", "abcdef".repeat(20)))
        .collect();
    let names: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), file, FILE.cast_signed()))
        .collect();
    let leaf = tree(&made, &names);
    let folders: Vec<String> = (0..120).map(|number| format!("d{number}")).collect();
    let patterns = |attribute: &str| -> String {
        (0..2_500)
            .map(|number| format!("*a*b*c*d*e*f{number}{attribute}\n"))
            .collect()
    };
    for (rules, lines) in [
        (".gitattributes", patterns(" export-ignore")),
        (".distignore", patterns("")),
        // Each of them matches each of the names, and is for folders only.
        (".distignore", format!("{}/\n", names[0].0).repeat(8_000)),
    ] {
        let rules_file = blob(&made, &lines);
        let mut entries: Vec<_> = folders.iter().map(|name| (name.as_str(), leaf, FOLDER)).collect();
        let main = blob(&made, &header("1.0"));
        entries.extend([
            ("acme.php", main, FILE.cast_signed()),
            (rules, rules_file, FILE.cast_signed()),
        ]);
        release_root(&made, tree(&made, &entries));
        let began = Instant::now();
        let refused = format!("{:?}", made.build(hosted(&made)).tags);
        let expected = format!("{rules}: there are more patterns than can be matched");
        assert!(refused.contains(&expected), "{refused:.500}");
        // It took 2 ms a name, two minutes in all.
        assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    }
}

/// Very many paths into folders that git ignores, none of which is there.
#[test]
fn code_that_names_very_many_folders_is_searched_soon() {
    let made = Fixture::new();
    let file = blob(&made, "x");
    let names: Vec<String> = (0..20_000).map(|number| format!("f{number}.txt")).collect();
    let mut entries: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), file, FILE.cast_signed()))
        .collect();
    let code: String = (0..60_000).map(|number| format!("a{number}/dist/b\n")).collect();
    let lines: String = (0..2_500).map(|number| format!("*a*b*c*d*e*f{number}\n")).collect();
    let code = blob(&made, &format!("<?php\n{code}"));
    let ignored = blob(&made, &format!("dist-x\n{lines}"));
    let main = blob(&made, &header("1.0"));
    entries.extend([
        ("acme.php", main, FILE.cast_signed()),
        ("code.php", code, FILE.cast_signed()),
        (".gitignore", ignored, FILE.cast_signed()),
    ]);
    release_root(&made, tree(&made, &entries));
    let began = Instant::now();
    assert_eq!(outcomes(&made.build(hosted(&made))), ["1.0 built"]);
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}

#[test]
fn folders_of_tags_may_be_as_deep_as_a_path_is_long() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    let folder = made.repository().join(".git/refs/tags").join("a/".repeat(1_900));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("f"), "no object\n").unwrap();
    // As many as a thread of the build has.
    let report = made.build(made.plugin());
    assert!(
        format!("{:?}", report.releases).contains("1.0"),
        "{:.500}",
        format!("{:?}", report.tags)
    );
}

#[test]
fn rules_that_cannot_be_matched_leave_nothing_unsaid() {
    let made = Fixture::new();
    let lines: String = (0..60_000).map(|number| format!("a{number}*b\n")).collect();
    let commit = made.commit(&[("acme.php", &header("1.0")), (".distignore", &lines)]);
    made.tag("1.0", commit);
    let described = format!("{:?}", made.build(hosted(&made)).tags);
    assert!(
        described.contains(".distignore: there are more patterns than can be matched"),
        "{described}"
    );
}
