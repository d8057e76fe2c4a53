//! The client's interface for a vendor's own code: queries, actions, hooks, the page's place, and the command line.

use serde_json::{Value, json};

use super::front::Front;
use super::site::{Core, Site};
use super::vendor::{Vendor, with_settings};
use super::{ACTIVE, HOST, licensed};
use crate::support::instance::shared_keys;
use crate::tools::program;

fn site_of(core: Core, table: String, change: impl Fn(String) -> String) -> (Vendor, Site) {
    let vendor = Vendor::of("acme-forms", Front::new(), shared_keys(), &[table], change);
    let mut site = Site::new(core, HOST, &vendor.front);
    site.install("acme-forms", &vendor.archive("1.0.0"));
    (vendor, site)
}

#[test]
fn a_vendors_code_activates_and_deactivates_and_reads_the_last_day() {
    let (license, table) = licensed();
    let (_vendor, site) = site_of(Core::Newest, table, |text| text);
    let client = "$client = acme_forms_license(); echo $client->expires(), ' ';";
    let activate = |key: &str| {
        site.run(&format!(
            "{client} echo $client->activate('{key}'), ' ', $client->expires();"
        ))
    };
    assert_eq!(activate("AAAAA"), " key_malformed ");
    assert_eq!(activate(&license.key.to_lowercase()), " ok 2099-12-31");
    assert_eq!(
        site.run(&format!(
            "{client} echo $client->deactivate(), ' ', $client->expires();"
        )),
        "2099-12-31 deactivated "
    );
    assert_eq!(site.complaints(), [""; 0]);
}

/// Every action and filter that docs/wordpress.md names: `countersign_{slug}_…`.
fn documented() -> Vec<&'static str> {
    let page = include_str!("../../../docs/wordpress.md");
    page.split("| `countersign_{slug}_")
        .skip(1)
        .map(|row| row.split('`').next().unwrap())
        .collect()
}

#[test]
fn every_documented_action_and_filter_is_called() {
    let (license, table) = licensed();
    let names: String = documented().iter().map(|name| format!("'{name}', ")).collect();
    let listen = format!(
        "foreach ( [ {names} ] as $name ) {{ add_filter( 'countersign_acme-forms_' . $name, function ( ...$given ) use ( $name ) {{ \
         $kinds = implode( ' ', array_map( 'gettype', $given ) ); \
         file_put_contents( getenv( 'WORDPRESS_SITE' ) . '/heard', \"$name $kinds\\n\", FILE_APPEND ); return $given[0] ?? null; }}, 10, 9 ); }}\n\
         acme_forms_license()->run();"
    );
    let (vendor, mut site) = site_of(Core::Newest, table, |text| {
        text.replace("acme_forms_license()->run();", &listen)
    });
    site.press("acme-forms", "activate", &license.key);
    site.press("acme-forms", "check", "");
    vendor.release("1.1.0", |text| text);
    site.check_again();
    vendor.front.answer_with(super::front::Answer::Nothing);
    site.press("acme-forms", "check", "");
    site.press("acme-forms", "remove_only", "");
    site.admin.get("/wp-admin/tools.php");
    let heard = std::fs::read_to_string(site.file("heard")).unwrap();
    let mut heard: Vec<_> = heard.lines().collect();
    heard.sort_unstable();
    heard.dedup();
    let expected = [
        "activated array",
        "channel NULL",
        "condition string string",
        "deactivated ",
        "no_answer string",
        "notice boolean string",
        "offer array array",
        "page string",
        "request array string",
        "texts array",
        "validated array",
        "wave string",
    ];
    assert_eq!(heard, expected);
    let mut documented = documented();
    documented.sort_unstable();
    assert_eq!(documented, expected.map(|line| line.split(' ').next().unwrap()));
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn a_filter_changes_what_is_offered_said_and_sent() {
    let (license, table) = licensed();
    let filters = "add_filter( 'countersign_acme-forms_offer', '__return_false' );\n\
        add_filter( 'countersign_acme-forms_notice', '__return_false' );\n\
        add_filter( 'countersign_acme-forms_texts', function ( $texts ) { $texts['ok'] = 'Hooray.'; return $texts; } );\n\
        add_filter( 'countersign_acme-forms_request', function ( $options ) { $options['redirection'] = 5; \
        $options['headers']['X-Shop'] = 'acme'; return $options; } );\nacme_forms_license()->run();";
    let (vendor, mut site) = site_of(Core::Newest, table, |text| {
        text.replace("acme_forms_license()->run();", filters)
    });
    assert_eq!(site.admin.get("/wp-admin/tools.php").notices(), [""; 0]);
    assert_eq!(
        site.press("acme-forms", "activate", &license.key).notices(),
        ["Hooray."]
    );
    vendor.release("1.1.0", |text| text);
    assert!(site.check_again().contains("Your plugins are all up to date."));
    assert!(
        vendor
            .front
            .take_asked()
            .iter()
            .all(|asked| asked.header("x-shop") == Some("acme"))
    );
    // The key still follows no redirect.
    let elsewhere = super::front::response(302, &[("Location", "/api/v1/elsewhere")], "");
    vendor.front.answer_with(super::front::Answer::Fixed(elsewhere));
    site.press("acme-forms", "check", "");
    assert!(
        vendor
            .front
            .take_asked()
            .iter()
            .all(|asked| !asked.target.contains("elsewhere"))
    );
}

#[test]
fn a_key_in_wp_config_is_used_and_cannot_be_changed_on_the_page() {
    let (license, table) = licensed();
    let (vendor, mut site) = site_of(Core::Newest, table, with_settings("'key_constant' => 'ACME_FORMS_KEY'"));
    let constants = site.file("constants.json");
    let define = |value: Value| std::fs::write(&constants, json!({ "ACME_FORMS_KEY": value }).to_string()).unwrap();
    define(json!(format!(" {} ", license.key.to_lowercase())));
    site.visitor().get("/");
    site.pass(61);
    site.cron();
    assert_eq!(site.vendor_sees("acme-forms")["active"], true);
    let page = site.admin.get(&site.license_page("acme-forms"));
    let end = &license.key[24..];
    assert!(
        page.text()
            .contains(&format!("Set in wp-config.php (ACME_FORMS_KEY); it ends in {end}.")),
        "{}",
        page.text()
    );
    assert!(!page.html.contains("name=\"license_key\"") && !page.html.contains("value=\"remove\""));
    assert!(!page.html.contains(&license.key));
    for button in ["activate", "remove_really"] {
        let page = site.press("acme-forms", button, &license.key);
        assert_eq!(
            page.notices(),
            ["The license key is set in wp-config.php (ACME_FORMS_KEY). Please change it there."]
        );
    }
    assert_eq!(site.vendor_sees("acme-forms")["active"], true);

    for wrong in [json!("no key"), json!(["x"]), json!(1)] {
        define(wrong.clone());
        let page = site.admin.get(&site.license_page("acme-forms"));
        assert!(
            page.text()
                .contains("What ACME_FORMS_KEY has in wp-config.php is not a license key."),
            "{}",
            page.text()
        );
        assert_eq!(site.vendor_sees("acme-forms")["condition"], "no_key", "{wrong}");
    }
    // Without the constant, what was learned by hand counts.
    define(json!(""));
    assert_eq!(site.vendor_sees("acme-forms")["active"], true);
    assert!(
        site.admin
            .get(&site.license_page("acme-forms"))
            .html
            .contains("name=\"license_key\"")
    );
    assert_eq!(site.complaints(), [""; 0]);
    drop(vendor);
}

#[test]
fn the_page_moves_to_another_menu_or_is_not_there() {
    let (license, table) = licensed();
    let (_vendor, mut site) = site_of(
        Core::Newest,
        table.clone(),
        with_settings("'menu_parent' => 'tools.php'"),
    );
    assert_ne!(
        site.admin
            .get("/wp-admin/options-general.php?page=acme-forms-license")
            .status,
        200
    );
    let page = site.admin.get("/wp-admin/tools.php?page=acme-forms-license");
    assert!(
        page.status == 200 && page.text().contains("License key"),
        "{}",
        page.text()
    );
    let nonce = page.between("<form method=\"post\"", "name=\"_wpnonce\" value=\"", "\"");
    let action = page.between("<form method=\"post\"", "action=\"", "\"");
    let target = action.split(HOST).nth(1).unwrap();
    let form = [
        ("_wpnonce", nonce.as_str()),
        ("license_key", &license.key),
        ("do", "activate"),
    ];
    assert_eq!(site.admin.post(target, &form).notices(), [ACTIVE]);

    let (_vendor, mut site) = site_of(Core::Newest, table, with_settings("'page' => false"));
    assert_ne!(
        site.admin
            .get("/wp-admin/options-general.php?page=acme-forms-license")
            .status,
        200
    );
    let plugins = site.admin.get("/wp-admin/plugins.php");
    assert!(
        !plugins.html.contains("acme-forms-license"),
        "no link to a page that is not there"
    );
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn the_license_is_managed_from_the_command_line() {
    let (license, table) = licensed();
    let (_vendor, site) = site_of(Core::Newest, table, |text| text);
    // What WP-CLI gives a command, and what a command calls of it.
    let stub = "define('WP_CLI', true); class WP_CLI { static $commands = []; \
        static function add_command($name, $command) { self::$commands[$name] = $command; } \
        static function line($text) { echo $text; } \
        static function success($text) { echo \"Success: $text\"; } \
        static function error($text) { echo \"Error: $text\"; } } \
        acme_forms_license()->run(); $command = WP_CLI::$commands['acme-forms license'];";
    let run = |call: &str| site.run(&format!("{stub} $command->{call};"));
    assert_eq!(
        run("status([], [])"),
        "Enter your license key to get updates and support."
    );
    assert_eq!(
        run("activate(['AAAAA'])"),
        "Error: A license key has five groups of five letters or digits."
    );
    assert_eq!(
        run(&format!("activate(['{}'])", license.key)),
        format!("Success: {ACTIVE}")
    );
    assert_eq!(run("check()"), format!("Success: {ACTIVE}"));
    let status: Value = serde_json::from_str(&run("status([], ['format' => 'json'])")).unwrap();
    assert_eq!(
        (&status["condition"], &status["expires"]),
        (&json!("active"), &json!("2099-12-31"))
    );
    assert!(!status.to_string().contains(&license.key));
    assert_eq!(
        [run("move()"), run("copy()"), run("take_back()")],
        [(); 3].map(|()| format!("Success: {ACTIVE}")),
        "it is where it was"
    );
    assert!(run("remove()").starts_with("Success: The license was removed from this site."));
    assert_eq!(
        run("status([], [])"),
        "Enter your license key to get updates and support."
    );
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn the_template_for_translators_is_current() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/wordpress");
    let made = program::run("php", "tests/tools/wordpress/pot.php", "");
    let path = root.join("countersign-client.pot");
    if std::env::var_os("COUNTERSIGN_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(path).unwrap(),
        made,
        "COUNTERSIGN_BLESS=1 takes what was made"
    );
    assert!(made.matches("msgid ").count() > 60, "{made}");
}
