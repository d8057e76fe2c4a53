//! An instance with packages, made by the program's own writer and published without `build`.

use std::fs;
use std::io::Cursor;

use countersign_model::build_id::BuildId;
use countersign_model::download_key::DownloadKey;
use countersign_model::download_link::DownloadLink;
use countersign_model::license_key::LicenseId;
use countersign_package::mark::Places;
use countersign_package::writer::PackageWriter;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::instance::{Instance, License};
use crate::support::server::Server;

/// The secret of downloads that tests have.
pub const SECRET: [u8; 32] = [0x5e; 32];

/// A package as it is published.
#[derive(Clone, Debug)]
pub struct Hosted {
    pub slug: &'static str,
    pub version: &'static str,
    pub bytes: Vec<u8>,
    pub mark: Option<Places>,
}

/// A plugin, its versions (newest first), and whether its packages are marked.
pub type HostedPlugin<'a> = (&'static str, &'a [&'static str], bool);

impl Hosted {
    /// A package of some 200 kB, of which no two are alike, and whose bytes are no pattern.
    pub fn new(slug: &'static str, version: &'static str, is_marked: bool) -> Self {
        Self::of_size(slug, version, is_marked, 200_000)
    }

    pub fn of_size(slug: &'static str, version: &'static str, is_marked: bool, size: usize) -> Self {
        let folder = slug.parse().unwrap();
        let mut out = Cursor::new(Vec::new());
        let mut writer = PackageWriter::new(&mut out, &folder, "2026-11-20T10:17:03Z".parse().unwrap());
        let header = format!("<?php\n/* Plugin Name: {slug}\n * Version: {version}\n */\n");
        let noise = noise(&header, size);
        for (name, content) in [
            (format!("{slug}.php"), header.as_bytes()),
            ("noise.bin".to_owned(), &noise),
        ] {
            writer.add(&name, content.len() as u64, || Ok(content)).unwrap();
        }
        let written = writer.finish(is_marked).unwrap();
        Self {
            slug,
            version,
            bytes: out.into_inner(),
            mark: written.mark,
        }
    }

    /// The path under `releases/`.
    pub fn path(&self) -> String {
        format!("releases/{}/{}.zip", self.slug, self.version)
    }

    pub fn sha256(&self) -> String {
        Sha256::digest(&self.bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// The copy that a site gets with a link of today.
    pub fn marked_for(&self, license: &License, host: &str, day: chrono::NaiveDate) -> Vec<u8> {
        let key = DownloadKey::new(&SECRET);
        let host = host.parse().unwrap();
        let id = BuildId::new(&key, &license_id(license), &host, day, self.slug, self.version).unwrap();
        let mut bytes = self.bytes.clone();
        self.mark.unwrap().patch(id.encrypt(&key)).apply(0, &mut bytes);
        bytes
    }

    /// The path of a link that this secret makes for a site on `day`.
    pub fn link(&self, secret: &[u8; 32], license: &License, host: &str, day: chrono::NaiveDate) -> String {
        let key = DownloadKey::new(secret);
        let link = DownloadLink::new(&key, &license_id(license), &host.parse().unwrap(), day);
        let token = link.token(&key, self.slug, self.version).unwrap();
        let Self { slug, version, .. } = self;
        format!("/api/v1/downloads/{slug}/{version}/{token}/{slug}-{version}.zip")
    }
}

/// Bytes that no encoder makes shorter, always the same for one seed.
fn noise(seed: &str, length: usize) -> Vec<u8> {
    let mut noise = Vec::with_capacity(length + 32);
    let mut number = 0_u64;
    while noise.len() < length {
        noise.extend_from_slice(
            &Sha256::new()
                .chain_update(seed)
                .chain_update(number.to_be_bytes())
                .finalize(),
        );
        number += 1;
    }
    noise.truncate(length);
    noise
}

fn license_id(license: &License) -> LicenseId {
    license.id.parse().unwrap()
}

/// An instance with these licenses that hosts these plugins, with the key for downloads; the packages in the order
/// given.
pub fn hosting(licenses: &[String], plugins: &[HostedPlugin<'_>]) -> (Instance, Vec<Hosted>) {
    let instance = Instance::with_licenses(licenses);
    let packages = plugins
        .iter()
        .flat_map(|(slug, versions, marked)| versions.iter().map(|version| Hosted::new(slug, version, *marked)))
        .collect::<Vec<_>>();
    put_secret(&instance, "keys/downloads.key", &SECRET);
    for (slug, ..) in plugins {
        let module = slug.trim_start_matches("acme-");
        let entry = format!("module = \"{module}\"\nrepository = \"../../src\"\n");
        instance.write(&format!("registry/plugins/{slug}.toml"), &entry);
    }
    publish(&instance, &packages);
    (instance, packages)
}

/// Publishes packages, the index last; the first of each plugin is its latest.
pub fn publish(instance: &Instance, packages: &[Hosted]) {
    let mut plugins = serde_json::Map::new();
    for package in packages {
        put(instance, package);
        let manifest = manifest(package);
        instance.write(
            &format!("releases/{}/{}.json", package.slug, package.version),
            &manifest,
        );
        let mark = package.mark.map(|places| serde_json::to_value(places).unwrap());
        let release = json!({
            "version": package.version, "tag": format!("v{}", package.version), "commit": "0".repeat(40),
            "sha256": crate::support::instance::sha256(&manifest),
            "package": {
                "form": 1, "size": package.bytes.len(), "sha256": package.sha256(), "mark": mark, "tree": "0".repeat(40),
            },
        });
        let plugin = plugins
            .entry(package.slug)
            .or_insert_with(|| json!({ "latest": package.version, "releases": [] }));
        plugin["releases"].as_array_mut().unwrap().push(release);
    }
    instance.write_index("releases", &Value::Object(plugins));
}

/// Puts a package's file in its place, as a build does.
pub fn put(instance: &Instance, package: &Hosted) {
    let path = instance.file(&package.path());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let beside = path.with_extension("new~");
    fs::write(&beside, &package.bytes).unwrap();
    fs::rename(beside, path).unwrap();
}

/// The manifest as it is published: with empty links, and with texts that look like them.
pub fn manifest(package: &Hosted) -> String {
    let Hosted { slug, version, .. } = package;
    format!(
        "{{\"changelog\":\"\\\"package\\\":\\\"\\\" \u{fc}\",\"download_link\":\"\",\"download_url\":\"\",\"name\":\"{slug}\",\
         \"package\":\"\",\"sections\":{{\"package\":\"\"}},\"version\":\"{version}\"}}\n"
    )
}

pub fn put_secret(instance: &Instance, relative: &str, secret: &[u8]) {
    let path = instance.file(relative);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let beside = path.with_extension("new~");
    fs::write(&beside, secret).unwrap();
    let owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&beside, owner).unwrap();
    fs::rename(beside, path).unwrap();
}

/// The path of the link that a site gets with its update.
pub fn link_of(server: &Server, slug: &str, license: &License, site: &str) -> String {
    let target = crate::support::server::updates(slug, license, site, "");
    let answer = crate::support::get(server.address, &target);
    let manifest: Value = answer.json();
    let link = manifest["download_url"]
        .as_str()
        .unwrap_or_else(|| panic!("no link: {manifest}"));
    let base = format!("http://{}", server.address);
    link.strip_prefix(&base)
        .unwrap_or_else(|| panic!("{link} is not at {base}"))
        .to_owned()
}
