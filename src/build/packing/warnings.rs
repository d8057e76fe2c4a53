//! What may go wrong on a site with a package that is made of a tag: files that the plugin's own build would have made, and
//! files that are too large. [`review`](crate::build::review) tells it of the newest releases.

use crate::build::packing::packing_list::{PackingList, packing_list};
use crate::build::packing::unbuilt;
use crate::build::remark::{Remark, in_folder};
use crate::build::source::assets;
use crate::build::source::plugin_header;
use crate::build::source::source_tree::{SourceTree, TreeEntry, TreeEntryKind};
use countersign_model::plugin::{INDEX_TEMPLATES, PackageOrigin, PackageSettings, Plugin, PluginKind, STYLESHEET};
use countersign_package::check::{LARGE_FILE, LARGE_PACKAGE, PackageWarning};

/// Size limit of a stylesheet in bytes, as where its header is read.
const MAX_STYLESHEET: usize = 2 << 20;

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
        .chain(broken_theme(plugin, files, path, &list))
        .collect();
    if hosted.is_none() {
        return remarks;
    }
    remarks.extend(large(files, &list, path));
    let vendor = in_folder(
        path,
        &composer_json(files, items).map_or(VENDOR.to_owned(), |json| vendor_folder(&json)),
    );
    remarks.extend(unpacked(files, root, path, &vendor, &list));
    remarks
}

/// The warning about a theme without templates, unless it is a child theme.
fn broken_theme<F: SourceTree>(plugin: &Plugin, files: &F, path: &str, list: &PackingList<F::Id>) -> Option<Remark> {
    if plugin.kind != PluginKind::Theme || list.files.iter().any(|file| INDEX_TEMPLATES.contains(&&*file.name)) {
        return None;
    }
    let style = list.files.iter().find(|file| file.name == STYLESHEET)?;
    let css = files.bytes(&style.id, MAX_STYLESHEET).ok()?;
    let header = plugin_header::main_header(PluginKind::Theme, &css)?;
    let warning = PackageWarning::NoTemplate.to_string();
    (!header.is_child_theme).then(|| Remark::about(&in_folder(path, STYLESHEET), warning))
}

/// The warning about a folder with packages of composer that is in the tag, and of which nothing is packed.
fn unpacked<F: SourceTree>(
    files: &F,
    root: &F::Id,
    path: &str,
    vendor: &str,
    list: &PackingList<F::Id>,
) -> Option<Remark> {
    assets::walk(files, root.clone(), vendor)?;
    let is_within = |name: &str, folder: &str| name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    if list
        .files
        .iter()
        .any(|file| is_within(&in_folder(path, &file.name), vendor))
    {
        return None;
    }
    let leaves_out = |name: &str| {
        let name = in_folder(path, name.trim_end_matches('/'));
        name == vendor || is_within(vendor, &name)
    };
    let rule = list.left_out.iter().find(|file| leaves_out(&file.name));
    let rule = rule.map(|file| format!(" ({})", file.rule)).unwrap_or_default();
    let message = format!("is not packed{rule}: code that needs it breaks");
    Some(Remark::about(vendor, message))
}

/// The folder in which composer puts packages by default.
const VENDOR: &str = "vendor";

/// Size limit of a `composer.json` in bytes.
const MAX_COMPOSER: usize = 1 << 20;

/// The plugin's `composer.json`, if it has a readable one.
pub(in crate::build) fn composer_json<F: SourceTree>(
    files: &F,
    items: &[TreeEntry<F::Id>],
) -> Option<serde_json::Value> {
    let mut items = items.iter();
    let json = items.find(|item| item.name == "composer.json" && item.kind == TreeEntryKind::File)?;
    serde_json::from_slice(&files.bytes(&json.id, MAX_COMPOSER).ok()?).ok()
}

/// The folder into which composer puts packages, from the plugin's folder: `vendor`, or its setting `vendor-dir`.
pub(in crate::build) fn vendor_folder(composer: &serde_json::Value) -> String {
    let set = composer
        .pointer("/config/vendor-dir")
        .and_then(serde_json::Value::as_str);
    set.map(folder_name)
        .filter(|folder| !folder.is_empty())
        .unwrap_or(VENDOR)
        .to_owned()
}

/// A folder as settings write it: `./inc/own/`.
pub(in crate::build) fn folder_name(setting: &str) -> &str {
    setting.trim_start_matches("./").trim_matches('/')
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
