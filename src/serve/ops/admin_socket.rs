//! The Unix socket on which the running server answers commands: `admin.sock` in the store's folder.
//!
//! The server binds it, and commands connect to it. Both check who owns it first. [`commands`](crate::serve::ops::commands)
//! answers on it.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, Stat, fchmod, fstat, renameat, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};
use rustix::process::geteuid;
use tokio::net::{UnixListener, UnixStream};

use countersign_files::regular_file;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;

/// A bound socket. Its name goes when this is dropped.
pub struct AdminSocket {
    listener: UnixListener,
    folder: File,
    name: OsString,
    bound: Stat,
}

/// Why a command did not connect. It sent nothing.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no socket.
    #[error("there is no {}", .0.display())]
    Missing(PathBuf),
    /// A server that was killed has left it.
    #[error("nobody listens on {}", .0.display())]
    NobodyListens(PathBuf),
    /// Somebody else may have put it there.
    #[error("{}: {reason}, so nothing was sent", path.display())]
    Distrusted {
        /// The socket.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
    /// Another failure.
    #[error("cannot connect to {}", path.display())]
    Failed {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Owner and permissions of a folder or socket.
#[derive(Clone, Copy, Debug)]
struct Owned {
    uid: u32,
    mode: u32,
}

impl From<&Stat> for Owned {
    fn from(stat: &Stat) -> Self {
        Self {
            uid: stat.st_uid,
            mode: stat.st_mode,
        }
    }
}

impl AdminSocket {
    /// Listens at `path`, with mode 0600. Creates the folder with mode 0700 if it is missing. Replaces the socket of a server
    /// that was killed.
    ///
    /// # Errors
    /// Strangers can write in the folder, something else has this name, another server listens here, or the system refuses. Call
    /// this in a tokio runtime.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let (folder, name) = split(path)?;
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let folder = regular_file::open_folder(folder)?;
        if let Some(reason) = distrust_folder(geteuid().as_raw(), Owned::from(&fstat(&folder)?)) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {}
            Ok(found) if !is_socket(&found) => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "something else has this name",
                ));
            }
            Ok(_) if is_listening(&folder, name) => {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens here"));
            }
            found => drop(found?),
        }
        // Bound aside and renamed, so that a command finds the old socket or one that listens, never one between.
        let mut aside = OsString::from(".");
        aside.push(name);
        aside.push(".new");
        match unlinkat(&folder, &aside, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let socket = new_socket()?;
        // SECURITY: the name gets this mode, less the umask, at once. Nobody else can ever connect.
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        bind(&socket, &address(&folder, &aside)?)?;
        let bound = statat(&folder, &aside, AtFlags::SYMLINK_NOFOLLOW)?;
        let placed = listen(&socket, BACKLOG).and_then(|()| renameat(&folder, &aside, &folder, name));
        if let Err(error) = placed {
            let _ = unlinkat(&folder, &aside, AtFlags::empty());
            return Err(error.into());
        }
        Ok(Self {
            listener: UnixListener::from_std(socket.into())?,
            folder,
            name: name.to_owned(),
            bound,
        })
    }

    /// The next connection of this user or of root, with its user id. Others are turned away.
    ///
    /// # Errors
    /// The system cannot accept.
    pub(super) async fn accept(&self) -> io::Result<(UnixStream, u32)> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            match stream.peer_cred() {
                Ok(peer) if is_trusted(geteuid().as_raw(), peer.uid()) => return Ok((stream, peer.uid())),
                Ok(peer) => tracing::warn!(uid = peer.uid(), "turned a command of another user away"),
                // It has hung up.
                Err(_) => {}
            }
        }
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        let here = statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        // Another server may have put its own in this place.
        if here.is_ok_and(|here| (here.st_dev, here.st_ino) == (self.bound.st_dev, self.bound.st_ino)) {
            let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// Connects to the server that listens at `path`, once it is sure that the server runs as this user, as root, or, for root, as the
/// owner of the folder. Call this in a tokio runtime.
///
/// # Errors
/// [`ConnectError`]. Nothing was sent.
pub async fn connect_to(path: &Path) -> Result<UnixStream, ConnectError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => ConnectError::Missing(path.to_owned()),
        io::ErrorKind::ConnectionRefused => ConnectError::NobodyListens(path.to_owned()),
        _ => ConnectError::Failed {
            path: path.to_owned(),
            source,
        },
    };
    let distrusted = |reason| ConnectError::Distrusted {
        path: path.to_owned(),
        reason,
    };
    let own = geteuid().as_raw();
    let (folder, name) = split(path).map_err(failed)?;
    let folder = regular_file::open_folder(folder).map_err(failed)?;
    let owner = Owned::from(&fstat(&folder).map_err(io::Error::from).map_err(failed)?);
    // SECURITY: what is checked is what is connected to, whatever gets its name meanwhile.
    let socket = regular_file::hold(&folder, name).map_err(failed)?;
    let found = fstat(&socket).map_err(io::Error::from).map_err(failed)?;
    if !is_socket(&found) {
        return Err(distrusted("it is not a socket"));
    }
    if let Some(reason) = distrust_folder(own, owner).or_else(|| distrust(own, owner, Owned::from(&found))) {
        return Err(distrusted(reason));
    }
    let through = format!("/proc/self/fd/{}", socket.as_raw_fd());
    let stream = UnixStream::connect(through).await.map_err(failed)?;
    let peer = stream.peer_cred().map_err(failed)?.uid();
    // SECURITY: the system tells who listens. Nothing is sent before.
    match peer == 0 || peer == found.st_uid {
        true => Ok(stream),
        false => Err(distrusted("another user listens on it")),
    }
}

/// Why the folder of a socket is not trusted.
fn distrust_folder(own: u32, folder: Owned) -> Option<&'static str> {
    if !is_trusted(own, folder.uid) && own != 0 {
        Some("its folder belongs to another user")
    } else if folder.mode & 0o002 != 0 {
        Some("everybody can write in its folder")
    } else {
        None
    }
}

/// Why a socket in a trusted folder is not trusted.
fn distrust(own: u32, folder: Owned, socket: Owned) -> Option<&'static str> {
    // Root trusts the owner of the folder.
    let is_owners = is_trusted(own, socket.uid) || own == 0 && socket.uid == folder.uid;
    if !is_owners {
        Some("it belongs to another user")
    } else if socket.mode & 0o077 != 0 {
        Some("others can use it")
    } else {
        None
    }
}

/// This user and root.
fn is_trusted(own: u32, uid: u32) -> bool {
    uid == own || uid == 0
}

fn is_socket(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Socket
}

/// Whether a process listens on the socket of this name.
fn is_listening(folder: &File, name: &OsStr) -> bool {
    let connected = new_socket().and_then(|socket| Ok(connect(&socket, &address(folder, name)?)?));
    // WouldBlock: its queue is full.
    connected.is_ok() || connected.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// The address of a name in a folder. An address has 107 bytes at most (unix(7)), so it goes through the folder's descriptor.
fn address(folder: &File, name: &OsStr) -> io::Result<SocketAddrUnix> {
    let through = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
    Ok(SocketAddrUnix::new(through.join(name))?)
}

fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    Ok((folder.unwrap_or(Path::new(".")), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: u32 = 1_001;

    #[test]
    fn a_command_trusts_a_socket_of_its_user_and_of_root_and_root_that_of_the_folders_owner() {
        let reason = |own, folder: (u32, u32), socket: (u32, u32)| {
            let of = |(uid, mode)| Owned { uid, mode };
            distrust_folder(own, of(folder)).or_else(|| distrust(own, of(folder), of(socket)))
        };
        for (own, folder, socket) in [
            (1_000, (1_000, 0o40_700), (1_000, 0o140_600)),
            (1_000, (1_000, 0o40_750), (0, 0o140_600)),
            (1_000, (0, 0o42_775), (1_000, 0o140_600)),
            (0, (1_000, 0o40_700), (1_000, 0o140_600)),
            (0, (1_000, 0o40_700), (0, 0o140_600)),
        ] {
            assert_eq!(reason(own, folder, socket), None, "{own} {folder:?} {socket:?}");
        }
        for (own, folder, socket, expected) in [
            (
                1_000,
                (OTHER, 0o40_700),
                (1_000, 0o140_600),
                "its folder belongs to another user",
            ),
            (
                1_000,
                (1_000, 0o40_777),
                (1_000, 0o140_600),
                "everybody can write in its folder",
            ),
            (
                1_000,
                (0, 0o41_777),
                (1_000, 0o140_600),
                "everybody can write in its folder",
            ),
            (
                1_000,
                (1_000, 0o40_770),
                (OTHER, 0o140_600),
                "it belongs to another user",
            ),
            (0, (1_000, 0o40_770), (OTHER, 0o140_600), "it belongs to another user"),
            (0, (0, 0o40_770), (OTHER, 0o140_600), "it belongs to another user"),
            (1_000, (1_000, 0o40_700), (1_000, 0o140_660), "others can use it"),
            (0, (1_000, 0o40_700), (1_000, 0o140_606), "others can use it"),
        ] {
            assert_eq!(
                reason(own, folder, socket),
                Some(expected),
                "{own} {folder:?} {socket:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_socket_of_a_killed_server_is_replaced_and_one_that_lives_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/admin.sock");
        let first = AdminSocket::bind(&path).unwrap();
        let kind = |path: &Path| AdminSocket::bind(path).err().map(|error| error.kind());
        assert_eq!(kind(&path), Some(io::ErrorKind::AddrInUse));
        let (connected, accepted) = tokio::join!(connect_to(&path), first.accept());
        assert_eq!(accepted.unwrap().1, geteuid().as_raw());
        drop((connected.unwrap(), first));
        assert!(matches!(connect_to(&path).await, Err(ConnectError::Missing(_))));

        // As a killed one leaves it. A process that another test starts may have a copy of the socket for a moment, so it is shut
        // down first.
        let killed = std::os::unix::net::UnixListener::bind(&path).unwrap();
        rustix::net::shutdown(&killed, rustix::net::Shutdown::Both).unwrap();
        drop(killed);
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        assert!(matches!(connect_to(&path).await, Err(ConnectError::NobodyListens(_))));
        let second = AdminSocket::bind(&path).unwrap();
        assert!(connect_to(&path).await.is_ok());
        // It takes nothing away that is not its own.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "mine").unwrap();
        drop(second);
        assert_eq!(kind(&path), Some(io::ErrorKind::AlreadyExists));
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }
}
