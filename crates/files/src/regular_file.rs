//! Opens files: only regular ones, up to a size, and without waiting.
//!
//! A person, a plugin repository or another program may put a pipe, a device or an endless file at a path. Opening a
//! pipe blocks until somebody writes, and `/dev/zero` fills the memory. Both are immediate errors here. The test
//! `architecture::files_are_opened_by_regular_file_alone` forbids other ways to open a file.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fgetxattr, openat, openat2};
use rustix::io::Errno;
use rustix::process::{getegid, getgroups};

/// No limit, for files that are read piece by piece and may have any length: the store's.
pub const UNLIMITED: u64 = u64::MAX;

/// Opens a regular file of at most `limit` bytes for reading. Symbolic links are followed.
///
/// # Errors
///
/// As [`File::open`]; `IsADirectory` for a directory, `InvalidInput` for a pipe, a socket or a device, and
/// `FileTooLarge` for a file larger than `limit`. The file can still grow: use [`read`] for a strict limit.
pub fn open(path: &Path, limit: u64) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), OFlags::empty(), path, limit)
}

/// As [`open`], but fails with `ELOOP` if the path itself is a symbolic link.
pub fn open_unlinked(path: &Path, limit: u64) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), OFlags::NOFOLLOW, path, limit)
}

/// Opens an existing regular file for reading and writing.
pub fn open_to_write(path: &Path) -> io::Result<File> {
    open_with(
        OpenOptions::new().read(true).write(true),
        OFlags::empty(),
        path,
        UNLIMITED,
    )
}

/// Creates or empties a regular file with `mode` (less the umask). Does not follow a symbolic link.
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(mode);
    let file = open_with(&mut options, OFlags::NOFOLLOW, path, UNLIMITED)?;
    file.set_len(0)?;
    Ok(file)
}

/// Creates a file with `mode` (less the umask), to be written and read; fails with `AlreadyExists` where there is anything of
/// that name.
pub fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    options.mode(mode).open(path)
}

/// Creates a file without a name in the folder for temporary files. The kernel removes it when the last process closes it.
pub fn create_nameless() -> io::Result<File> {
    let random = getrandom::u64().map_err(io::Error::other)?;
    let path = std::env::temp_dir().join(format!(".countersign-{random:016x}"));
    let file = create_new(&path, 0o600)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Writes a whole file, opened as by [`create`].
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create(path, 0o666)?.write_all(bytes)
}

/// Opens a folder to lock or sync it. Fails at once with `NotADirectory` for anything else.
pub fn open_folder(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::DIRECTORY.bits() as i32)
        .open(path)
}

/// Holds what has this name in a folder, of any kind, without opening it (`O_PATH`). Does not follow a symbolic link.
///
/// # Errors
///
/// As openat(2).
pub fn hold(folder: &File, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(folder, name, flags, Mode::empty())?)
}

fn open_with(options: &mut OpenOptions, flags: OFlags, path: &Path, limit: u64) -> io::Result<File> {
    // SECURITY: without O_NONBLOCK, opening a pipe waits for its other end. It changes nothing for regular files.
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = options.custom_flags(flags.bits() as i32).open(path);
    // A socket cannot be opened, nor a pipe for writing if nobody reads.
    let file = opened.map_err(|error| match error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) {
        true => io::Error::new(
            io::ErrorKind::InvalidInput,
            "is a socket, a pipe or a device, not a regular file",
        ),
        false => error,
    })?;
    check(&file.metadata()?, limit)?;
    Ok(file)
}

/// The bytes of a regular file of at most `limit` bytes.
///
/// # Errors
///
/// As [`open`], also if the file grows beyond `limit` while it is read.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path, limit)?;
    let expected = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(expected.saturating_add(1))
        .map_err(|_| io::ErrorKind::OutOfMemory)?;
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
/// As [`read`], and `InvalidData` if the file is not UTF-8.
pub fn read_to_string(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

/// When the content, name or permissions of a regular file of at most `limit` bytes last changed. Only root can set
/// this time.
///
/// # Errors
///
/// As [`open`].
pub fn changed_at(path: &Path, limit: u64) -> io::Result<SystemTime> {
    let metadata = std::fs::metadata(path)?;
    check(&metadata, limit)?;
    Ok(change_time(&metadata))
}

/// When the content, name or permissions of a file or folder last changed.
pub fn change_time(metadata: &Metadata) -> SystemTime {
    let since = |seconds: i64| Duration::new(seconds.unsigned_abs(), metadata.ctime_nsec().unsigned_abs() as u32);
    match metadata.ctime() {
        // Before 1970.
        seconds if seconds < 0 => SystemTime::UNIX_EPOCH,
        seconds => SystemTime::UNIX_EPOCH + since(seconds),
    }
}

/// The mode of a file with a secret, if it lets others than its owner use the file. A group of this process may read the file:
/// Kubernetes mounts secrets with the group `fsGroup`. `None` if the mode is safe.
///
/// # Errors
///
/// As fstat(2), getgroups(2) and fgetxattr(2).
pub fn exposed_mode(file: &File) -> io::Result<Option<u32>> {
    let metadata = file.metadata()?;
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(None);
    }
    if mode & 0o077 != 0o040 || !is_own_group(metadata.gid())? {
        return Ok(Some(mode));
    }
    // SECURITY: with an access control list, the bits of the group cover every user and group in the list (acl(5)).
    match fgetxattr(file, "system.posix_acl_access", &mut [0_u8; 0]) {
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Ok(_) => Ok(Some(mode)),
        Err(error) => Err(error.into()),
    }
}

/// What to do about a file with a secret that others can use.
pub fn exposed_hint(path: &Path) -> String {
    let path = path.display();
    format!("chmod 600 {path}; or chmod 640 {path}, if its group is one of the server's")
}

/// Whether a group is one of this process.
fn is_own_group(gid: u32) -> io::Result<bool> {
    Ok(getegid().as_raw() == gid || getgroups()?.iter().any(|group| group.as_raw() == gid))
}

/// Whether the error says that the path is not a regular file within the limit.
pub fn is_unsuitable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput | io::ErrorKind::FileTooLarge
    )
}

/// Opens a regular file at a path relative to a folder. Symbolic links are followed if they stay below the folder.
/// Nothing is checked before it is opened, so nothing can be exchanged in between.
///
/// # Errors
///
/// As [`open`] with any size, and if the path leaves the folder.
pub fn open_beneath(folder: &Path, path: &Path) -> io::Result<File> {
    let folder = openat(
        CWD,
        folder,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let opened = loop {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match openat2(&folder, path, READ, Mode::empty(), resolve) {
            // Something was renamed meanwhile, so the kernel cannot tell whether the path stays below the folder.
            Err(Errno::AGAIN) => {}
            // A kernel before 5.6, or a sandbox that forbids the call.
            Err(Errno::NOSYS | Errno::PERM) => break open_without_links(&folder, path),
            opened => break opened,
        }
    };
    let file = File::from(opened?);
    check(&file.metadata()?, u64::MAX)?;
    Ok(file)
}

const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// The same, one component at a time, without following links.
fn open_without_links(folder: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let mut components = path.components().peekable();
    let mut held: Option<OwnedFd> = None;
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else {
            return Err(Errno::XDEV);
        };
        let at = held.as_ref().unwrap_or(folder);
        if components.peek().is_none() {
            return openat(at, name, READ | OFlags::NOFOLLOW, Mode::empty());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        held = Some(openat(at, name, flags, Mode::empty())?);
    }
    Err(Errno::ISDIR)
}

fn check(metadata: &Metadata, limit: u64) -> io::Result<()> {
    let kind = metadata.file_type();
    if kind.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "is a directory, not a file",
        ));
    }
    if !kind.is_file() {
        let kind = if kind.is_fifo() {
            "a pipe"
        } else if kind.is_socket() {
            "a socket"
        } else {
            "a device"
        };
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("is {kind}, not a regular file"),
        ));
    }
    if metadata.len() > limit {
        Err(too_large(limit))
    } else {
        Ok(())
    }
}

fn too_large(limit: u64) -> io::Error {
    let limit = match limit {
        limit if limit >= 1 << 20 => format!("{} MiB", limit >> 20),
        limit if limit >= 1 << 10 => format!("{} KiB", limit >> 10),
        limit => format!("{limit} bytes"),
    };
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        format!("is larger than the limit of {limit}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FileType, mknodat};

    fn kind(result: io::Result<Vec<u8>>) -> io::ErrorKind {
        result.unwrap_err().kind()
    }

    #[test]
    fn a_secret_is_its_owners_and_may_be_read_by_a_group_of_this_process() {
        use std::os::unix::fs::{PermissionsExt as _, chown};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "").unwrap();
        let exposed = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            exposed_mode(&open(&path, 0).unwrap()).unwrap()
        };
        for mode in [0o600, 0o400, 0o640, 0o440] {
            assert_eq!(exposed(mode), None, "{mode:o}");
        }
        for mode in [0o660, 0o650, 0o644, 0o444, 0o604, 0o641, 0o620] {
            assert_eq!(exposed(mode), Some(mode), "{mode:o}");
        }
        // A list that lets one more user read it: version 2, then tag, permissions and id of each entry.
        let entries: [(u16, u16, u32); 5] = [
            (1, 6, u32::MAX),
            (2, 4, 65_534),
            (4, 0, u32::MAX),
            (16, 4, u32::MAX),
            (32, 0, u32::MAX),
        ];
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            list.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
            list.extend(id.to_le_bytes());
        }
        assert_eq!(exposed(0o640), None);
        let flags = rustix::fs::XattrFlags::empty();
        if rustix::fs::setxattr(&path, "system.posix_acl_access", &list, flags).is_ok() {
            assert_eq!(exposed_mode(&open(&path, 0).unwrap()).unwrap(), Some(0o640));
            rustix::fs::removexattr(&path, "system.posix_acl_access").unwrap();
        }
        // Only root can give it to a group that is not its own.
        if chown(&path, None, Some(65_533)).is_ok() && !is_own_group(65_533).unwrap() {
            assert_eq!(
                [exposed(0o640), exposed(0o440), exposed(0o600)],
                [Some(0o640), Some(0o440), None]
            );
        }
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
        assert_eq!(
            read(Path::new("/dev/zero"), 10).unwrap_err().to_string(),
            "is a device, not a regular file"
        );
        assert_eq!(kind(read(folder.path(), 10)), io::ErrorKind::IsADirectory);
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let refusal = read(&socket, 10).unwrap_err().to_string();
        assert_eq!(refusal, "is a socket, a pipe or a device, not a regular file");
    }

    #[test]
    fn only_a_regular_file_is_opened_to_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::symlink("elsewhere", path("link")).unwrap();
        for name in ["pipe", "link"] {
            assert!(write(&path(name), b"text").is_err(), "{name}");
        }
        assert!(!path("elsewhere").exists());
        assert_eq!(
            open_to_write(&path("pipe")).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
        assert_eq!(
            open_to_write(&path("missing")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        write(&path("file"), b"a longer text").unwrap();
        write(&path("file"), b"text").unwrap();
        assert_eq!(std::fs::read(path("file")).unwrap(), b"text");
        assert_eq!(
            create_new(&path("file"), 0o600).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert!(open_to_write(&path("file")).is_ok());
    }

    #[test]
    fn a_folder_is_opened_and_nothing_else_is_taken_for_one() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(open_folder(folder.path()).is_ok());
        assert_eq!(open_folder(&pipe).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn a_symbolic_link_is_followed_unless_it_must_not_be() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::fs::write(folder.path().join("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        assert_eq!(read(&link, 10).unwrap(), b"text");
        assert_eq!(
            open_unlinked(&link, 10).unwrap_err().raw_os_error(),
            Some(Errno::LOOP.raw_os_error())
        );
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
        assert_eq!(
            read_to_string(&path, 10).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }

    #[test]
    fn a_file_of_the_kernel_that_says_it_is_empty_is_bounded_too() {
        assert_eq!(
            kind(read(Path::new("/proc/self/maps"), 10)),
            io::ErrorKind::FileTooLarge
        );
    }

    /// A folder with files, links that stay below it, and links that do not.
    fn tree() -> tempfile::TempDir {
        let made = tempfile::tempdir().unwrap();
        let at = |path: &str| made.path().join(path);
        std::fs::create_dir_all(at("public/deep/er")).unwrap();
        for (path, text) in [("secret", "secret"), ("public/a", "a"), ("public/deep/er/b", "b")] {
            std::fs::write(at(path), text).unwrap();
        }
        for (target, link) in [
            ("a", "public/inside"),
            ("deep", "public/folder"),
            ("../secret", "public/above"),
            ("deep/../../secret", "public/around"),
            ("..", "public/parent"),
            ("/etc/passwd", "public/absolute"),
            ("/proc/self/exe", "public/magic"),
            ("loop", "public/loop"),
        ] {
            std::os::unix::fs::symlink(target, at(link)).unwrap();
        }
        mknodat(CWD, at("public/pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        made
    }

    #[test]
    fn nothing_above_the_folder_is_opened_however_it_is_named() {
        let made = tree();
        let public = made.path().join("public");
        let text = |path: &str| open_beneath(&public, Path::new(path)).map(|file| io::read_to_string(file).unwrap());
        for (path, expected) in [("a", "a"), ("deep/er/b", "b"), ("inside", "a"), ("folder/er/b", "b")] {
            assert_eq!(text(path).unwrap(), expected, "{path}");
        }
        for path in [
            "above",
            "around",
            "parent/secret",
            "absolute",
            "magic",
            "loop",
            "../secret",
            "/etc/passwd",
            "pipe",
        ] {
            assert!(text(path).is_err(), "{path}");
        }
        assert_eq!(text("deep").unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(text("nothing").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn an_older_kernel_follows_no_link() {
        let made = tree();
        let folder = openat(
            CWD,
            made.path().join("public"),
            OFlags::PATH | OFlags::DIRECTORY,
            Mode::empty(),
        )
        .unwrap();
        let open = |path: &str| {
            open_without_links(&folder, Path::new(path)).map(|file| io::read_to_string(File::from(file)).unwrap())
        };
        assert_eq!(
            (open("a").unwrap(), open("deep/er/b").unwrap()),
            ("a".to_owned(), "b".to_owned())
        );
        for path in [
            "inside",
            "folder/er/b",
            "above",
            "around",
            "parent/secret",
            "absolute",
            "magic",
            "loop",
            "../secret",
            "/etc/passwd",
            "",
        ] {
            assert!(open(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_link_that_is_exchanged_while_it_is_opened_never_leads_out() {
        let made = tree();
        let public = made.path().join("public");
        let beside = public.join("beside");
        let swapped = public.join("swapped");
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for target in ["a", "../secret"].into_iter().cycle() {
                    std::os::unix::fs::symlink(target, &beside).unwrap();
                    std::fs::rename(&beside, &swapped).unwrap();
                    if stop.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                }
            });
            while !swapped.is_symlink() {
                std::thread::yield_now();
            }
            let mut opened = 0;
            for _ in 0..20_000 {
                if let Ok(file) = open_beneath(&public, Path::new("swapped")) {
                    assert_eq!(io::read_to_string(file).unwrap(), "a");
                    opened += 1;
                }
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(opened > 0);
        });
    }
}
