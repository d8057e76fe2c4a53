//! The inputs of a manifest as one digest: the program, the visible parts of the entry, the tag and its object.
//!
//! The index stores it with each release. A tag with the same digest is not read again: the same input gives the same
//! bytes. Whatever [`compose`](crate::build::compose) or [`source_reader`](crate::build::source::source_reader) use
//! must be in it.

use serde_json::json;

use crate::build::git::tag::Tag;
use countersign_model::digest::Digest;
use countersign_model::plugin::{PackageOrigin, PackageSettings, Plugin, PluginSource};
use countersign_model::release_rules::SecurityRules;
use countersign_model::version::Version;
use countersign_package::writer::FORM;

/// The number of the format of manifests and of their lines in the index. Raise it with every change that gives other
/// bytes for the same input, so that the next build reads every tag again.
/// `golden::a_change_of_what_is_built_raises_the_format` checks.
pub const FORMAT: u32 = 8;

/// The inputs that all releases of a plugin share.
pub(super) struct Inputs {
    shared: Digest,
    /// The versions that the entry calls security releases.
    security: SecurityRules,
}

impl Inputs {
    /// `repository` is the name of the repository's folder, which a main file may have.
    pub(super) fn of(plugin: &Plugin, repository: Option<&str>) -> Self {
        // No `..`: each new field must be in the digest, or named here as one without effect on manifests.
        let Plugin {
            slug,
            kind,
            name,
            module: _,
            source,
            tags: _,
            versions: _,
            withhold: _,
            // Who may have a release is asked when a site asks.
            channels: _,
            rollout: _,
            back: _,
            // A release that it names has it among the inputs of its tag.
            security,
            after_expiry: _,
            download_url,
            package,
            // The statement has the signers. Each build reads it.
            signing: _,
            homepage,
            author,
            author_homepage,
            icons,
            banners,
            allow_version_mismatch,
            edd: _,
        } = plugin;
        let source = source.as_ref().map(
            |PluginSource {
                 repository: _,
                 path,
                 main_file,
             }| (path, main_file),
        );
        let mut inputs = vec![json!([
            // A dependency may render differently in another version.
            env!("CARGO_PKG_VERSION"),
            FORMAT,
            slug,
            kind,
            name,
            repository,
            source,
            download_url,
            homepage,
            author,
            author_homepage,
            icons,
            banners,
            allow_version_mismatch,
        ])];
        if let Some(PackageSettings {
            from,
            folder,
            exclude,
            mark,
        }) = package
        {
            let is_file = *from == PackageOrigin::File;
            inputs.push(json!([FORM, is_file, folder, exclude, mark]));
        }
        let texts: Vec<String> = inputs.iter().map(ToString::to_string).collect();
        Self {
            shared: Digest::of(texts.concat().as_bytes()),
            security: security.clone(),
        }
    }

    /// The inputs of a tag's release; `None` if the tag is damaged. `version` is the one in the tag's name.
    pub(super) fn of_tag(&self, tag: &Tag, version: &Version) -> Option<Digest> {
        let object = tag.target()?.to_string();
        let mut inputs = json!([self.shared, tag.name, version, object]);
        if self.security.names(version)
            && let Some(inputs) = inputs.as_array_mut()
        {
            inputs.push("security".into());
        }
        Some(Digest::of(inputs.to_string().as_bytes()))
    }
}
