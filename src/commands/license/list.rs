//! `license list`: the licenses of the registry, in the order in which they stand there.

use std::path::Path;

use chrono::NaiveDate;
use clap::ValueEnum;

use crate::commands::Failure;
use crate::commands::output::{self, Table};
use crate::model::license::{License, Standing};
use crate::model::name::Name;
use crate::registry::Registry;

use super::parse_day;
use super::view::{self, View};

/// What `list` takes.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only those that are worth this today
    #[arg(long, value_name = "STATUS")]
    status: Option<StatusArg>,
    /// Only those that cover this module
    #[arg(long, value_name = "MODULE")]
    module: Option<Name>,
    /// Only those whose last day is before this one
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = parse_day)]
    expires_before: Option<NaiveDate>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StatusArg {
    Active,
    Expired,
    Suspended,
    Revoked,
}

impl Args {
    fn wants(&self, license: &License, today: NaiveDate) -> bool {
        let standing = self.status.is_none_or(|status| {
            license.standing(today)
                == match status {
                    StatusArg::Active => Standing::Active,
                    StatusArg::Expired => Standing::Expired,
                    StatusArg::Suspended => Standing::Suspended,
                    StatusArg::Revoked => Standing::Revoked,
                }
        });
        standing
            && self.module.as_ref().is_none_or(|module| license.modules.contains_key(module))
            && self.expires_before.is_none_or(|day| license.expires < day)
    }
}

/// The table, or the JSON document.
pub fn list(args: &Args, registry: &Path, today: NaiveDate) -> Result<String, Failure> {
    let registry = Registry::load(registry)?;
    let mut licenses: Vec<_> = registry.licenses().filter(|license| args.wants(license, today)).collect();
    licenses.sort_by_key(|license| registry.place(&license.id));
    if args.json {
        return output::json(&licenses.iter().map(|license| View::new(license, &registry, today)).collect::<Vec<_>>());
    }
    let mut table = Table::new(&["ID", "STATUS", "EXPIRES", "SITES", "MODULES", "NOTE"]);
    for license in licenses {
        let standing = view::standing(license, today);
        let (tag, modules) = (license.id.log_tag(), view::modules(license));
        table.row([&tag, &standing, &license.expires, &license.sites, &modules, &license.particulars.note]);
    }
    Ok(table.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Instance, parse, today};
    use super::*;

    fn listed(line: &str) -> String {
        list(&parse(line), Instance::new().path(), today()).unwrap()
    }

    #[test]
    fn licenses_are_listed_in_the_order_in_which_they_stand() {
        let (first, second) = (Instance::key(1).id().log_tag(), Instance::key(2).id().log_tag());
        assert_eq!(
            listed(""),
            format!(
                "ID            STATUS     EXPIRES     SITES      MODULES             NOTE\n\
                 {first}  active     2027-12-31  1          base forms=pdf,api  first\n\
                 {second}  suspended  2027-01-31  unlimited  base                se\\u{{1b}}cond\n"
            )
        );
    }

    #[test]
    fn filters_narrow_the_list() {
        let rows = |line| listed(line).lines().count() - 1;
        assert_eq!((rows("--status active"), rows("--status suspended"), rows("--status revoked")), (1, 1, 0));
        assert_eq!((rows("--module forms"), rows("--module base"), rows("--module other")), (1, 2, 0));
        assert_eq!((rows("--expires-before 2027-01-31"), rows("--expires-before 2027-02-01")), (0, 1));
    }

    #[test]
    fn json_has_every_field_and_the_place() {
        let list: serde_json::Value = serde_json::from_str(&listed("--json --status suspended")).unwrap();
        assert_eq!(list[0]["sites"], "unlimited");
        assert_eq!(list[0]["standing"], "suspended");
        assert_eq!(list[0]["modules"]["base"], serde_json::json!([]));
        assert!(list[0]["place"].as_str().unwrap().ends_with("licenses/licenses.toml:9"));
    }
}
