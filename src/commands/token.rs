//! `countersign token`: tokens with which a shop's program uses the management API.
//!
//! The ledger keeps the SHA-256 of a token's secret. The secret is shown once.

use std::io;

use chrono::{DateTime, Utc};
use serde::Serialize;
use zeroize::Zeroizing;

use strum::VariantNames as _;

use crate::commands::output::{NotPrinted, Table};
use crate::commands::{Exit, Failure, ledger_access, output, server_questions};
use crate::serve::ops::token_answers::{self, ListedToken, TokenOrder, TokenReply};
use countersign_ledger::TokenStep;
use countersign_model::api_token::{TOKEN_BYTES, TokenScope, TokenSecret};
use countersign_model::license_key::LicenseKey;
use countersign_model::name::Name;
use countersign_model::remarks::Author;
use countersign_model::text::stderr;
use countersign_settings::config::Config;
use countersign_settings::keys::secret_keys::ReferenceKeys;

/// Create, list and revoke tokens of the management API
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign token create shop --scope licenses:write
  countersign token list
  countersign token revoke shop

A program that has a token reads or changes licenses over HTTP, as docs/management-api.md describes.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Create a token and print it
    #[command(after_help = "Examples:
  countersign token create shop --scope licenses:write
  countersign token create dashboard --scope licenses:read --scope reports:read

Scopes:
  licenses:read    read licenses
  licenses:write   issue and change licenses, and read them
  customers:read   read names and addresses of the customers of licenses
  reports:read     read what sites reported
  rollouts:read    read how releases reach sites in steps
  rollouts:write   pause, resume and finish rollouts, and read them
  keys:read        read the keys of licenses that were issued more than seven days ago

The token goes to stdout and is not stored: the ledger has only its SHA-256. Changes that a program \
makes with it are recorded under NAME. To change a token, revoke it and create another with the same \
NAME.")]
    Create(CreateArgs),
    /// List tokens, and the days on which they were last used
    #[command(after_help = "Examples:
  countersign token list
  countersign token list --json")]
    List,
    /// Revoke a token at once
    #[command(after_help = "Example:
  countersign token revoke shop

On other nodes it is in force within a second.")]
    Revoke(NameArgs),
}

#[derive(clap::Args, Debug)]
struct CreateArgs {
    #[command(flatten)]
    token: NameArgs,
    /// What the token may do; may be given several times
    #[arg(long = "scope", value_name = "SCOPE", required = true, value_parser = parse_scope)]
    scopes: Vec<TokenScope>,
}

#[derive(clap::Args, Debug)]
struct NameArgs {
    /// What you call the token: letters, digits, '.', '_' and '-'
    #[arg(value_name = "NAME", value_parser = parse_name)]
    name: Name,
}

/// Why a token was not made or revoked.
#[derive(Debug, thiserror::Error)]
#[error("token {name}: {reason}")]
struct TokenRefused {
    name: Name,
    reason: String,
}

/// A token that was made.
#[derive(Serialize)]
struct CreatedToken<'a> {
    token: &'a str,
    #[serde(flatten)]
    details: &'a ListedToken,
}

fn parse_name(text: &str) -> Result<Name, String> {
    // SECURITY: the ledger has the name, and people paste what they have at hand.
    if LicenseKey::is_in(text) {
        return Err("it is a license key".to_owned());
    }
    text.parse()
        .map_err(|error: countersign_model::name::NotAName| error.to_string())
}

fn parse_scope(text: &str) -> Result<TokenScope, String> {
    text.parse()
        .map_err(|_| format!("expected one of {}", TokenScope::VARIANTS.join(", ")))
}

/// Runs the verb.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Create(create) => self::create(create, args.json, config),
        Verb::List => {
            let tokens = ledger_access::through(
                config,
                || server_questions::tokens(config),
                async |bindings| Ok(token_answers::listed(bindings)),
            )?;
            output::print(&match args.json {
                true => output::json(&tokens)?,
                false => table(&tokens),
            })
        }
        Verb::Revoke(NameArgs { name }) => {
            let revoked = change(
                config,
                name,
                TokenStep::Revoke,
                "`countersign token list` shows the tokens",
            )?;
            output::print_change(&match args.json {
                true => output::json(&revoked)?,
                false => format!("Token {name} is revoked.\n"),
            })
        }
    }
}

fn create(args: &CreateArgs, json: bool, config: &Config) -> Result<Exit, Failure> {
    if !config.paths.issuing_key.exists() || !config.paths.references_key.exists() {
        let hint = "run `countersign keys generate --issuing` and `countersign keys generate --references`; nodes of one \
                    ledger need the same keys";
        return Err(Failure::input("this instance has no keys for licenses that machines issue").hint(hint));
    }
    output::refuse_unseen()?;
    let name = &args.token.name;
    let secret = new_secret()?;
    let step = TokenStep::Create {
        hash: secret.hash(),
        scopes: args.scopes.iter().copied().collect(),
    };
    let details = change(config, name, step, "revoke it first, or choose another name")?;
    let created = CreatedToken {
        token: secret.reveal(),
        details: &details,
    };
    let text = Zeroizing::new(match json {
        true => output::json(&created)?,
        false => format!("{}\n", secret.reveal()),
    });
    // A reader that stops early may have lost it. Unlike elsewhere, that is a failure.
    output::write_whole(&mut io::stdout().lock(), &text).map_err(|error| {
        let hint = format!("nobody has seen the token: countersign token revoke {name}");
        Failure::environment(NotPrinted(error)).hint(hint)
    })?;
    if !json {
        stderr::line(format_args!(
            "Token {name} may use {}. Save it: it is shown only once and not stored.",
            scopes(&details)
        ));
    }
    Ok(Exit::Done)
}

/// Carries out one change. `refused` is the hint if it is not possible.
fn change(config: &Config, name: &Name, step: TokenStep, refused: &str) -> Result<ListedToken, Failure> {
    let order = TokenOrder {
        name: name.clone(),
        step,
    };
    let again = order.clone();
    let reply = ledger_access::through(
        config,
        || server_questions::change_token(config, &order),
        async |bindings| {
            let keys = ReferenceKeys::load(&config.paths.references_key, &config.paths.retired_keys).ok();
            let author = Author {
                who: keys.map(|(keys, _)| keys.person(server_questions::own_user().as_str())),
                reason: None,
            };
            token_answers::carry_out(bindings, again, author).await
        },
    )?;
    match reply {
        TokenReply::Done(token) => Ok(token),
        TokenReply::Refused(reason) => Err(Failure::input(TokenRefused {
            name: name.clone(),
            reason,
        })
        .hint(refused)),
    }
}

fn new_secret() -> Result<TokenSecret, Failure> {
    let mut random = Zeroizing::new([0; TOKEN_BYTES]);
    getrandom::fill(random.as_mut_slice()).map_err(Failure::environment)?;
    Ok(TokenSecret::from_random(&random))
}

fn scopes(token: &ListedToken) -> String {
    let scopes: Vec<_> = token.scopes.iter().map(|scope| scope.as_str()).collect();
    scopes.join(", ")
}

fn table(tokens: &[ListedToken]) -> String {
    if tokens.is_empty() {
        return "There is no token. Create one: countersign token create NAME --scope licenses:write\n".to_owned();
    }
    let day = |time: &DateTime<Utc>| time.date_naive().to_string();
    let mut table = Table::new(["NAME", "SCOPES", "CREATED", "LAST USED", "REVOKED"]);
    for token in tokens {
        let used = token.last_used.map_or("never".to_owned(), |used| used.to_string());
        let revoked = token.revoked.as_ref().map_or(String::new(), day);
        table.row([&token.name, &scopes(token), &day(&token.issued), &used, &revoked]);
    }
    table.to_string()
}
