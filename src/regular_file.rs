//! The one way this program opens a file to read it: a regular file, up to a size, without ever waiting for a writer.
//!
//! A path that a person, a plugin repository or another program can change may lead to a pipe, a device or a file without
//! end. Opening a pipe blocks until somebody writes, and `/dev/zero` fills the memory. Both are errors here, told at once.
//! A test (`architecture::files_are_opened_by_regular_file_alone`) forbids opening files in any other way.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Opens a regular file of at most `limit` bytes for reading. Symbolic links are followed.
///
/// # Errors
///
/// As [`File::open`]; `IsADirectory` for a directory, `InvalidInput` for a pipe, a socket or a device, and `FileTooLarge`
/// for a file that is larger than `limit`. The file can still grow: a reader that needs the bound uses [`read`].
pub fn open(path: &Path, limit: u64) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path, limit)
}

/// Opens a file as `options` say, with the checks of [`open`]. A file that `options` create is regular by nature.
pub fn open_with(options: &mut OpenOptions, path: &Path, limit: u64) -> io::Result<File> {
    // SECURITY: without O_NONBLOCK, opening a pipe waits for its other end. It changes nothing for regular files.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = options.custom_flags(flags.bits() as i32).open(path)?;
    check(&file, limit)?;
    Ok(file)
}

/// The bytes of a regular file of at most `limit` bytes.
///
/// # Errors
///
/// As [`open`], also where the file grows beyond `limit` while it is read.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path, limit)?;
    let expected = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(expected.saturating_add(1)).map_err(|_| io::ErrorKind::OutOfMemory)?;
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(too_large(limit)),
        false => Ok(bytes),
    }
}

/// The text of a regular file of at most `limit` bytes.
///
/// # Errors
///
/// As [`read`], and `InvalidData` where the file is not UTF-8.
pub fn read_to_string(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

/// Whether an error says that the path leads to something other than a regular file within the limit.
pub fn is_unsuitable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput | io::ErrorKind::FileTooLarge)
}

fn check(file: &File, limit: u64) -> io::Result<()> {
    let metadata = file.metadata()?;
    let kind = metadata.file_type();
    if kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory, not a file"));
    }
    if !kind.is_file() {
        let kind = if kind.is_fifo() {
            "a pipe"
        } else if kind.is_socket() {
            "a socket"
        } else {
            "a device"
        };
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("is {kind}, not a regular file")));
    }
    if metadata.len() > limit { Err(too_large(limit)) } else { Ok(()) }
}

fn too_large(limit: u64) -> io::Error {
    let limit = match limit {
        limit if limit >= 1 << 20 => format!("{} MiB", limit >> 20),
        limit if limit >= 1 << 10 => format!("{} KiB", limit >> 10),
        limit => format!("{limit} bytes"),
    };
    io::Error::new(io::ErrorKind::FileTooLarge, format!("is larger than the limit of {limit}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    fn kind(result: io::Result<Vec<u8>>) -> io::ErrorKind {
        result.unwrap_err().kind()
    }

    #[test]
    fn a_pipe_is_refused_without_waiting_for_its_writer() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let error = read(&pipe, 10).unwrap_err();
        assert_eq!(error.to_string(), "is a pipe, not a regular file");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        assert!(is_unsuitable(&open(&link, 10).unwrap_err()));
    }

    #[test]
    fn a_device_a_socket_and_a_directory_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(Path::new("/dev/zero"), 10).unwrap_err().to_string(), "is a device, not a regular file");
        assert_eq!(kind(read(folder.path(), 10)), io::ErrorKind::IsADirectory);
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(read(&socket, 10).is_err());
    }

    #[test]
    fn a_file_is_read_up_to_its_limit_and_refused_beyond() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "0123456789").unwrap();
        assert_eq!(read_to_string(&path, 10).unwrap(), "0123456789");
        let error = read(&path, 9).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::FileTooLarge, "is larger than the limit of 9 bytes")
        );
        assert_eq!(kind(read(&folder.path().join("missing"), 10)), io::ErrorKind::NotFound);
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_to_string(&path, 10).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_file_of_the_kernel_that_says_it_is_empty_is_bounded_too() {
        assert_eq!(kind(read(Path::new("/proc/self/maps"), 10)), io::ErrorKind::FileTooLarge);
    }
}
