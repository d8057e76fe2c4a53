//! A new version of a plugin's code must come over https at every hop, and must be this plugin in the offered version.

use std::fs;
use std::sync::Arc;

use super::front::{Answer, Front, response};
use super::site::{CORES, Core, Site};
use super::updates::licensed_site;
use super::vendor::Vendor;
use super::{HOST, active_site, licensed};
use crate::support::Response;

/// The manifest names another package.
fn naming(package: &str) -> Answer {
    let package = package.to_owned();
    Answer::Made(Arc::new(move |_, mut answer: Response| {
        let mut manifest = answer.json();
        if manifest["version"].is_string() {
            manifest["package"] = package.clone().into();
            answer.body = manifest.to_string().into();
        }
        answer
    }))
}

fn redirect(location: &str) -> Response {
    response(302, &[("Location", location)], "")
}

/// Offers 1.1.0 by the package of this address, and presses "update now".
fn update_from(package: &str, vendor: &Vendor, site: &mut Site) -> serde_json::Value {
    vendor.front.answer_with(naming(package));
    site.check_again();
    assert!(site.row().1, "the update is offered: {package}");
    site.update_now()
}

#[test]
fn however_an_address_is_written_a_download_goes_nowhere_without_https() {
    for core in CORES {
        let (vendor, mut site) = licensed_site(core);
        vendor.release("1.1.0", |text| text);
        let front: &Front = &vendor.front;
        let port = front.address.port();
        // A good archive, on a host that is not loopback and has no https.
        let zip = [("Content-Type", "application/zip")];
        front.put("/insecure.zip", response(200, &zip, vendor.archive("1.1.0")));
        let insecure = format!("http://0.0.0.0:{port}/insecure.zip");
        for target in [
            "/start.zip",
            "/%73tart.zip",
            "/start.zip?a=b%2fc",
            "/start.zip?a=b%2Fc",
            "/./start.zip",
        ] {
            front.put(target, redirect(&insecure));
        }
        front.put("/upper.zip", redirect(&insecure.replace("http:", "HTTP:")));
        front.put("/schemeless.zip", redirect(&insecure.replace("http:", "")));
        front.put("/chain.zip", redirect("/start.zip"));
        front.put(
            "/secure.example/loopback.zip",
            redirect(&format!("http://127.0.0.1:{port}/insecure.zip")),
        );
        front.put("/secure.example/ftp.zip", redirect(&insecure.replace("http:", "ftp:")));
        front.put("/round.zip", redirect("/round.zip"));
        for package in [
            format!("http://127.0.0.1:{port}/start.zip"),
            format!("http://LOCALHOST:{port}/start.zip"),
            format!("HTTP://127.0.0.1:{port}/start.zip"),
            format!("http://127.0.0.1:{port}/%73tart.zip"),
            format!("http://127.0.0.1:{port}/start.zip?a=b%2fc"),
            format!("http://127.0.0.1:{port}/./start.zip"),
            format!("http://127.0.0.1:{port}/upper.zip"),
            format!("http://127.0.0.1:{port}/schemeless.zip"),
            format!("http://127.0.0.1:{port}/chain.zip"),
            format!("http://127.0.0.1:{port}/round.zip"),
            "https://secure.example/loopback.zip".to_owned(),
            "https://secure.example/ftp.zip".to_owned(),
        ] {
            let answer = update_from(&package, &vendor, &mut site);
            assert_eq!(answer["success"], false, "{core:?} {package}: {answer}");
            assert!(site.row().0.contains("Version 1.0.0"), "{package}");
            if package.contains("round") || package.contains("ftp") {
                let told =
                    "The download was refused: its address leads to one without https, or through too many others.";
                assert_eq!(answer["data"]["errorMessage"], told, "{package}");
            }
        }
        let left = fs::read_dir(site.file("tmp")).unwrap().count();
        assert_eq!(left, 0, "no half of a download stays");

        // Where it stays with https, or on this machine, a redirect is followed.
        front.put("/secure.example/moved.zip", redirect("https://secure.example/here.zip"));
        front.put("/secure.example/here.zip", redirect("/there.zip"));
        front.put(
            "/secure.example/there.zip",
            response(200, &zip, vendor.archive("1.1.0")),
        );
        let answer = update_from("https://secure.example/moved.zip", &vendor, &mut site);
        assert_eq!(answer["success"], true, "{core:?}: {answer}");
        assert_eq!(site.complaints(), [""; 0]);
    }
}

impl Site {
    /// A zip archive with these files.
    fn zip(&self, files: &[(&str, &str)]) -> Vec<u8> {
        let path = self.file("made.zip");
        let _ = fs::remove_file(&path);
        let files = serde_json::to_string(&files).unwrap();
        fs::write(self.file("made.json"), files).unwrap();
        self.run(&format!(
            "$zip = new ZipArchive; $zip->open('{}', ZipArchive::CREATE); \
             foreach (json_decode(file_get_contents('{}')) as [$name, $text]) $zip->addFromString($name, $text); $zip->close();",
            path.display(),
            self.file("made.json").display()
        ));
        fs::read(path).unwrap()
    }
}

#[test]
fn a_package_of_another_plugin_or_another_version_replaces_nothing() {
    for core in CORES {
        let (vendor, mut site) = licensed_site(core);
        vendor.release("1.1.0", |text| text);
        let header = |name: &str, more: &str| format!("<?php\n/*\nPlugin Name: {name}\n{more}\n*/\n");
        let other = "The update was refused: its archive holds something else";
        let version = |found: &str| {
            format!("The update was refused: its archive has version {found}, and version 1.1.0 was offered.")
        };
        for (main, refused) in [
            (String::new(), format!("{other} than Acme Forms.")),
            ("<?php\n".into(), format!("{other} than Acme Forms.")),
            (
                header("Acme Maps", "Version: 1.1.0"),
                format!("{other} (Acme Maps) than Acme Forms."),
            ),
            (
                header("Acme Forms", ""),
                format!("{other} (Acme Forms) than Acme Forms."),
            ),
            (header("Acme Forms", "Version: 1.0.0"), version("1.0.0")),
            (header("Acme Forms", "Version: 0.9"), version("0.9")),
            (header("Acme Forms", "Version: 1.1.0-beta"), version("1.1.0-beta")),
            (header("Acme Forms", "Version: 1.2"), version("1.2")),
        ] {
            let archive = site.zip(&[("acme-forms/acme-forms.php", &main), ("acme-forms/readme.txt", "")]);
            vendor.put_archive_online("1.1.0", archive);
            site.check_again();
            let answer = site.update_now();
            assert_eq!(answer["success"], false, "{core:?} {main}: {answer}");
            assert_eq!(
                answer["data"]["errorMessage"],
                refused.as_str(),
                "{core:?} {main}: {answer}"
            );
            let (row, _) = site.row();
            assert!(
                row.contains("Version 1.0.0") && row.contains("Deactivate"),
                "{main}: {row}"
            );
            assert_eq!(site.vendor_sees("acme-forms")["active"], true, "{main}");
        }
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn a_plugin_may_have_another_name_in_its_next_version() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut site = active_site(Core::Newest, &vendor, HOST, &license.key);
    vendor.release("1.1.0", |text| {
        text.replace("Plugin Name: Acme Forms", "Plugin Name: Forms by Acme")
    });
    site.check_again();
    let answer = site.update_now();
    assert_eq!(answer["success"], true, "{answer}");
    assert!(site.row().0.contains("Forms by Acme"));
}
