//! Arguments of `license release` and `license move`. [`in_ledger`](crate::commands::license::in_ledger) carries them out: bindings
//! are in the ledger, whatever declares the license.

use countersign_model::site_host::SiteHost;

use crate::commands::license::arguments::parse_host;
use crate::commands::license::change_options::ChangeOptions;
use crate::commands::license::selector::LicenseArg;

/// Arguments of `release`.
#[derive(clap::Args, Debug)]
pub(super) struct SiteReleaseArgs {
    #[command(flatten)]
    pub(super) license: LicenseArg,
    /// The site to release
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    pub(super) host: Option<SiteHost>,
    /// Release all sites; a license for one site needs neither --host nor --all
    #[arg(long, conflicts_with = "host")]
    pub(super) all: bool,
    #[command(flatten)]
    pub told: ChangeOptions,
}

/// Arguments of `move`.
#[derive(clap::Args, Debug)]
pub(super) struct MoveArgs {
    #[command(flatten)]
    pub(super) license: LicenseArg,
    /// The site to release
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    pub(super) from: SiteHost,
    /// The site to bind instead
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    pub(super) to: SiteHost,
    #[command(flatten)]
    pub told: ChangeOptions,
}
