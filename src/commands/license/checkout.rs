//! A registry in a git checkout: whether it is dirty or behind, and one commit for each command with `--commit`.
//!
//! It only runs the `git` command ([`git`], [`git_status`](crate::commands::license::git_status)), and neither
//! fetches nor pushes. `docs/registry.md` has the two ways to work with it.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::commands::Failure;
use countersign_files::folder_lock;
use countersign_model::license::License;
use countersign_model::text::printable::Printable;
use countersign_registry::Registry;

use crate::commands::license::git;
use crate::commands::license::git_status::GitStatus;

/// How many names a message has at most.
const NAMES: usize = 3;

/// How long to wait for other commands that commit. They hold the checkout also while they wait for the server.
const OTHERS: Duration = Duration::from_secs(60);

/// How many licenses a commit's subject names at most.
const LICENSES: usize = 3;

/// A registry inside a git work tree.
#[derive(Debug)]
pub(super) struct Checkout {
    registry: PathBuf,
    status: GitStatus,
}

/// A command that commits its change. Others wait until it is done.
#[derive(Debug)]
pub(super) struct Committing {
    checkout: Checkout,
    before: Registry,
    _lock: File,
}

impl Checkout {
    /// The checkout of `registry`; `None` if it is in none.
    ///
    /// # Errors
    ///
    /// Why the git status cannot be read.
    pub(super) fn look(registry: &Path) -> Result<Option<Self>, String> {
        // Most registries are in no checkout.
        let is_inside = |real: PathBuf| real.ancestors().any(|folder| folder.join(".git").exists());
        if !registry.canonicalize().is_ok_and(is_inside) {
            return Ok(None);
        }
        let status = GitStatus::read(registry).map_err(|reason| {
            format!(
                "{}: cannot read the git status: {reason}",
                Printable(registry.display())
            )
        })?;
        Ok(Some(Self {
            registry: registry.to_owned(),
            status,
        }))
    }

    /// Warnings for a change without `--commit`.
    pub(super) fn notes(&self) -> Vec<String> {
        let Self {
            registry,
            status: GitStatus {
                upstream,
                behind,
                changed,
            },
        } = self;
        let mut notes = Vec::new();
        let registry = Printable(registry.display());
        if *behind > 0 {
            notes.push(format!(
                "{registry}: {} behind {upstream}, so this change may conflict: git -C {registry} pull --ff-only",
                commits(*behind)
            ));
        }
        if !changed.is_empty() {
            let changed = named(changed);
            notes.push(format!(
                "{registry}: not committed: {changed}; --commit commits what a command changes"
            ));
        }
        notes
    }

    /// Checks that the change can be committed by itself. Waits for other commands that commit.
    pub(super) fn committing(registry: &Path) -> Result<Committing, Failure> {
        let failed = |error| Failure::environment(format!("{}: {error}", registry.display()));
        let lock = folder_lock::hold(registry, OTHERS).map_err(failed)?;
        let Some(checkout) = Self::look(registry).map_err(Failure::environment)? else {
            return Err(
                Failure::input(format!("{}: not in a git repository", registry.display()))
                    .hint("run `git init` and make a first commit, or run this without --commit"),
            );
        };
        let GitStatus {
            upstream,
            behind,
            changed,
        } = &checkout.status;
        let shown = registry.display();
        if *behind > 0 {
            return Err(
                Failure::input(format!("{shown}: {} behind {upstream}", commits(*behind)))
                    .hint(format!("git -C {shown} pull --rebase, then run this again")),
            );
        }
        if !changed.is_empty() {
            return Err(
                Failure::input(format!("{shown}: not committed: {}", named(changed))).hint(format!(
                    "commit or undo it, then run this again; see git -C {shown} status"
                )),
            );
        }
        // An error in a plugin entry must not keep a license from being revoked.
        let before = Registry::load_licenses(registry)?;
        Ok(Committing {
            checkout,
            before,
            _lock: lock,
        })
    }
}

impl Committing {
    /// The licenses before the change.
    pub(super) fn registry(&self) -> &Registry {
        &self.before
    }

    /// Checks that git will see a change of the license file `file`, which need not exist.
    pub(super) fn refuse_unseen(&self, file: &Path) -> Result<(), Failure> {
        let registry = &self.checkout.registry;
        let shown = file.display();
        let failed = |reason| Failure::environment(format!("{shown}: cannot read the git status: {reason}"));
        let name = file.strip_prefix(registry).unwrap_or(file);
        let tracked = git::look(registry, &["--literal-pathspecs", "ls-files", "-v", "-z"], name);
        let tracked = tracked.map_err(failed)?.unwrap_or_default();
        if tracked.is_empty() {
            return match git::look(registry, &["check-ignore", "--quiet"], name).map_err(failed)? {
                None => Ok(()),
                Some(_) => Err(
                    Failure::input(format!("{shown}: git ignores this file, so --commit cannot commit it"))
                        .hint("take it out of .gitignore, or run this without --commit"),
                ),
            };
        }
        // git-ls-files(1): a lower-case letter for --assume-unchanged, S for --skip-worktree.
        if tracked.starts_with(|c: char| c.is_ascii_lowercase() || c == 'S') {
            let git = Printable(registry.display());
            let name = Printable(name.display());
            return Err(Failure::input(format!("{shown}: git is set to ignore changes of this file, so --commit cannot commit them"))
                .hint(format!("git -C {git} update-index --no-assume-unchanged {name}; git -C {git} update-index --no-skip-worktree {name}")));
        }
        Ok(())
    }

    /// Commits the change of `verb`. Returns what to print, or nothing if nothing changed.
    pub(super) fn commit(self, verb: &str) -> Result<Option<String>, Failure> {
        let registry = &self.checkout.registry;
        let shown = Printable(registry.display());
        let undone = |reason: String| {
            Failure::environment(format!("the change is written, but git did not commit it: {reason}"))
                .hint(format!("fix that, then: git -C {shown} add . && git -C {shown} commit"))
        };
        let changed = GitStatus::read(registry).map_err(undone)?.changed;
        let after = Registry::load_licenses(registry)?;
        if let Some(file) = self.unseen(&after, &changed) {
            return Err(undone(format!("git sees no change in {}", Printable(file.display()))));
        }
        if changed.is_empty() {
            return Ok(None);
        }
        let subject = subject(verb, &self.before, &after);
        // From the top of the work tree, because the names are relative to it.
        let run = |arguments: &[&str]| {
            let top: Vec<_> = changed.iter().map(|name| format!(":(top,literal){name}")).collect();
            let arguments = arguments
                .iter()
                .copied()
                .chain(["--"])
                .chain(top.iter().map(String::as_str));
            git::change(registry, &arguments.collect::<Vec<_>>())
        };
        run(&["add"]).map_err(undone)?;
        run(&["commit", "--quiet", "--message", &subject]).map_err(undone)?;
        Ok(Some(format!("Committed: {subject}")))
    }

    /// A file with a changed license that git does not see as `changed`.
    fn unseen<'a>(&self, after: &'a Registry, changed: &[String]) -> Option<&'a Path> {
        let licenses = changed_licenses(&self.before, after);
        let mut files = licenses
            .filter_map(|license| after.place(&license.id))
            .map(|(file, _)| file);
        files.find(|file| {
            let name = file.strip_prefix(&self.checkout.registry).unwrap_or(file);
            !changed.iter().any(|changed| Path::new(changed).ends_with(name))
        })
    }
}

/// The licenses that changed, without those that are gone.
fn changed_licenses<'a>(before: &'a Registry, after: &'a Registry) -> impl Iterator<Item = &'a License> {
    after
        .licenses()
        .filter(|license| before.license(&license.id) != Some(license))
}

/// The first line of a commit: the verb and the changed licenses.
// SECURITY: only the first digits of license ids; a key is never in a commit.
fn subject(verb: &str, before: &Registry, after: &Registry) -> String {
    let tags: BTreeSet<_> = changed_licenses(before, after)
        .map(|license| license.id.log_tag())
        .collect();
    let listed: Vec<_> = tags.iter().take(LICENSES).map(String::as_str).collect();
    match tags.len() {
        0 => format!("license: {verb}"),
        count if count > LICENSES => format!("license: {verb} {count} licenses"),
        _ => format!("license: {verb} {}", listed.join(" ")),
    }
}

fn commits(count: usize) -> String {
    if count == 1 {
        "1 commit".to_owned()
    } else {
        format!("{count} commits")
    }
}

fn named(files: &[String]) -> String {
    let mut listed: Vec<_> = files
        .iter()
        .take(NAMES)
        .map(|name| Printable(name).to_string())
        .collect();
    if files.len() > NAMES {
        listed.push(format!("{} more", files.len() - NAMES));
    }
    listed.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_a_few_files_and_counts_the_rest() {
        let files = ["licenses/a b.toml", "new\nname", "old", "both", "more"].map(str::to_owned);
        assert_eq!(named(&files), "licenses/a b.toml, new\\nname, old, 2 more");
        assert_eq!(named(&files[..1]), "licenses/a b.toml");
    }
}
