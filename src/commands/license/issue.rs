//! `license issue`: generates a key, prints it once, and stores its id with the grant.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use clap_complete::engine::ArgValueCompleter;
use serde::Serialize;

use crate::build::counted;
use crate::commands::{Exit, Failure, candidates, output};
use countersign_model::license::{License, LicenseDetails, LicenseStatus, MAX_GRACE_PERIOD_HOURS, Modules, SiteLimit};
use countersign_model::license_key::LicenseKey;
use countersign_model::site_host::SiteHost;
use countersign_model::text::printable::Printable;
use countersign_model::text::stderr;
use countersign_registry::SoldModules;
use countersign_registry::edit::Editor;
use countersign_settings::config::Config;

use crate::commands::license::arguments::{ModuleArg, parse_host, parse_sites};
use crate::commands::license::change_options::{ChangeOptions, note_other_nodes};
use crate::commands::license::expires::Expires;

/// Arguments of `issue`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// A module that the license covers, with its features; repeatable
    #[arg(long = "module", value_name = "MODULE[=FEATURE,...]", required = true,
        add = ArgValueCompleter::new(candidates::modules))]
    modules: Vec<ModuleArg>,
    /// Accept modules that no plugin of the registry has
    #[arg(long)]
    any_module: bool,
    /// Last day, in UTC: a date, 'never', or a period from today such as +1y or +30d
    #[arg(long, value_name = "DATE|+1y|+30d|never")]
    expires: Expires,
    /// Number of sites that may use it at once, or 'unlimited' [default: 1]
    #[arg(long, value_name = "N", value_parser = parse_sites)]
    sites: Option<SiteLimit>,
    /// Hours that a site may go on without an answer [default: the server's setting]
    #[arg(long, value_name = "HOURS", value_parser = clap::value_parser!(u16).range(..=i64::from(MAX_GRACE_PERIOD_HOURS)))]
    grace_period_hours: Option<u16>,
    /// Number of subdomains of its other sites that need no seat [default: the server's setting]
    #[arg(long, value_name = "N")]
    staging_sites: Option<u16>,
    /// How often it may move to another site in 30 days without you [default: the server's setting]
    #[arg(long, value_name = "N")]
    site_moves: Option<u16>,
    /// A site to bind before its first validation; repeatable
    #[arg(long = "host", value_name = "HOST", value_parser = parse_host)]
    hosts: Vec<SiteHost>,
    /// A note for yourself
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    note: String,
    /// The .toml or .jsonl file in registry/licenses/ to add it to [default: licenses.toml]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) told: ChangeOptions,
}

#[derive(Serialize)]
struct Issued<'a> {
    license_key: &'a str,
    id: String,
    file: String,
}

/// A license before it is written, and its key.
struct NewLicense {
    key: LicenseKey,
    license: License,
    /// The file's name in the registry's `licenses/`.
    name: String,
}

/// Writes the license, then prints the key.
pub(super) fn run(args: &Args, config: &Config, now: DateTime<Utc>) -> Result<Exit, Failure> {
    let registry = &config.paths.registry;
    refuse_keys(args)?;
    if let Some(warning) = check_modules(args, registry)? {
        stderr::line(format_args!("warning: {}", Printable(&warning)));
    }
    let draft = draft(args, registry, now.date_naive())?;
    let file = draft.file(registry);
    let key = &draft.key;
    let tag = draft.key.id().log_tag();
    let text = if args.told.json {
        let file = output::path_text(&file);
        output::json(&Issued {
            license_key: key.reveal(),
            id: key.id().to_string(),
            file,
        })?
    } else {
        format!("{}\n", key.reveal())
    };
    output::refuse_unseen()?;
    draft.write(registry)?;
    // Nothing may fail between the two: the key is nowhere else.
    let shown = show_key(&text, &tag);
    if shown.is_ok() && !args.told.json {
        stderr::line(format_args!(
            "License {tag} is in {}. Save its key: it is shown only once and not stored.",
            Printable(file.display())
        ));
    }
    note_other_nodes(config);
    let waited = args.told.wait(config);
    shown.and(waited)?;
    Ok(Exit::Done)
}

/// Prints a key, which is nowhere else.
pub(super) fn show_key(text: &str, tag: &str) -> Result<(), Failure> {
    show_key_on(&mut io::stdout().lock(), text, tag)
}

/// A new key.
pub(super) fn new_key() -> Result<LicenseKey, Failure> {
    let mut random = [0; 20];
    getrandom::fill(&mut random).map_err(Failure::environment)?;
    Ok(LicenseKey::from_random(random))
}

/// A reader that stops early, such as `head`, may have lost the key. Unlike elsewhere, that is a failure.
fn show_key_on(stdout: &mut impl io::Write, text: &str, tag: &str) -> Result<(), Failure> {
    output::write_whole(stdout, text).map_err(|error| {
        let hint = format!("nobody has seen the key of license {tag}: revoke it and issue another");
        Failure::environment(output::Untold(error)).hint(hint)
    })
}

impl NewLicense {
    /// The file to add it to.
    fn file(&self, registry: &Path) -> PathBuf {
        Editor::file(registry, &self.name)
    }

    fn write(&self, registry: &Path) -> Result<(), Failure> {
        Editor::open(registry)
            .and_then(|editor| editor.add(&self.name, &self.license))
            .map_err(Failure::from)
    }
}

fn draft(args: &Args, registry: &Path, today: NaiveDate) -> Result<NewLicense, Failure> {
    let expires = args.expires.from(today);
    if expires < today {
        return Err(Failure::usage(format!("{expires} is past")));
    }
    let key = new_key()?;
    let name = file_name(args.file.as_deref().unwrap_or(Path::new("licenses.toml")), registry)?;
    refuse_keys(args)?;
    let mut modules = Modules::new();
    for ModuleArg { module, features } in &args.modules {
        if modules.insert(module.clone(), features.clone()).is_some() {
            return Err(Failure::usage(format!("the module {module} is given twice")));
        }
    }
    let license = License {
        is_declared: true,
        id: key.id(),
        status: LicenseStatus::Active,
        expires,
        modules: Arc::new(modules),
        sites: args.sites.unwrap_or(SiteLimit::DEFAULT),
        grace_period_hours: args.grace_period_hours,
        details: LicenseDetails {
            hosts: args.hosts.clone().into(),
            note: args.note.clone(),
            staging_sites: args.staging_sites,
            site_moves: args.site_moves,
            ..LicenseDetails::default()
        }
        .into(),
    };
    Ok(NewLicense { key, license, name })
}

/// Refuses modules that no plugin has, and suggests similar ones. If plugin entries have errors, it is only a warning.
fn check_modules(args: &Args, registry: &Path) -> Result<Option<String>, Failure> {
    if args.any_module {
        return Ok(None);
    }
    let sold = SoldModules::load(registry);
    let mut given = args.modules.iter().map(|given| &given.module);
    let Some(module) = given.find(|module| !sold.has(module)) else {
        return Ok(None);
    };
    let meant = sold.did_you_mean(module);
    let finding = format!("no plugin of the registry has the module {module}{meant}");
    match sold.unread() {
        0 => Err(Failure::input(finding)
            .hint("correct the module, or add its plugin to registry/plugins/; --any-module accepts it")),
        unread => Ok(Some(format!(
            "{finding}; {} cannot be read",
            counted(unread, "plugin file")
        ))),
    }
}

// SECURITY: a key pasted into the wrong argument must not get into a file.
fn refuse_keys(args: &Args) -> Result<(), Failure> {
    let file_name = args.file.as_deref().unwrap_or(Path::new("")).to_string_lossy();
    let names = args
        .modules
        .iter()
        .flat_map(|given| given.features.iter().chain([&given.module]));
    let names = names.map(|name| ("--module", name.as_str()));
    let hosts = args.hosts.iter().map(|host| ("--host", host.as_str()));
    let mut texts = names
        .chain(hosts)
        .chain([("--note", args.note.as_str()), ("--file", &*file_name)]);
    match texts.find(|(_, text)| LicenseKey::is_in(text)) {
        Some((argument, _)) => Err(Failure::usage(format!(
            "{argument} contains a license key: only customers should have keys"
        ))),
        None => Ok(()),
    }
}

/// The name of a license file in the registry's `licenses/`, from a name or a path.
fn file_name(file: &Path, registry: &Path) -> Result<String, Failure> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let inside = folder.is_none_or(
        |folder| matches!((folder.canonicalize(), registry.join("licenses").canonicalize()), (Ok(a), Ok(b)) if a == b),
    );
    let name = file
        .file_name()
        .and_then(|name| name.to_str())
        .filter(|name| [".toml", ".jsonl"].iter().any(|end| name.ends_with(end)) && !name.starts_with('.'));
    match name {
        Some(name) if inside => Ok(name.to_owned()),
        _ => Err(Failure::usage(
            "--file must name a .toml or .jsonl file in the registry's licenses/",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::license::testing::{Instance, parse, today};

    fn issued(instance: &Instance, line: &str) -> Result<(LicenseKey, PathBuf), String> {
        let issued = draft(&parse(line), instance.path(), today()).and_then(|draft| {
            draft.write(instance.path())?;
            let file = draft.file(instance.path());
            Ok((draft.key, file))
        });
        issued.map_err(|failure| failure.error.to_string())
    }

    #[test]
    fn a_license_is_written_with_its_id_and_without_its_key() {
        let instance = Instance::new();
        let line = "--module forms=pdf,api --module base --expires 2027-12-31 --sites 3 --grace-period-hours 24 \
                    --host https://www.Example.com/ --note Zoë";
        let (key, file) = issued(&instance, line).unwrap();
        assert_eq!(file, instance.path().join("licenses/licenses.toml"));
        let text = std::fs::read_to_string(file).unwrap();
        assert!(!text.contains(key.reveal()) && !text.contains(&key.reveal().replace('-', "")));
        let registry = instance.registry();
        let license = registry.license(&key.id()).unwrap();
        assert_eq!(crate::commands::license::view::modules(license), "base forms=pdf,api");
        assert_eq!(
            (license.sites.to_string().as_str(), license.grace_period_hours),
            ("3", Some(24))
        );
        assert_eq!(
            (license.details.hosts[0].as_str(), license.details.note.as_str()),
            ("example.com", "Zoë")
        );
    }

    #[test]
    fn a_key_that_nobody_reads_is_a_failure() {
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        let failure = show_key_on(&mut writer, "the key\n", "0123").unwrap_err();
        let hint = "nobody has seen the key of license 0123: revoke it and issue another";
        assert_eq!((failure.exit, failure.hint.as_deref()), (Exit::Environment, Some(hint)));
    }

    #[test]
    fn a_module_that_no_plugin_has_is_refused_unless_it_is_meant() {
        let instance = Instance::new();
        let checked = |line: &str| {
            let checked = check_modules(&parse(&format!("{line} --expires 2027-12-31")), instance.path());
            checked.map_err(|failure| format!("{:?}: {}", failure.exit, failure.error))
        };
        let nothing_like_it = "no plugin of the registry has the module anything";
        let refused = |finding: &str| Err(format!("Input: {finding}"));
        assert_eq!(
            checked("--module anything"),
            refused(nothing_like_it),
            "also where there are no plugins yet"
        );
        for (slug, module) in [("acme-maps", "acme-maps"), ("acme-forms", "forms")] {
            let entry = format!("module = '{module}'\ndownload_url = 'https://dl.example/{{version}}.zip'\n");
            std::fs::write(instance.path().join(format!("plugins/{slug}.toml")), entry).unwrap();
        }
        let expected = "no plugin of the registry has the module form (did you mean \"forms\"?)";
        assert_eq!(
            checked("--module form --module acme-maps --module forms=pdf"),
            refused(expected)
        );
        assert_eq!(checked("--module acme-maps --module forms=pdf"), Ok(None));
        assert_eq!(checked("--module anything --any-module"), Ok(None));
        std::fs::write(instance.path().join("plugins/acme-pdf.toml"), "modul = 'pdf'\n").unwrap();
        assert_eq!(
            checked("--module pdf"),
            Ok(Some(
                "no plugin of the registry has the module pdf; 1 plugin file cannot be read".into()
            ))
        );
    }

    #[test]
    fn a_license_is_added_to_an_export_as_a_line() {
        let instance = Instance::new();
        let line = "--module forms=pdf --expires +1y --sites unlimited --note Zoë --host a.com --file shop.jsonl";
        let (first, file) = issued(&instance, line).unwrap();
        let (second, _) = issued(&instance, "--module base --expires never --file shop.jsonl").unwrap();
        let lines: Vec<serde_json::Value> = std::fs::read_to_string(file)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            (lines.len(), &lines[0]["expires"], &lines[1]["expires"]),
            (2, &"2027-11-20".into(), &"9999-12-31".into())
        );
        let registry = instance.registry();
        let license = registry.license(&first.id()).unwrap();
        assert_eq!(
            (license.sites, license.details.note.as_str()),
            (SiteLimit::Unlimited, "Zoë")
        );
        assert_eq!(registry.license(&second.id()).unwrap().sites, SiteLimit::DEFAULT);
    }

    #[test]
    fn two_licenses_never_have_the_same_key() {
        let instance = Instance::new();
        let line = "--module base --expires 2027-12-31 --file shop.toml";
        let first = issued(&instance, line).unwrap();
        let second = issued(&instance, line).unwrap();
        assert_ne!(first.0.id(), second.0.id());
        assert!(first.1.ends_with("licenses/shop.toml") && instance.registry().license_count() == 4);
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_is_written() {
        let instance = Instance::new();
        let before = instance.text();
        let file = "--file must name a .toml or .jsonl file in the registry's licenses/";
        for (line, reason) in [
            ("--module base --expires 2026-11-19", "2026-11-19 is past"),
            (
                "--module base --module base=x --expires 2027-12-31",
                "the module base is given twice",
            ),
            ("--module base --expires 2027-12-31 --file ../elsewhere.toml", file),
            ("--module base --expires 2027-12-31 --file shop.json", file),
            ("--module base --expires 2027-12-31 --file .shop.toml", file),
            (
                "--module base --expires 2027-12-31 --host a.com --host b.com",
                "the registry would not load with this change, so nothing was written",
            ),
        ] {
            assert_eq!(issued(&instance, line).unwrap_err(), reason, "{line}");
        }
        let key = Instance::key(7);
        let key = key.reveal();
        for (argument, text) in [
            ("--module", format!("{key}=pdf")),
            ("--module", format!("forms={key}")),
            ("--host", format!("{key}.com")),
            ("--note", key.to_owned()),
            ("--file", format!("{key}.toml")),
        ] {
            let line = format!("--module base --expires 2027-12-31 {argument} {text}");
            let failure = draft(&parse(&line), instance.path(), today()).err().unwrap();
            let refused = format!("{argument} contains a license key: only customers should have keys");
            assert_eq!((failure.exit, failure.error.to_string()), (Exit::Usage, refused));
        }
        assert_eq!(instance.text(), before);
        for text in ["", "a b", "forms=", "forms=pdf,", "=pdf"] {
            assert!(text.parse::<ModuleArg>().is_err(), "{text:?}");
        }
    }
}
