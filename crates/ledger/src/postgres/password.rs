//! The password of the database: `PGPASSWORD`, or a passfile as PostgreSQL's own programs read it.
//!
//! The rules are those of libpq, "The Password File": `host:port:database:user:password`, `*` for any, `\` before `:`
//! and `\`, the first line that fits. The file must be private.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::postgres::settings::DatabaseServer;
use countersign_files::regular_file;

/// The largest passfile, in bytes.
const LIMIT: u64 = 1 << 16;

/// The password of this user at this server; `None` if there is none, which a server may accept.
pub(super) fn find(server: &DatabaseServer, passfile: Option<&Path>) -> io::Result<Option<Zeroizing<String>>> {
    if let Ok(password) = env::var("PGPASSWORD") {
        return Ok(Some(Zeroizing::new(password)));
    }
    let named = passfile
        .map(Path::to_owned)
        .or_else(|| env::var_os("PGPASSFILE").map(PathBuf::from));
    let (path, is_named) = match named {
        Some(path) => (path, true),
        None => match env::var_os("HOME") {
            Some(home) => (Path::new(&home).join(".pgpass"), false),
            None => return Ok(None),
        },
    };
    let text = match regular_file::open(&path, LIMIT) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => return Ok(None),
        Err(error) => return Err(named_error(&path, &error)),
        Ok(file) => {
            let exposed = regular_file::exposed_mode(&file).map_err(|error| named_error(&path, &error))?;
            if let Some(mode) = exposed {
                let hint = regular_file::exposed_hint(&path);
                return Err(io::Error::other(format!(
                    "{}: others can read this password file (mode {mode:04o}): {hint}",
                    path.display()
                )));
            }
            Zeroizing::new(io::read_to_string(io::Read::take(file, LIMIT)).map_err(|error| named_error(&path, &error))?)
        }
    };
    let config = &server.config;
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().unwrap_or_default();
    let wanted = [&server.host, &port, config.get_dbname().unwrap_or(user), user];
    Ok(text.lines().find_map(|line| password_in(line, wanted)))
}

fn named_error(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The password of a line, if the line is for this host, port, database and user.
fn password_in(line: &str, wanted: [&str; 4]) -> Option<Zeroizing<String>> {
    if line.starts_with('#') {
        return None;
    }
    let mut rest = line.chars();
    for wanted in wanted {
        let field = field(&mut rest, true);
        if *field != "*" && *field != wanted {
            return None;
        }
    }
    Some(field(&mut rest, false))
}

/// The next field. The last one has no end but the line's.
fn field(rest: &mut std::str::Chars<'_>, ends: bool) -> Zeroizing<String> {
    let mut field = Zeroizing::new(String::with_capacity(rest.as_str().len()));
    while let Some(letter) = rest.next() {
        match letter {
            '\\' => field.extend(rest.next()),
            ':' if ends => break,
            letter => field.push(letter),
        }
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_by_its_four_fields_and_may_escape_colons() {
        let wanted = ["db1", "5432", "countersign", "node"];
        let password = |line| password_in(line, wanted).map(|password| password.to_string());
        assert_eq!(password("db1:5432:countersign:node:pa\\:ss"), Some("pa:ss".into()));
        assert_eq!(password("*:*:*:node:a:b\\\\c"), Some("a:b\\c".into()));
        assert_eq!(password("db2:*:*:node:secret"), None);
        assert_eq!(password("#db1:5432:countersign:node:secret"), None);
        assert_eq!(password("db1:5432"), None);
    }
}
