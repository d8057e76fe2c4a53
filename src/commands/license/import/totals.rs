//! What became of the rows of an export, for people and as JSON. Quotes nothing of a row but a short word for its status.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use serde::Serialize;

use countersign_model::period::NEVER;
use countersign_model::text::printable::PrintableLines;
use countersign_shops::import::columns::ExportColumns;
use countersign_shops::import::exported_license::{Assumption, ExportedLicense};

use crate::commands::license::import::module_lines::ModuleLines;
use crate::commands::license::import::preview::{self, PreviewedLicense};

/// The most rejected rows that are listed. The file of rejects has them all.
const MOST_LISTED: usize = 1_000;

/// How many lines are named for one reason.
const MOST_LINES: usize = 10;

/// Counts of rows and sites.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// What a row is counted as.
    pub counts: &'static str,
    pub rows: u64,
    pub new: u64,
    pub changed: u64,
    pub unchanged: u64,
    /// Rows whose license another row of the same key has, too.
    pub merged: u64,
    pub sites_bound: u64,
    /// Licenses that a subscription renews from then on.
    pub subscriptions: u64,
    /// Whether subscriptions are attached.
    pub attaches: bool,
    /// Sites that only their own network reaches, which need no seat.
    pub local_sites: u64,
    /// The modules of all rows, except those that were rejected at once.
    pub modules: ModuleLines,
    /// The first licenses of a dry run.
    pub shown: Vec<PreviewedLicense>,
    /// Licenses that never end.
    lifetime: u64,
    skipped: u64,
    /// What rows say and no license has here.
    left_out: BTreeMap<String, u64>,
    /// What licenses have and no row says.
    assumed: BTreeMap<Assumption, u64>,
    /// Headers of columns that say nothing of a license here.
    unused_columns: Vec<String>,
    rejected: u64,
    listed: Vec<RejectedRow>,
}

#[derive(Clone, Debug, Serialize)]
struct RejectedRow {
    line: u64,
    reason: String,
}

/// Something of a file and how many rows have it.
#[derive(Clone, Debug, Serialize)]
struct CountedRows {
    what: String,
    rows: u64,
}

#[derive(Serialize)]
pub(super) struct TotalsDocument<'a> {
    changed: bool,
    dry_run: bool,
    rows: u64,
    new_licenses: u64,
    changed_licenses: u64,
    unchanged_licenses: u64,
    lifetime_licenses: u64,
    merged_rows: u64,
    skipped_rows: u64,
    sites_bound: u64,
    local_sites: u64,
    subscriptions: u64,
    /// The first ten of a dry run.
    licenses: &'a [PreviewedLicense],
    assumed: Vec<CountedRows>,
    not_taken_over: Vec<CountedRows>,
    unused_columns: &'a [String],
    rejected: u64,
    /// The first thousand.
    rejected_rows: &'a [RejectedRow],
    notes: &'a [String],
}

impl Totals {
    /// Of a file with these columns.
    pub(super) fn new(columns: &ExportColumns) -> Self {
        Self {
            counts: columns.preset().form.counts(),
            unused_columns: columns.unused().to_vec(),
            ..Self::default()
        }
    }

    /// Counts a row that is no license, by the word for its status.
    pub(super) fn skip(&mut self, word: &str) {
        self.skipped += 1;
        *self
            .left_out
            .entry(format!("rows with the status {word:?}"))
            .or_default() += 1;
    }

    /// Counts what a license has that its row does not say, and the other way round.
    pub(super) fn count(&mut self, license: &ExportedLicense, names_orders: bool) {
        self.lifetime += u64::from(license.expires == NEVER);
        for assumption in &license.assumed {
            *self.assumed.entry(*assumption).or_default() += 1;
        }
        let has_reference = license.reference.is_some();
        let left_out = [
            ("customer", license.customer.is_some() && !names_orders),
            (
                "name",
                license.name.is_some() && (license.customer.is_none() || !names_orders),
            ),
            ("subscription", license.subscription.is_some() && !self.attaches),
            ("reference", has_reference && !names_orders),
            ("order", license.order.is_some() && (has_reference || !names_orders)),
        ];
        let of_license = left_out.iter().filter(|(_, is_left_out)| *is_left_out);
        for what in of_license.map(|(what, _)| what).chain(&license.left_out) {
            *self.left_out.entry((*what).to_owned()).or_default() += 1;
        }
    }

    /// Counts what a row says and no license has.
    pub(super) fn leave_out(&mut self, what: String) {
        *self.left_out.entry(what).or_default() += 1;
    }

    /// Counts a row that was not taken.
    pub(super) fn reject(&mut self, line: u64, reason: &str) {
        self.rejected += 1;
        if self.listed.len() < MOST_LISTED {
            let reason = reason.to_owned();
            self.listed.push(RejectedRow { line, reason });
        }
    }

    /// How many rows were not taken.
    pub(super) fn rejected(&self) -> u64 {
        self.rejected
    }

    /// How many licenses and sites are or would be otherwise than before.
    pub(super) fn changes(&self) -> u64 {
        self.new + self.changed + self.sites_bound
    }

    /// As one JSON document.
    pub(super) fn document<'a>(&'a self, notes: &'a [String], dry_run: bool) -> TotalsDocument<'a> {
        TotalsDocument {
            changed: self.changes() > 0 && !dry_run,
            dry_run,
            rows: self.rows,
            new_licenses: self.new,
            changed_licenses: self.changed,
            unchanged_licenses: self.unchanged,
            lifetime_licenses: self.lifetime,
            merged_rows: self.merged,
            skipped_rows: self.skipped,
            sites_bound: self.sites_bound,
            local_sites: self.local_sites,
            subscriptions: self.subscriptions,
            licenses: &self.shown,
            assumed: counted_rows(&self.assumed),
            not_taken_over: counted_rows(&self.left_out),
            unused_columns: &self.unused_columns,
            rejected: self.rejected,
            rejected_rows: &self.listed,
            notes,
        }
    }

    /// For people. `is_whole` says whether every row of the file was answered.
    pub(super) fn text(&self, dry_run: bool, is_whole: bool, today: NaiveDate) -> String {
        let counted = |count: u64, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
        let mut text = match dry_run {
            true if self.shown.is_empty() => "Nothing was changed. An import would give:\n".to_owned(),
            true => format!(
                "Nothing was changed. An import would give, first:\n\n{}\nand in all:\n",
                preview::table(&self.shown, self.counts, today)
            ),
            false => String::new(),
        };
        text += &format!(
            "{}: {} new, {} changed, {} as before, {} not taken. {} bound.\n",
            counted(self.rows, "row"),
            self.new,
            self.changed,
            self.unchanged,
            self.rejected,
            counted(self.sites_bound, "site")
        );
        if !is_whole {
            text += "That is not the whole file: it was not read or imported to its end.\n";
        } else if self.rows == 0 {
            text += "The file has no rows below its header.\n";
        } else if self.changes() == 0 && self.rejected == 0 {
            text += "Everything was imported before.\n";
        }
        if self.merged > 0 {
            text += &format!(
                "{} to the licenses of other rows with the same key.\n",
                belong(self.merged)
            );
        }
        if self.lifetime > 0 {
            text += &format!(
                "{} never.\n",
                match self.lifetime {
                    1 => "1 license ends".to_owned(),
                    count => format!("{count} licenses end"),
                }
            );
        }
        if self.subscriptions > 0 {
            let renewed = counted(self.subscriptions, "subscription");
            let verb = if self.subscriptions == 1 {
                "renews its license"
            } else {
                "renew their licenses"
            };
            text += &format!("{renewed} {verb}.\n");
        }
        if self.local_sites > 0 {
            text += &format!(
                "{} on localhost or a private network, which {} no seat.\n",
                counted(self.local_sites, "site"),
                if self.local_sites == 1 { "needs" } else { "need" }
            );
        }
        text += &listed("The file does not say, so this was taken", &self.assumed);
        text += &listed("What no license has here", &self.left_out);
        if !self.unused_columns.is_empty() {
            text += &format!("Columns that were not used: {}\n", self.unused_columns.join(", "));
        }
        let mut by_reason: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for row in &self.listed {
            by_reason.entry(&row.reason).or_default().push(row.line);
        }
        if self.rejected > 0 {
            text += "\nNot taken:\n";
        }
        let mut by_reason: Vec<_> = by_reason.into_iter().collect();
        for (_, lines) in &mut by_reason {
            lines.sort_unstable();
        }
        by_reason.sort_by_key(|(_, lines)| lines.first().copied());
        for (reason, lines) in by_reason {
            let named: Vec<_> = lines.iter().take(MOST_LINES).map(u64::to_string).collect();
            let more = lines.len() - named.len();
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            let plural = if lines.len() == 1 { "" } else { "s" };
            text += &format!("  {}{plural} {}{more}: {reason}\n", self.counts, named.join(", "));
        }
        let unlisted = self.rejected - self.listed.len() as u64;
        if unlisted > 0 {
            text += &format!("  and {}\n", counted(unlisted, "more row"));
        }
        PrintableLines(text).to_string()
    }
}

fn belong(rows: u64) -> String {
    match rows {
        1 => "1 row belongs".to_owned(),
        count => format!("{count} rows belong"),
    }
}

fn counted_rows<T: ToString>(counts: &BTreeMap<T, u64>) -> Vec<CountedRows> {
    let row = |(what, rows): (&T, &u64)| CountedRows {
        what: what.to_string(),
        rows: *rows,
    };
    counts.iter().map(row).collect()
}

/// A line for each thing and how many rows have it.
fn listed<T: ToString>(heading: &str, counts: &BTreeMap<T, u64>) -> String {
    if counts.is_empty() {
        return String::new();
    }
    let lines = counted_rows(counts).into_iter();
    let lines = lines.map(|CountedRows { what, rows }| format!("  {rows:>7}  {what}\n"));
    format!("{heading}:\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_rows_are_listed_in_the_order_of_the_file() {
        let mut totals = Totals {
            counts: "line",
            rows: 4,
            local_sites: 1,
            ..Totals::default()
        };
        for (line, reason) in [(6, "a bad date"), (5, "a bad date"), (4, "no key"), (3, "a bad date")] {
            totals.reject(line, reason);
        }
        let text = totals.text(false, true, NEVER);
        assert!(
            text.contains("1 site on localhost or a private network, which needs no seat."),
            "{text}"
        );
        assert!(
            text.ends_with("\nNot taken:\n  lines 3, 5, 6: a bad date\n  line 4: no key\n"),
            "{text}"
        );
    }

    #[test]
    fn only_a_file_that_was_answered_to_its_end_was_imported_before() {
        let totals = Totals {
            rows: 4,
            unchanged: 4,
            ..Totals::default()
        };
        let before = "Everything was imported before.";
        for dry_run in [false, true] {
            assert!(totals.text(dry_run, true, NEVER).contains(before));
            let text = totals.text(dry_run, false, NEVER);
            assert!(!text.contains(before) && text.contains("not the whole file"), "{text}");
            let empty = Totals::default().text(dry_run, true, NEVER);
            assert!(
                !empty.contains(before) && empty.contains("The file has no rows below its header.\n"),
                "{empty}"
            );
        }
    }
}
