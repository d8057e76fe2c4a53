//! The command line: the verbs and their shared options. Each verb's own arguments are in its module in `commands`.

use std::borrow::Cow;
use std::path::PathBuf;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{Args as _, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands::Exit;
use crate::commands::output::{self, error_json};
use crate::commands::{
    bindings, build, changes, completions, customer, desk, doctor, init, keys, license, mail, manual, package, preview,
    publish, review, rollout, security, serve, shop, sign, token, trace, usage, verify, wait, webhook,
};
use countersign_model::license_key::LicenseKey;
use countersign_model::text::stderr;
use countersign_settings::config::PathSettings;

/// Answer license checks and update requests of paid CMS plugins
#[derive(Parser, Debug)]
#[command(name = "countersign", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "\
Examples:
  countersign init --demo demo                  make a demo instance
  countersign -C demo build                     write the manifests of its plugins
  countersign -C demo serve                     run the server on 127.0.0.1:8080
  countersign -C demo license list              list its licenses

Every command takes the flags of `countersign help paths`, for parts of an instance that are elsewhere. \
Flags win over the environment, and the environment wins over countersign.toml.
Exit codes: 0 done, 1 a check found a difference, 2 usage, 3 wrong input, 4 the system failed.")]
pub struct Cli {
    /// The folder of the instance: the one with countersign.toml
    ///
    /// Parts of the instance may be elsewhere: `countersign help paths` lists the flags for them.
    #[arg(
        short = 'C',
        long,
        env = "COUNTERSIGN_INSTANCE",
        value_name = "DIR",
        default_value = ".",
        global = true
    )]
    pub instance: PathBuf,
    /// Paths of the instance's parts.
    #[command(flatten)]
    pub paths: PathSettings,
    /// The verb.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Parses the command line. Prints help or the error and exits if there is nothing to run. `commit` is what the program was built of,
    /// for `--version`.
    pub fn parse_or_exit(commit: Option<&str>) -> Self {
        if std::env::args_os().skip(1).eq(["help", "paths"]) {
            // A closed pipe is no failure of the help.
            let _ = paths_help().print_long_help();
            std::process::exit(0);
        }
        let command = Self::command().long_version(output::long_version(commit));
        let parsed = command
            .try_get_matches()
            .and_then(|found| Self::from_arg_matches(&found));
        parsed.map_err(with_full_verbs).unwrap_or_else(|error| {
            let text = error.to_string();
            // SECURITY: an error quotes the argument it rejects, which may be a license key in the wrong place.
            let clean = LicenseKey::redact(&text);
            if wants_json() && error.use_stderr() {
                let mut lines = clean.lines().map(str::trim).filter(|line| !line.is_empty());
                let message = lines
                    .next()
                    .unwrap_or_default()
                    .trim_start_matches("error: ")
                    .to_owned();
                let more: Vec<String> = lines
                    .filter(|line| !line.starts_with("For more information"))
                    .map(str::to_owned)
                    .collect();
                let exit = error.exit_code();
                let code = u8::try_from(exit).unwrap_or(Exit::Usage as u8);
                stderr::line(error_json(&message, &more, Some("see --help"), code));
                std::process::exit(exit)
            }
            match clean {
                Cow::Borrowed(_) => error.exit(),
                Cow::Owned(clean) => {
                    stderr::line(clean.trim_end());
                    std::process::exit(error.exit_code())
                }
            }
        })
    }
}

/// The help of the flags that every command takes.
fn paths_help() -> clap::Command {
    let command = PathSettings::augment_args(clap::Command::new("countersign"));
    command
        .long_about("Flags for the parts of an instance, which every command takes")
        .override_usage("countersign [FLAGS] COMMAND …")
        .disable_help_flag(true)
        .max_term_width(100)
        .mut_args(|flag| flag.hide(false))
        .after_help(
            "Without a flag or its variable, the table [paths] of countersign.toml counts, and then the default, which is \
             relative to the folder of the instance.",
        )
}

/// Names the commands that a verb in the wrong place may mean: `license import` for `import`.
fn with_full_verbs(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let verb = verb.clone();
    let cli = Cli::command();
    let rooms = cli.get_subcommands();
    let having = rooms.filter(|room| room.find_subcommand(&verb).is_some());
    let tips: Vec<StyledStr> = having
        .map(|room| format!("there is '{} {} {verb}'", cli.get_name(), room.get_name()).into())
        .collect();
    if !tips.is_empty() {
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// Whether the command line has `--json`, even if the rest of it is invalid.
pub fn wants_json() -> bool {
    std::env::args_os()
        .skip(1)
        .take_while(|argument| argument != "--")
        .any(|argument| argument == "--json")
}

/// The verbs.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Create an instance in a folder
    Init(init::Args),
    /// Write the manifests and packages from the plugins' repositories
    Build(build::Args),
    /// Publish releases that another machine built
    Publish(publish::Args),
    /// Show releases as the CMS will, before you publish them
    Preview(preview::Args),
    /// Run the server
    Serve(Box<serve::Args>),
    /// Issue, list and change licenses
    License(license::Args),
    /// Show and erase customers
    Customer(customer::Args),
    /// Sign in at the desk, the page on which you see and change licenses
    Desk(desk::Args),
    /// Verify, export and maintain the bindings of sites
    Bindings(bindings::Args),
    /// Create, list, rotate and publish keys
    Keys(keys::Args),
    /// Add, list and check packages
    Package(package::Args),
    /// Create, list and revoke tokens of the management API
    Token(token::Args),
    /// Show to whom a copy of a package was given
    Trace(trace::Args),
    /// List what looks like abuse: build ids of other sites, refused hosts, and licenses that moved often
    Review(review::Args),
    /// Show what was changed last, by whom, and why
    Changes(changes::Args),
    /// Show which versions of a plugin sites run
    Usage(usage::Args),
    /// Show how a release reaches sites in steps, pause it, or give it to everybody
    Rollout(rollout::Args),
    /// Show how far security releases have reached sites
    Security(security::Args),
    /// Show what your shops' products grant
    Shop(shop::Args),
    /// Show, test and look after the mails that buyers get
    Mail(mail::Args),
    /// Make, test and look after webhooks: messages to your own services
    Webhook(webhook::Args),
    /// Sign a release with an SSH key
    Sign(sign::Args),
    /// Verify a saved statement offline
    Verify(verify::Args),
    /// Wait until the running server uses the files of the registry
    Wait(wait::Args),
    /// Check an instance and report what is wrong
    Doctor(doctor::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Print the manual page, or write a page for each verb
    Manual(manual::Args),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use countersign_settings::config::{unknown_variables, variables};

    use super::Cli;

    #[test]
    fn a_variable_that_is_no_setting_is_reported_with_a_suggestion() {
        let warnings = |names: &[&str]| unknown_variables(&Cli::command(), names.iter().map(ToString::to_string));
        let known = variables(&Cli::command());
        assert!(known.len() > 25, "{known:?}");
        assert_eq!(warnings(&known.iter().map(String::as_str).collect::<Vec<_>>()), [""; 0]);
        assert_eq!(
            warnings(&["COUNTERSIGN_SHOPS_EU_KIND", "COUNTERSIGN_WEBHOOKS_A_B_URL"]),
            [""; 0]
        );
        assert_eq!(
            warnings(&["COUNTERSIGN_MAIL_SERVR"]),
            [
                "the environment variable COUNTERSIGN_MAIL_SERVR is not a setting (did you mean COUNTERSIGN_MAIL_SERVER?)"
            ]
        );
        assert_eq!(warnings(&["PATH", "countersign_listen", "COUNTERSIGN"]), [""; 0]);
        assert_eq!(
            warnings(&["COUNTERSIGN_ZZZ", "COUNTERSIGN_LISTN", "COUNTERSIGN_STORE_DIR"]),
            [
                "the environment variable COUNTERSIGN_LISTN is not a setting (did you mean COUNTERSIGN_LISTEN?)",
                "the environment variable COUNTERSIGN_STORE_DIR is not a setting (did you mean COUNTERSIGN_STORE?)",
                "the environment variable COUNTERSIGN_ZZZ is not a setting",
            ]
        );
    }
}
