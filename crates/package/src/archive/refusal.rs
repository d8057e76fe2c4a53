//! Why an archive is refused, with the entry's name if there is one.

use std::io;

use crate::collision::Collision;
use crate::entry_name::{EntryName, NameError};
use countersign_model::text::printable::Printable;

/// Why an [`Archive`](super::Archive) cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file cannot be read.
    #[error("cannot be read")]
    Read(#[source] io::Error),
    /// It is not an archive, or programs may read it in different ways.
    #[error("{}", with_entry(.entry.as_deref(), .reason))]
    Refused {
        /// The name of the entry, as far as it is text.
        entry: Option<String>,
        /// Why.
        reason: ArchiveRefusal,
    },
}

/// What is wrong with an archive or an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveRefusal {
    /// No end of the central directory.
    #[error("not a zip archive: its end record is missing")]
    NotZip,
    /// More than 512 MiB.
    #[error("the archive is larger than 512 MiB")]
    TooLarge,
    /// More than 2 GiB in all.
    #[error("the files in the archive are larger than 2 GiB")]
    TooLargeUnpacked,
    /// More than 200 times the archive.
    #[error("the files in the archive are more than 200 times larger than the archive")]
    Ratio,
    /// More than 65,535.
    #[error("the archive has more than 65,535 entries")]
    TooManyEntries,
    /// The archive's own comment.
    #[error("the archive has a comment of {0} bytes")]
    Comment(u64),
    /// Bytes after the end record.
    #[error("{0} bytes follow the end of the archive")]
    Behind(u64),
    /// Parts on several disks.
    #[error("the archive is one part of several")]
    Split,
    /// The end record does not match the positions in the file.
    #[error("the central directory is not where the end record says: there may be a second one, or bytes around it")]
    Directory,
    /// The directory has more or fewer headers than the end record says.
    #[error("the central directory does not have the entries that the end record counts")]
    Count,
    /// The zip64 records do not match the others, or one is missing.
    #[error("the zip64 records are wrong")]
    Zip64,
    /// The name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Another entry's name.
    #[error(transparent)]
    Collision(#[from] Collision),
    /// A second name in an extra field.
    #[error("has another name in an extra field")]
    OtherName,
    /// A comment.
    #[error("has a comment")]
    EntryComment,
    /// Encrypted.
    #[error("is encrypted")]
    Encrypted,
    /// Flags that this reader does not know.
    #[error("has flags with an unknown meaning ({0:#06x})")]
    Flags(u16),
    /// Neither STORED nor deflate.
    #[error("is compressed by method {0}; only STORED (0) and deflate (8) are taken")]
    Method(u16),
    /// A symbolic link.
    #[error("is a symbolic link")]
    SymbolicLink,
    /// A device, a pipe or a socket.
    #[error("is neither a file nor a folder")]
    Special,
    /// A folder's attributes with a file's name, or the other way around.
    #[error("is a folder by its attributes or by its name, and not by both")]
    Kind,
    /// A folder with content.
    #[error("is a folder and has content")]
    FolderContent,
    /// An extra field is cut off.
    #[error("has a broken extra field")]
    Extra,
    /// A size that needs zip64.
    #[error("needs zip64")]
    NeedsZip64,
    /// Bytes that belong to nothing.
    #[error("{0} bytes before this entry belong to nothing")]
    Gap(u64),
    /// Bytes between the last entry and the directory.
    #[error("{0} bytes behind the data of this entry belong to nothing")]
    Tail(u64),
    /// Its header or data are in another entry or in the directory.
    #[error("overlaps with another entry or with the directory")]
    Overlap,
    /// No local header.
    #[error("has no local header where the directory says")]
    NoHeader,
    /// The two headers differ.
    #[error("has another {0} in its local header than in the directory")]
    Disagree(&'static str),
    /// The data descriptor differs.
    #[error("has a data descriptor that disagrees with the directory")]
    Descriptor,
    /// The deflate stream is broken.
    #[error("has a broken deflate stream")]
    Deflate,
    /// More or fewer bytes than the headers say.
    #[error("has another size than its headers say")]
    Size,
    /// Other content.
    #[error("has another CRC-32 than its headers say")]
    Crc,
    /// The archive ends too early.
    #[error("the archive is cut off")]
    CutOff,
}

impl From<ArchiveRefusal> for ArchiveError {
    fn from(reason: ArchiveRefusal) -> Self {
        Self::Refused { entry: None, reason }
    }
}

impl ArchiveError {
    /// Bytes that are missing.
    pub(super) fn of_read(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => ArchiveRefusal::CutOff.into(),
            _ => Self::Read(error),
        }
    }

    /// Why the content of `entry` could not be read.
    pub(crate) fn of_content(entry: &EntryName, error: io::Error) -> Self {
        let name = || Some(entry.to_string());
        match error.get_ref().and_then(|inner| inner.downcast_ref::<ArchiveRefusal>()) {
            Some(reason) => Self::Refused {
                entry: name(),
                reason: reason.clone(),
            },
            None if error.kind() == io::ErrorKind::UnexpectedEof => Self::Refused {
                entry: name(),
                reason: ArchiveRefusal::CutOff,
            },
            None => Self::Read(error),
        }
    }

    /// The refusal, if it is not a read error.
    pub fn reason(&self) -> Option<&ArchiveRefusal> {
        match self {
            Self::Read(_) => None,
            Self::Refused { reason, .. } => Some(reason),
        }
    }
}

fn with_entry(entry: Option<&str>, reason: &ArchiveRefusal) -> String {
    match entry {
        Some(entry) => format!("{}: {}", Printable(entry), Printable(reason)),
        None => reason.to_string(),
    }
}
