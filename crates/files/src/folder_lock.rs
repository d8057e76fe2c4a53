//! A lock that lets one command at a time change a folder. The folder itself is locked, so no lock file is left
//! behind, and the lock ends with the process.
//!
//! Another process may never release it, such as a forgotten `flock`. So the wait is reported, and it ends. Builds
//! also use [`wait`] for mirrors and for the folder of releases.

use std::fs::{File, TryLockError};
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::regular_file;
use countersign_model::text::stderr;

/// Waits longer than this are reported.
const SOON: Duration = Duration::from_secs(1);

/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// A file or folder that is locked until this is dropped.
///
/// SECURITY: closing the file is not enough. The lock belongs to the open file, not to this descriptor (flock(2)), and a
/// process that another thread starts has a copy of the descriptor from `fork` to `exec`.
#[derive(Debug)]
pub struct HeldLock(File);

impl HeldLock {
    /// Locks `file`, which nobody else may have locked.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if it is locked, and the error of a file system without locks.
    pub fn take(file: File) -> Result<Self, TryLockError> {
        file.try_lock().map(|()| Self(file))
    }
}

impl Deref for HeldLock {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Waits for the lock of `folder`, and holds it until the returned value is dropped.
///
/// # Errors
///
/// As [`regular_file::open_folder`], and `TimedOut` after `limit`.
pub fn hold(folder: &Path, limit: Duration) -> io::Result<HeldLock> {
    let file = regular_file::open_folder(folder)?;
    let tell = || {
        stderr::line(format_args!(
            "waiting for another command, which holds {}",
            folder.display()
        ));
    };
    wait(file, limit, tell).map_err(|error| match error {
        TryLockError::Error(error) => error,
        TryLockError::WouldBlock => {
            let reason = format!("another command has held it for {} s", limit.as_secs());
            io::Error::new(io::ErrorKind::TimedOut, reason)
        }
    })
}

/// Waits for the lock of `file`, and holds it until the returned value is dropped. Calls `tell` once if that takes a while.
///
/// # Errors
///
/// `WouldBlock` after `limit`, and the error of a file system without locks.
pub fn wait(file: File, limit: Duration, tell: impl FnOnce()) -> Result<HeldLock, TryLockError> {
    let started = Instant::now();
    let mut tell = Some(tell);
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if started.elapsed() < limit => {}
            done => return done.map(|()| HeldLock(file)),
        }
        if started.elapsed() >= SOON
            && let Some(tell) = tell.take()
        {
            tell();
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_held_is_waited_for_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let held = hold(folder.path(), Duration::ZERO).unwrap();
        let error = hold(folder.path(), Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let waiting = thread::scope(|scope| {
            let waiting = scope.spawn(|| hold(folder.path(), Duration::from_secs(60)).map(drop));
            drop(held);
            waiting.join().unwrap()
        });
        assert!(waiting.is_ok());
    }

    #[test]
    fn a_lock_ends_with_its_holder_though_another_process_has_a_copy_of_the_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let held = hold(folder.path(), Duration::ZERO).unwrap();
        let copy = held.try_clone().unwrap();
        drop(held);
        hold(folder.path(), Duration::ZERO).unwrap();
        drop(copy);
    }
}
