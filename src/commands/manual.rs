//! `countersign manual`: the manual pages, from clap's own description of the command line.

use std::path::PathBuf;

use super::{Exit, Failure, output};

/// Print the manual page, or write a page for each verb
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  countersign manual | man -l -
  countersign manual --pages /usr/local/share/man/man1")]
pub struct Args {
    /// Write a page for the program and one for each verb into this folder
    #[arg(long, value_name = "DIR")]
    pub pages: Option<PathBuf>,
}

/// Prints or writes the pages of the program that `command` describes.
pub fn run(args: &Args, command: clap::Command) -> Result<Exit, Failure> {
    match &args.pages {
        Some(folder) => {
            std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder)).map_err(
                |error| Failure::environment(format!("{}: the pages cannot be written: {error}", folder.display())),
            )?
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page).map_err(Failure::environment)?;
            return output::print(&String::from_utf8_lossy(&page));
        }
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_for_the_pages_need_not_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let pages = folder.path().join("share/man1");
        run(&Args { pages: Some(pages.clone()) }, clap::Command::new("program")).unwrap();
        assert!(pages.join("program.1").exists());
    }
}
