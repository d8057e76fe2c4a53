//! Manifests from a hostile or broken server: nothing of them runs in wp-admin, and nothing of them is installed.

use std::sync::Arc;

use serde_json::{Value, json};

use super::front::Answer;
use super::site::{CORES, Core, Site};
use super::updates::licensed_site;
use crate::support::Response;

/// The manifest with these members changed.
pub fn changed(members: Value) -> Answer {
    Answer::Made(Arc::new(move |_, mut answer: Response| {
        let mut manifest = answer.json();
        if manifest["version"].is_string() {
            manifest
                .as_object_mut()
                .unwrap()
                .extend(members.as_object().unwrap().clone());
            answer.body = manifest.to_string().into();
        }
        answer
    }))
}

/// Texts that are more than a text where a page prints them as they stand.
const HOSTILE: [&str; 5] = [
    "<script>pwn()</script>",
    "<img src=x onerror=pwn()>",
    "\"><svg onload=pwn()>",
    "' onmouseover='pwn()",
    "1.1.0<script>pwn()</script>",
];

/// What of these would run on a page: a tag, an attribute within a tag, an address within a style sheet.
fn ran(page: &str) -> Vec<&'static str> {
    let tags = ["<script>pwn", "<img src=x onerror", "<svg onload", "url(pwn"];
    let attribute = "' onmouseover='pwn()";
    let in_a_tag = |before: &str| before.rfind('<') > before.rfind('>');
    let attributes = page
        .match_indices(attribute)
        .filter(|(at, _)| in_a_tag(&page[..*at]))
        .map(|_| attribute);
    tags.into_iter()
        .filter(|tag| page.contains(tag))
        .chain(attributes)
        .collect()
}

impl Site {
    /// Everything that an administrator sees of an update.
    fn pages(&mut self) -> Vec<String> {
        self.check_again();
        let window = "/wp-admin/plugin-install.php?tab=plugin-information&plugin=acme-forms&section=changelog";
        let license = self.license_page("acme-forms");
        ["/wp-admin/plugins.php", "/wp-admin/update-core.php", window, &license]
            .map(|page| {
                let page = self.admin.get(page);
                assert_eq!(page.status, 200, "{}", page.text());
                page.html
            })
            .into()
    }
}

#[test]
fn nothing_of_a_hostile_manifest_runs_in_wp_admin() {
    for core in CORES {
        let (vendor, mut site) = licensed_site(core);
        vendor.release("1.1.0", |text| text);
        for text in HOSTILE {
            let address = format!("https://acme.example/{text}");
            let members = json!({
                "name": text, "author": text, "author_homepage": text, "homepage": address, "url": address,
                "tested": text, "last_updated": text, "upgrade_notice": text, "changelog": text, "description": text,
                "download_link": address,
                "sections": { text: "x", "changelog": format!("<p>{text}</p>"), "description": [text] },
                "icons": { "1x": address, text: address }, "banners": { "low": address, "high": "https://a/)}*{x:url(pwn" },
            });
            vendor.front.answer_with(changed(members));
            for page in site.pages() {
                assert_eq!(ran(&page), [""; 0], "{core:?} {text}");
            }
            assert!(site.row().1, "{core:?} {text}: the update itself is offered");
        }
        // Without these an update cannot be judged, and none is offered.
        for field in ["version", "requires", "requires_php", "slug"] {
            vendor
                .front
                .answer_with(changed(json!({ field: "1.1.0<script>pwn()</script>" })));
            site.run("delete_site_transient('countersign_acme-forms');");
            for page in site.pages() {
                assert_eq!(ran(&page), [""; 0], "{core:?} {field}");
            }
            assert!(!site.row().1, "{core:?} {field}");
            site.run("delete_site_transient('countersign_acme-forms_pause');");
        }
        assert_eq!(site.complaints(), [""; 0]);
    }
}

/// PHP that prints what `Manifest::read` makes of the JSON texts in a file, one by one.
fn read(site: &Site, manifests: &[Value]) -> Vec<Value> {
    let path = site.file("manifests.json");
    std::fs::write(&path, serde_json::to_vec(manifests).unwrap()).unwrap();
    let printed = site.run(&format!(
        "Acme\\Forms\\License\\Loader::load(); foreach (json_decode(file_get_contents('{}'), true) as $said) \
         echo json_encode(Acme\\Forms\\License\\Manifest::read($said, 'acme-forms', false), JSON_FORCE_OBJECT), \"\\n\";",
        path.display()
    ));
    printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_field_of_a_manifest_has_a_type_a_grammar_and_a_length() {
    let (vendor, site) = licensed_site(Core::Npm);
    vendor.release("1.1.0", |text| text);
    let good = json!({
        "version": "1.1.0", "slug": "acme-forms", "name": "Acme Forms & more", "author": "Acme", "url": "https://a.example/x?y=1#z",
        "homepage": "https://a.example", "package": "https://a.example/forms_1.1.0.zip?sig=a%2Fb%3D&e=1", "tested": "6.5",
        "requires": "6.1.2", "requires_php": "7.4", "last_updated": "2026-11-20 10:17:03", "upgrade_notice": "Save first.",
        "sections": { "changelog": "<p>New.</p>", "faq": "<h4>Why?</h4>" }, "icons": { "1x": "https://a.example/i.png" },
        "banners": { "low": "https://a.example/b.png" }, "security": false, "held": true,
        "held_until": "2026-11-29T10:00:00Z", "asked": 1, "for_expired": false, "requires_plugins": ["acme-base"],
    });
    let with = |field: &str, value: Value| {
        let mut manifest = good.clone();
        manifest[field] = value;
        manifest
    };
    let mut kept = good.clone();
    kept.as_object_mut().unwrap().remove("slug");
    // PHP writes every array as an object here.
    let needed = json!({ "0": "acme-base" });
    kept["requires_plugins"] = needed.clone();
    assert_eq!(read(&site, std::slice::from_ref(&good)), [kept.clone()]);

    let wrong_types = [
        json!(1),
        json!(1.5),
        json!(true),
        json!([]),
        json!(["x"]),
        json!({ "x": "y" }),
    ];
    let texts = HOSTILE.map(Value::from);
    let long = json!("1".repeat(600_000));
    // A manifest that cannot be judged is none.
    for field in ["version", "requires", "requires_php", "slug"] {
        let values = wrong_types.iter().chain(&texts).chain([&long]);
        let read = read(
            &site,
            &values.map(|value| with(field, value.clone())).collect::<Vec<_>>(),
        );
        assert!(read.iter().all(Value::is_null), "{field}: {read:?}");
    }
    // Anything else is dropped, alone.
    let address = [
        json!("javascript:pwn()"),
        json!("https://a.example/ x"),
        json!("//a.example"),
        json!("https://a\\@b/"),
    ];
    for (field, more) in [
        ("tested", &[][..]),
        ("last_updated", &[]),
        ("held_until", &[]),
        ("name", &[]),
        ("author", &[]),
        ("upgrade_notice", &[]),
        ("url", &address),
        ("homepage", &address),
        ("package", &address),
    ] {
        let plain = ["name", "author", "upgrade_notice"].contains(&field);
        let values: Vec<_> = wrong_types.iter().chain(more).chain([&long]).cloned().collect();
        let values: Vec<_> = values
            .into_iter()
            .chain(texts.iter().filter(|_| !plain).cloned())
            .collect();
        for (value, read) in values.iter().zip(read(
            &site,
            &values.iter().map(|v| with(field, v.clone())).collect::<Vec<_>>(),
        )) {
            let mut expected = kept.clone();
            expected[field] = "".into();
            assert_eq!(read, expected, "{field}: {value}");
        }
        if plain {
            for read in read(
                &site,
                &texts.iter().map(|value| with(field, value.clone())).collect::<Vec<_>>(),
            ) {
                assert!(!read[field].as_str().unwrap().contains(['<', '>']), "{field}: {read}");
            }
        }
    }
    for field in ["sections", "icons", "banners"] {
        let values = [
            json!("x"),
            json!(["x"]),
            json!({ "x' onload='pwn()": "https://a.example/" }),
            json!({ "1x": ["x"], "changelog": 1 }),
        ];
        for read in read(
            &site,
            &values
                .iter()
                .map(|value| with(field, value.clone()))
                .collect::<Vec<_>>(),
        ) {
            assert_eq!(read[field], json!({}), "{field}");
        }
    }
    let slugs = json!([
        "acme-base",
        "Acme",
        "acme--base",
        "../acme",
        "acme base",
        "",
        HOSTILE[0],
        7
    ]);
    let mixed = with("requires_plugins", slugs);
    assert_eq!(read(&site, &[mixed])[0]["requires_plugins"], needed);
    let large = with("sections", json!({ "changelog": "x".repeat(600_000), "faq": "x" }));
    assert_eq!(read(&site, &[large])[0]["sections"], json!({ "faq": "x" }));
    assert_eq!(
        read(&site, &[json!({}), json!([]), json!("x"), json!(1), Value::Null]),
        [json!({}), json!({}), Value::Null, Value::Null, Value::Null]
    );
}

#[test]
fn a_version_that_wordpress_was_tested_with_covers_its_patch_releases() {
    for core in CORES {
        let (vendor, mut site) = licensed_site(core);
        let running = site.run("echo $GLOBALS['wp_version'];");
        let branch = running.split('.').take(2).collect::<Vec<_>>().join(".");
        let tested = |tested: &str| {
            let tested = tested.to_owned();
            move |text: String| text.replace("Tested up to: 6.5", &format!("Tested up to: {tested}"))
        };
        let not_tested = "has not been tested";
        let window = "/wp-admin/plugin-install.php?tab=plugin-information&plugin=acme-forms";
        vendor.release("1.1.0", tested(&branch));
        let text = site.check_again();
        assert!(
            text.contains(&format!("Compatibility with WordPress {running}: ")),
            "{text}"
        );
        assert!(
            !text.contains("Not tested") && !text.contains("Unknown"),
            "{core:?}: {text}"
        );
        assert!(!site.admin.get(window).text().contains(not_tested), "{core:?}");

        vendor.release("1.2.0", tested("5.9"));
        site.check_again();
        let window = site.admin.get(window).text();
        assert!(
            window.contains(not_tested) && window.contains("Compatible up to: 5.9"),
            "{core:?}: {window}"
        );
    }
}

#[test]
fn an_administrator_is_told_of_an_answer_about_updates_that_cannot_be_used_until_one_can() {
    for core in CORES {
        let (vendor, mut site) = licensed_site(core);
        vendor.release("1.1.0", |text| text);
        let not_json = Answer::Made(Arc::new(|asked, mut answer: Response| {
            if !asked.is_validation() {
                answer.body = b"<title>Soon back</title>".to_vec();
            }
            answer
        }));
        for (answer, reason) in [
            (changed(json!({ "version": "next" })), "its version is no version"),
            (
                changed(json!({ "requires": "WordPress 6" })),
                "its requires is no version",
            ),
            (
                changed(json!({ "requires_php": ["8.1"] })),
                "its requires_php is no version",
            ),
            (changed(json!({ "slug": "acme-maps" })), "it is about another plugin"),
            (not_json, "it is not JSON"),
        ] {
            site.run("delete_site_transient('countersign_acme-forms_pause');");
            vendor.front.answer_with(answer);
            site.check_again();
            let told =
                format!("The license server's answer about updates cannot be used ({reason}). Please tell the vendor.");
            let notice = [format!("Acme Forms: {told}")];
            assert_eq!(site.admin.get("/wp-admin/plugins.php").notices(), notice, "{core:?}");
            let page = site.admin.get("/wp-admin/update-core.php").text();
            assert!(page.contains(&notice[0]), "{core:?} {reason}: {page}");
            assert_eq!(site.admin.get("/wp-admin/tools.php").notices(), [""; 0], "{core:?}");
            let page = site.admin.get(&site.license_page("acme-forms")).text();
            assert!(page.contains(&format!("Update {told}")), "{core:?} {reason}: {page}");
        }
        vendor.front.answer_with(Answer::Forward);
        site.run("delete_site_transient('countersign_acme-forms_pause');");
        site.check_again();
        assert_eq!(site.admin.get("/wp-admin/plugins.php").notices(), [""; 0], "{core:?}");
        assert!(site.row().1, "{core:?}");
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn a_changelog_that_wordpress_would_read_as_many_blocks_takes_no_more_memory_than_a_host_gives() {
    let (vendor, mut site) = licensed_site(Core::Newest);
    vendor.release("1.1.0", |text| text);
    let window = "/wp-admin/plugin-install.php?tab=plugin-information&plugin=acme-forms&section=changelog";
    for html in [
        "<!-- wp:a -->",
        "<!<!-- x -->-- wp:a -->",
        "<!-- wp:a {\"a\":[[[1]]]} -->x<!-- /wp:a -->",
        "<!--",
    ] {
        let changelog = format!("<p>Kept.</p>{}", html.repeat(500_000 / html.len()));
        vendor
            .front
            .answer_with(changed(json!({ "sections": { "changelog": changelog } })));
        site.run("delete_site_transient('countersign_acme-forms');");
        site.check_again();
        let page = site.admin.get(window);
        assert_eq!(page.status, 200, "{html}: {:?}", site.complaints());
        assert!(page.text().contains("Kept."), "{html}");
    }
    assert_eq!(site.complaints(), [""; 0]);
}
