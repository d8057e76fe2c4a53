//! Plugin repositories: read with libgit2, fetched with the git command into a mirror.

pub(crate) mod credentials;
pub(crate) mod git_command;
pub(crate) mod mirror;
pub(crate) mod mirror_folder;
pub(crate) mod object;
pub(crate) mod repository;
pub(crate) mod tag;
pub(crate) mod working_tree;
