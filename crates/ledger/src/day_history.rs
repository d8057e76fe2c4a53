//! The history: what was counted on each day, for each plugin. No decision depends on it.
//!
//! A server writes its own totals of the running day again and again. When the day is over, one server adds up what all of them counted, and
//! the day gets its final lines once. In a folder that is a file which only grows (`folder`), in a database a table
//! (`postgres::day_rows`).

mod folder;

use std::collections::HashSet;
use std::path::Path;

use chrono::NaiveDate;

use crate::day_history::folder::FolderDays;
use crate::day_lines::{DayRange, sums};
use crate::error::StoreError;
use crate::postgres::day_rows::DatabaseDays;
use crate::source::StoreSource;
use countersign_model::day_counts::DayLine;

/// The history of a store. Its methods block.
pub struct DayHistory(DayPlace);

enum DayPlace {
    Folder(FolderDays),
    Database(Box<DatabaseDays>),
}

impl DayHistory {
    /// The history of this store, to read it. Opens nothing yet.
    pub fn reader(source: StoreSource<'_>) -> Self {
        Self::of_server(source, "", "")
    }

    /// The history for a server: the node, and what names this run of it. Opens nothing yet.
    pub fn of_server(source: StoreSource<'_>, node: &str, instance: &str) -> Self {
        Self(match source {
            StoreSource::Folder(path) => DayPlace::Folder(FolderDays::new(path)),
            StoreSource::Database(address) => DayPlace::Database(Box::new(DatabaseDays::new(address, node, instance))),
        })
    }

    /// Stores what this server counted on days without final lines, in place of what it stored of them before.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn note(&mut self, own: &[DayLine]) -> Result<(), StoreError> {
        match &mut self.0 {
            DayPlace::Folder(folder) => folder.note(own),
            DayPlace::Database(database) => database.note(own),
        }
    }

    /// The days before this one that any server counted and that have no final lines, in their order.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn unfinished(&mut self, before: NaiveDate) -> Result<Vec<NaiveDate>, StoreError> {
        match &mut self.0 {
            DayPlace::Folder(folder) => folder.unfinished(before),
            DayPlace::Database(database) => database.unfinished(before),
        }
    }

    /// Writes the final lines of a day, unless it has some: what all servers stored, and `more`.
    ///
    /// # Errors
    /// The store cannot be read or written. Nothing is written twice if it is done again.
    pub fn finish(&mut self, day: NaiveDate, more: &[DayLine]) -> Result<(), StoreError> {
        match &mut self.0 {
            DayPlace::Folder(folder) => folder.finish(day, more),
            DayPlace::Database(database) => database.finish(day, more),
        }
    }

    /// The lines in the range, sorted by day and plugin. `own` is what this server counted on days without final lines.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn read(&mut self, range: &DayRange, own: &[DayLine]) -> Result<Vec<DayLine>, StoreError> {
        let (mut lines, mut running) = match &mut self.0 {
            DayPlace::Folder(folder) => folder.read(range)?,
            DayPlace::Database(database) => database.read(range)?,
        };
        let finished: HashSet<_> = lines.iter().map(|line| line.day).collect();
        running.extend(own.iter().filter(|line| range.has(line)).cloned());
        running.retain(|line| !finished.contains(&line.day));
        if !running.is_empty() {
            lines.extend(sums(&running));
            lines.sort_by(|one, other| (one.day, &one.plugin).cmp(&(other.day, &other.plugin)));
        }
        lines.retain(|line| !line.counts.is_empty());
        Ok(lines)
    }
}

/// Appends final lines to the history in a folder, as they are.
///
/// # Errors
/// The file cannot be written.
pub fn append_history(folder: &Path, lines: &[DayLine]) -> Result<(), StoreError> {
    FolderDays::new(folder).append(lines)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::time::Duration;

    use chrono::Days;
    use countersign_model::day_counts::{DayCounts, NamedCounts};
    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    fn day(number: u64) -> NaiveDate {
        NaiveDate::from_ymd_opt(2026, 1, 1).unwrap() + Days::new(number)
    }

    fn line(number: u64, plugin: &str, downloads: u64) -> DayLine {
        DayLine {
            day: day(number),
            plugin: plugin.parse().ok(),
            counts: DayCounts {
                downloads,
                quarters: match downloads {
                    0 => BTreeMap::new(),
                    downloads => [("2.0".into(), [(7, downloads)].into())].into(),
                },
                ..DayCounts::default()
            },
        }
    }

    fn all() -> DayRange {
        DayRange {
            plugin: None,
            since: day(0),
        }
    }

    fn downloads(lines: &[DayLine]) -> Vec<(NaiveDate, String, u64)> {
        let shown = |line: &DayLine| {
            let plugin = line.plugin.as_ref().map(ToString::to_string).unwrap_or_default();
            (line.day, plugin, line.counts.downloads)
        };
        lines.iter().map(shown).collect()
    }

    #[test]
    fn what_servers_counted_one_after_the_other_is_added_and_a_day_is_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let open = || DayHistory::reader(StoreSource::Folder(folder.path()));
        assert!(open().read(&all(), &[]).unwrap().is_empty());
        let mut first = open();
        first.note(&[line(0, "a", 1), line(0, "", 0)]).unwrap();
        first.note(&[line(0, "a", 2), line(0, "", 0)]).unwrap();
        drop(first);
        let mut second = open();
        let own = [line(0, "a", 3), line(1, "a", 5)];
        assert_eq!(
            downloads(&second.read(&all(), &own).unwrap()),
            [(day(0), "a".to_owned(), 5), (day(1), "a".to_owned(), 5)]
        );
        second.note(&own).unwrap();
        assert_eq!(second.unfinished(day(1)).unwrap(), [day(0)]);
        second.finish(day(0), &[line(0, "b", 1)]).unwrap();
        second.finish(day(0), &[line(0, "b", 1)]).unwrap();
        assert_eq!(second.unfinished(day(1)).unwrap(), []);
        let path = folder.path().join("history.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            "{\"day\":\"2026-01-01\",\"plugin\":\"a\",\"counts\":{\"downloads\":5}}\n\
             {\"day\":\"2026-01-01\",\"plugin\":\"b\",\"counts\":{\"downloads\":1}}\n"
        );
        let lines = open().read(&all(), &[]).unwrap();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines[0].counts.quarters["2.0"][&7], 5,
            "a week of quarters is kept beside the file"
        );
        // The line of `b` was torn, and its day is not over for the file beside it.
        fs::write(&path, &text[..text.len() - 10]).unwrap();
        let mut third = open();
        assert_eq!(downloads(&third.read(&all(), &[]).unwrap()).len(), 2);
        third.finish(day(0), &[line(0, "a", 9), line(0, "b", 1)]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        for number in 1..12 {
            third.note(&[line(number, "a", 1)]).unwrap();
            third.finish(day(number), &[]).unwrap();
        }
        let lines = open().read(&all(), &[]).unwrap();
        let with_quarters = lines.iter().filter(|line| !line.counts.quarters.is_empty());
        assert_eq!(with_quarters.count(), 7);
    }

    #[test]
    fn a_day_without_a_request_is_over_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let mut history = DayHistory::reader(StoreSource::Folder(folder.path()));
        history.note(&[line(0, "", 0)]).unwrap();
        history.finish(day(0), &[]).unwrap();
        assert_eq!(history.unfinished(day(9)).unwrap(), []);
        assert!(history.read(&all(), &[]).unwrap().is_empty());
        assert_eq!(
            fs::read_to_string(folder.path().join("history.jsonl"))
                .unwrap()
                .lines()
                .count(),
            1
        );
    }

    #[test]
    fn a_year_of_many_plugins_is_read_in_milliseconds() {
        let folder = tempfile::tempdir().unwrap();
        let counts = |names: &[&str]| -> NamedCounts { names.iter().map(|name| (Box::from(*name), 7_204)).collect() };
        let counts = DayCounts {
            sites: counts(&["2.3.1", "2.4.0", "2.5.2", "2.6.0"]),
            updates: counts(&["update", "up_to_date"]),
            downloads: 140,
            validations: counts(&["ok", "expired"]),
            wordpress: counts(&["6.8", "6.9"]),
            php: counts(&["8.1", "8.2", "8.3"]),
            ..DayCounts::default()
        };
        let counts = serde_json::to_string(&counts).unwrap();
        let mut text = String::new();
        for number in 0..3 * 365 {
            let day = day(number);
            for plugin in 0..60 {
                text += &format!("{{\"day\":\"{day}\",\"plugin\":\"plugin-{plugin}\",\"counts\":{counts}}}\n");
            }
        }
        fs::write(folder.path().join("history.jsonl"), text).unwrap();
        let read = |plugin: Option<&str>| {
            let range = DayRange {
                plugin: plugin.and_then(|plugin| plugin.parse().ok()),
                since: day(2 * 365),
            };
            let worked = || clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap();
            let before: Duration = worked();
            let lines = DayHistory::reader(StoreSource::Folder(folder.path()))
                .read(&range, &[])
                .unwrap();
            (lines.len(), worked() - before)
        };
        let one = read(Some("plugin-7"));
        let all = read(None);
        assert_eq!((one.0, all.0), (365, 60 * 365));
        // CPU time, without optimization.
        assert!(
            one.1 < Duration::from_millis(500) && all.1 < Duration::from_secs(5),
            "{:?}, {:?}",
            one.1,
            all.1
        );
    }
}
