//! `license issue`: issues a license into the ledger and prints its key, or makes a declaration to paste.

use std::io;

use chrono::{DateTime, NaiveDate, Utc};
use clap_complete::engine::ArgValueCompleter;
use serde::Serialize;

use crate::build::counted;
use crate::commands::kept_customers::CustomerArg;
use crate::commands::{Exit, Failure, candidates, output};
use crate::serve::license_mails::MailsOrder;
use crate::serve::ops::issue_answers::{IssueOrder, IssueReply, LicenseGrant};
use crate::serve::ops::license_answers::NewKey;
use countersign_model::issued_license::Hex128;
use countersign_model::language::Language;
use countersign_model::license::{MAX_GRACE_PERIOD_HOURS, Modules, SiteLimit};
use countersign_model::license_key::{LicenseId, LicenseKey};
use countersign_model::remarks::MAX_NOTE;
use countersign_model::rights::Rights;
use countersign_model::site_host::SiteHost;
use countersign_model::text::printable::Printable;
use countersign_model::text::{shell_quoted, stderr};
use countersign_registry::{SoldModules, declaration};
use countersign_settings::config::Config;

use crate::commands::license::arguments::{Expires, ModuleArg, RightsFlags, parse_host, parse_sites};
use crate::commands::license::assign;
use crate::commands::license::order;

/// The longest name of a request, in bytes.
const MAX_REQUEST: usize = 200;

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
    #[command(flatten)]
    rights: RightsFlags,
    /// A site to bind before its first validation; repeatable
    #[arg(long = "host", value_name = "HOST", value_parser = parse_host)]
    hosts: Vec<SiteHost>,
    /// A note for yourself
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, value_parser = note)]
    note: String,
    /// The customer's mail address; '-' reads it from stdin
    #[arg(long, value_name = "ADDRESS|-", conflicts_with = "declare")]
    customer: Option<CustomerArg>,
    /// The language of the mails about it, such as de or pt-BR [default: that of your texts]
    #[arg(long, value_name = "LANGUAGE", conflicts_with = "declare")]
    language: Option<Language>,
    /// Who gets the reminders of its end instead of the customer; '-' reads the mail address from stdin
    #[arg(long, value_name = "ADDRESS|-", conflicts_with = "declare")]
    reminders_to: Option<CustomerArg>,
    /// A name for this request: the same command with the same name prints the same key and issues nothing
    #[arg(long, value_name = "NAME", value_parser = request_name)]
    request: Option<String>,
    /// Issue nothing: make a key and print the table to paste into a file of registry/licenses/
    #[arg(long, conflicts_with = "request")]
    declare: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct IssuedDocument<'a> {
    license_key: &'a str,
    id: LicenseId,
    /// Whether an earlier command with this request issued it.
    repeated: bool,
    /// The name of the request.
    request: &'a str,
    /// The page from which the buyer downloads the plugins.
    #[serde(skip_serializing_if = "Option::is_none")]
    download_page: Option<&'a str>,
}

#[derive(Serialize)]
struct DeclaredDocument<'a> {
    license_key: &'a str,
    id: LicenseId,
    /// For a TOML file.
    table: String,
    /// For a JSONL file.
    line: String,
}

/// Issues a license, or declares one with `--declare`.
pub(super) fn run(args: &Args, config: &Config, now: DateTime<Utc>) -> Result<Exit, Failure> {
    refuse_keys(args)?;
    assign::refuse_two_from_stdin([args.customer.as_ref(), args.reminders_to.as_ref()])?;
    let grant = grant(args, now.date_naive())?;
    if let Some(warning) = check_modules(args, &config.paths.registry)? {
        stderr::line(format_args!("warning: {}", Printable(&warning)));
    }
    output::refuse_unseen()?;
    match args.declare {
        true => declare(args, grant),
        false => issue(args, grant, config),
    }
}

/// Has the license issued, then prints its key. If nobody saw the key, the request can be repeated.
fn issue(args: &Args, grant: LicenseGrant, config: &Config) -> Result<Exit, Failure> {
    let request = match &args.request {
        Some(name) => name.clone(),
        None => format!("cli-{}", Hex128(random::<16>()?)),
    };
    let order = IssueOrder {
        typed: typed(args)?,
        grant,
        request,
        customer: args.customer.as_ref().map(CustomerArg::address).transpose()?,
        mails: MailsOrder {
            language: args.language.clone(),
            reminders_to: args.reminders_to.as_ref().map(assign::reminders_to).transpose()?,
        },
    };
    let request = &order.request;
    let (new, earlier) = match order::issue(config, &order)? {
        IssueReply::Issued { new, earlier } => (new, earlier),
        IssueReply::Refused(reason) => return Err(refused(reason)),
    };
    let NewKey {
        id,
        license_key,
        download_page,
    } = new;
    let tag = id.log_tag();
    let text = match args.json {
        true => output::json(&IssuedDocument {
            license_key: &license_key,
            id,
            repeated: earlier.is_some(),
            request,
            download_page: download_page.as_deref(),
        })?,
        false => format!("{license_key}\n"),
    };
    show_key(&text, || {
        let request = shell_quoted(request.as_ref());
        format!("license {tag} is issued; the same command with --request {request} prints its key again")
    })?;
    if !args.json {
        match earlier {
            None => stderr::line(format_args!("License {tag} is issued. Its key is stored nowhere.")),
            Some(time) => stderr::line(format_args!(
                "note: license {tag} was issued by this request on {}; nothing was issued now",
                time.date_naive()
            )),
        }
        tell_download_page(download_page.as_deref());
    }
    Ok(Exit::Done)
}

/// Says where the buyer downloads the plugins. Not on stdout, which has the key alone.
pub(super) fn tell_download_page(page: Option<&str>) {
    if let Some(page) = page {
        stderr::line(format_args!(
            "The buyer downloads the plugin from this page, for 14 days:\n{page}"
        ));
        if ["http://127.0.0.1", "http://[::1]", "http://localhost"]
            .iter()
            .any(|here| page.starts_with(here))
        {
            stderr::line(
                "note: only this machine reaches that address; serve.public_url in countersign.toml is the one for buyers",
            );
        }
    }
}

/// Why nothing was issued.
#[derive(Debug, thiserror::Error)]
#[error("nothing was issued: {0}")]
struct NotIssued(String);

fn refused(reason: String) -> Failure {
    let hint = match reason.starts_with("another license") {
        true => "use a new name for each license; the same name is for the same command",
        false => "`countersign doctor` checks the keys of the instance",
    };
    Failure::input(NotIssued(reason)).hint(hint)
}

/// Makes a key, and prints the declaration to stdout and the key to stderr: what is redirected into a file has no key.
fn declare(args: &Args, grant: LicenseGrant) -> Result<Exit, Failure> {
    let key = LicenseKey::from_random(random()?);
    let license = grant.license(key.id());
    let table = declaration::table(&license);
    if args.json {
        return output::print(&output::json(&DeclaredDocument {
            license_key: key.reveal(),
            id: license.id,
            table,
            line: declaration::line(&license),
        })?);
    }
    stderr::try_line(format_args!(
        "License {} is declared by the table on stdout. Its key, shown only once and stored nowhere:\n{}",
        license.id.log_tag(),
        key.reveal()
    ))
    .map_err(Failure::environment)?;
    output::print(&table)
}

/// Prints a key. If stdout cannot be written, the key may be lost, so the failure has this hint.
pub(super) fn show_key(text: &str, hint: impl FnOnce() -> String) -> Result<(), Failure> {
    show_key_on(&mut io::stdout().lock(), text, hint)
}

fn show_key_on(stdout: &mut impl io::Write, text: &str, hint: impl FnOnce() -> String) -> Result<(), Failure> {
    output::write_whole(stdout, text).map_err(|error| Failure::environment(output::NotPrinted(error)).hint(hint()))
}

fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut random = [0; N];
    getrandom::fill(&mut random).map_err(Failure::environment)?;
    Ok(random)
}

fn request_name(text: &str) -> Result<String, &'static str> {
    let is_name = (1..=MAX_REQUEST).contains(&text.len()) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    match is_name {
        true => Ok(text.to_owned()),
        false => Err("expected 1 to 200 printable ASCII characters"),
    }
}

fn note(text: &str) -> Result<String, String> {
    match text.len() <= MAX_NOTE {
        true => Ok(text.to_owned()),
        false => Err(format!("expected at most {MAX_NOTE} bytes")),
    }
}

/// What the license grants if it is issued today.
fn grant(args: &Args, today: NaiveDate) -> Result<LicenseGrant, Failure> {
    let expires = args.expires.from(today);
    if expires < today {
        return Err(Failure::usage(format!("{expires} is past")));
    }
    let sites = args.sites.unwrap_or(SiteLimit::DEFAULT);
    let hosts = &args.hosts;
    if let SiteLimit::Limited(limit) = sites
        && hosts.len() > limit.get() as usize
    {
        return Err(Failure::usage(format!(
            "{} are given with --host, but the license is for {}",
            counted(hosts.len(), "site"),
            counted(limit.get(), "site")
        ))
        .hint("say with --sites how many sites may use it"));
    }
    if let Some((_, twice)) = hosts
        .iter()
        .enumerate()
        .find(|(place, host)| hosts[..*place].contains(host))
    {
        return Err(Failure::usage(format!("the host {twice} is given twice")));
    }
    Ok(LicenseGrant {
        modules: modules(args)?,
        expires,
        sites: match sites {
            SiteLimit::Limited(limit) => Some(limit),
            SiteLimit::Unlimited => None,
        },
        grace_period_hours: args.grace_period_hours,
        staging_sites: args.staging_sites,
        site_moves: args.site_moves,
        rights: Rights::NONE.after(&args.rights.edit()),
        hosts: args.hosts.clone(),
        note: args.note.clone(),
    })
}

fn modules(args: &Args) -> Result<Modules, Failure> {
    let mut modules = Modules::new();
    for ModuleArg { module, features } in &args.modules {
        if modules.insert(module.clone(), features.clone()).is_some() {
            return Err(Failure::usage(format!("the module {module} is given twice")));
        }
    }
    Ok(modules)
}

/// The request as text: the same arguments give the same text on every day.
fn typed(args: &Args) -> Result<String, Failure> {
    let mut typed = serde_json::json!({
        "modules": modules(args)?,
        "expires": args.expires.to_string(),
        "sites": args.sites.unwrap_or(SiteLimit::DEFAULT).to_string(),
        "grace_period_hours": args.grace_period_hours,
        "staging_sites": args.staging_sites,
        "site_moves": args.site_moves,
        "hosts": args.hosts,
        "note": args.note,
    });
    for (name, value) in Rights::NONE.after(&args.rights.edit()).fields() {
        typed[name] = value;
    }
    Ok(typed.to_string())
}

/// Refuses modules that no plugin has, and suggests similar ones. If plugin entries have errors, it is only a warning.
fn check_modules(args: &Args, registry: &std::path::Path) -> Result<Option<String>, Failure> {
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

// SECURITY: a key pasted into the wrong argument must not get into the ledger or a file.
fn refuse_keys(args: &Args) -> Result<(), Failure> {
    let names = args
        .modules
        .iter()
        .flat_map(|given| given.features.iter().chain([&given.module]));
    let names = names.map(|name| ("--module", name.as_str()));
    let hosts = args.hosts.iter().map(|host| ("--host", host.as_str()));
    let request = args.request.as_deref().unwrap_or_default();
    let mut texts = names
        .chain(hosts)
        .chain([("--note", args.note.as_str()), ("--request", request)]);
    match texts.find(|(_, text)| LicenseKey::is_in(text)) {
        Some((argument, _)) => Err(Failure::usage(format!(
            "{argument} contains a license key: only customers should have keys"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::commands::license::testing::{Instance, parse, today};

    #[test]
    fn a_key_that_nobody_reads_is_a_failure() {
        // Not a pipe: a process that another test starts may have a copy of its other end for a moment.
        let (reader, mut writer) = UnixStream::pair().unwrap();
        reader.shutdown(Shutdown::Both).unwrap();
        let failure = show_key_on(&mut writer, "the key\n", || "repeat it".to_owned()).unwrap_err();
        assert_eq!(
            (failure.exit, failure.hint.as_deref()),
            (Exit::Environment, Some("repeat it"))
        );
    }

    #[test]
    fn the_same_arguments_are_the_same_request_on_another_day() {
        let args = |line: &str| -> Args { parse(line) };
        let line = "--module base --expires +1y";
        let later = today() + chrono::Days::new(1);
        let [first, second] = [today(), later].map(|day| grant(&args(line), day).unwrap().expires);
        assert_ne!(first, second);
        assert_eq!(
            typed(&args(line)).unwrap(),
            typed(&args(&format!("{line} --sites 1"))).unwrap()
        );
        for more in [
            "--sites 2",
            "--note x",
            "--host a.com",
            "--module forms",
            "--staging-sites 0",
        ] {
            let other = args(&format!("{line} {more}"));
            assert_ne!(typed(&args(line)).unwrap(), typed(&other).unwrap(), "{more}");
        }
        let never = args("--module base --expires never");
        assert_ne!(typed(&args(line)).unwrap(), typed(&never).unwrap());
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
    fn what_makes_no_sense_is_refused() {
        for (line, reason) in [
            ("--module base --expires 2026-11-19", "2026-11-19 is past"),
            (
                "--module base --module base=x --expires 2027-12-31",
                "the module base is given twice",
            ),
            (
                "--module base --expires never --host a.com --host b.com",
                "2 sites are given with --host, but the license is for 1 site",
            ),
            (
                "--module base --expires never --sites 2 --host a.com --host https://www.a.com/",
                "the host a.com is given twice",
            ),
        ] {
            let refused = grant(&parse(line), today()).map(|_| ()).unwrap_err();
            assert_eq!(
                (refused.exit, refused.error.to_string()),
                (Exit::Usage, reason.to_owned())
            );
        }
    }

    #[test]
    fn a_license_key_in_an_argument_is_refused() {
        let key = LicenseKey::from_random([7; 20]);
        let key = key.reveal();
        for given in [
            format!("--module {key}"),
            format!("--module base={key}"),
            format!("--module base --host {}.com", key.to_lowercase()),
            format!("--module base --note {key}"),
            format!("--module base --request {key}"),
        ] {
            let refused = refuse_keys(&parse(&format!("{given} --expires never"))).unwrap_err();
            let text = refused.error.to_string();
            assert!(text.contains("contains a license key") && !text.contains(key), "{text}");
        }
    }
}
