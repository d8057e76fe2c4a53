//! The history in a store's folder: `history.jsonl` has the days that are over, and `history-today.json` the others.
//!
//! A day's lines are appended at once and synced. A line that a loss of power tore is cut off, and what is missing of its day is appended.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use chrono::{Days, NaiveDate};
use serde::{Deserialize, Serialize};

use crate::day_lines::{DayRange, QUARTERS_FOR, final_lines, sums};
use crate::error::StoreError;
use countersign_files::durable_file::{self, Access};
use countersign_files::regular_file;
use countersign_model::day_counts::{DayCounts, DayLine};
use countersign_model::slug::Slug;

/// The days that are over.
const FINISHED: &str = "history.jsonl";

/// The others.
const RUNNING: &str = "history-today.json";

/// Size limit of either file in bytes: decades.
const MAX_FILE: u64 = 1 << 30;

/// So many bytes before a day are read, too; longer than any line.
const NEAR: usize = 8 << 10;

/// How a line begins: what was asked for is found without reading the counts.
const BEGIN: &str = "{\"day\":\"";

/// The length of a day as text.
const DAY: usize = "2026-11-25".len();

/// The files of one folder.
pub(super) struct FolderDays {
    folder: PathBuf,
    /// What `RUNNING` says of servers that ended, once a server has read it.
    earlier: Option<RunningDays>,
    /// What this server counted.
    own: Vec<DayLine>,
}

/// What `history-today.json` has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct RunningDays {
    /// Counts of days without final lines.
    days: Vec<DayLine>,
    /// The counts by the quarter of an hour of days with final lines.
    quarters: Vec<DayLine>,
}

impl FolderDays {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            earlier: None,
            own: Vec::new(),
        }
    }

    /// Notes that reading or writing failed.
    fn failed(&self, source: io::Error) -> StoreError {
        StoreError::Read {
            path: self.folder.clone(),
            source,
        }
    }

    fn read_running(&self) -> Result<RunningDays, StoreError> {
        let read = match regular_file::read(&self.folder.join(RUNNING), MAX_FILE) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(RunningDays::default()),
            Err(error) => Err(error),
        };
        read.map_err(|source| StoreError::Read {
            path: self.folder.join(RUNNING),
            source,
        })
    }

    /// What servers that ended counted, read once.
    fn earlier(&mut self) -> Result<&mut RunningDays, StoreError> {
        let earlier = match self.earlier.take() {
            Some(earlier) => earlier,
            None => self.read_running()?,
        };
        Ok(self.earlier.insert(earlier))
    }

    fn write_running(&mut self) -> Result<(), StoreError> {
        let own = std::mem::take(&mut self.own);
        let earlier = self.earlier()?;
        let running = RunningDays {
            days: sums(earlier.days.iter().chain(&own)),
            quarters: earlier.quarters.clone(),
        };
        self.own = own;
        let text = serde_json::to_vec(&running).map_err(|error| self.failed(error.into()))?;
        let path = self.folder.join(RUNNING);
        let written = match durable_file::replace_existing(&path, &text) {
            Ok(true) => Ok(()),
            Ok(false) => durable_file::create_new(&path, &text, Access::Owner),
            Err(error) => Err(error),
        };
        written.map_err(|error| self.failed(error))
    }

    pub(super) fn note(&mut self, own: &[DayLine]) -> Result<(), StoreError> {
        self.own = own.to_vec();
        self.write_running()
    }

    pub(super) fn unfinished(&mut self, before: NaiveDate) -> Result<Vec<NaiveDate>, StoreError> {
        self.earlier()?;
        let earlier = self.earlier.iter().flat_map(|earlier| &earlier.days);
        let days: BTreeSet<_> = earlier.chain(&self.own).map(|line| line.day).collect();
        Ok(days.into_iter().filter(|day| *day < before).collect())
    }

    pub(super) fn finish(&mut self, day: NaiveDate, more: &[DayLine]) -> Result<(), StoreError> {
        self.earlier()?;
        let known = self.finished(&DayRange {
            plugin: None,
            since: day,
        })?;
        let known: BTreeSet<Option<Slug>> = known
            .into_iter()
            .filter(|line| line.day == day)
            .map(|line| line.plugin)
            .collect();
        let earlier = self.earlier.iter().flat_map(|earlier| &earlier.days);
        let counted: Vec<_> = earlier.chain(&self.own).cloned().collect();
        let mut lines = final_lines(day, &counted, more);
        let mut quarters = Vec::new();
        for line in &mut lines {
            let of_line = std::mem::take(&mut line.counts.quarters);
            if !of_line.is_empty() {
                quarters.push(DayLine {
                    counts: DayCounts {
                        quarters: of_line,
                        ..DayCounts::default()
                    },
                    ..line.clone()
                });
            }
        }
        lines.retain(|line| !known.contains(&line.plugin));
        self.append(&lines)?;
        let oldest = day.checked_sub_days(Days::new(QUARTERS_FOR)).unwrap_or(day);
        let earlier = self.earlier()?;
        earlier.days.retain(|line| line.day != day);
        earlier.quarters.retain(|line| line.day > oldest);
        // Those of a day that was finished before stay.
        quarters.retain(|line| {
            let is_same = |kept: &DayLine| kept.day == line.day && kept.plugin == line.plugin;
            !earlier.quarters.iter().any(is_same)
        });
        earlier.quarters.append(&mut quarters);
        self.own.retain(|line| line.day != day);
        self.write_running()
    }

    /// Appends lines, behind the last whole one.
    pub(super) fn append(&self, lines: &[DayLine]) -> Result<(), StoreError> {
        let append = || -> io::Result<()> {
            let mut text = Vec::new();
            for line in lines {
                serde_json::to_writer(&mut text, line)?;
                text.push(b'\n');
            }
            let path = self.folder.join(FINISHED);
            match whole_end(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    durable_file::create_new(&path, &text, Access::Owner)
                }
                end => durable_file::append(&path, Some(end?), &text),
            }
        };
        append().map_err(|error| self.failed(error))
    }

    /// The final lines in the range.
    fn finished(&self, range: &DayRange) -> Result<Vec<DayLine>, StoreError> {
        let path = self.folder.join(FINISHED);
        let text = match read_since(&path, range.since) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.map_err(|error| self.failed(error))?,
        };
        let since = range.since.to_string();
        let plugin = range
            .plugin
            .as_ref()
            .map(|plugin| format!("\",\"plugin\":\"{plugin}\","));
        let wanted = text.lines().filter(|line| {
            let is_recent = day_of(line).is_some_and(|day| day >= since.as_str());
            let is_of_plugin = |plugin: &String| {
                line.get(BEGIN.len() + DAY..)
                    .is_some_and(|rest| rest.starts_with(plugin))
            };
            is_recent && plugin.as_ref().is_none_or(is_of_plugin)
        });
        // A line that cannot be read counts as none: nothing depends on it.
        Ok(wanted.filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// The final lines in the range, and what servers that ended counted of other days.
    pub(super) fn read(&self, range: &DayRange) -> Result<(Vec<DayLine>, Vec<DayLine>), StoreError> {
        let mut lines = self.finished(range)?;
        let running = match &self.earlier {
            Some(earlier) => earlier.clone(),
            None => self.read_running()?,
        };
        let mut quarters: BTreeMap<_, _> = running
            .quarters
            .into_iter()
            .map(|line| ((line.day, line.plugin), line.counts.quarters))
            .collect();
        if !quarters.is_empty() {
            for line in &mut lines {
                if let Some(quarters) = quarters.remove(&(line.day, line.plugin.clone())) {
                    line.counts.quarters = quarters;
                }
            }
        }
        Ok((lines, running.days.into_iter().filter(|line| range.has(line)).collect()))
    }
}

/// The day of a line, as text: days of one length are sorted like their texts.
fn day_of(line: &str) -> Option<&str> {
    line.strip_prefix(BEGIN)?.get(..DAY)
}

/// Where the last whole line ends.
fn whole_end(path: &Path) -> io::Result<u64> {
    let mut file = regular_file::open(path, MAX_FILE)?;
    let mut end = file.metadata()?.len();
    let mut bytes = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(64 << 10);
        bytes.resize((end - start) as usize, 0);
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut bytes)?;
        if let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// The whole lines from a day on, and some before. The days of a long file ascend: a few of its lines say where to begin.
fn read_since(path: &Path, since: NaiveDate) -> io::Result<String> {
    let mut file = regular_file::open(path, MAX_FILE)?;
    let since = since.to_string();
    let mut low = 0;
    let mut high = file.metadata()?.len();
    let mut bytes = vec![0; NEAR];
    while high - low > NEAR as u64 {
        let middle = low + (high - low) / 2;
        file.seek(SeekFrom::Start(middle))?;
        let length = file.read(&mut bytes)?;
        let begin = bytes[..length]
            .iter()
            .position(|byte| *byte == b'\n')
            .map(|end| end + 1);
        let line = begin.and_then(|begin| bytes.get(begin..begin + BEGIN.len() + DAY));
        let day = line.and_then(|line| day_of(str::from_utf8(line).ok()?));
        match day.is_some_and(|day| day < since.as_str()) {
            true => low = middle,
            false => high = middle,
        }
    }
    file.seek(SeekFrom::Start(low))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    // What is not a whole line yet is read later.
    bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    let begin = match low {
        0 => 0,
        // Within a line of an earlier day.
        _ => bytes.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1),
    };
    String::from_utf8(bytes.split_off(begin)).map_err(io::Error::other)
}
