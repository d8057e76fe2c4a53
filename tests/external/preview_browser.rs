//! The preview's page in Chromium: what a person sees, automatic updates, and a hostile readme.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::preview::{Preview, Workplace, header, print, readme};
use crate::tools::browser::Browser;

impl Preview {
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn page(work: &Workplace, path: &str) -> (Preview, Browser) {
    let preview = Preview::start(work.path(), &[]);
    let browser = Browser::at(&preview.url(path));
    (preview, browser)
}

#[test]
fn a_person_picks_a_version_and_a_site_and_reads_what_its_administrator_reads() {
    let work = Workplace::new();
    let (_preview, mut browser) = page(&work, "/");
    assert_eq!(browser.text("h1"), "Acme Forms 1.3.0");
    let row = "There is a new version of Acme Forms available. View version 1.3.0 details.";
    assert_eq!(browser.text("#update-row"), row);
    assert_eq!(
        browser.text("#notes"),
        "Its author says that it works with version 6.8 of the CMS."
    );
    assert!(browser.text("#answer").contains("manifest of 1.3.0"));
    assert!(browser.text("#differences-title").contains("1.2.0 as published"));

    browser.does("fill", &["#cms", "6.1"]);
    browser.does(
        "shows",
        &[
            "#notes",
            "It needs version 6.2 of the CMS or newer, and this site runs 6.1",
        ],
    );
    browser.does("fill", &["#php", "7.4"]);
    browser.does("shows", &["#update-row", "this site’s PHP is too old for it"]);
    browser.does("fill", &["#current", "1.3.0"]);
    browser.does("shows", &["#update-row", "No row: the site has 1.3.0"]);
    assert!(browser.text("#answer").contains("{}"));

    browser.does("click", &[".versions a >> text=1.1.0"]);
    browser.does("shows", &["h1", "Acme Forms 1.1.0"]);
    assert_eq!(
        browser.evaluate("document.getElementById('cms').value"),
        "6.1",
        "the site stays"
    );
    browser.does("click", &["#tab-changelog"]);
    assert!(browser.text("#panel-changelog").contains("whatever 1.1.0 brings"));
    assert_eq!(browser.text("#differences .empty"), "None: every byte is the same.");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn an_edit_arrives_by_itself_and_leaves_the_reader_where_they_are() {
    let work = Workplace::new();
    let (_preview, mut browser) = page(&work, "/?tab=changelog");
    browser.screen(1200, 500, "light");
    browser.evaluate(
        "window.marked = true; document.getElementById('cms').focus({ preventScroll: true }); scrollTo(0, 400)",
    );
    let scrolled = browser.evaluate("scrollY");
    assert_eq!(scrolled, 400);

    work.write(
        "acme-forms/readme.txt",
        &readme("1.3.0", "* New: an edit that nobody committed."),
    );
    browser.does("shows", &["#panel-changelog", "an edit that nobody committed"]);
    assert_eq!(
        browser.evaluate("[window.marked, scrollY, document.activeElement.id]"),
        json!([true, 400, "cms"])
    );

    work.write("acme-forms/acme-forms.php", &header("1.3.1"));
    browser.does("shows", &["h1", "Acme Forms 1.3.1"]);

    work.edit("1.3.0", "* New: committed.");
    work.git(&["commit", "--quiet", "--all", "--message", "1.3.0"]);
    work.git(&["tag", "1.3.0"]);
    browser.does("shows", &[".versions li:nth-child(2)", "1.3.0"]);
    browser.does("shows", &[".versions li:nth-child(1)", "as tagged"]);
    browser.does("shows", &[".chip.strong", "Working tree, as tagged"]);
    assert!(!browser.text(".chips").contains("Would be tagged"));
    assert!(
        !browser.text(".versions").contains("HEAD"),
        "it shows nothing of its own"
    );

    let entry =
        "name = \"Renamed\"\nrepository = \"../../acme-forms\"\ndownload_url = \"https://dl.example/{version}.zip\"\n";
    work.write("registry/plugins/acme-forms.toml", entry);
    browser.does("shows", &["h1", "Renamed 1.3.0"]);

    let built = std::process::Command::new(env!("CARGO_BIN_EXE_countersign"))
        .arg("-C")
        .arg(work.path())
        .arg("build")
        .output();
    assert!(built.unwrap().status.success());
    browser.does("shows", &["#differences .empty", "None: every byte is the same."]);
    assert_eq!(
        browser.evaluate("window.marked"),
        true,
        "the page was never loaded again"
    );
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn what_is_being_typed_is_not_taken_away_by_an_edit() {
    let work = Workplace::new();
    let (_preview, mut browser) = page(&work, "/");
    browser.evaluate("document.getElementById('current').focus(); document.getElementById('current').value = '0.'");
    work.write("acme-forms/acme-forms.php", &header("1.3.7"));
    browser.does("shows", &["h1", "Acme Forms 1.3.7"]);
    browser.does("press", &["5"]);
    browser.does("shows", &[".facts", "Version 0.5"]);
}

#[test]
fn any_number_of_tabs_are_open_and_one_that_is_seen_again_has_what_changed() {
    let work = Workplace::new();
    let (preview, mut browser) = page(&work, "/?cms=6.1");
    // A browser shares six connections among them.
    for tab in 2..=8 {
        browser.does("tab", &[&preview.url(&format!("/?cms=6.{tab}"))]);
        browser.does("shows", &["#live", "Live"]);
    }
    work.write("acme-forms/acme-forms.php", &header("1.3.1"));
    browser.does("shows", &["h1", "Acme Forms 1.3.1"]);
    browser.does("tab", &[&preview.url("/?cms=6.1")]);
    browser.does("shows", &["h1", "Acme Forms 1.3.1"]);
    assert_eq!(browser.evaluate("document.getElementById('cms').value"), "6.1");
}

#[test]
fn two_fields_filled_within_a_moment_both_count() {
    let work = Workplace::new();
    let (_preview, mut browser) = page(&work, "/");
    browser.evaluate(
        "for (const [name, value] of [['cms', '6.1'], ['php', '7.4']]) { \
             const field = document.getElementById(name); field.value = value; \
             field.dispatchEvent(new Event('input', { bubbles: true })) }",
    );
    browser.does(
        "shows",
        &["#notes", "It needs PHP 8.1 or newer, and this site runs PHP 7.4"],
    );
    assert!(
        browser
            .text("#notes")
            .contains("It needs version 6.2 of the CMS or newer, and this site runs 6.1")
    );
    assert_eq!(
        browser.evaluate("location.search"),
        "?cms=6.1&php=7.4",
        "what nobody typed stays open"
    );
}

#[test]
fn the_chosen_tab_stays_when_another_version_is_picked() {
    let work = Workplace::new();
    let (_preview, mut browser) = page(&work, "/");
    browser.does("click", &["#tab-changelog"]);
    browser.does("click", &[".versions a >> text=1.1.0"]);
    browser.does("shows", &["h1", "Acme Forms 1.1.0"]);
    assert_eq!(
        browser.evaluate("document.getElementById('panel-changelog').hidden"),
        false
    );
}

#[test]
fn a_picture_that_is_drawn_anew_is_shown_anew() {
    let work = Workplace::new();
    let icon = |size: u32| {
        let svg = format!("<svg xmlns='http://www.w3.org/2000/svg' width='{size}' height='{size}'/>\n");
        work.write("acme-forms/.wordpress-org/icon.svg", &svg);
    };
    icon(10);
    let (_preview, mut browser) = page(&work, "/");
    let width =
        "document.querySelector('img.icon').decode().then(() => document.querySelector('img.icon').naturalWidth)";
    assert_eq!(browser.evaluate(width), 10);
    icon(20);
    browser.does("shows", &["#live.fresh", "Updated"]);
    assert_eq!(browser.evaluate(width), 20);
}

#[test]
fn a_name_that_turns_the_text_turns_only_itself() {
    let work = Workplace::new();
    work.write(
        "acme-forms/acme-forms.php",
        &header("1.3.0").replace("Acme Forms", "Acme \u{202E}Forms"),
    );
    let (_preview, mut browser) = page(&work, "/");
    // The version is to the right of the name, where it does without the override.
    let right = "document.querySelector('h1 .number').getBoundingClientRect().left \
                 >= document.querySelector('h1 bdi').getBoundingClientRect().right - 1";
    assert_eq!(browser.evaluate(right), true);
    assert_eq!(
        browser.evaluate("document.querySelector('#update-row bdi').textContent"),
        "Acme \u{202E}Forms"
    );
}

#[test]
fn cards_fill_the_width_between_phone_and_desk_whatever_the_plugin_is_called() {
    let work = Workplace::new();
    let long = "Acme Forms for Everybody Who Has a Form";
    work.write(
        "acme-forms/acme-forms.php",
        &header("1.3.0").replace("Acme Forms", long),
    );
    let (_preview, mut browser) = page(&work, "/");
    let width =
        |selector: &str| format!("Math.round(document.querySelector('{selector}').getBoundingClientRect().width)");
    for wide in [900, 1150] {
        browser.screen(wide, 740, "light");
        assert_eq!(
            browser.evaluate(&width("#warnings")),
            browser.evaluate(&width("#row")),
            "{wide}"
        );
    }
    assert_eq!(browser.evaluate(&format!("{} > 100", width("#current"))), true);
    browser.screen(360, 740, "light");
    assert_eq!(browser.evaluate(&width("#site")), browser.evaluate(&width("#row")));
}

#[test]
fn the_bar_on_top_fits_the_narrowest_phone_in_every_state() {
    let work = Workplace::new();
    let (preview, mut browser) = page(&work, "/");
    let wide = "document.documentElement.scrollWidth";
    browser.screen(320, 640, "light");
    assert_eq!(browser.evaluate(wide), 320);
    work.write("acme-forms/acme-forms.php", &header("1.3.1"));
    browser.does("shows", &["#live.fresh", ":"]);
    assert_eq!(browser.evaluate(wide), 320);
    browser.screen(480, 640, "light");
    assert!(
        !browser.text("#live").contains("Updated"),
        "there is room for the time only"
    );
    browser.screen(500, 640, "light");
    assert!(browser.text("#live").starts_with("Updated "));
    browser.screen(320, 640, "light");
    assert_eq!(preview.stop(), Some(0));
    browser.does("shows", &["#live", "Not connected"]);
    assert_eq!(browser.evaluate(wide), 320);
}

#[test]
fn the_manifest_is_copied_as_json() {
    let work = Workplace::new();
    let (_preview, mut browser) = page(&work, "/plugins/acme-forms/1.2.0");
    browser.does("click", &["#copy"]);
    browser.does("shows", &["#copy", "Copied"]);
    let copied = browser.evaluate("navigator.clipboard.readText()");
    let copied: Value = serde_json::from_str(copied.as_str().unwrap()).unwrap();
    let published = std::fs::read(work.path().join("releases/acme-forms/1.2.0.json")).unwrap();
    assert_eq!(copied, serde_json::from_slice::<Value>(&published).unwrap());
}

#[test]
fn light_or_dark_follows_the_system_until_a_person_chooses() {
    let work = Workplace::new();
    let (preview, mut browser) = page(&work, "/");
    let paper = "getComputedStyle(document.body).backgroundColor";
    browser.screen(1200, 800, "light");
    let light = browser.evaluate(paper);
    browser.screen(1200, 800, "dark");
    let dark = browser.evaluate(paper);
    assert_ne!(light, dark);
    browser.does("click", &["#theme"]);
    assert_eq!(browser.evaluate(paper), light);
    browser.open(&preview.url("/plugins/acme-forms/head"));
    assert_eq!(browser.evaluate(paper), light, "it is remembered");
}

#[test]
fn everything_can_be_reached_and_done_with_the_keyboard() {
    let work = Workplace::new();
    let (_preview, mut browser) = page(&work, "/");
    let focused = "document.activeElement.id || document.activeElement.textContent.trim()";
    browser.does("press", &["Tab"]);
    assert_eq!(browser.evaluate(focused), "Skip to the version");
    assert_eq!(
        browser.evaluate("document.activeElement.getBoundingClientRect().top >= 0"),
        true,
        "it is seen"
    );
    browser.does("press", &["Enter"]);
    assert_eq!(browser.evaluate(focused), "main");

    // From the first element to the last, each with a visible outline.
    let mut reached = Vec::new();
    for _ in 0..60 {
        browser.does("press", &["Tab"]);
        let name = browser.evaluate(focused).as_str().unwrap().to_owned();
        let outline = browser.evaluate("getComputedStyle(document.activeElement).outlineStyle");
        assert!(outline != "none" || name.contains("preview"), "{name} shows no focus");
        if reached.contains(&name) {
            break;
        }
        reached.push(name);
    }
    for wanted in ["cms", "php", "current", "tab-description", "copy", "json"] {
        assert!(
            reached.iter().any(|name| name == wanted),
            "{wanted} is not among {reached:?}"
        );
    }

    browser.evaluate("document.getElementById('tab-description').focus()");
    browser.does("press", &["ArrowRight"]);
    assert_eq!(browser.evaluate(focused), "tab-changelog");
    assert!(browser.text("#panel-changelog").contains("several forms on one page"));
    browser.does("press", &["Home"]);
    assert_eq!(
        browser.evaluate("document.getElementById('panel-changelog').hidden"),
        true
    );
}

#[test]
fn a_syntax_error_is_on_the_page_as_it_is_in_the_terminal_and_goes_when_it_is_repaired() {
    let work = Workplace::new();
    let (_preview, mut browser) = page(&work, "/");
    browser.screen(1200, 500, "light");
    browser.evaluate("scrollTo(0, 300)");
    let good = std::fs::read_to_string(work.path().join("registry/plugins/acme-forms.toml")).unwrap();
    work.write(
        "registry/plugins/acme-forms.toml",
        &format!("{good}modul = \"x\"\nname = 3\n"),
    );
    browser.does("shows", &["#complaints", "unknown field"]);
    let on_the_page: Vec<String> = browser.text("#complaints").lines().map(str::to_owned).collect();
    let terminal = String::from_utf8(print(work.path(), &[]).stdout).unwrap();
    let in_the_terminal: Vec<_> = terminal.lines().skip(1).map(|line| line.trim().to_owned()).collect();
    assert_eq!(on_the_page, in_the_terminal);
    assert!(
        on_the_page[0].contains("acme-forms.toml:5:1: unknown field \"modul\" (did you mean \"module\"?)"),
        "{on_the_page:?}"
    );

    work.write("registry/plugins/acme-forms.toml", &good);
    browser.does("shows", &["h1", "Acme Forms 1.3.0"]);
    assert_eq!(browser.evaluate("scrollY"), 300, "the reader is where they were");
    work.write("acme-forms/acme-forms.php", "<?php // nothing yet\n");
    browser.does(
        "shows",
        &["#complaints", "no PHP file at the plugin's root has a plugin header"],
    );
}

#[test]
fn a_hostile_readme_runs_nothing_and_loads_nothing() {
    let work = Workplace::new();
    let hostile = "<script>window.owned = 1; alert(1)</script>\n\n<img src=x onerror=\"window.owned=2\">\n\n\
        ![remote](https://evil.example/pixel.png) <img src=\"https://evil.example/2.png\" alt=\"&lt;script&gt;window.owned=3&lt;/script&gt;\">\n\n\
        <style>@import url(https://evil.example/s.css); body { display: none }</style>\n\n\
        <svg onload=\"window.owned=4\"><image href=\"https://evil.example/3.png\"/></svg>\n\n\
        <iframe src=\"https://evil.example/\"></iframe> <link rel=stylesheet href=https://evil.example/4.css>\n\n\
        <a href=\"javascript:window.owned=5\" onclick=\"window.owned=6\" style=\"position:fixed;inset:0\">click</a>\n\n\
        <form action=https://evil.example/><button>x</button></form> <base href=\"https://evil.example/\">\n\n\
        <meta http-equiv=refresh content=\"0;url=https://evil.example/\"> </div></main></body><h1 id=json>fake</h1>\n";
    let everywhere = format!(
        "=== <script>window.owned=7</script>Acme ===\nTested up to: \"><img src=x onerror=window.owned=8>\n\n{hostile}\n\n\
         == Description ==\n\n{hostile}\n\n== Upgrade Notice ==\n\n= 1.3.0 =\n{hostile}\n\n== Changelog ==\n\n= 1.3.0 =\n\n{hostile}\n"
    );
    work.write("acme-forms/readme.txt", &everywhere);
    let php = header("1.3.0").replace(
        "Author: Acme",
        "Author: <img src=x onerror=window.owned=9>\"'><script>window.owned=10</script>",
    );
    work.write("acme-forms/acme-forms.php", &php);
    work.write("acme-forms/.wordpress-org/icon.svg", "<svg xmlns='http://www.w3.org/2000/svg' onload='window.owned=11'><script>window.owned=12</script><image href='https://evil.example/i.png'/></svg>\n");
    work.git(&["add", "--all"]);
    work.git(&["commit", "--quiet", "--message", "hostile"]);
    work.git(&["tag", "1.3.0"]);
    work.git(&["tag", "<img-src=x-onerror=window.owned=13>"]);

    let preview = Preview::start(work.path(), &[]);
    // The name leads to a listener of ours, which hears of every connection, whatever the browser reports.
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let hears = elsewhere.local_addr().unwrap();
    let mut browser = Browser::start_with(&[&format!("--host-resolver-rules=MAP evil.example {hears}")]);
    for path in [
        "/plugins/acme-forms/working-tree",
        "/plugins/acme-forms/1.3.0?tab=changelog",
        "/?cms=%22%3E%3Cscript%3Ewindow.owned=14%3C/script%3E&php=%3Cimg%20src=x%20onerror=window.owned=15%3E&current=%3Csvg/onload=window.owned=16%3E",
    ] {
        browser.open(&preview.url(path));
        assert_eq!(browser.evaluate("typeof window.owned"), "undefined", "{path}");
        assert_eq!(browser.evaluate("document.querySelectorAll('main script, main style, iframe, main [onerror], main [onclick], main [style], base, main form[action*=evil]').length"), 0);
        assert_eq!(
            browser.evaluate("[...document.images].every(image => new URL(image.src).origin === location.origin)"),
            true
        );
        assert_eq!(browser.evaluate("getComputedStyle(document.body).display"), "block");
        assert!(browser.text("#json").starts_with('{'), "the page was not broken open");
    }
    assert!(
        browser.text(".picture").contains("https://evil.example/"),
        "the page lists what the CMS would load"
    );

    browser.open(&preview.url("/"));
    work.write("acme-forms/readme.txt", &everywhere.replace("remote", "arrived later"));
    browser.does("shows", &["#panel-description .picture", "arrived later"]);
    assert_eq!(browser.evaluate("typeof window.owned"), "undefined");

    assert_eq!(browser.complaints(), [""; 0]);

    browser.asks("open", json!([preview.url("/art/acme-forms/icon.svg")]));
    assert_eq!(
        browser.evaluate("typeof window.owned"),
        "undefined",
        "also by itself, a picture is a picture"
    );
    browser.open(&preview.url("/"));

    let origin = preview.url("/");
    let sent: Vec<_> = browser
        .requests()
        .into_iter()
        .filter(|url| !url.starts_with(&origin))
        .collect();
    assert_eq!(sent, [""; 0]);
    assert_eq!(elsewhere.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    browser.evaluate("void open('http://evil.example/')");
    eventually("the listener hears of a connection", || elsewhere.accept().is_ok());
}

#[test]
fn the_mail_to_a_buyer_follows_the_texts_and_nothing_of_it_runs_or_loads() {
    let work = Workplace::new();
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let elsewhere = format!("http://{}/p.png", stranger.local_addr().unwrap());
    let (_preview, mut browser) = page(&work, "/");
    browser.does("click", &[".nav a >> text=License mail"]);
    browser.does("shows", &["#mail-1 strong", "Your license key"]);
    let in_frame = "#mail-1 iframe >> internal:control=enter-frame >> body";
    browser.does("shows", &[in_frame, "Your license key"]);
    browser.evaluate("window.marked = true");

    work.write("registry/mail/license.txt", "Subject: Welcome\n\n{{ license.key }}\n");
    let hostile = format!(
        "<p>Hello</p><script>parent.marked = 'script'; document.body.textContent = 'ran'</script>\
         <img src=\"{elsewhere}\" onerror=\"parent.marked = 'image'\">{{{{ license.plugins[0] }}}}"
    );
    work.write("registry/mail/license.html", &hostile);
    browser.does("shows", &["#mail-1 strong", "Welcome"]);
    browser.does("shows", &[in_frame, "Hello"]);
    browser.does("shows", &[in_frame, "Acme Forms"]);
    assert_eq!(
        browser.evaluate("window.marked"),
        true,
        "nothing ran, and the page is the same"
    );
    let refused = browser.complaints();
    assert!(
        refused.iter().any(|complaint| complaint.contains("p.png")),
        "{refused:?}"
    );
    assert_eq!(
        stranger.accept().unwrap_err().kind(),
        ErrorKind::WouldBlock,
        "nobody was asked"
    );
}

#[test]
fn the_policy_stops_what_a_slip_of_ours_would_let_through() {
    let work = Workplace::new();
    let (preview, mut browser) = page(&work, "/");
    browser.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=https://evil.example/x.png onerror=window.owned=1><p style=color:red id=styled>x</p>'); \
         const script = document.createElement('script'); script.textContent = 'window.owned = 2'; document.body.append(script)",
    );
    assert_eq!(
        browser.evaluate("fetch('https://evil.example/').then(() => 'reached', () => 'refused')"),
        "refused"
    );
    assert_eq!(browser.evaluate("typeof window.owned"), "undefined");
    assert_ne!(
        browser.evaluate("getComputedStyle(document.getElementById('styled')).color"),
        "rgb(255, 0, 0)"
    );
    assert!(
        browser
            .complaints()
            .iter()
            .any(|text| text.contains("Content Security Policy"))
    );
    drop(preview);
}

/// Texts whose contrast to what is behind them is below 4.5 : 1 (WCAG 2.2, 1.4.3; 3 : 1 for large ones).
const FAINT: &str = r"(() => {
  const channel = (value) => { value /= 255; return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4 };
  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const colour = numbers(getComputedStyle(element).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest('.hidden, .skip, script')) continue;
    const style = getComputedStyle(element);
    const [a, b] = [luminance(numbers(style.color)), luminance(behind(element))].sort((x, y) => y - x);
    const needed = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
    if ((a + 0.05) / (b + 0.05) < needed) faint.push(`${walker.currentNode.data.trim()}: ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
  }
  return faint;
})()";

#[test]
fn every_state_is_readable_in_light_and_dark_and_fits_a_phone() {
    let work = Workplace::new();
    work.write("acme-forms/readme.txt", &readme("1.2.9", "* x").replace("6.8", "soon"));
    let (_preview, mut browser) = page(&work, "/");
    for path in [
        "/",
        "/?cms=6.9&php=7.4&current=9",
        "/plugins/acme-forms/1.2.0?tab=changelog",
        "/plugins/nothing",
    ] {
        let address = browser.asks("address", json!([])).as_str().unwrap().to_owned();
        let origin = address.split('/').take(3).collect::<Vec<_>>().join("/");
        browser.open(&format!("{origin}{path}"));
        for (width, scheme) in [
            (1360, "light"),
            (1360, "dark"),
            (900, "light"),
            (360, "light"),
            (360, "dark"),
        ] {
            browser.screen(width, 740, scheme);
            assert_eq!(browser.evaluate(FAINT), json!([]), "{path} {width} {scheme}");
            let wide = browser.evaluate("document.documentElement.scrollWidth");
            assert!(
                wide.as_u64().unwrap() <= u64::from(width),
                "{path} is {wide} wide on {width}"
            );
        }
    }
}

/// `make pictures` draws docs/preview/ again.
#[test]
#[ignore = "draws pictures for the documentation: make pictures"]
fn pictures() {
    let work = Workplace::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/preview");
    std::fs::create_dir_all(&folder).unwrap();
    let mut browser = Browser::start();
    let banner = BANNER.replace('\n', " ").replace('#', "%23");
    browser.screen(772, 250, "light");
    browser.asks("open", json!([format!("data:image/svg+xml,{banner}")]));
    let artwork = work.repository().join(".wordpress-org");
    std::fs::create_dir_all(&artwork).unwrap();
    browser.asks("picture", json!([artwork.join("banner-772x250.png"), false]));
    work.write("acme-forms/.wordpress-org/icon.svg", ICON);
    work.write("acme-forms/acme-forms.php", &header("1.3.0"));
    work.write("acme-forms/readme.txt", README);

    let preview = Preview::start(work.path(), &[]);
    let mut draw = |name: &str, path: &str, (width, height, scheme): (u32, u32, &str)| {
        browser.screen(width, height, scheme);
        browser.open(&preview.url(path));
        browser.asks("picture", json!([folder.join(format!("{name}.png")), false]));
    };
    draw("light", "/", (1360, 900, "light"));
    draw("dark", "/?tab=changelog&php=7.4&cms=6.9", (1360, 900, "dark"));
    draw("phone", "/", (390, 844, "light"));
    draw("differences", "/#differences", (1360, 900, "light"));
    work.write(
        "registry/plugins/acme-forms.toml",
        "repository = \"../../acme-forms\"\nmodul = \"forms\"\n",
    );
    browser.does("shows", &["#complaints", "unknown field"]);
    browser.screen(1360, 420, "light");
    browser.asks("picture", json!([folder.join("error.png"), false]));
}

const ICON: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 128 128"><rect width="128" height="128" rx="24" fill="#2d4a7c"/>
<g fill="none" stroke="#fff" stroke-width="9" stroke-linecap="round"><path d="M34 42h60M34 64h60M34 86h34"/></g></svg>
"##;

const BANNER: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 772 250"><rect width="772" height="250" fill="#dfe6f1"/>
<g fill="#fff" stroke="#b9c6dd" stroke-width="2"><rect x="420" y="40" width="280" height="44" rx="8"/><rect x="420" y="98" width="280" height="44" rx="8"/>
<rect x="420" y="156" width="150" height="44" rx="8" fill="#2d4a7c" stroke="none"/></g>
<g fill="#2d4a7c" opacity=".14"><circle cx="90" cy="60" r="120"/><circle cx="230" cy="190" r="90"/></g></svg>"##;

const README: &str = "\
=== Acme Forms ===
Tested up to: 6.8
Requires PHP: 8.x

A small contact form for any page.

== Description ==

Write `[acme_form]` into a page, and its visitors can send a message to the site's administrator.

* **Several forms on one page**, each with its own recipient.
* No settings that nobody understands, and no tracking.
* Every text can be translated.

= How it looks =

![The form on a page](https://example.com/forms/screenshot.png)

Questions? [We answer them](https://example.com/support).

== Upgrade Notice ==

= 1.3.0 =
Forms made with 1.x keep working; look at their order once.

== Changelog ==

= 1.3.0 =

* New: several forms on one page, each with its own recipient.
* New: messages are kept for 30 days.
* Fixed: a form in a widget was sent twice.

= 1.2.0 =

* New: whatever 1.2.0 brings.
";
