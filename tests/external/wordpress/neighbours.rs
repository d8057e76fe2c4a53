//! Several clients on a site: two plugins with two versions of it, other processes, and what is left after an
//! uninstall.

use super::front::Front;
use super::site::{CORES, Core, Site};
use super::vendor::Vendor;
use super::{ACTIVE, HOST, LICENSE, active_site, licensed};
use crate::support::License;
use crate::support::instance::{new_keys, shared_keys};

/// What another version of the client says of an active license.
const OTHER: &str = "Licensed, says an older client.";

fn older(text: String) -> String {
    text.replace(ACTIVE, OTHER)
        .replace(concat!("@version ", env!("CARGO_PKG_VERSION")), "@version 0.0.9")
        .replace("'spent'", "'used'")
}

/// Acme Maps by another vendor, with another key, another server and another version of the client.
pub(super) fn maps(front: Front, change: impl Fn(String) -> String) -> (License, Vendor) {
    let license = License::new();
    let table = license.toml_with("2099-12-31", "", "maps = []");
    (
        license,
        Vendor::of("acme-maps", front, &new_keys(2048), &[table], change),
    )
}

impl Site {
    /// Deactivates and deletes a plugin on the page of plugins, as an administrator does.
    pub fn delete(&mut self, slug: &str) {
        let page = self.admin.get("/wp-admin/plugins.php");
        let link = page.between(&format!("id=\"deactivate-{slug}\""), "", ">");
        assert!(link.contains("Deactivate"));
        let nonce = page.between("var _wpUpdatesSettings", "\"ajax_nonce\":\"", "\"");
        let before = &page.html[..page.html.find(&format!("id=\"deactivate-{slug}\"")).unwrap()];
        let href = before[before.rfind("href=\"").unwrap() + 6..]
            .split('"')
            .next()
            .unwrap()
            .replace("&amp;", "&");
        self.admin.get(&format!("/wp-admin/{}", href.replace("&#038;", "&")));
        let plugin = format!("{slug}/{slug}.php");
        let form = [
            ("action", "delete-plugin"),
            ("plugin", &plugin),
            ("slug", slug),
            ("_ajax_nonce", &nonce),
        ];
        let answer = self.admin.post("/wp-admin/admin-ajax.php", &form);
        assert!(answer.html.starts_with("{\"success\":true"), "{}", answer.html);
    }

    /// Rows of the database and events of WP-Cron that a plugin's client left.
    pub fn traces(&self, slug: &str) -> String {
        let name = format!("countersign_{slug}");
        self.run(&format!(
            "global $wpdb; echo implode(' ', $wpdb->get_col(\"SELECT option_name FROM $wpdb->options WHERE option_name \
             LIKE '%{name}%' UNION SELECT meta_key FROM $wpdb->usermeta WHERE meta_key LIKE '%{name}%'\")), wp_next_scheduled('{name}') ? ' event' : '';"
        ))
    }
}

#[test]
fn two_plugins_with_two_versions_of_the_client_do_not_disturb_each_other() {
    for core in CORES {
        let (forms_license, table) = licensed();
        let forms = Vendor::new(&[table]);
        let (maps_license, maps) = maps(Front::new(), older);
        let mut site = Site::new(core, HOST, &forms.front);
        site.install("acme-forms", &forms.archive("1.0.0"));
        site.install("acme-maps", &maps.archive("1.0.0"));
        // The page of one has the notice of the other, too.
        let page = site.press("acme-forms", "activate", &forms_license.key);
        assert!(page.notices().contains(&ACTIVE.to_owned()), "{:?}", page.notices());
        assert_eq!(
            site.press("acme-maps", "activate", &maps_license.key).notices()[0],
            OTHER
        );
        let both = |site: &Site| [site.vendor_sees("acme-forms"), site.vendor_sees("acme-maps")];
        let [by_forms, by_maps] = both(&site);
        assert_eq!(
            (&by_forms["active"], &by_forms["forms"], &by_forms["maps"]),
            (&true.into(), &true.into(), &false.into())
        );
        assert_eq!(
            (&by_maps["active"], &by_maps["forms"], &by_maps["maps"]),
            (&true.into(), &false.into(), &true.into())
        );
        assert_ne!(by_forms["class"], by_maps["class"]);

        // An update of one is offered for that one, on one and the same host of two Update URIs.
        forms.release("1.1.0", |text| text);
        site.pass(61);
        let text = site.admin.get("/wp-admin/update-core.php?force-check=1").text();
        assert!(
            text.contains("Acme Forms You have version 1.0.0") && !text.contains("Acme Maps You"),
            "{text}"
        );

        // Each is deactivated, and deleted with all its traces, for itself.
        let traces =
            "_site_transient_countersign_acme-maps _site_transient_timeout_countersign_acme-maps countersign_acme-maps";
        assert_eq!(
            site.traces("acme-maps"),
            format!("{traces} countersign_acme-maps_secret event")
        );
        site.press("acme-forms", "remove_really", "");
        let [by_forms, by_maps] = both(&site);
        assert_eq!((&by_forms["active"], &by_maps["active"]), (&false.into(), &true.into()));
        site.delete("acme-maps");
        assert_eq!(site.traces("acme-maps"), "");
        assert_eq!(
            site.press("acme-forms", "activate", &forms_license.key).notices(),
            [ACTIVE]
        );
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn two_plugins_whose_authors_forgot_the_namespace_work_and_are_told() {
    let (forms_license, table) = licensed();
    let forms = Vendor::new(&[table]);
    let forgot = |text: String| older(text).replace("Acme\\Maps\\License", "Acme\\Forms\\License");
    let (maps_license, maps) = maps(Front::new(), forgot);
    let mut site = Site::new(Core::Npm, HOST, &forms.front);
    site.install("acme-forms", &forms.archive("1.0.0"));
    site.install("acme-maps", &maps.archive("1.0.0"));
    site.press("acme-forms", "activate", &forms_license.key);
    site.press("acme-maps", "activate", &maps_license.key);
    let [by_forms, by_maps] = ["acme-forms", "acme-maps"].map(|slug| site.vendor_sees(slug));
    assert_eq!((&by_forms["active"], &by_maps["active"]), (&true.into(), &true.into()));
    assert_eq!(by_forms["class"], by_maps["class"]);
    let complaints = site.complaints();
    let told = "acme-maps: this class is from another plugin: give the namespace a name of your own";
    assert!(
        !complaints.is_empty() && complaints.iter().all(|line| line.contains(told)),
        "{complaints:?}"
    );
}

/// PHP that takes a stored row away, looks for it, puts it back as another process does, and then writes the memory.
fn overtaken(table: &str, column: &str) -> String {
    format!(
        "global $wpdb; $name = 'countersign_acme-forms'; \
         $row = $wpdb->get_row(\"SELECT * FROM $wpdb->{table} WHERE {column} = '$name'\", ARRAY_A); \
         $wpdb->delete($wpdb->{table}, ['{column}' => $name]); wp_cache_flush(); \
         {LICENSE} $license->memory(); $wpdb->insert($wpdb->{table}, $row); $license->validate(); \
         echo $wpdb->get_var(\"SELECT count(*) FROM $wpdb->{table} WHERE {column} = '$name'\");"
    )
}

#[test]
fn a_page_that_began_before_an_activation_does_not_undo_it() {
    for core in CORES {
        let (license, table) = licensed();
        let vendor = Vendor::new(&[table]);
        let site = active_site(core, &vendor, HOST, &license.key);
        assert_eq!(site.run(&overtaken("options", "option_name")), "1");
        assert_eq!(site.vendor_sees("acme-forms")["active"], true);

        let mut site = Site::network(core, HOST, &vendor.front);
        site.install("acme-forms", &vendor.archive("1.0.0"));
        site.press("acme-forms", "activate", &license.key);
        assert_eq!(site.run(&overtaken("sitemeta", "meta_key")), "1");
        assert_eq!(site.vendor_sees("acme-forms")["active"], true);
    }
}

#[test]
fn a_key_that_will_sign_from_tomorrow_on_can_be_pinned_today() {
    let (license, table) = licensed();
    let tomorrow = new_keys(2048);
    let both = format!("ACME_FORMS_PUBLIC_KEY, '{}'", tomorrow.public.trim());
    let pinned = |text: String| text.replace("[ ACME_FORMS_PUBLIC_KEY ]", &format!("[ {both} ]"));
    let vendor = Vendor::of("acme-forms", Front::new(), shared_keys(), &[table], pinned);
    let mut site = Site::new(Core::Npm, HOST, &vendor.front);
    site.install("acme-forms", &vendor.archive("1.0.0"));
    assert_eq!(site.press("acme-forms", "activate", &license.key).notices()[0], ACTIVE);
    let before = vendor.server.validate(&license, HOST).json()["key_id"].clone();
    vendor.instance.write_key(&tomorrow.private);
    crate::support::eventually("the server signs with it", || {
        vendor.server.validate(&license, HOST).json()["key_id"] != before
    });
    assert_eq!(site.press("acme-forms", "check", "").notices(), [ACTIVE]);
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "active");
}

#[test]
fn a_site_with_an_international_name_is_licensed() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut site = Site::new(Core::Debian, "www.xn--bcher-kva.example", &vendor.front);
    site.install("acme-forms", &vendor.archive("1.0.0"));
    site.press("acme-forms", "activate", &license.key);
    assert_eq!(site.vendor_sees("acme-forms")["active"], true);
}

#[test]
fn the_host_of_a_site_is_read_as_the_server_reads_it() {
    let (_license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let rows: Vec<(String, &str)> = include_str!("../../vectors/hosts.tsv")
        .lines()
        .filter(|line| line.starts_with('"'))
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .map(|row| (serde_json::from_str::<String>(row[0]).unwrap(), row[1]))
        .filter(|(url, host)| url.trim().to_lowercase().starts_with("http") && !host.starts_with('!'))
        .collect();
    assert!(rows.len() > 30, "{}", rows.len());
    for core in CORES {
        let mut site = Site::new(core, HOST, &vendor.front);
        site.install("acme-forms", &vendor.archive("1.0.0"));
        let file = site.file("hosts.json");
        std::fs::write(&file, serde_json::to_vec(&rows).unwrap()).unwrap();
        let others = site.run(&format!(
            "foreach (json_decode(file_get_contents('{}')) as [$url, $host]) \
             Acme\\Forms\\License\\Statement::host($url) === $host || print(\"$url \");",
            file.display()
        ));
        // These four need PHP's intl.
        let mapped =
            "https://bu\u{308}cher.de https://ｅｘａｍｐｌｅ.com https://example。com https://exam\u{200b}ple.com ";
        let intl = site.run("echo extension_loaded('intl');") == "1";
        assert_eq!(others, if intl { "" } else { mapped });
    }
}

#[test]
fn an_author_is_told_what_would_not_work_and_a_page_goes_on_with_what_other_plugins_lost() {
    let (_license, table) = licensed();
    let front = Front::new();
    let ours = front.url();
    let wrong = |text: String| {
        let text = text.replace(&format!("Update URI: {ours}"), "Update URI: https://elsewhere.example");
        let text = text.replace("[ ACME_FORMS_PUBLIC_KEY ]", "[ ACME_FORMS_PUBLIC_KEY, 'no key' ]");
        let lost = "add_filter( 'plugin_action_links_acme-forms/acme-forms.php', '__return_null', 5 );";
        text.replace(
            "acme_forms_license()->run();",
            &format!("acme_forms_license()->run();\n{lost}"),
        )
    };
    let vendor = Vendor::of("acme-forms", front.clone(), shared_keys(), &[table], wrong);
    let mut site = Site::new(Core::Debian, HOST, &vendor.front);
    site.install("acme-forms", &vendor.archive("1.0.0"));
    let page = site.admin.get("/wp-admin/plugins.php");
    assert!(
        page.status == 200 && page.html.contains("page=acme-forms-license"),
        "{}",
        page.text()
    );
    let complaints = site.complaints().join("\n");
    assert!(!complaints.contains("Fatal"), "{complaints}");
    for told in [
        "public_keys has something that is not a public key",
        "the host in the Update URI",
    ] {
        assert!(complaints.contains(told), "{told}: {complaints}");
    }
}
