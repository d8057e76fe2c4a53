//! Generates a plugin's repository with one release of many files, the same on every machine.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use crate::repository::{self, MAIN_FILE, data, main_file, sentence};

/// Files of the large plugin, and what they have in all.
pub const FILES: usize = 2_000;
pub const MIB: usize = 24;

/// Makes the repository of a plugin with one release of many files unless it is there.
pub fn generate(path: &Path) -> io::Result<()> {
    repository::generate_with(path, write)
}

/// One release of code: sentences and the numbers of their lines, so that it packs about as code does.
fn write(stream: &mut impl Write) -> io::Result<()> {
    let size = (MIB << 20) / FILES;
    let who = "Acme <acme@example.com> 1600000000 +0000";
    writeln!(
        stream,
        "commit refs/heads/main\nmark :1\ncommitter {who}\n{}",
        data("Release")
    )?;
    writeln!(stream, "M 644 inline {MAIN_FILE}\n{}", data(&main_file(0)))?;
    for file in 0..FILES {
        let mut code = String::from("<?php\n");
        for line in 0.. {
            if code.len() >= size {
                break;
            }
            let hash = (file * 1_000 + line).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
            // Writing to a String cannot fail.
            let _ = writeln!(code, "$value_{hash:x} = translate( '{}' );", sentence(file + line, 6));
        }
        writeln!(
            stream,
            "M 644 inline inc/{}/file-{file}.php\n{}",
            file % 40,
            data(&code)
        )?;
    }
    writeln!(stream, "tag v1.0.0\nfrom :1\ntagger {who}\n{}", data("Version 1.0.0"))
}
