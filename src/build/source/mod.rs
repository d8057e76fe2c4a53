//! A plugin's own files at a tag: its header, readme, changelog and images, from a commit or a folder.

pub(crate) mod assets;
pub(crate) mod cache;
pub mod changelog;
pub(crate) mod encoding;
pub mod html;
pub mod markdown;
pub(crate) mod php_syntax;
pub mod plugin_header;
pub mod readme;
pub(crate) mod source_files;
pub(crate) mod source_reader;
pub(crate) mod source_tree;
#[cfg(test)]
pub(crate) mod testing;
