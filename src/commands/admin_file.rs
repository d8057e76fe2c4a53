//! `admin.json` in the store's folder: where the running server answers commands, and the token that it asks for.
//!
//! `serve` writes it and removes it at the end. `server_questions` reads it.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::durable_file::{self, Access};
use crate::regular_file;
use crate::serve::ops::admin_token::AdminToken;

/// Its size limit in bytes.
const MAX_SIZE: u64 = 4_096;

/// What stands in the file.
#[derive(Serialize, Deserialize)]
pub(super) struct AdminFile {
    /// The address of the admin listener.
    pub address: SocketAddr,
    pub token: String,
}

/// Makes a token and writes the file. A file of an earlier server is removed in any case.
pub(super) fn write(store: &Path, address: SocketAddr) -> io::Result<AdminToken> {
    remove(store)?;
    let token = AdminToken::random()?;
    let file = AdminFile {
        // A server on every address answers on this machine's own.
        address: reachable(address),
        token: token.reveal().to_owned(),
    };
    let json = Zeroizing::new(serde_json::to_vec(&file)?);
    // SECURITY: only the server's user may read it, whatever the folder allows.
    durable_file::create_new(&path_in(store), &json, Access::Owner)?;
    Ok(token)
}

/// Removes the file, if there is one.
pub(super) fn remove(store: &Path) -> io::Result<()> {
    match fs::remove_file(path_in(store)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Reads the file of the running server.
pub(super) fn read(store: &Path) -> io::Result<AdminFile> {
    let json = Zeroizing::new(regular_file::read(&path_in(store), MAX_SIZE)?);
    serde_json::from_slice(&json).map_err(io::Error::from)
}

/// Its path.
pub(super) fn path_in(store: &Path) -> PathBuf {
    store.join("admin.json")
}

fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => std::net::Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
        own => own.ip(),
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_its_owner_can_read_the_file_and_a_new_server_has_a_new_token() {
        let store = tempfile::tempdir().unwrap();
        fs::write(path_in(store.path()), "left over").unwrap();
        let mut tokens = Vec::new();
        for _ in 0..2 {
            let token = write(store.path(), "0.0.0.0:81".parse().unwrap()).unwrap();
            let found = read(store.path()).unwrap();
            assert_eq!(found.address, "127.0.0.1:81".parse().unwrap());
            assert_eq!(found.token, token.reveal());
            let mode = fs::metadata(path_in(store.path())).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            tokens.push(found.token);
        }
        assert_ne!(tokens[0], tokens[1]);
        remove(store.path()).unwrap();
        remove(store.path()).unwrap();
        assert!(read(store.path()).is_err());
    }
}
