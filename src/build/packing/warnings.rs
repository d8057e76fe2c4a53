//! What may go wrong on a site with a package that is made of a tag: files that the plugin's own build would have made, and
//! files that are too large. [`review`](crate::build::review) tells it of the newest releases.

use crate::build::packing::packing_list::{PackingList, packing_list};
use crate::build::remark::{Remark, in_folder};
use crate::build::source::source_tree::{SourceTree, TreeEntry};
use crate::model::plugin::{PackageOrigin, Plugin};
use crate::package::check::{LARGE_FILE, LARGE_PACKAGE};

/// A `package.json` larger than this is not read, in bytes.
const MAX_PACKAGE_JSON: usize = 1 << 20;

/// Folders into which build scripts write.
const BUILT: [&str; 6] = ["build", "dist", "built", "compiled", "public", "bundle"];

/// What to do about a plugin that has to be built.
pub(in crate::build) const HAND_OVER: &str =
    "let CI build it and hand over the archive: from = \"file\" in the entry's [package]";

/// Remarks about the package that is made of the folder at `path` below `root`; `items` is what is in that folder.
pub(in crate::build) fn warnings<F: SourceTree>(
    plugin: &Plugin,
    files: &F,
    root: &F::Id,
    path: &str,
    items: &[TreeEntry<F::Id>],
) -> Vec<Remark> {
    let settings = plugin.package.as_ref();
    let Some(settings) = settings.filter(|settings| settings.from == PackageOrigin::Tag) else {
        return Vec::new();
    };
    // What cannot be listed is refused when it is packed.
    let Ok(list) = packing_list(files, root, path, settings) else {
        return Vec::new();
    };
    let mut remarks = large(files, &list, path);
    remarks.extend(unbuilt(files, &list, path, items));
    let has_vendor = items.iter().any(|item| item.name == "vendor");
    if has_vendor && !list.files.iter().any(|file| file.name.starts_with("vendor/")) {
        let rule = list.left_out.iter().find(|file| file.name == "vendor/");
        let rule = rule.map(|file| format!(" ({})", file.rule)).unwrap_or_default();
        let message = format!("is not packed{rule}: code that needs it breaks");
        remarks.push(Remark::about(&in_folder(path, "vendor"), message));
    }
    remarks
}

/// Files over what small sites unpack.
fn large<F: SourceTree>(files: &F, list: &PackingList<F::Id>, path: &str) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let mut unpacked = 0;
    for file in &list.files {
        let size = files.size(&file.id).unwrap_or_default();
        unpacked += size;
        if size > LARGE_FILE {
            let message = format!(
                "has {} MiB; files over 32 MiB fail on sites with little memory",
                size >> 20
            );
            remarks.push(Remark::about(&in_folder(path, &file.name), message));
        }
    }
    if unpacked > LARGE_PACKAGE {
        let message = format!(
            "the package's files have {} MiB in all; packages over 100 MiB fail on sites with little room",
            unpacked >> 20
        );
        remarks.push(Remark::about("", message));
    }
    remarks
}

/// A `package.json` with a build script, where no folder is packed that it could have made.
fn unbuilt<F: SourceTree>(
    files: &F,
    list: &PackingList<F::Id>,
    path: &str,
    items: &[TreeEntry<F::Id>],
) -> Option<Remark> {
    let json = items.iter().find(|item| item.name == "package.json")?;
    let json: serde_json::Value = serde_json::from_slice(&files.bytes(&json.id, MAX_PACKAGE_JSON).ok()?).ok()?;
    json.pointer("/scripts/build")?.as_str()?;
    let is_built = |name: &str| {
        let mut folders = name.split('/').rev().skip(1);
        folders.any(|folder| BUILT.contains(&folder))
    };
    if list.files.iter().any(|file| is_built(&file.name)) {
        return None;
    }
    let message = format!("has a build script, and no folder that it makes is packed; {HAND_OVER}");
    Some(Remark::about(&in_folder(path, "package.json"), message))
}
