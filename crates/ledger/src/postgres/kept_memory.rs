//! What a node knew when the log lost lines: its memory, in a file of the node's folder.
//!
//! The file is a compacted ledger that continues the last line the node had read. Its last line is a seal (`kept_seal`). A
//! restarted node loads the file, and `bindings repair` appends from it what the log lacks.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::bindings::BoundSites;
use crate::error::{BackendError, LedgerState};
use crate::ledger_tables::LedgerBuilder;
use crate::log::reader::{self, LedgerFault};
use crate::log::record::{LedgerEvent, LedgerRecord};
use crate::log::{Compaction, LedgerEntry, Position, ReleaseEntry};
use crate::memory::BindingMemory;
use crate::postgres::failure::{failure, newer};
use crate::postgres::kept_seal::{self, SealedWriter};
use crate::postgres::load::LoadedLog;
use crate::postgres::session::KnownLog;
use countersign_files::durable_file::{self, Access, PendingFile};
use countersign_files::regular_file;
use countersign_model::license_key::LicenseId;
use countersign_model::site_release::SiteRelease;

/// `memory-EPOCH-SEQUENCE-DIGEST.jsonl`, with the beginning of the digest of the last line that the node had read.
const NAME: [&str; 2] = ["memory-", ".jsonl"];

/// How much of the digest the name has.
const DIGITS: usize = 12;

/// What the name of such a file says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeptFile {
    /// How often the log had been repaired or compacted.
    pub epoch: i32,
    /// The last line that the node had read.
    pub sequence: u64,
    /// The beginning of its digest.
    digest: String,
    pub path: PathBuf,
}

impl KeptFile {
    /// The file at this path, if it has such a name.
    pub(crate) fn at(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let numbers = name.strip_prefix(NAME[0])?.strip_suffix(NAME[1])?;
        let mut parts = numbers.split('-');
        let kept = Self {
            epoch: parts.next()?.parse().ok()?,
            sequence: parts.next()?.parse().ok()?,
            digest: parts.next()?.to_owned(),
            path: path.clone(),
        };
        parts.next().is_none().then_some(kept)
    }

    /// Of a node that has read so much, in its folder.
    fn of(known: KnownLog, folder: &Path) -> Self {
        let KnownLog { end, epoch } = known;
        let digest = end.digest.to_string()[..DIGITS].to_owned();
        let name = format!("{}{epoch}-{}-{digest}{}", NAME[0], end.sequence, NAME[1]);
        Self {
            epoch,
            sequence: end.sequence,
            digest,
            path: folder.join(name),
        }
    }

    /// How long ago it was written, which is when the log lost lines.
    pub(super) fn age(&self) -> Duration {
        let written = fs::metadata(&self.path).and_then(|file| file.modified());
        // A clock that was set back makes it new.
        written.map_or(Duration::ZERO, |at| at.elapsed().unwrap_or_default())
    }

    /// Removes it: the log has all of it again.
    pub(super) fn remove(&self) {
        let file = self.path.display();
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%file, %error, "cannot remove what this node had kept of lost lines");
        } else {
            tracing::info!(%file, "the ledger has its lines again: removed what this node had kept");
        }
    }

    /// Renames it, so that nobody takes it for one that is still needed; the new name.
    pub(crate) fn set_aside(&self) -> io::Result<PathBuf> {
        let name = format!("repaired-{}-{}-{}{}", self.epoch, self.sequence, self.digest, NAME[1]);
        let aside = self.path.with_file_name(name);
        fs::rename(&self.path, &aside)?;
        durable_file::sync_folder(aside.parent().unwrap_or(Path::new(".")))?;
        Ok(aside)
    }

    /// Reads it. The end is the last line that the node had read, in a log of that epoch.
    pub(crate) fn read(&self) -> Result<LoadedLog, BackendError> {
        let refused = |what: String| failure(LedgerState::Damaged, format!("{}: {what}", self.path.display()));
        let file = regular_file::open(&self.path, regular_file::UNLIMITED);
        let file = file.and_then(kept_seal::unsealed);
        let file = file.map_err(|error| refused(error.to_string()))?;
        let mut builder = LedgerBuilder::default();
        let read = reader::read(file, |_, change| {
            change.into_iter().for_each(|change| builder.take(change));
        });
        let found = read.map_err(|fault| match fault {
            LedgerFault::Io(error) => refused(error.to_string()),
            LedgerFault::Broken(what) => refused(what),
            LedgerFault::Newer(what) => newer(format!("{}: {what}", self.path.display())),
        })?;
        let is_named =
            found.start.sequence == self.sequence && found.start.digest.to_string().starts_with(&self.digest);
        if found.torn || !is_named {
            return Err(refused("is not what its name says".to_owned()));
        }
        Ok(LoadedLog {
            tables: builder.finish(),
            end: found.start,
        })
    }
}

/// The files in a node's folder, the oldest first.
pub(crate) fn files_in(folder: &Path) -> io::Result<Vec<KeptFile>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        files.extend(KeptFile::at(entry?.path()));
    }
    files.sort();
    Ok(files)
}

/// Writes everything that is in force after the last line that the node has read.
pub(super) fn write(
    folder: &Path,
    known: KnownLog,
    memory: &BindingMemory,
    now: DateTime<Utc>,
) -> io::Result<KeptFile> {
    let end = known.end;
    let kept = KeptFile::of(known, folder);
    if kept.path.exists() {
        // What a log had up to a line never changes.
        return Ok(kept);
    }
    let pending = PendingFile::begin(&kept.path, Access::Owner)?;
    write_lines(pending.file(), end, memory, now)?;
    pending.put()?;
    Ok(kept)
}

fn write_lines(file: &File, end: Position, memory: &BindingMemory, now: DateTime<Utc>) -> io::Result<()> {
    let mut lines = MemoryLines {
        out: SealedWriter::new(BufWriter::new(file)),
        end,
        synced: end.sequence,
        line: Vec::new(),
        written: Ok(()),
    };
    let events = memory.events().events(now);
    let mut kept = (memory.issued.len() + events.len()) as u64;
    memory.each(|_, sites| kept += (sites.len() + sites.moves().len()) as u64);
    lines.put(LedgerEvent::Compacted(Compaction { kept, time: now }));
    events.into_iter().for_each(|event| lines.put(event));
    memory
        .issued
        .each(|issued| lines.put(LedgerEvent::License(issued.clone().into())));
    memory.each(|license, sites| lines.put_sites(*license, sites));
    lines.written?;
    lines.out.seal()
}

/// The lines of a file, and the first failure.
struct MemoryLines<W> {
    out: W,
    end: Position,
    synced: u64,
    line: Vec<u8>,
    written: io::Result<()>,
}

impl<W: Write> MemoryLines<W> {
    fn put(&mut self, change: LedgerEvent) {
        if self.written.is_ok() {
            self.written = self.try_put(change);
        }
    }

    /// Bindings and releases by their times. A release comes after the binding that it ended.
    fn put_sites(&mut self, license: LicenseId, sites: &BoundSites<'_>) {
        let released = |release: &SiteRelease| {
            // The binding of a host that a site moved to has a line of its own after it.
            LedgerEvent::Released(ReleaseEntry::new(license, release.clone()))
        };
        let mut moves = sites.moves().iter().peekable();
        for binding in sites.iter() {
            let ends = |release: &SiteRelease| binding.is_released() && release.host == binding.host;
            let is_earlier = |release: &&SiteRelease| {
                release.time < binding.bound_at || (release.time == binding.bound_at && !ends(release))
            };
            while let Some(release) = moves.next_if(is_earlier) {
                self.put(released(release));
            }
            self.put(LedgerEvent::Bound(LedgerEntry {
                license,
                binding: binding.clone(),
            }));
        }
        for release in moves {
            self.put(released(release));
        }
    }

    fn try_put(&mut self, change: LedgerEvent) -> io::Result<()> {
        self.line.clear();
        let record = LedgerRecord {
            previous: self.end,
            synced: self.synced,
            change,
        };
        self.end = record.write(&mut self.line)?;
        self.out.write_all(&self.line)
    }
}
