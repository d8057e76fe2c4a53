//! What a vendor may have forgotten about the copy of the WordPress client in a plugin: two files, in one namespace of the plugin's
//! own, of one version.

use memchr::memmem;

use crate::build::remark::{Remark, in_folder};

/// The file that the client loads from its own folder.
const SECOND: &str = "countersign-client-admin.php";

/// How the client's first file names it.
const LOADS_SECOND: &[u8] = b"const FILE = __DIR__ . '/countersign-client-admin.php';";

/// The namespace that the client comes with.
const SHARED: &[u8] = b"namespace Countersign\\Client;";

/// Remarks about the copies of the client among PHP files, given as paths and contents.
pub(super) fn remarks(paths: &[String], contents: &[Vec<u8>]) -> Vec<Remark> {
    let files = || paths.iter().zip(contents);
    let shared = files().find(|(_, php)| line(php, b"namespace ") == Some(SHARED));
    let mut remarks: Vec<_> = shared
        .map(|(path, _)| Remark::about(path, shared_namespace()))
        .into_iter()
        .collect();
    for (path, first) in files().filter(|(_, php)| memmem::find(php, LOADS_SECOND).is_some()) {
        let beside = in_folder(path.rsplit_once('/').map_or("", |(folder, _)| folder), SECOND);
        let second = files().find(|(path, _)| **path == beside).map(|(_, php)| php);
        let flaw = match second {
            None => format!("{SECOND} must be beside it"),
            Some(second) if differ(first, second, b"namespace ") => format!("{SECOND} must have the same namespace"),
            Some(second) if differ(first, second, b"* @version ") => format!("{SECOND} must have the same version"),
            Some(_) => continue,
        };
        let message = format!("{flaw}: the client has two files, and without the second one a site gets no updates");
        remarks.push(Remark::about(path, message));
    }
    remarks
}

fn shared_namespace() -> &'static str {
    "the client is still in the namespace Countersign\\Client: two plugins of two vendors on one site would share it; give both \
     its files a namespace of your own"
}

fn differ(first: &[u8], second: &[u8], start: &[u8]) -> bool {
    line(first, start) != line(second, start)
}

/// The first line that begins like this, without the blanks around it.
fn line<'a>(php: &'a [u8], start: &[u8]) -> Option<&'a [u8]> {
    let mut lines = php.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.find(|line| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_FILE: &str = include_str!("../../clients/wordpress/countersign-client.php");
    const SECOND_FILE: &str = include_str!("../../clients/wordpress/countersign-client-admin.php");

    fn messages(files: &[(&str, String)]) -> Vec<String> {
        let (paths, contents): (Vec<_>, Vec<_>) = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), text.clone().into_bytes()))
            .unzip();
        remarks(&paths, &contents).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_copy_of_half_the_client_is_reported() {
        let own = |text: &str| text.replace("namespace Countersign\\Client;", "namespace Acme\\License;");
        let why = "the client has two files, and without the second one a site gets no updates";
        let first = ("inc/license.php", own(FIRST_FILE));
        let beside = "inc/countersign-client-admin.php";
        assert_eq!(messages(&[first.clone(), (beside, own(SECOND_FILE))]), [""; 0]);
        assert_eq!(
            messages(&[first.clone(), ("countersign-client-admin.php", own(SECOND_FILE))]),
            [format!("inc/license.php: {SECOND} must be beside it: {why}")]
        );
        assert_eq!(
            messages(&[first.clone(), (beside, SECOND_FILE.to_owned())]),
            [
                format!("{beside}: {}", shared_namespace()),
                format!("inc/license.php: {SECOND} must have the same namespace: {why}")
            ]
        );
        assert_eq!(
            messages(&[first, (beside, own(SECOND_FILE).replace("@version ", "@version 0."))]),
            [format!("inc/license.php: {SECOND} must have the same version: {why}")]
        );
    }
}
