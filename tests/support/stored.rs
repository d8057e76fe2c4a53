//! What is in the files of an instance, also while its server writes there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Every file in a folder and those beneath, with its content; not the sockets.
///
/// A server renames each file that it wrote. If one vanishes between the look at its folder and the look into it, all are read
/// again: its content has another name now.
pub fn files_in(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut tries = 0;
    loop {
        tries += 1;
        match files_now_in(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries < 100 => {}
            files => return files.unwrap(),
        }
    }
}

fn files_now_in(folder: &Path) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() {
                let content = fs::read(&path)?;
                files.insert(path, content);
            }
        }
    }
    Ok(files)
}

/// The files in a folder and those beneath that have one of the texts, in upper or lower case.
pub fn files_with(folder: &Path, texts: &[&str]) -> Vec<PathBuf> {
    let mut files = files_in(folder);
    files.retain(|_, content| {
        let content = content.to_ascii_lowercase();
        let mut texts = texts.iter().map(|text| text.to_ascii_lowercase());
        texts.any(|text| has(&content, text.as_bytes()))
    });
    files.into_keys().collect()
}

/// Whether a file's content has these bytes.
pub fn has(content: &[u8], bytes: &[u8]) -> bool {
    content.windows(bytes.len()).any(|window| window == bytes)
}
