//! The preview as JSON for scripts.

use serde_json::{Value, json};

use crate::preview::package::{PackagePreview, lines};
use crate::preview::printed::{Printed, found, left_out, name};
use crate::preview::site::Site;
use crate::preview::snapshot::PreviewSnapshot;
use crate::preview::target::Target;
use crate::preview::view::{Pick, RenderedRelease, Selection};

/// The snapshot's plugins as one JSON document: a list with an object for each.
pub fn document(snapshot: &PreviewSnapshot, target: &Target, selection: &Selection) -> Printed {
    let mut is_whole = snapshot.problems.is_empty();
    let plugins: Vec<Value> = snapshot
        .plugins
        .iter()
        .map(|plugin| match found(plugin, target, selection) {
            Ok((pick, rendered, site)) => {
                let mut version = version_json(&pick, &rendered, &site);
                version["skipped"] = left_out(plugin)
                    .map(|(tag, reason)| json!({ "tag": tag, "reason": reason }))
                    .collect();
                version
            }
            Err(lines) => {
                is_whole = false;
                json!({ "plugin": name(plugin), "problems": lines })
            }
        })
        .collect();
    let document = json!({ "plugins": plugins, "problems": snapshot.problems, "assumed": target.assumptions() });
    Printed {
        text: format!("{document:#}\n"),
        is_whole,
    }
}

fn version_json(pick: &Pick, rendered: &RenderedRelease<'_>, site: &Site) -> Value {
    let remark =
        |remark: &crate::build::Remark| json!({ "file": remark.file, "line": remark.line, "message": remark.message });
    json!({
        "plugin": rendered.release.manifest.slug,
        "pick": pick.key(),
        "manifest": rendered.release.manifest,
        "sha256": rendered.digest,
        "site": { "cms": site.cms, "php": site.php, "current_version": site.current },
        "row": rendered.row,
        "caveat": rendered.caveat(),
        "notes": rendered.notes,
        "answer": rendered.answer,
        "answer_today": rendered.answer_now,
        "states": rendered.states,
        "warnings": rendered.remarks.iter().map(remark).collect::<Vec<_>>(),
        "package": rendered.package.as_ref().map(package_json),
        "published": rendered.comparison.as_ref().map(|comparison| json!({
            "version": comparison.with,
            "differences": comparison.differences.as_ref().ok(),
            "problem": comparison.differences.as_ref().err(),
        })),
    })
}

fn package_json(preview: &PackagePreview<'_>) -> Value {
    let package = preview.package;
    let files = package.files.iter();
    let left_out = package.left_out.iter();
    let changes = preview.changes.as_ref().map(|changes| match changes {
        Ok(changes) => json!({ "lines": lines(changes), "problem": null }),
        Err(problem) => json!({ "lines": null, "problem": problem }),
    });
    json!({
        "folder": package.folder,
        "unpacked": package.unpacked(),
        "files": files.map(|file| json!({ "name": file.name, "size": file.size })).collect::<Vec<_>>(),
        "left_out": left_out.map(|(name, rule)| json!({ "name": name, "rule": rule })).collect::<Vec<_>>(),
        "obstacles": package.obstacles,
        "changes": changes,
    })
}
