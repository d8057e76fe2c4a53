//! Packages: the bytes of the normal form, how other programs read them, and the verbs of `countersign package`.

use std::fs::File;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use countersign_package::archive::Archive;
use countersign_package::catalog::ReleaseIndex;
use countersign_package::entry_name::FolderName;
use countersign_package::mark;
use countersign_package::normalize::normalize;
use countersign_package::writer::{FORM, Package, PackageWriter};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::support::Instance;
use crate::support::server::countersign as countersign_of;
use crate::support::upstream::{Upstream, without_settings};

/// An id that a copy is given to.
const ID: Uuid = Uuid::from_u128(0x0123_4567_89ab_8def_8123_4567_89ab_cdef);

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/package")
}

/// A package in memory, of names behind the folder and their contents.
fn packed(files: &[(&str, &[u8])], marked: bool) -> (Package, Vec<u8>) {
    let mut out = Cursor::new(Vec::new());
    let folder: FolderName = "acme-forms".parse().unwrap();
    let mut writer = PackageWriter::new(&mut out, &folder, "2026-11-23T15:04:19Z".parse().unwrap());
    for (name, content) in files {
        writer.add(name, content.len() as u64, || Ok(*content)).unwrap();
    }
    let package = writer.finish(marked).unwrap();
    (package, out.into_inner())
}

/// A zip at a path, made by Python as another program's.
fn zip(path: &Path, files: &[(&str, &str)]) {
    let script = "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as z:\n for name, text in zip(sys.argv[2::2], sys.argv[3::2]): z.writestr(name, text)";
    let mut python = Command::new("python3");
    python.args(["-c", script]).arg(path);
    for (name, text) in files {
        python.args([name, text]);
    }
    assert!(python.status().unwrap().success());
}

/// The files of the vectors: code, an empty file, one that deflate does not make smaller, and names beyond ASCII.
fn small() -> Vec<(&'static str, Vec<u8>)> {
    let header = "<?php\n/**\n * Plugin Name: Acme Forms\n * Version: 1.2.0\n */\n";
    vec![
        (".htaccess", b"deny from all\n".to_vec()),
        (
            "Readme.md",
            b"# Acme Forms\n\nForms, forms, forms, and more forms.\n".to_vec(),
        ),
        (
            "acme-forms.php",
            [header.as_bytes(), &b"require __DIR__ . '/src/form.php';\n".repeat(3)].concat(),
        ),
        ("assets/icon.bin", noise(300)),
        ("empty.txt", Vec::new()),
        (
            "languages/\u{e4}\u{8868}\u{5355}.po",
            b"msgid \"\"\nmsgstr \"\"\n".to_vec(),
        ),
        (
            "src/form.php",
            b"<?php\nnamespace Acme;\n\nfinal class Form\n{\n}\n".to_vec(),
        ),
    ]
}

/// Bytes that do not compress, the same on every machine.
fn noise(length: usize) -> Vec<u8> {
    let blocks = (0_u32..).flat_map(|number| Sha256::digest(number.to_le_bytes()));
    blocks.take(length).collect()
}

/// Code of several times the window of deflate and the pieces that are read, with some noise in it.
fn code(length: usize) -> Vec<u8> {
    const WORDS: [&str; 8] = [
        "function ",
        "return ",
        "$this->",
        "array(",
        "); ",
        "'value' ",
        "=> ",
        "\n    ",
    ];
    let random = noise(length);
    let mut code = Vec::with_capacity(length + 16);
    for byte in random {
        if code.len() >= length {
            break;
        }
        match byte {
            0..240 => code.extend(WORDS[usize::from(byte % 8)].as_bytes()),
            _ => code.push(byte),
        }
    }
    code.truncate(length);
    code
}

fn large() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("code-1.php", code(1 << 20)),
        ("code-2.php", code(200_003)),
        ("noise.bin", noise(150_000)),
        ("piece.php", code(1 << 16)),
        ("zeros.bin", vec![0; 100_000]),
    ]
}

fn borrowed<'a>(files: &'a [(&'static str, Vec<u8>)]) -> Vec<(&'a str, &'a [u8])> {
    files.iter().map(|(name, content)| (*name, &content[..])).collect()
}

/// What is in a package, a line an entry, for a person who looks for what changed.
fn listed(bytes: &[u8]) -> String {
    let archive = Archive::check(bytes).unwrap();
    let lines = archive
        .files()
        .map(|file| format!("{}\t{}\t{}\t{:08x}\n", file.name, file.size, file.packed, file.crc));
    let digest = const_hex::encode(Sha256::digest(bytes));
    let head = format!(
        "form\t{FORM}\nbytes\t{}\nsha256\t{digest}\nname\tsize\tpacked\tcrc\n",
        bytes.len()
    );
    head + &lines.collect::<String>()
}

#[test]
fn the_bytes_of_the_normal_form_are_those_of_the_vectors() {
    let small = small();
    let (package, unmarked) = packed(&borrowed(&small), false);
    assert_eq!(package.mark, None);
    let (package, marked) = packed(&borrowed(&small), true);
    let mut copy = marked.clone();
    package.mark.unwrap().patch(ID).apply(0, &mut copy);
    let (_, large) = packed(&borrowed(&large()), true);
    let made: [(&str, Vec<u8>); 5] = [
        ("unmarked.zip", unmarked),
        ("marked.zip", marked.clone()),
        ("copy.zip", copy),
        ("marked.tsv", listed(&marked).into_bytes()),
        ("large.tsv", listed(&large).into_bytes()),
    ];
    for (name, bytes) in made {
        let path = vectors().join(name);
        if std::env::var_os("COUNTERSIGN_BLESS").is_some() {
            std::fs::write(&path, &bytes).unwrap();
        }
        let is_same = std::fs::read(&path).unwrap() == bytes;
        assert!(is_same, "{name}: other bytes are a form with another number");
    }
}

#[test]
fn what_another_program_packed_has_the_bytes_of_the_vector() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign.zip");
    let script = "
import sys, zipfile
source = zipfile.ZipFile(sys.argv[1])
class Pipe:  # without seek: data descriptors
    def __init__(self, file): self.file = file
    def write(self, data): return self.file.write(data)
    def flush(self): self.file.flush()
with zipfile.ZipFile(Pipe(open(sys.argv[2], 'wb')), 'w', zipfile.ZIP_DEFLATED, compresslevel=9) as z:
    z.writestr('acme-forms/', b'')
    for name in reversed(source.namelist()):
        with z.open(zipfile.ZipInfo(name, (1999, 1, 2, 3, 4, 5)), 'w', force_zip64=True) as out: out.write(source.read(name))
";
    let source = vectors().join("unmarked.zip");
    let status = Command::new("python3")
        .args(["-c", script])
        .args([&source, &path])
        .status();
    assert!(status.unwrap().success());
    let archive = Archive::open(&path).unwrap();
    let mut out = Cursor::new(Vec::new());
    let folder_name = "acme-forms".parse().unwrap();
    normalize(
        &archive,
        &mut out,
        &folder_name,
        "2026-11-23T15:04:19Z".parse().unwrap(),
        true,
    )
    .unwrap();
    assert!(out.into_inner() == std::fs::read(vectors().join("marked.zip")).unwrap());
}

/// Runs a program that checks archives.
fn accepts(program: &str, arguments: &[&str], path: &Path) -> Output {
    let output = Command::new(program).args(arguments).arg(path).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; make tools installs it"));
    assert!(output.status.success(), "{program} {}: {output:?}", path.display());
    output
}

/// Whether every program that may unpack a package takes it.
fn accepted_by_all(path: &Path) {
    // Python checks every CRC.
    accepts("python3", &["-m", "zipfile", "-t"], path);
    accepts("unzip", &["-tqq"], path);
    accepts("zip", &["-Tqq"], path);
    let php = "exit((new ZipArchive)->open($argv[1], ZipArchive::CHECKCONS) === true ? 0 : 1);";
    accepts("php", &["-r", php], path);
    accepts("bsdtar", &["-tf"], path);
    accepts("7z", &["t"], path);
}

#[test]
fn other_programs_accept_what_a_build_makes_and_its_mark_is_where_the_index_says() {
    let upstream = Upstream::with_release("1.0.0");
    let instance = Instance::new();
    let entry = format!("repository = \"{}\"\n", upstream.repository().display());
    instance.write("registry/plugins/acme-forms.toml", &entry);
    let mut build = countersign_of(&instance);
    let output = without_settings(&mut build)
        .args(["build", "--plugin", "acme-forms", "--accept-removed"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let index = ReleaseIndex::read(&instance.file("releases")).unwrap().unwrap();
    let mut releases = index.plugins["acme-forms"].releases.iter();
    let package = releases.find_map(|release| release.package.clone()).unwrap();
    let path = instance.file("releases/acme-forms/1.0.0.zip");
    let mut bytes = std::fs::read(&path).unwrap();
    accepted_by_all(&path);
    package.mark.unwrap().patch(ID).apply(0, &mut bytes);
    let copy = instance.file("copy.zip");
    std::fs::write(&copy, &bytes).unwrap();
    accepted_by_all(&copy);
    let read = accepts("unzip", &["-p"], &copy);
    assert!(String::from_utf8_lossy(&read.stdout).ends_with(&mark::content(ID)));
}

#[test]
fn other_programs_accept_the_form_and_every_marked_copy() {
    let folder = tempfile::tempdir().unwrap();
    let small = small();
    let large = large();
    for (name, files) in [
        ("small", borrowed(&small)),
        ("large", borrowed(&large)),
        ("empty", Vec::new()),
    ] {
        let (package, bytes) = packed(&files, true);
        let ids = [Uuid::nil(), Uuid::max(), ID, Uuid::from_u128(1)];
        for (number, id) in ids.into_iter().enumerate() {
            let mut copy = bytes.clone();
            package.mark.unwrap().patch(id).apply(0, &mut copy);
            let path = folder.path().join(format!("{name}-{number}.zip"));
            std::fs::write(&path, &copy).unwrap();
            accepted_by_all(&path);
            let script = "import sys, zipfile; print(zipfile.ZipFile(sys.argv[1]).read('acme-forms/build-id.php').decode(), end='')";
            let read = accepts("python3", &["-c", script], &path);
            assert_eq!(String::from_utf8(read.stdout).unwrap(), mark::content(id));
            let unpacked = folder.path().join(format!("{name}-{number}"));
            let extracted = Command::new("python3")
                .args(["-m", "zipfile", "-e"])
                .args([&path, &unpacked])
                .status();
            assert!(extracted.unwrap().success());
            let found = mark::search::in_folder(&unpacked).unwrap();
            assert_eq!(found.iter().map(|found| found.id).collect::<Vec<_>>(), [id]);
        }
    }
}

#[test]
fn php_runs_the_mark() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(mark::FILE);
    std::fs::write(&path, mark::content(ID)).unwrap();
    let output = Command::new("php")
        .args(["-r", "echo include $argv[1];"])
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), ID.to_string());
}

#[test]
fn a_package_on_disk_is_the_one_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("package.zip");
    let archive = Archive::open(&vectors().join("unmarked.zip")).unwrap();
    let folder_name = "acme-forms".parse().unwrap();
    let out = File::create(&path).unwrap();
    let package = normalize(
        &archive,
        out,
        &folder_name,
        "2026-11-23T15:04:19Z".parse().unwrap(),
        true,
    )
    .unwrap();
    assert!(std::fs::read(&path).unwrap() == std::fs::read(vectors().join("marked.zip")).unwrap());
    let written = Archive::open(&path).unwrap();
    assert_eq!(mark::Places::of(&written, &folder_name).unwrap(), package.mark);
}

fn countersign(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_countersign"))
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn check_says_whether_an_archive_can_be_the_package() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zip");
    let file = path.to_str().unwrap();
    let php = "<?php\n/* Plugin Name: Acme\nVersion: 1.2.0 */";
    zip(&path, &[("acme/acme.php", php)]);
    let (exit, told, _) = countersign(&["package", "check", file, "--plugin", "acme", "--version", "1.2.0"]);
    let expected = format!(
        "folder     acme\nmain file  acme.php, Version 1.2.0\nfiles      1 file, {} bytes unpacked, {} bytes packed\n\n\
         {file} can be the package of a release.\n",
        php.len(),
        path.metadata().unwrap().len()
    );
    assert_eq!((exit, told), (Some(0), expected));

    let (exit, told, _) = countersign(&["package", "check", file, "--plugin", "acme-pro", "--version", "1.3.0"]);
    let problems: Vec<_> = told.lines().filter(|line| line.starts_with("problem: ")).collect();
    assert_eq!(exit, Some(3));
    assert_eq!(
        problems,
        [
            "problem: the folder on top is acme, and must be acme-pro",
            "problem: acme.php: its Version is \"1.2.0\", and must be \"1.3.0\"",
        ]
    );
    let (exit, told, _) = countersign(&["package", "check", vectors().join("copy.zip").to_str().unwrap()]);
    assert_eq!(exit, Some(3));
    assert!(
        told.contains("problem: acme-forms/build-id.php: each download has its build id in this file"),
        "{told}"
    );
}

#[test]
fn a_refused_archive_is_told_with_the_entry_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zip");
    let file = path.to_str().unwrap();
    zip(&path, &[("acme/../evil.php", "")]);
    let (exit, _, told) = countersign(&["package", "check", file]);
    let expected = format!(
        "error: {file}: refused as a package\ncaused by: acme/../evil.php: its name has the component \".\" or \"..\"\n"
    );
    assert_eq!((exit, told), (Some(3), expected));
    zip(&path, &[("acme/acme.php", "")]);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend(b"<?php evil();");
    std::fs::write(&path, bytes).unwrap();
    let (exit, _, told) = countersign(&["package", "show", file]);
    assert_eq!(exit, Some(3));
    assert!(
        told.contains("caused by: 13 bytes follow the end of the archive\nhint: "),
        "{told}"
    );
    let (exit, _, told) = countersign(&["package", "show", "/nowhere.zip"]);
    assert_eq!(exit, Some(3));
    assert!(
        told.starts_with("error: /nowhere.zip: refused as a package\ncaused by: cannot be read\n"),
        "{told}"
    );
}

#[test]
fn show_lists_files_and_what_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let older = path("older.zip");
    let newer = path("newer.zip");
    zip(Path::new(&older), &[("f/a", "a"), ("f/b", "b"), ("f/c", "c")]);
    zip(Path::new(&newer), &[("f/a", "a"), ("f/b", "bb"), ("f/d", "dd")]);
    let (exit, told, _) = countersign(&["package", "show", &newer]);
    assert!(
        told.starts_with("SIZE  PACKED  FILE\n1     3       f/a\n2     4       f/b\n"),
        "{told}"
    );
    assert!(exit == Some(0) && told.contains("3 files, 5 bytes unpacked"), "{told}");
    let (_, told, _) = countersign(&["package", "show", &newer, "--against", &older]);
    let expected = "CHANGE   BEFORE  AFTER  FILE\nadded            2      f/d\nremoved  1              f/c\nchanged  1       2      f/b\n";
    assert!(told.starts_with(expected), "{told}");
    let (_, told, _) = countersign(&["package", "show", &newer, "--against", &newer]);
    assert!(
        told.starts_with(&format!("No file changed since {newer} (sha256 ")),
        "{told}"
    );
}
