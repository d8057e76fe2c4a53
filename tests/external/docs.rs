//! The site that `make docs` builds: every page is in it, every link leads somewhere, and a browser needs nothing but its files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tempfile::TempDir;
use url::Url;

use crate::tools::browser::Browser;

const PROJECT: &str = env!("CARGO_MANIFEST_DIR");

/// How many pixels the content is wider than its place: mdBook's page does not scroll sideways, a box in it would.
const TOO_WIDE: &str = "(() => {
    let most = 0;
    for (let box = document.querySelector('main, #redoc'); box; box = box.parentElement) {
        most = Math.max(most, box.scrollWidth - box.clientWidth);
    }
    return most;
})()";

/// Builds the site; it is in the folder `docs` of this one.
fn built() -> TempDir {
    let folder = TempDir::new().unwrap();
    let output = Command::new(Path::new(PROJECT).join("packaging/docs"))
        .env("CARGO_TARGET_DIR", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "the tools are installed: tests/tools/install docs\n{said}"
    );
    folder
}

/// The files below a folder whose names end so.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, end));
        } else if path.to_str().unwrap().ends_with(end) {
            found.push(path);
        }
    }
    found
}

/// What a page links to, and what a link to it can end with.
#[derive(Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let mut page = Self::default();
        // In text, `<` is written otherwise; in scripts it is not.
        for tag in text
            .split("<script")
            .map(|part| part.rsplit("</script>").next().unwrap())
            .flat_map(|markup| markup.split('<').skip(1))
        {
            let tag = tag.split('>').next().unwrap();
            for attribute in ["href", "src"] {
                page.links.extend(value(tag, attribute));
            }
            page.anchors.extend(value(tag, "id"));
        }
        page
    }
}

/// The value of a tag's attribute.
fn value(tag: &str, attribute: &str) -> Option<String> {
    let value = tag.split(&format!(" {attribute}=\"")).nth(1)?.split('"').next()?;
    Some(value.replace("&amp;", "&"))
}

/// Every operation of the interface: its group, its name, its summary.
fn operations() -> Vec<[String; 3]> {
    let text = fs::read_to_string(Path::new(PROJECT).join("public/openapi.json")).unwrap();
    let interface: Value = serde_json::from_str(&text).unwrap();
    let paths = interface["paths"].as_object().unwrap().values();
    let operations = paths.flat_map(|path| path.as_object().unwrap().values());
    let parts = ["/tags/0", "/operationId", "/summary"];
    let found: Vec<_> = operations
        .filter(|operation| operation.is_object())
        .map(|operation| parts.map(|part| operation.pointer(part).unwrap().as_str().unwrap().to_owned()))
        .collect();
    assert!(found.len() > 20);
    found
}

#[test]
fn every_page_is_in_the_site_and_every_link_leads_to_a_file_and_a_heading() {
    let folder = built();
    let site = folder.path().join("docs");

    let contents = Page::read(&site.join("toc.html")).links;
    let docs = Path::new(PROJECT).join("docs");
    for page in files(&docs, ".md") {
        let page = page.strip_prefix(PROJECT).unwrap().with_extension("html");
        let page = page.to_str().unwrap();
        assert!(
            page == "docs/SUMMARY.html" || contents.iter().any(|link| link == page),
            "docs/SUMMARY.md lacks {page}"
        );
    }

    let pages: BTreeMap<PathBuf, Page> = files(&site, ".html")
        .into_iter()
        .map(|path| (path.clone(), Page::read(&path)))
        .collect();
    let mut checked = 0;
    let mut faults = Vec::new();
    for (path, page) in &pages {
        let address = Url::from_file_path(path).unwrap();
        for link in &page.links {
            let target = address.join(link).unwrap();
            if target.scheme() != "file" {
                continue;
            }
            checked += 1;
            let file = target.to_file_path().unwrap_or_default();
            let anchor = percent_decode_str(target.fragment().unwrap_or_default()).decode_utf8_lossy();
            // Redoc makes these, and a browser looks at them in the other test.
            let is_route = file.ends_with("public/openapi.html") && anchor.starts_with('/');
            let is_there = file.starts_with(&site) && file.is_file();
            let has_anchor = || pages.get(&file).is_some_and(|page| page.anchors.contains(&*anchor));
            if !is_there || !(anchor.is_empty() || is_route || has_anchor()) {
                let page = path.strip_prefix(&site).unwrap();
                faults.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(pages.len() > 50, "{}", pages.len());
    assert!(checked > 2000, "{checked}");
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn a_browser_reads_the_site_from_its_files_alone_and_finds_every_operation() {
    let folder = built();
    let site = folder.path().join("docs");
    let address = |page: &str| format!("file://{}", site.join(page).display());
    let mut browser = Browser::start();

    for page in [
        "index.html",
        "docs/limits.html",
        "docs/install.html",
        "public/openapi.html",
    ] {
        // mdBook opens its menu where the screen has room for it.
        browser.screen(390, 900, "light");
        browser.does("open", &[&address(page)]);
        browser.does("shows", &["h1", ""]);
        for width in [390, 1440] {
            browser.screen(width, 900, "light");
            assert_eq!(browser.evaluate(TOO_WIDE), 0, "{page} {width}");
            if page == "public/openapi.html" {
                continue; // Nothing of its markup is ours.
            }
            let faults = browser.asks("faults", json!(["main"]));
            let faults: Vec<String> = serde_json::from_value(faults).unwrap();
            // mdBook's boxes around code and tables; Chromium and Firefox scroll them by the keyboard.
            let ours = |fault: &&String| !fault.starts_with("scrollable-region-focusable: ");
            assert_eq!(faults.iter().find(ours), None, "{page} {width}");
        }
    }

    // Redoc draws what is in view. Its menu has the operations of the group that is open.
    let operations = operations();
    let mut open = String::new();
    for [group, name, summary] in &operations {
        if *group != open {
            let route = format!("#/{group}/{}", name.to_lowercase());
            browser.evaluate(&format!("location.hash = '{route}'"));
            browser.does("shows", &["h2", summary]);
            open.clone_from(group);
        }
        browser.does("shows", &["[data-testid=menu-item-label]", summary]);
    }

    browser.does("open", &[&address("docs/operating.html")]);
    browser.does("press", &["s"]);
    browser.does("fill", &["#mdbook-searchbar", "rekeyLicense"]);
    browser.does("press", &["End"]);
    browser.does("click", &["#mdbook-searchresults a"]);
    browser.does("shows", &["h2", "Give a license a new key"]);
    let index = files(&site, ".js")
        .into_iter()
        .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("searchindex-"));
    let index = fs::read_to_string(index.unwrap()).unwrap();
    for [group, name, _] in &operations {
        let found = format!("public/openapi.html#/{group}/{}\"", name.to_lowercase());
        assert!(index.contains(&found), "{found}");
    }

    let asked = browser.requests();
    let is_own = |address: &String| ["file:", "data:", "blob:"].iter().any(|own| address.starts_with(own));
    assert!(asked.len() > 20);
    assert_eq!(asked.iter().find(|address| !is_own(address)), None);
}
