//! A theme beside a plugin, from its tag to what a site, Composer and a buyer get of it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::Utc;
use countersign_model::download_key::DownloadKey;
use countersign_model::first_copy_link::FirstCopyLink;
use countersign_package::archive::Archive;
use serde_json::{Value, json};

use crate::hosted::{SECRET, put_secret};
use crate::support::history::make_repository;
use crate::support::instance::shared_keys;
use crate::support::server::{countersign, updates};
use crate::support::{Instance, License, Server, get, request};

const SITE: &str = "shop.example";

/// The theme has a plugin's file beside its stylesheet, in a subfolder of its repository.
const THEME: &str = ">>> write theme/style.css\n/*\n * Theme Name: Acme Shop\n * Theme URI: https://acme.example/shop\n\
    \x20* Author: Acme\n * Version: 2.0.0\n * Requires at least: 6.5\n * Requires PHP: 7.4\n * Requires Plugins: woocommerce\n */\n\
    >>> write theme/index.php\n<?php\n>>> write theme/license.php\n<?php\n/*\n * Plugin Name: Other\n * Version: 9\n */\n\
    >>> write theme/readme.txt\n=== Acme Shop ===\n\n== Changelog ==\n\n= 2.0.0 =\n* First\n>>> tag 2.0.0\n";

const PLUGIN: &str =
    ">>> write acme-forms.php\n<?php\n/*\n * Plugin Name: Acme Forms\n * Version: 1.0.0\n */\n>>> tag 1.0.0\n";

fn run(instance: &Instance, arguments: &[&str]) -> String {
    let output = countersign(instance).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// An instance with the plugin and the theme, both of the module `forms`, and a license for it.
fn built() -> (Instance, License) {
    let instance = Instance::empty();
    instance.write_licenses(&["# none\n".to_owned()]);
    instance.write_key(&shared_keys().private);
    instance.write_issuing_secrets();
    instance.write("public/index.html", "<title>Acme</title>\n");
    put_secret(&instance, "keys/downloads.key", &SECRET);
    let entry = "module = \"forms\"\nrepository = \"../../forms.git\"\n";
    instance.write("registry/plugins/acme-forms.toml", entry);
    instance.write(
        "registry/plugins/acme-shop.toml",
        "type = \"theme\"\nmodule = \"forms\"\nrepository = \"../../shop.git\"\npath = \"theme\"\n",
    );
    make_repository(PLUGIN, &instance.file("forms.git"));
    make_repository(THEME, &instance.file("shop.git"));
    run(&instance, &["build"]);
    let arguments = ["license", "issue", "--module", "forms", "--expires", "never", "--json"];
    let issued: Value = serde_json::from_str(&run(&instance, &arguments)).unwrap();
    let license = License {
        id: issued["id"].as_str().unwrap().to_owned(),
        key: issued["license_key"].as_str().unwrap().to_owned(),
    };
    (instance, license)
}

#[test]
fn a_site_gets_a_theme_as_it_gets_a_plugin() {
    let (instance, license) = built();
    let server = Server::start_with(&instance, &["--composer", "acme"]);
    assert_eq!(server.validate(&license, SITE).code(), "ok");
    let manifest = get(
        server.address,
        &updates("acme-shop", &license, SITE, "&current_version=1.9"),
    )
    .json();
    for (field, expected) in [
        ("type", json!("theme")),
        ("version", json!("2.0.0")),
        ("name", json!("Acme Shop")),
        ("url", json!("https://acme.example/shop")),
        ("details_url", json!("https://acme.example/shop")),
        ("requires", json!("6.5")),
        ("requires_plugins", json!(["woocommerce"])),
        ("changelog", json!("- First")),
    ] {
        assert_eq!(manifest[field], expected, "{field}: {manifest}");
    }
    let link = manifest["package"].as_str().unwrap();
    let package = get(server.address, &link[link.find("/api/").unwrap()..]);
    assert_eq!(package.status, 200);
    let archive = Archive::check(&package.body[..]).unwrap();
    let names: Vec<_> = archive.files().map(|file| file.name.to_string()).collect();
    assert_eq!(
        names,
        [
            "acme-shop/build-id.php",
            "acme-shop/index.php",
            "acme-shop/license.php",
            "acme-shop/readme.txt",
            "acme-shop/style.css",
        ]
    );
    let plugin = get(server.address, &updates("acme-forms", &license, SITE, "")).json();
    assert_eq!(
        (plugin.get("type"), plugin.get("details_url")),
        (None, None),
        "{plugin}"
    );

    // Composer puts each into its folder by the type.
    let user = BASE64_STANDARD.encode(format!("{}:{SITE}", license.key));
    for (slug, kind) in [("acme-shop", "wordpress-theme"), ("acme-forms", "wordpress-plugin")] {
        let target = format!("/composer/p2/acme/{slug}.json");
        let answer = request(
            server.address,
            "GET",
            &target,
            &[("Authorization", &format!("Basic {user}"))],
            b"",
        );
        let packages = answer.json();
        assert_eq!(
            packages["packages"][format!("acme/{slug}")][0]["type"],
            kind,
            "{packages}"
        );
    }
}

#[test]
fn a_buyer_reads_how_to_install_what_the_license_includes() {
    let (instance, license) = built();
    let server = Server::start(&instance);
    let link = FirstCopyLink::new(&license.id.parse().unwrap(), Utc::now().date_naive());
    let token = link.token(&DownloadKey::new(&SECRET)).unwrap();
    let both = get(server.address, &format!("/first-copy/{token}")).text();
    for text in [
        "<h1>Download your plugins and themes</h1>",
        "Upload Plugin",
        "Upload Theme",
        "acme-shop\">",
    ] {
        assert!(both.contains(text), "{text}: {both}");
    }
}

#[test]
fn an_archive_of_a_theme_is_checked_without_an_entry() {
    let (instance, _) = built();
    let package = instance.file("releases/acme-shop/2.0.0.zip");
    let arguments = ["package", "check", package.to_str().unwrap(), "--json"];
    let output = countersign(&instance).args(arguments).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&found["main_file"], &found["version"]),
        (&json!("style.css"), &json!("2.0.0")),
        "{found}"
    );
}
