//! A plugin whose package the server hosts, beside the one with a download of its own: 5 MB that deflate does not make smaller.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use countersign_package::writer::{FORM, PackageWriter};
use rsa::rand_core::{OsRng, RngCore};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::client::{get, updates_of};
use crate::instance::{Instance, LATEST, hex, host, key};
use crate::process::Server;

/// The plugin's name.
pub const HOSTED: &str = "acme-hosted";

/// How large the package's one file is, in bytes.
const SIZE: usize = 5_000_000;

/// Adds the plugin to an instance that has published `acme-forms`.
pub fn add(instance: &Instance) -> io::Result<()> {
    instance.write(
        &format!("registry/plugins/{HOSTED}.toml"),
        "module = \"forms\"\nrepository = \"../../src\"\n",
    )?;
    let mut secret = [0; 32];
    OsRng.fill_bytes(&mut secret);
    fs::write(instance.file("keys/downloads.key"), secret)?;
    fs::set_permissions(instance.file("keys/downloads.key"), fs::Permissions::from_mode(0o600))?;
    let settings = fs::read_to_string(instance.file("countersign.toml"))?;
    instance.write(
        "countersign.toml",
        &format!("{settings}downloads_per_link = 4000000000\n"),
    )?;

    instance.publish(&["acme-forms"], &[LATEST])?;
    let index: Value = serde_json::from_slice(&fs::read(instance.file("releases/index.json"))?)?;
    let own = instance.file(&format!("releases/acme-forms/{LATEST}.json"));
    let manifest: Value = serde_json::from_slice(&fs::read(own)?)?;
    instance.write(
        "releases/index.json",
        &with_hosted(instance, index, manifest)?.to_string(),
    )
}

/// The index with the hosted plugin, whose manifest and package are written first.
fn with_hosted(instance: &Instance, mut index: Value, mut manifest: Value) -> io::Result<Value> {
    fs::create_dir_all(instance.file(&format!("releases/{HOSTED}")))?;
    let path = package(instance);
    let folder = HOSTED.parse().map_err(io::Error::other)?;
    let content = content();
    let mut writer = PackageWriter::new(File::create(&path)?, &folder, chrono::DateTime::UNIX_EPOCH);
    let written = writer
        .add("data.bin", SIZE as u64, || Ok(&content[..]))
        .and_then(|()| writer.finish(true))
        .map_err(io::Error::other)?;
    for member in ["download_link", "download_url", "package"] {
        manifest[member] = "".into();
    }
    manifest["slug"] = HOSTED.into();
    let manifest = manifest.to_string() + "\n";
    instance.write(&format!("releases/{HOSTED}/{LATEST}.json"), &manifest)?;
    let package = json!({
        "form": FORM, "size": written.size, "sha256": hex(&Sha256::digest(fs::read(&path)?)), "mark": written.mark,
        "tree": "0".repeat(40),
    });
    let release = json!({
        "version": LATEST, "tag": format!("v{LATEST}"), "commit": "0".repeat(40),
        "sha256": hex(&Sha256::digest(&manifest)), "package": package,
    });
    index["plugins"][HOSTED] = json!({ "latest": LATEST, "releases": [release] });
    Ok(index)
}

/// The plugin's one file.
pub fn content() -> Vec<u8> {
    let mut content = vec![0; SIZE];
    OsRng.fill_bytes(&mut content);
    content
}

/// Where the package is.
pub fn package(instance: &Instance) -> PathBuf {
    instance.file(&format!("releases/{HOSTED}/{LATEST}.zip"))
}

/// The target of a link that the site of the license `number` is given.
pub fn link(server: &Server, number: usize) -> io::Result<String> {
    let question = updates_of(HOSTED, key(number).reveal(), &host(number), "");
    let answer = get(server.address, &question)?;
    let manifest: Value = serde_json::from_str(&answer.body)?;
    let link = manifest["package"].as_str().and_then(|link| link.split_once("/api/"));
    let (_, path) = link.ok_or_else(|| io::Error::other(answer.body.clone()))?;
    Ok(format!("/api/{path}"))
}
