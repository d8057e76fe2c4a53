//! The table of `license list`. If the ledger has some of the licenses, columns say when each was issued and changed, and
//! who issued it.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};

use crate::commands::output::Table;
use countersign_model::issued_license::IssuedLicense;
use countersign_model::license::{License, Modules, module_list};

/// A license of a file, or of the ledger.
pub(super) struct Listed<'a> {
    pub license: &'a License,
    /// What the ledger says of it.
    pub issued: Option<&'a IssuedLicense>,
}

/// A row for each license, under headings.
pub(super) fn table(
    listed: &[Listed<'_>],
    today: NaiveDate,
    width: Option<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    let has_issued = listed.iter().any(|listed| listed.issued.is_some());
    let mut headings: Vec<&dyn Display> = vec![&"ID", &"STATUS", &"EXPIRES", &"SITES", &"MODULES"];
    if has_issued {
        headings.extend::<[&dyn Display; 3]>([&"ISSUED", &"CHANGED", &"FROM"]);
    }
    headings.push(&"NOTE");
    let mut table = Table::under(&headings);
    // Licenses with the same grant share it, so a million of them have few texts.
    let mut texts: HashMap<*const Modules, String> = HashMap::new();
    for Listed { license, issued } in listed {
        let tag = license.id.log_tag();
        let state = license.state(today).word();
        let modules = texts.entry(Arc::as_ptr(&license.modules));
        let modules = modules.or_insert_with(|| module_list(&license.modules));
        let grant: [&dyn Display; 5] = [&tag, &state, &license.expires, &license.sites, modules];
        let note = &license.details.note;
        if has_issued {
            let history = history(*issued);
            let history = history.each_ref().map(|cell| cell as &dyn Display);
            table.add(grant.into_iter().chain(history).chain([note as _]));
        } else {
            table.add(grant.into_iter().chain([note as _]));
        }
    }
    if let Some(width) = width {
        table.fit(width);
    }
    table.write(out)
}

/// When a license was issued and changed, and who issued it.
fn history(issued: Option<&IssuedLicense>) -> [String; 3] {
    let Some(issued) = issued else {
        return ["-", "-", "file"].map(str::to_owned);
    };
    let day = |time: DateTime<Utc>| time.date_naive().to_string();
    let changed = match issued.revision > 1 {
        true => day(issued.time),
        false => "-".to_owned(),
    };
    [day(issued.origin.issued), changed, issued.origin.scope.words()]
}
