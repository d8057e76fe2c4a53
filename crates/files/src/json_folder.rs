//! A folder of JSON files that only the owner reads. The server and commands use it at the same time.
//!
//! A [`queue`](crate::queue) has one for each item. Behind its JSON, a file may have a body: bytes that are no JSON.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::durable_file::{self, Access};
use crate::regular_file;

/// Size limit of a file without its body, in bytes: what a delivery owes for a thousand licenses takes ten thousand.
const MAX_JSON: u64 = 1 << 20;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JsonFolderError {
    /// The disk failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why. Part of the message.
        source: io::Error,
    },
    /// The file is not what this program wrote.
    #[error("{}: damaged", .0.display())]
    Damaged(PathBuf),
}

/// A folder.
#[derive(Clone, Debug)]
pub struct JsonFolder(PathBuf);

impl JsonFolder {
    /// The folder, which is made if it is missing.
    ///
    /// # Errors
    /// The disk fails.
    pub fn open(path: PathBuf) -> Result<Self, JsonFolderError> {
        match durable_file::create_folders(&path, Access::Owner) {
            Ok(()) => Ok(Self(path)),
            Err(source) => Err(JsonFolderError::Io { path, source }),
        }
    }

    /// The folder, if there is one.
    pub fn existing(path: PathBuf) -> Option<Self> {
        path.is_dir().then_some(Self(path))
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Deletes what killed processes left.
    ///
    /// # Errors
    /// The disk fails.
    pub fn remove_leftovers(&self) -> Result<(), JsonFolderError> {
        durable_file::remove_leftovers(&self.0).map_err(|source| failed(&self.0, source))
    }

    /// Every file whose name `parse` takes, in the order of what it gives, with the time of its last change. Others are passed
    /// over.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn list<N: Ord>(&self, parse: impl Fn(&str) -> Option<N>) -> Result<Vec<(N, SystemTime)>, JsonFolderError> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(|source| failed(&self.0, source))? {
            let entry = entry.map_err(|source| failed(&self.0, source))?;
            let Some(name) = entry.file_name().to_str().and_then(&parse) else {
                continue;
            };
            // One that is gone was deleted meanwhile.
            let Ok(metadata) = entry.metadata() else { continue };
            files.push((name, regular_file::change_time(&metadata)));
        }
        files.sort_unstable();
        Ok(files)
    }

    /// Reads a file without a body; `None` if it is gone.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn read<T: DeserializeOwned>(&self, file: &str) -> Result<Option<T>, JsonFolderError> {
        let read = self.read_with_body(file, 0)?;
        Ok(read.map(|(value, _)| value))
    }

    /// Reads a file and its body, of at most `max_body` bytes; `None` if it is gone.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn read_with_body<T: DeserializeOwned>(
        &self,
        file: &str,
        max_body: u64,
    ) -> Result<Option<(T, Vec<u8>)>, JsonFolderError> {
        let path = self.0.join(file);
        let bytes = match regular_file::read(&path, MAX_JSON + max_body) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if regular_file::is_unsuitable(&error) => return Err(JsonFolderError::Damaged(path)),
            Err(source) => return Err(JsonFolderError::Io { path, source }),
        };
        match parts(&bytes) {
            Some((value, body)) if body.len() as u64 <= max_body => Ok(Some((value, body.to_owned()))),
            _ => Err(JsonFolderError::Damaged(path)),
        }
    }

    /// Writes a new file durably; `false` if there is one of this name.
    ///
    /// # Errors
    /// The disk fails.
    pub fn create(&self, file: &str, value: &impl Serialize, body: &[u8]) -> Result<bool, JsonFolderError> {
        let path = self.0.join(file);
        match bytes(value, body).and_then(|bytes| durable_file::create_new(&path, &bytes, Access::Owner)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(source) => Err(JsonFolderError::Io { path, source }),
        }
    }

    /// Replaces a file durably; `false` if it is gone, because somebody deleted it.
    ///
    /// # Errors
    /// The disk fails.
    pub fn replace(&self, file: &str, value: &impl Serialize, body: &[u8]) -> Result<bool, JsonFolderError> {
        let path = self.0.join(file);
        let replaced = bytes(value, body).and_then(|bytes| durable_file::replace_existing(&path, &bytes));
        replaced.map_err(|source| failed(&path, source))
    }

    /// Writes a file without a body durably, whether there is one of this name or not.
    ///
    /// # Errors
    /// The disk fails.
    pub fn save(&self, file: &str, value: &impl Serialize) -> Result<(), JsonFolderError> {
        if !self.replace(file, value, &[])? {
            self.create(file, value, &[])?;
        }
        Ok(())
    }

    /// Deletes a file; `false` if it is gone.
    ///
    /// # Errors
    /// The disk fails.
    pub fn remove(&self, file: &str) -> Result<bool, JsonFolderError> {
        let path = self.0.join(file);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(JsonFolderError::Io { path, source }),
        }
    }
}

fn failed(path: &Path, source: io::Error) -> JsonFolderError {
    JsonFolderError::Io {
        path: path.to_owned(),
        source,
    }
}

/// What is in a file: the JSON in one line, then the body.
fn bytes(value: &impl Serialize, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    bytes.extend_from_slice(body);
    Ok(bytes)
}

/// The JSON and the body of a file; `None` if it is damaged.
fn parts<T: DeserializeOwned>(bytes: &[u8]) -> Option<(T, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (json, body) = bytes.split_at(end);
    Some((serde_json::from_slice(json).ok()?, body.get(1..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_deletes_another_does_not_bring_back() {
        let folder = tempfile::tempdir().unwrap();
        let folder = JsonFolder::open(folder.path().join("queue")).unwrap();
        for round in 0..100 {
            assert!(folder.create("a.json", &round, &[]).unwrap());
            std::thread::scope(|scope| {
                let replacing = scope.spawn(|| while folder.replace("a.json", &round, &[]).unwrap() {});
                assert!(folder.remove("a.json").unwrap());
                replacing.join().unwrap();
            });
            assert_eq!(folder.read::<u32>("a.json").unwrap(), None, "round {round}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    }
}
