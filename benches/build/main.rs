//! `make bench-build`: the time and memory of `countersign build`, beside git alone reading the same files.
//!
//! Runs are interleaved and the medians reported, because machines are noisy; nothing fails. Repositories are
//! generated once, in target/bench. docs/benchmarks.md says how to read the figures.
#![allow(unreachable_pub, reason = "nothing uses the modules of a benchmark from outside")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what a benchmark does"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark that cannot go on has no figures"
)]

mod large;
mod measure;
mod real;
mod repository;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use measure::{Cost, median, run};
use repository::MAIN_FILE;

/// Runs of each command; odd, so that there is a median.
const ROUNDS: usize = 5;

fn main() -> io::Result<()> {
    let bench = Bench {
        folder: Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench"),
    };
    fs::create_dir_all(&bench.folder)?;
    bench.speed()?;
    bench.real()?;
    bench.packing()?;
    bench.side_by_side()?;
    bench.memory()
}

struct Bench {
    folder: PathBuf,
}

impl Bench {
    /// git alone, a full build and a build where nothing changed: 10,000 tags on one core.
    fn speed(&self) -> io::Result<()> {
        let repository = self.repository(10_000)?;
        let instance = self.instance("speed", &repository, &["acme-forms"])?;
        let mut costs = [const { Vec::new() }; 4];
        for round in 1..=ROUNDS {
            eprintln!("10,000 tags on one core: round {round} of {ROUNDS}");
            let releases = format!("releases-{round}");
            costs[0].push(run("0", &self.folder, &git_alone([(&*repository, MAIN_FILE)]))?);
            costs[1].push(instance.build("0", &releases, &[])?);
            costs[2].push(instance.build("0", &releases, &[])?);
            costs[3].push(instance.build("0", &releases, &["--all"])?);
        }
        let [git, full, unchanged, all] = costs.map(|costs| median(&costs));
        println!("10,000 annotated tags, a readme of 40 kB, one core (medians of {ROUNDS})\n");
        table(&[
            ("git alone", git),
            ("full build", full),
            ("nothing changed", unchanged),
            ("nothing changed, --all", all),
        ]);
        println!("\n{:26} {:>9} {:>9}   target", "", "wall", "CPU");
        ratio("full build : git alone", full.0, git.0, "at most 2");
        ratio("nothing changed : full", unchanged.0, full.0, "at most 0.05");
        Ok(())
    }

    /// Builds real plugins, where `REPOSITORIES` names a folder with clones, beside git alone.
    fn real(&self) -> io::Result<()> {
        let Some(folder) = std::env::var_os("REPOSITORIES") else {
            println!("\nrepositories of real plugins: NOT MEASURED: REPOSITORIES names no folder with clones");
            return Ok(());
        };
        let plugins = real::plugins(Path::new(&folder))?;
        let instance = self.instance("real", Path::new(""), &[])?;
        for plugin in &plugins {
            instance.declare(&plugin.slug, &plugin.repository, &plugin.main_file)?;
        }
        let mut costs = [const { Vec::new() }; 3];
        for round in 1..=ROUNDS {
            eprintln!("{} real repositories: round {round} of {ROUNDS}", plugins.len());
            let releases = format!("releases-{round}");
            let read = plugins.iter().map(|plugin| (&*plugin.repository, &*plugin.main_file));
            costs[0].push(run("0", &self.folder, &git_alone(read))?);
            // A full build does not know which tags the one before refused.
            let cache = instance.folder.join("cache");
            if cache.exists() {
                fs::remove_dir_all(cache)?;
            }
            costs[1].push(instance.build("0", &releases, &[])?);
            costs[2].push(instance.build("0", &releases, &[])?);
        }
        let [git, full, unchanged] = costs.map(|costs| median(&costs));
        let tags: usize = plugins.iter().map(|plugin| plugin.tags).sum();
        println!(
            "\n{} repositories of real plugins, {tags} tags, one core",
            plugins.len()
        );
        table(&[("git alone", git), ("full build", full), ("nothing changed", unchanged)]);
        ratio("full build : git alone", full.0, git.0, "at most 4 of CPU");
        ratio("nothing changed : full", unchanged.0, full.0, "at most 0.05");
        Ok(())
    }

    /// One package of many files, beside the archive that git makes of the same tree.
    fn packing(&self) -> io::Result<()> {
        let repository = self.folder.join("acme-large.git");
        large::generate(&repository)?;
        let instance = self.instance("packing", &repository, &[])?;
        let entry = format!(
            "repository = \"{}\"\nmain_file = \"{MAIN_FILE}\"\n",
            repository.display()
        );
        fs::write(instance.folder.join("registry/plugins/acme-forms.toml"), entry)?;
        let mut costs = [const { Vec::new() }; 2];
        for round in 1..=ROUNDS {
            eprintln!("a package: round {round} of {ROUNDS}");
            let zip = instance.folder.join(format!("git-{round}.zip"));
            let mut git: Vec<OsString> = ["git".into(), "--git-dir".into(), repository.clone().into()].into();
            git.extend(["archive", "--format=zip", "-o"].map(OsString::from));
            git.extend([zip.into(), "v1.0.0".into()]);
            costs[0].push(run("0", &self.folder, &git)?);
            costs[1].push(instance.build_without_php("0", &format!("releases-{round}"))?);
        }
        let [git, packing] = costs.map(|costs| median(&costs));
        println!("\na package of {} files, {} MiB, one core", large::FILES, large::MIB);
        table(&[("git archive --format=zip", git), ("build", packing)]);
        ratio("build : git archive", packing.0, git.0, "at most 1.3 of CPU");
        Ok(())
    }

    /// Four plugins on one core and on two.
    fn side_by_side(&self) -> io::Result<()> {
        let repository = self.repository(1_000)?;
        let instance = self.instance("side_by_side", &repository, &["acme-a", "acme-b", "acme-c", "acme-d"])?;
        let mut costs = [const { Vec::new() }; 2];
        for round in 1..=ROUNDS {
            eprintln!("four plugins: round {round} of {ROUNDS}");
            for (cores, costs) in ["0", "0,1"].into_iter().zip(&mut costs) {
                costs.push(instance.build(cores, &format!("releases-{round}-on-{cores}"), &[])?);
            }
        }
        let [one, two] = costs.map(|costs| median(&costs).0);
        println!(
            "\nfour plugins of 1,000 tags: {:.2} s on one core, {:.2} s on two",
            one.wall, two.wall
        );
        println!(
            "{:26} {:7.2} x             about 2, where two cores are free",
            "speed-up",
            one.wall / two.wall
        );
        Ok(())
    }

    /// The largest resident set of a full build.
    fn memory(&self) -> io::Result<()> {
        println!("\nmemory of a full build, at most 256 MiB and not growing with the number of tags");
        for tags in [1_000, 10_000, 40_000] {
            let repository = self.repository(tags)?;
            let instance = self.instance("memory", &repository, &["acme-forms"])?;
            let Cost { memory, wall, cpu } = instance.build("0", &format!("releases-{tags}"), &[])?;
            println!("{tags:>8} tags {memory:10.0} MiB   {wall:7.2} s wall, {cpu:.2} s CPU");
        }
        Ok(())
    }

    fn repository(&self, tags: usize) -> io::Result<PathBuf> {
        let path = self.folder.join(format!("acme-forms-{tags}.git"));
        repository::generate(&path, tags)?;
        Ok(path)
    }

    /// A vendor's folder whose plugins all come from one repository.
    fn instance(&self, name: &str, repository: &Path, slugs: &[&str]) -> io::Result<Instance> {
        let folder = self.folder.join(name);
        fs::create_dir_all(folder.join("registry/plugins"))?;
        fs::write(folder.join("countersign.toml"), "")?;
        let instance = Instance { folder };
        for slug in slugs {
            instance.declare(slug, repository, MAIN_FILE)?;
        }
        Ok(instance)
    }
}

struct Instance {
    folder: PathBuf,
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Instance {
    /// Writes the entry of a plugin.
    fn declare(&self, slug: &str, repository: &Path, main_file: &str) -> io::Result<()> {
        let entry = format!(
            "name = \"Acme\"\nrepository = \"{}\"\nmain_file = \"{main_file}\"\n\
             download_url = \"https://example.com/{{slug}}-{{version}}.zip\"\n",
            repository.display(),
        );
        fs::write(self.folder.join(format!("registry/plugins/{slug}.toml")), entry)
    }

    /// Builds into a folder of this name. A full build needs a new name: file systems are slow for a while where
    /// thousands of files were just removed.
    fn build(&self, cores: &str, releases: &str, flags: &[&str]) -> io::Result<Cost> {
        let mut command: Vec<OsString> = [env!("CARGO_BIN_EXE_countersign").into(), "-C".into()].into();
        command.push(self.folder.clone().into());
        command.extend(["--releases".into(), self.folder.join(releases).into(), "build".into()]);
        command.extend(flags.iter().map(OsString::from));
        run(cores, &self.folder, &command)
    }

    /// The same without the parsing of PHP, which is no part of packing.
    fn build_without_php(&self, cores: &str, releases: &str) -> io::Result<Cost> {
        let mut path = OsString::from("PATH=");
        path.push(git_only(&self.folder)?);
        let mut command: Vec<OsString> = ["env".into(), path, env!("CARGO_BIN_EXE_countersign").into()].into();
        command.extend(["-C".into(), self.folder.clone().into(), "--releases".into()]);
        command.extend([self.folder.join(releases).into(), "build".into()]);
        run(cores, &self.folder, &command)
    }
}

/// A folder for PATH in which only git is.
fn git_only(folder: &Path) -> io::Result<PathBuf> {
    let path = folder.join("git-only");
    fs::create_dir_all(&path)?;
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join("git"))
        .find(|git| git.is_file());
    if let Some(git) = found
        && !path.join("git").exists()
    {
        std::os::unix::fs::symlink(git, path.join("git"))?;
    }
    Ok(path)
}

/// The files that a build reads of these repositories, each with its main file, by name: git finds tag, commit and tree itself, as a
/// build must.
fn git_alone<'r>(repositories: impl IntoIterator<Item = (&'r Path, &'r str)>) -> Vec<OsString> {
    let read = repositories.into_iter().map(|(repository, main_file)| {
        let repository = repository.display();
        format!(
            "git --git-dir '{repository}' for-each-ref --format='%(refname)^{{}}:{main_file}%0a%(refname)^{{}}:readme.txt' refs/tags | \
             git --git-dir '{repository}' cat-file --batch\n",
        )
    });
    let script: String = read.collect();
    ["sh", "-c", &script].map(OsString::from).into()
}

fn table(rows: &[(&str, (Cost, f64))]) {
    println!("{:26} {:>9} {:>9} {:>9} {:>9}", "", "wall", "CPU", "memory", "spread");
    for (name, (cost, spread)) in rows {
        println!(
            "{name:26} {:7.2} s {:7.2} s {:5.0} MiB {spread:7.2} x",
            cost.wall, cost.cpu, cost.memory
        );
    }
}

fn ratio(name: &str, cost: Cost, to: Cost, target: &str) {
    println!(
        "{name:26} {:7.2} x {:7.2} x   {target}",
        cost.wall / to.wall,
        cost.cpu / to.cpu
    );
}
