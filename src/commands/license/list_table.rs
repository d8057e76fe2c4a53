//! The table of `license list`. If the ledger has some of the licenses, columns say when each was issued and changed, and
//! who issued it.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};

use crate::commands::output::Table;
use countersign_model::issued_license::IssuedLicense;
use countersign_model::license::{License, Modules};

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
        let modules = modules.or_insert_with(|| license.module_list());
        let from = issued.map_or("file".to_owned(), |issued| issued.origin.scope.words());
        let day = |time: DateTime<Utc>| time.date_naive().to_string();
        let issued_on = issued.map_or("-".to_owned(), |issued| day(issued.origin.issued));
        let changed = issued.filter(|issued| issued.revision > 1);
        let changed_on = changed.map_or("-".to_owned(), |issued| day(issued.time));
        let mut cells: Vec<&dyn Display> = vec![&tag, &state, &license.expires, &license.sites, modules];
        if has_issued {
            cells.extend::<[&dyn Display; 3]>([&issued_on, &changed_on, &from]);
        }
        cells.push(&license.details.note);
        table.add(&cells);
    }
    if let Some(width) = width {
        table.fit(width);
    }
    table.write(out)
}
