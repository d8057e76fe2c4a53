//! Packages that the server hosts, in a real WordPress: links that nobody keeps, marks that name the site, refusals that a person
//! can read.

use std::fs;

use serde_json::Value;

use super::front::{Answer, response};
use super::site::{CORES, Core, Site};
use super::vendor::Vendor;
use super::{HOST, licensed};
use crate::support::server::countersign;
use crate::support::{License, eventually, request};

/// A vendor that hosts, and a site with its plugin and license.
fn hosted_site(core: Core) -> (Vendor, Site, License) {
    let (license, table) = licensed();
    let vendor = Vendor::hosting(&[table]);
    let mut site = Site::new(core, HOST, &vendor.front);
    site.install("acme-forms", &vendor.package("1.0.0"));
    site.press("acme-forms", "activate", &license.key);
    assert_eq!(site.vendor_sees("acme-forms")["active"], true);
    vendor.front.take_asked();
    (vendor, site, license)
}

/// The build id in the plugin's folder.
fn build_id(site: &Site) -> String {
    let file = site.file("wp-content/plugins/acme-forms/build-id.php");
    let text = fs::read_to_string(file).unwrap();
    text.split('\'').nth(1).unwrap().to_owned()
}

/// What `countersign trace` says.
fn trace(vendor: &Vendor, what: &str) -> Value {
    let output = countersign(&vendor.instance)
        .args(["trace", what, "--json"])
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

#[test]
fn an_update_is_installed_through_a_fresh_link_and_carries_the_mark_of_its_site() {
    for core in CORES {
        let (vendor, mut site, license) = hosted_site(core);
        assert_eq!(
            build_id(&site),
            NOBODY,
            "nobody downloaded the first version through a link"
        );
        vendor.release("1.1.0", |text| text);
        site.check_again();
        assert!(site.row().1, "{core:?}: the update is offered");
        let database = String::from_utf8_lossy(&fs::read(site.file("wordpress.sqlite")).unwrap()).into_owned();
        assert!(database.contains("countersign:acme-forms/1.1.0"));
        assert!(!database.contains("/api/v1/downloads/"), "{core:?}: no link is kept");

        let answer = site.update_now();
        assert_eq!(answer["success"], true, "{core:?}: {answer}");
        assert!(site.row().0.contains("Version 1.1.0"));
        let id = build_id(&site);
        assert_ne!(id, NOBODY);
        let traced = trace(&vendor, &id).to_string();
        assert!(traced.contains(&license.id), "{traced}");
        assert!(traced.contains(HOST) && traced.contains("1.1.0"), "{traced}");
        let folder = site.file("wp-content/plugins/acme-forms");
        assert!(trace(&vendor, &folder.display().to_string()).to_string().contains(&id));

        // From now on the site says which copy it has.
        vendor.front.take_asked();
        site.pass(25 * 3600);
        site.cron();
        let validation = vendor
            .front
            .take_asked()
            .into_iter()
            .find(|asked| asked.is_validation());
        assert_eq!(validation.expect("the site validates").json()["build_id"], id.as_str());
        assert_eq!(site.complaints(), [""; 0]);
        let left = fs::read_dir(site.file("tmp")).unwrap().count();
        assert_eq!(left, 0, "no download stays");
    }
}

#[test]
fn a_refused_download_is_told_in_the_words_of_the_server() {
    let (vendor, mut site, license) = hosted_site(Core::Newest);
    vendor.release("1.1.0", |text| text);
    site.check_again();
    let output = countersign(&vendor.instance)
        .args(["license", "suspend", &license.id, "--adopt", "--json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    eventually("the server refuses", || {
        vendor.server.updates(&license, HOST, "").status == 403
    });
    let answer = site.update_now();
    assert_eq!(answer["success"], false, "{answer}");
    let told = answer["data"]["errorMessage"].as_str().unwrap();
    assert!(
        told.starts_with("The license server refused the download: ") && told.contains("suspended"),
        "{told}"
    );
    assert!(site.row().0.contains("Version 1.0.0"));
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn a_download_that_fails_says_why() {
    let (vendor, mut site, _license) = hosted_site(Core::Newest);
    vendor.release("1.1.0", |text| text);
    site.check_again();
    assert!(site.row().1);
    let fails = |site: &mut Site| {
        let answer = site.update_now();
        assert_eq!(answer["success"], false, "{answer}");
        answer["data"]["errorMessage"].as_str().unwrap().to_owned()
    };
    let page = response(200, &[("Content-Type", "text/html")], "<p>Welcome to Airport WiFi</p>");
    for (answer, reason) in [
        (Answer::Nothing, "(cURL error "),
        (Answer::Fixed(response(500, &[], "")), "(HTTP status 500)"),
        (Answer::Fixed(page), "(it is not JSON)"),
    ] {
        vendor.front.answer_with(answer);
        let message = fails(&mut site);
        let told = format!("The license server gave no usable answer about the download {reason}");
        assert!(message.starts_with(&told), "{message}");
    }
    vendor.front.answer_with(Answer::Forward);

    // A full disk: WordPress does not look whether it could write.
    site.neighbour(
        "add_filter('http_request_args', function ($options) { if (!empty($options['filename'])) { \
         unlink($options['filename']); symlink('/dev/full', $options['filename']); } return $options; });",
    );
    assert_eq!(fails(&mut site), "the file could not be written: is the disk full?");
    fs::remove_file(site.file("wp-content/mu-plugins/neighbour.php")).unwrap();
    let left = fs::read_dir(site.file("tmp")).unwrap().count();
    assert_eq!(left, 0, "no half of a download stays");
    assert_eq!(site.update_now()["success"], true);
    assert!(site.row().0.contains("Version 1.1.0"));
}

#[test]
fn a_plugin_that_only_follows_its_update_uri_is_updated_through_the_link_it_was_told() {
    for core in CORES {
        let (license, table) = licensed();
        let vendor = Vendor::hosting(&[table]);
        vendor.server.validate(&license, HOST);
        let mut site = Site::new(core, HOST, &vendor.front);
        let page = include_str!("../../../docs/other-clients.md");
        let start = page.find("add_filter( 'update_plugins_licenses.example.com'").unwrap();
        let code = page[start..].split("```").next().unwrap();
        let code = code
            .replace("update_plugins_licenses.example.com", "update_plugins_127.0.0.1")
            .replace("https://licenses.example.com", &vendor.front.url());
        let main = format!(
            "<?php\n/*\nPlugin Name: Acme Forms\nVersion: 0.9\nUpdate URI: {}/acme-forms\n*/\nconst ACME_KEY = '{}';\n{code}",
            vendor.front.url(),
            license.key
        );
        fs::create_dir(site.file("wp-content/plugins/acme-forms")).unwrap();
        fs::write(site.file("wp-content/plugins/acme-forms/acme-forms.php"), main).unwrap();
        site.run(
            "require_once ABSPATH . 'wp-admin/includes/plugin.php'; activate_plugin('acme-forms/acme-forms.php');",
        );
        site.check_again();
        let answer = site.update_now();
        assert_eq!(answer["success"], true, "{core:?}: {answer}");
        assert!(site.row().0.contains("Version 1.0.0"));
        assert!(trace(&vendor, &build_id(&site)).to_string().contains(&license.id));
    }
}

#[test]
fn two_sites_that_share_a_folder_for_temporary_files_each_get_their_own_mark() {
    let (license, _) = licensed();
    let table = license.toml("sites = 2\n");
    let vendor = Vendor::hosting(&[table]);
    let hosts = [HOST, "second.example"];
    let shared = tempfile::tempdir().unwrap();
    let mut sites: Vec<_> = hosts
        .iter()
        .map(|host| {
            let mut site = Site::new(Core::Newest, host, &vendor.front);
            site.install("acme-forms", &vendor.package("1.0.0"));
            site.press("acme-forms", "activate", &license.key);
            fs::remove_dir(site.file("tmp")).unwrap();
            std::os::unix::fs::symlink(shared.path(), site.file("tmp")).unwrap();
            site
        })
        .collect();
    vendor.release("1.1.0", |text| text);
    for site in &mut sites {
        site.check_again();
    }
    std::thread::scope(|scope| {
        for site in &mut sites {
            scope.spawn(|| assert_eq!(site.update_now()["success"], true));
        }
    });
    let ids: Vec<_> = sites.iter().map(build_id).collect();
    assert_ne!(ids[0], ids[1]);
    for (id, host) in ids.iter().zip(hosts) {
        assert!(trace(&vendor, id).to_string().contains(host), "{id} is of {host}");
    }
}

#[test]
fn a_link_is_in_no_log_and_no_proxy_keeps_what_it_gives() {
    let (vendor, _site, license) = hosted_site(Core::Newest);
    let manifest = vendor.server.updates(&license, HOST, "").json();
    let link = manifest["package"].as_str().unwrap();
    assert_eq!(
        (&manifest["download_link"], &manifest["download_url"]),
        (&manifest["package"], &manifest["package"])
    );
    let target = link.strip_prefix(&vendor.front.url()).unwrap();
    let answer = request(vendor.server.address, "GET", target, &[], b"");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("cache-control"), Some("private, no-store, no-transform"));
    assert_eq!(answer.header("content-disposition"), Some("attachment"));
    let token = target.split('/').nth(6).unwrap();
    assert_eq!(token.len(), 60);
    assert!(!vendor.server.log().contains(token), "the token is in no log");
}
