//! What may go wrong on a site with a package that is made of a tag: files that the plugin's own build would have made, and
//! files that are too large. [`review`](crate::build::review) tells it of the newest releases.

use crate::build::packing::packing_list::{PackingList, packing_list};
use crate::build::packing::unbuilt;
use crate::build::remark::{Remark, in_folder};
use crate::build::source::source_tree::{SourceTree, TreeEntry};
use crate::model::plugin::{PackageOrigin, PackageSettings, Plugin};
use crate::package::check::{LARGE_FILE, LARGE_PACKAGE};

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
    let hosted = plugin.package.as_ref();
    // What is handed over was built elsewhere.
    if hosted.is_some_and(|settings| settings.from == PackageOrigin::File) {
        return Vec::new();
    }
    let usual = PackageSettings::defaults(&plugin.slug);
    // What cannot be listed is refused when it is packed.
    let Ok(list) = packing_list(files, root, path, hosted.unwrap_or(&usual)) else {
        return Vec::new();
    };
    let hint = if hosted.is_some() {
        format!("; {HAND_OVER}")
    } else {
        String::new()
    };
    let unbuilt = unbuilt::unbuilt(files, root, path, &list);
    let mut remarks: Vec<_> = unbuilt
        .map(|(folder, file, line)| {
            let message = format!(
                "is loaded by {}:{line}, and git ignores it: a package of this tag lacks it{hint}",
                in_folder(path, &file)
            );
            Remark::about(&in_folder(path, &folder), message)
        })
        .into_iter()
        .collect();
    if hosted.is_none() {
        return remarks;
    }
    remarks.extend(large(files, &list, path));
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
