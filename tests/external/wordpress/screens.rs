//! The license page and its notices in Chromium: by keyboard, in 320 pixels, and with WordPress' own scripts.

use serde_json::{Value, json};

use super::site::{Core, Site};
use super::vendor::Vendor;
use super::{ACTIVE, HOST, licensed};
use crate::tools::browser::Browser;

const PAGE: &str = "http://customer.example/wp-admin/options-general.php?page=acme-forms-license";
const TOOLS: &str = "http://customer.example/wp-admin/tools.php";

/// Chromium with an administrator logged in.
fn browser_of(site: &Site) -> Browser {
    let address = site.url().replace("http://", "").replace('/', "");
    let hosts = [HOST, "new.example"].map(|host| format!("MAP {host}:80 {address}"));
    let mut browser = Browser::start_with(&[&format!("--host-resolver-rules={}", hosts.join(","))]);
    log_in(&mut browser, HOST);
    browser
}

fn log_in(browser: &mut Browser, host: &str) {
    browser.does("open", &[&format!("http://{host}/wp-login.php")]);
    browser.does("fill", &["#user_login", "admin"]);
    browser.does("fill", &["#user_pass", "password"]);
    browser.does("click", &["#wp-submit"]);
    browser.does("shows", &["#wpbody-content h1", "Dashboard"]);
}

/// Takes a picture of the page where somebody wants to look: `COUNTERSIGN_SCREENS` is a folder.
fn picture(browser: &mut Browser, name: &str) {
    if let Some(folder) = std::env::var_os("COUNTERSIGN_SCREENS") {
        let path = std::path::Path::new(&folder).join(format!("{name}.png"));
        browser.asks("picture", json!([path, false]));
    }
}

/// Whether the plugin's part of the page fits the screen.
fn fits(browser: &mut Browser) -> bool {
    let outside = "[...document.querySelectorAll('.wrap *, .notice, .notice *')].filter((element) => element.checkVisibility() && \
         !element.classList.contains('screen-reader-text') && element.getBoundingClientRect().right > innerWidth + 1).length";
    browser.evaluate(outside) == 0 && browser.evaluate("document.documentElement.scrollWidth <= innerWidth") == true
}

fn focus(browser: &mut Browser) -> Value {
    browser.evaluate("[document.activeElement.id, document.activeElement.value ?? '']")
}

#[test]
fn a_person_with_a_keyboard_is_led_to_what_is_wrong_in_any_width() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    for core in [Core::Debian, Core::Newest] {
        let mut site = Site::new(core, HOST, &vendor.front);
        site.install("acme-forms", &vendor.archive("1.0.0"));
        let mut browser = browser_of(&site);
        let id = "acme-forms-license-key";
        for width in [1200, 320] {
            browser.screen(width, 900, "light");
            browser.does("open", &[PAGE]);
            browser.evaluate(&format!("document.getElementById('{id}').focus()"));
            browser.does("press", &["A"]);
            browser.does("press", &["Enter"]);
            browser.does("shows", &[".notice-error", "A license key has five groups"]);
            // `autofocus` comes some time after the page has been drawn.
            browser.does("shows", &[&format!("#{id}:focus"), ""]);
            assert_eq!(focus(&mut browser), json!([id, "A"]), "{core:?}, {width}");
            let described = format!(
                "document.getElementById('{id}').getAttribute('aria-describedby').split(' ').map((id) => document.getElementById(id).innerText).join(' ')"
            );
            let described = browser.evaluate(&described);
            let described = described.as_str().unwrap();
            assert!(
                described.contains("Five groups") && described.contains("A license key has five"),
                "{described}"
            );
            assert!(fits(&mut browser), "{core:?}, {width}");
            picture(&mut browser, &format!("error-{core:?}-{width}"));
        }
        browser.does("fill", &[&format!("#{id}"), &license.key]);
        browser.does("press", &["Tab"]);
        assert_eq!(browser.evaluate("document.activeElement.value"), "activate");
        browser.does("press", &["Enter"]);
        browser.does("shows", &[".notice-success", ACTIVE]);
        picture(&mut browser, &format!("active-{core:?}"));
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn a_notice_is_dismissed_with_its_cross_by_keyboard_and_stays_away() {
    let (_license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    for core in [Core::Debian, Core::Newest] {
        let mut site = Site::new(core, HOST, &vendor.front);
        site.install("acme-forms", &vendor.archive("1.0.0"));
        let mut browser = browser_of(&site);
        browser.screen(320, 800, "light");
        browser.does("open", &[TOOLS]);
        browser.does("shows", &[".notice-warning", "Enter your license key"]);
        assert_eq!(
            browser.evaluate("document.querySelectorAll('.notice-warning .notice-dismiss').length"),
            1,
            "{core:?}: one cross"
        );
        assert!(fits(&mut browser), "{core:?}");
        picture(&mut browser, &format!("notice-{core:?}-320"));
        browser.screen(1200, 800, "light");
        picture(&mut browser, &format!("notice-{core:?}"));
        browser.evaluate("document.querySelector('.notice-warning p a').focus()");
        browser.does("press", &["Tab"]);
        assert_eq!(browser.evaluate("document.activeElement.className"), "notice-dismiss");
        browser.does("press", &["Enter"]);
        // The page before has this title, too.
        let without = "body:not(:has(.notice-warning)) #wpbody-content h1";
        browser.does("shows", &[without, "Tools"]);
        let count = "[location.href, document.querySelectorAll('.notice-warning').length]";
        assert_eq!(browser.evaluate(count), json!([TOOLS, 0]), "{core:?}");
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn a_site_that_has_moved_is_asked_one_question_with_two_answers() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut site = Site::new(Core::Newest, HOST, &vendor.front);
    std::fs::write(site.file("any-host"), "").unwrap();
    site.install("acme-forms", &vendor.archive("1.0.0"));
    site.press("acme-forms", "activate", &license.key);
    let mut browser = browser_of(&site);
    log_in(&mut browser, "new.example");
    browser.does("open", &[&TOOLS.replace(HOST, "new.example")]);
    browser.does("shows", &[".notice-warning", "is active here until"]);
    picture(&mut browser, "moved-notice");
    for width in [320, 1200] {
        browser.screen(width, 900, "light");
        browser.does("open", &[&PAGE.replace(HOST, "new.example")]);
        assert!(fits(&mut browser), "{width}");
        picture(&mut browser, &format!("moved-{width}"));
    }
    let hint = "document.getElementById(document.activeElement.getAttribute('aria-describedby')).innerText";
    browser.evaluate("document.querySelector('[value=move]').focus()");
    assert_eq!(
        browser.evaluate(hint),
        "Choose this if the site has a new address and the old one is gone, or soon will be. The license comes along, and \
         customer.example loses it."
    );
    browser.does("press", &["Tab"]);
    assert_eq!(
        browser.evaluate(hint),
        "Choose this if customer.example goes on, and this is a second site, such as one for tests. The license stays there, and \
         this site counts as another one."
    );
    browser.does("press", &["Shift+Tab"]);
    browser.does("press", &["Enter"]);
    browser.does("shows", &[".notice-success", ACTIVE]);
    assert_eq!(
        vendor.server.validate(&license, HOST).json()["bound_domain"],
        "new.example"
    );
    assert_eq!(site.complaints(), [""; 0]);
}
