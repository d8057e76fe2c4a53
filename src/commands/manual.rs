//! `countersign manual`: manual pages from clap's description of the command line.

use std::path::{Path, PathBuf};

use crate::commands::{Exit, Failure, output};

/// Print the manual page, or write a page for each verb
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  countersign manual | man -l -
  countersign manual --pages /usr/local/share/man/man1")]
pub struct Args {
    /// Write the page of the program and of each verb to this folder
    #[arg(long, value_name = "DIR")]
    pub pages: Option<PathBuf>,
}

/// Prints or writes the pages of the program that `command` describes.
pub fn run(args: &Args, command: clap::Command) -> Result<Exit, Failure> {
    if let Some(folder) = &args.pages {
        let written = std::fs::create_dir_all(folder).and_then(|()| write_all(command, folder));
        written.map_err(|error| {
            Failure::environment(format!("{}: the pages cannot be written: {error}", folder.display()))
        })?;
    } else {
        let mut page = Vec::new();
        page_of(command).render(&mut page).map_err(Failure::environment)?;
        return output::print(&String::from_utf8_lossy(&page));
    }
    Ok(Exit::Done)
}

/// A page for the command, and for each verb below.
fn write_all(mut command: clap::Command, folder: &Path) -> std::io::Result<()> {
    // Gives each verb its full name, such as countersign-license-issue.
    command = command.disable_help_subcommand(true);
    command.build();
    let mut commands = vec![command];
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned());
        let name = command
            .get_display_name()
            .unwrap_or_else(|| command.get_name())
            .to_owned();
        let mut page = Vec::new();
        page_of(command).render(&mut page)?;
        countersign_files::regular_file::write(&folder.join(format!("{name}.1")), &page)?;
    }
    Ok(())
}

/// A page with the full name and the section in its heading, and no date: same program, same bytes. The flags for paths, which
/// every command takes, are on the page of the program.
fn page_of(mut command: clap::Command) -> clap_mangen::Man {
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_uppercase();
    if !name.contains('-') {
        command = command.mut_args(|flag| flag.hide(false));
    }
    let source = format!("countersign {}", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(command)
        .title(name)
        .section("1")
        .date("")
        .source(source)
        .manual("countersign manual")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_for_the_pages_need_not_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let pages = folder.path().join("share/man1");
        run(
            &Args {
                pages: Some(pages.clone()),
            },
            clap::Command::new("program"),
        )
        .unwrap();
        assert!(pages.join("program.1").exists());
    }

    #[test]
    fn every_page_has_its_whole_name_and_its_section_in_its_heading() {
        use clap::CommandFactory as _;
        let folder = tempfile::tempdir().unwrap();
        run(
            &Args {
                pages: Some(folder.path().to_owned()),
            },
            crate::cli::Cli::command(),
        )
        .unwrap();
        let mut pages = 0;
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let page = std::fs::read_to_string(&path).unwrap();
            let heading = page
                .lines()
                .find(|line| line.starts_with(".TH "))
                .unwrap()
                .replace('\\', "");
            let expected = format!(
                ".TH {} 1  \"countersign {}\" \"countersign manual\"",
                name.to_uppercase(),
                env!("CARGO_PKG_VERSION")
            );
            assert_eq!(heading, expected);
            let has_paths = page.replace('\\', "").contains("--registry");
            assert_eq!(has_paths, name == "countersign", "{name}");
            pages += 1;
        }
        assert!(pages > 25, "{pages}");
    }
}
