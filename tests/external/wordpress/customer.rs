//! Customers who help themselves: from a trouble to a site that is licensed again, by the customer's page on a phone, with a real mail
//! server, a real WordPress and a receiver of webhooks.

use std::time::Instant;

use chrono::{Days, NaiveDate, TimeDelta, Utc};
use serde_json::{Value, json};

use super::front::Front;
use super::site::{Core, Site};
use super::vendor::Vendor;
use super::{ACTIVE, HOST};
use crate::support::server::countersign;
use crate::support::shop::{BUYER, add_shop, deliver, invoice};
use crate::support::{Instance, License, Server, eventually};
use crate::tools::browser::Browser;
use crate::tools::midnight::wait_past_midnight;
use crate::tools::receiver::Receiver;
use crate::tools::smtp::{MailServer, header};

const JANE: &str = "jane@buyer.example";
const WORK: &str = "jane@agency.example";
const ELSEWHERE: &str = "in use on another site";

/// How many pixels a page is wider than the window.
const TOO_WIDE: &str = "Math.max(0, document.documentElement.scrollWidth - innerWidth)";

/// A vendor, and a customer with a phone.
struct Trouble {
    mail: MailServer,
    receiver: Receiver,
    instance: Instance,
    server: Server,
    front: Front,
    archive: Vec<u8>,
    phone: Browser,
}

impl Trouble {
    fn begin() -> Self {
        Self::at(Vendor::new(&["# none\n".to_owned()]))
    }

    /// The customer of this vendor.
    fn at(vendor: Vendor) -> Self {
        let mail = MailServer::start("none");
        let receiver = Receiver::start();
        let archive = vendor.archive("1.0.0");
        let (front, instance) = vendor.leave();
        add_shop(&instance);
        let settings = format!(
            "[serve]\nrenew_url = 'https://shop.example/renew'\n[shops.stripe]\n\
             [account]\nname = 'Acme'\nsupport = 'help@acme.example'\n[webhooks.crm]\nurl = '{}'\n\
             [mail]\nserver = 'localhost'\nport = {}\ntls = 'none'\nfrom = 'licenses@acme.example'\n",
            receiver.url(),
            mail.port
        );
        instance.write("countersign.toml", &settings);
        let made = json_of(&instance, &["webhook", "secret", "crm"]);
        receiver.know(made["secret"].as_str().unwrap());
        let server = Server::start_in(instance.path(), &["--public-url", &front.url()]);
        front.forward_to(server.address);
        let mut phone = Browser::start();
        phone.screen(320, 640, "light");
        Self {
            mail,
            receiver,
            instance,
            server,
            front,
            archive,
            phone,
        }
    }

    /// A license for one site.
    fn issue(&self, address: &str) -> License {
        let arguments = [
            "license",
            "issue",
            "--module",
            "forms",
            "--expires",
            "2099-06-30",
            "--customer",
            address,
        ];
        let issued = json_of(&self.instance, &arguments);
        License {
            id: issued["id"].as_str().unwrap().to_owned(),
            key: issued["license_key"].as_str().unwrap().to_owned(),
        }
    }

    /// Imports licenses from a table.
    fn import(&self, table: &str) {
        self.instance.write("export.csv", table);
        let path = self.instance.file("export.csv");
        json_of(
            &self.instance,
            &["license", "import", path.to_str().unwrap(), "--from", "csv"],
        );
    }

    /// Sells a subscription that is paid for so many days; the license.
    fn sell(&self, days: u64) -> License {
        let before = self.mail.mails().len();
        let mut sold = invoice("in_1", "subscription_create", "price_small", 1, days);
        sold["payment_intent"] = json!("pi_1");
        assert_eq!(deliver(&self.server, "invoice.paid", 1, &sold), 200);
        let key = key(&self.next_mail(before, BUYER));
        let listed = json_of(&self.instance, &["license", "show", &key]);
        let id = listed["id"].as_str().unwrap().to_owned();
        License { id, key }
    }

    /// A site with the plugin, and without a key.
    fn site(&self, host: &str) -> Site {
        let mut site = Site::new(Core::Newest, host, &self.front);
        site.install("acme-forms", &self.archive);
        site
    }

    fn active_site(&self, host: &str, license: &License) -> Site {
        let mut site = self.site(host);
        assert_eq!(site.press("acme-forms", "activate", &license.key).notices(), [ACTIVE]);
        site
    }

    /// The text of the mail that comes after so many.
    fn next_mail(&self, before: usize, to: &str) -> String {
        eventually("a mail is there", || self.mail.mails().len() > before);
        let mails = self.mail.mails();
        assert_eq!(mails.len(), before + 1, "{mails:?}");
        assert_eq!(header(&mails[before], "To").to_lowercase(), to.to_lowercase());
        mails[before]["text"].as_str().unwrap().to_owned()
    }

    fn open(&mut self, path: &str) {
        let address = format!("http://127.0.0.1:{}{path}", self.server.address.port());
        self.phone.does("open", &[&address]);
        assert_eq!(self.phone.evaluate(TOO_WIDE), 0, "{path}");
    }

    /// Asks for a mail, and gives how many there were before.
    fn ask(&mut self, address: &str) -> usize {
        let before = self.mail.mails().len();
        self.open("/account/sign-in");
        self.phone.does("fill", &["input[name=address]", address]);
        self.phone.does("press", &["Enter"]);
        self.phone.does("shows", &["h1", "Look in your mail"]);
        before
    }

    fn sign_in(&mut self, address: &str) {
        let before = self.ask(address);
        let text = self.next_mail(before, address);
        let code = text.split("ode: ").nth(1).unwrap_or_else(|| panic!("{text}"));
        let code = code.split_whitespace().next().unwrap();
        self.phone.does("fill", &["input[name=code]", code]);
        self.phone.does("press", &["Enter"]);
        self.phone.does("shows", &["h1", "Your licenses"]);
    }

    fn sign_in_and_open(&mut self, address: &str, license: &License) {
        self.sign_in(address);
        self.open(&format!("/account/licenses/{}", license.id));
    }

    fn main(&mut self) -> String {
        self.phone.text("main")
    }

    /// Says that a site is gone, or where it moved to.
    fn give_seat(&mut self, host: &str, to: Option<&str>) {
        self.phone.does("click", &[&format!("a[href$='/move?host={host}']")]);
        self.phone.does("shows", &["h1", "Move or free a site"]);
        match to {
            Some(to) => self.phone.does("fill", &["input[name=to]", to]),
            None => self.phone.does("click", &["input[value=gone]"]),
        }
        self.phone.does("click", &["main form button"]);
        let done = to.map_or("The seat is free.", |_| "The new address has the seat.");
        self.phone.does("shows", &["[role=status]", done]);
    }

    /// The data of the event of this kind that the receiver got of a license.
    fn told(&self, license: &License, kind: &str) -> Value {
        let find = || {
            let taken = self.receiver.taken().into_iter();
            let mut own = taken.filter(|body| body["type"] == kind && body["data"]["license"] == license.id);
            own.next()
        };
        eventually(kind, || find().is_some());
        find().unwrap()["data"].clone()
    }
}

fn json_of(instance: &Instance, arguments: &[&str]) -> Value {
    let output = countersign(instance).args(arguments).arg("--json").output().unwrap();
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {failed}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The license key in a mail.
fn key(text: &str) -> String {
    let is_key = |word: &&str| word.len() == 29 && word.matches('-').count() == 4;
    let found = text.split_whitespace().find(is_key);
    found.unwrap_or_else(|| panic!("{text}")).to_owned()
}

fn condition(site: &Site) -> Value {
    site.vendor_sees("acme-forms")["condition"].clone()
}

#[test]
fn who_lost_the_key_has_it_mailed_and_pastes_it_into_the_plugins_page() {
    let mut trouble = Trouble::begin();
    let license = trouble.issue(JANE);
    let mut site = trouble.site(HOST);
    trouble.sign_in_and_open(JANE, &license);
    assert!(!trouble.main().contains(&license.key));
    let before = trouble.mail.mails().len();
    trouble.phone.does("click", &["details.do summary"]);
    trouble.phone.does("click", &["form[action$='/mail-key'] button"]);
    trouble
        .phone
        .does("shows", &["[role=status]", "The key is on its way to you."]);
    trouble.phone.does("shows", &["main", "The key was mailed to you"]);
    let mailed = key(&trouble.next_mail(before, JANE));
    assert_eq!(site.press("acme-forms", "activate", &mailed).notices(), [ACTIVE]);
    assert_eq!(condition(&site), "active");
    trouble.open(&format!("/account/licenses/{}", license.id));
    assert!(trouble.main().contains(HOST), "{}", trouble.main());
    assert_eq!(trouble.told(&license, "license.key_mailed")["by"], "the customer");
    let history = json_of(&trouble.instance, &["license", "history", &license.id]);
    let mut events = history["events"].as_array().unwrap().iter();
    let event = events.find(|event| event["event"] == "key mailed").unwrap();
    assert_eq!(event["by"], "operator:account", "{event}");
    assert!(!trouble.server.log().contains(&mailed));
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn who_looks_for_the_download_saves_a_copy_for_the_site_and_installs_it_there() {
    let mut trouble = Trouble::at(Vendor::hosting(&["# none\n".to_owned()]));
    let license = trouble.issue(JANE);
    trouble.sign_in_and_open(JANE, &license);
    trouble.phone.does("click", &["a[href$='/download']"]);
    trouble.phone.does("shows", &["h2", "Acme Forms"]);
    trouble
        .phone
        .does("fill", &["input[name=host]", &format!("https://{HOST}/wp-admin/")]);
    let saved = trouble.instance.file("saved.zip");
    trouble
        .phone
        .does("saves", &["form[action$='/download'] button", saved.to_str().unwrap()]);
    let mut site = Site::new(Core::Newest, HOST, &trouble.front);
    site.install("acme-forms", &std::fs::read(&saved).unwrap());
    assert_eq!(site.press("acme-forms", "activate", &license.key).notices(), [ACTIVE]);
    let told = trouble.told(&license, "license.downloaded");
    assert_eq!(
        [&told["plugin"], &told["version"], &told["host"]],
        ["acme-forms", "1.0.0", HOST]
    );
    trouble.open(&format!("/account/licenses/{}", license.id));
    assert!(
        trouble.main().contains("Acme Forms 1.0.0 was downloaded"),
        "{}",
        trouble.main()
    );
    // Should the copy be found elsewhere, it says whose it is.
    let traced = json_of(&trouble.instance, &["trace", saved.to_str().unwrap()]);
    let text = traced.to_string();
    assert!(text.contains(&license.id) && text.contains(HOST), "{text}");
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn a_site_that_moved_with_its_database_is_licensed_again_once_the_owner_says_where_it_is() {
    let mut trouble = Trouble::begin();
    let license = trouble.issue(JANE);
    let mut site = trouble.active_site(HOST, &license);
    // A backup without what the client keeps out of it: the site itself cannot give up its old seat.
    std::fs::write(site.file("any-host"), "").unwrap();
    site.run("delete_option('countersign_acme-forms_secret');");
    site.moved_to("new.example");
    let refused = site.press("acme-forms", "move", "").notices().remove(0);
    assert!(
        refused.contains("Only the site itself can give up its license"),
        "{refused}"
    );
    trouble.sign_in_and_open(JANE, &license);
    trouble.give_seat(HOST, Some("http://new.example/shop"));
    assert!(
        trouble.main().contains("customer.example moved to new.example"),
        "{}",
        trouble.main()
    );
    let notices = site.press("acme-forms", "move", "").notices();
    assert_eq!(notices, [ACTIVE]);
    assert_eq!(condition(&site), "active");
    let told = trouble.told(&license, "site.moved");
    assert_eq!(
        [&told["from"], &told["host"], &told["by"]],
        [HOST, "new.example", "customer"]
    );
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn when_the_old_host_is_dead_the_owner_frees_its_seat_and_the_new_site_takes_it() {
    let mut trouble = Trouble::begin();
    let license = trouble.issue(JANE);
    drop(trouble.active_site(HOST, &license));
    let mut new = trouble.site("new.example");
    let refused = new.press("acme-forms", "activate", &license.key).notices().remove(0);
    assert!(refused.contains(ELSEWHERE), "{refused}");
    trouble.sign_in_and_open(JANE, &license);
    trouble.give_seat(HOST, None);
    assert!(
        trouble.main().contains("customer.example was freed"),
        "{}",
        trouble.main()
    );
    assert_eq!(new.press("acme-forms", "check", "").notices(), [ACTIVE]);
    assert_eq!(condition(&new), "active");
    let told = trouble.told(&license, "site.released");
    assert_eq!([&told["host"], &told["by"]], [HOST, "customer"]);
    assert_eq!(new.complaints(), [""; 0]);
}

#[test]
fn a_subscription_that_renews_by_itself_is_seen_on_the_page_and_on_the_site() {
    let mut trouble = Trouble::begin();
    let license = trouble.sell(2);
    let mut site = trouble.active_site(HOST, &license);
    let end = |trouble: &Trouble| -> NaiveDate {
        let shown = json_of(&trouble.instance, &["license", "show", &license.id]);
        shown["expires"].as_str().unwrap().parse().unwrap()
    };
    let going_on = json!({ "id": "sub_1", "status": "active", "items": { "data": [{ "id": "si_1", "quantity": 1,
        "price": { "id": "price_small" }, "current_period_start": 1_700_000_000, "current_period_end": 1_900_000_000 }] } });
    assert_eq!(
        deliver(&trouble.server, "customer.subscription.updated", 2, &going_on),
        200
    );
    eventually("the renewal is to come", || {
        trouble.server.validate(&license, HOST).json()["renews"] == true
    });
    let by_itself = |end: NaiveDate| format!("{}, by itself", end.format("%-d %b %Y"));
    let first = end(&trouble);
    trouble.sign_in_and_open(BUYER, &license);
    assert!(trouble.main().contains(&by_itself(first)), "{}", trouble.main());
    let paid = invoice("in_2", "subscription_cycle", "price_small", 1, 32);
    assert_eq!(deliver(&trouble.server, "invoice.paid", 3, &paid), 200);
    trouble.told(&license, "license.renewed");
    trouble.open(&format!("/account/licenses/{}", license.id));
    let second = end(&trouble);
    assert_eq!(second - first, TimeDelta::days(30));
    assert!(trouble.main().contains(&by_itself(second)), "{}", trouble.main());
    let page = site.press("acme-forms", "check", "");
    assert_eq!(page.notices(), [ACTIVE]);
    let until = second.format("%B %-d, %Y").to_string();
    assert!(page.text().contains(&until), "{until}: {}", page.text());
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn who_let_a_license_expire_finds_the_way_to_renew_it_and_loses_no_site() {
    wait_past_midnight();
    let mut trouble = Trouble::begin();
    let license = License::new();
    let yesterday = Utc::now().date_naive() - Days::new(1);
    trouble.import(&format!(
        "key,expires,modules,hosts,customer\n{},{yesterday},forms,{HOST},{JANE}\n",
        license.key
    ));
    let mut site = trouble.site(HOST);
    site.press("acme-forms", "activate", &license.key);
    assert_eq!(condition(&site), "expired");
    trouble.sign_in(JANE);
    let list = trouble.main();
    let ended = yesterday.format("%-d %b %Y").to_string();
    assert!(list.contains("Expired") && list.contains(&ended), "{list}");
    trouble.open(&format!("/account/licenses/{}", license.id));
    let page = trouble.main();
    assert!(page.contains("This license ended") && page.contains(HOST), "{page}");
    let link = trouble.phone.evaluate("document.querySelector('a.btn.main').href");
    assert_eq!(link, "https://shop.example/renew");
    let renew = ["license", "renew", &license.id, "--expires", "2099-06-30"];
    json_of(&trouble.instance, &renew);
    assert_eq!(site.press("acme-forms", "check", "").notices(), [ACTIVE]);
    trouble.open(&format!("/account/licenses/{}", license.id));
    assert!(trouble.main().contains("30 Jun 2099"), "{}", trouble.main());
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn who_got_the_money_back_reads_why_there_are_no_updates_and_cannot_change_the_license() {
    let mut trouble = Trouble::begin();
    let license = trouble.sell(30);
    let mut site = trouble.active_site(HOST, &license);
    let refund =
        json!({ "id": "ch_1", "payment_intent": "pi_1", "amount": 1_900, "amount_refunded": 1_900, "refunded": true });
    assert_eq!(deliver(&trouble.server, "charge.refunded", 2, &refund), 200);
    trouble.told(&license, "license.suspended");
    site.press("acme-forms", "check", "");
    assert_eq!(condition(&site), "suspended");
    trouble.sign_in_and_open(BUYER, &license);
    let page = trouble.main();
    assert!(
        page.contains("its payment does not stand") && page.contains(HOST),
        "{page}"
    );
    assert_eq!(
        trouble
            .phone
            .evaluate("document.querySelectorAll('main form, main a[href*=move], main a[href*=download]').length"),
        0
    );
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn who_bought_with_two_addresses_sees_each_license_with_its_own_until_the_vendor_joins_them() {
    let mut trouble = Trouble::begin();
    let [home, work] = [trouble.issue(JANE), trouble.issue(WORK)];
    let mut site = trouble.active_site(HOST, &work);
    trouble.sign_in(JANE);
    let count = "document.querySelectorAll('main section.mine').length";
    assert_eq!(trouble.phone.evaluate(count), 1);
    trouble.open(&format!("/account/licenses/{}", work.id));
    assert!(trouble.main().contains("it is not yours"), "{}", trouble.main());
    trouble.sign_in(WORK);
    assert_eq!(trouble.phone.evaluate(count), 1);
    trouble.open(&format!("/account/licenses/{}", home.id));
    assert!(trouble.main().contains("it is not yours"), "{}", trouble.main());
    json_of(&trouble.instance, &["license", "assign", &work.id, "--customer", JANE]);
    trouble.open("/account");
    assert!(
        !trouble.phone.text("body").contains("Forms"),
        "{}",
        trouble.phone.text("body")
    );
    trouble.sign_in(JANE);
    assert_eq!(trouble.phone.evaluate(count), 2);
    trouble.open(&format!("/account/licenses/{}", work.id));
    trouble.give_seat(HOST, None);
    site.press("acme-forms", "check", "");
    // The site that asks takes the seat that is free.
    assert_eq!(condition(&site), "active");
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn who_was_erased_gets_no_mail_and_no_page_and_the_site_goes_on() {
    let mut trouble = Trouble::begin();
    let license = trouble.issue(JANE);
    let mut site = trouble.active_site(HOST, &license);
    trouble.sign_in_and_open(JANE, &license);
    let own = format!("/account/licenses/{}", license.id);
    json_of(&trouble.instance, &["customer", "forget", JANE, "--yes"]);
    for path in [own.as_str(), "/account"] {
        trouble.open(path);
        let page = trouble.phone.text("body");
        assert!(page.contains("Send me the link"), "{page}");
        assert!(!page.contains(HOST) && !page.contains(JANE), "{page}");
    }
    // The page says what it says to everybody. A mail to somebody else is the later one.
    let before = trouble.ask(JANE);
    trouble.issue(WORK);
    trouble.ask(WORK);
    trouble.next_mail(before, WORK);
    assert_eq!(site.press("acme-forms", "check", "").notices(), [ACTIVE]);
    assert_eq!(condition(&site), "active");
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn an_agency_with_500_sites_finds_one_on_a_phone_and_frees_it() {
    let mut trouble = Trouble::begin();
    let license = License::new();
    let hosts: Vec<_> = (0..499)
        .map(|number| format!("site-{number:03}.agency.example"))
        .collect();
    trouble.import(&format!(
        "key,expires,modules,sites,hosts,customer\n{},2099-06-30,forms,500,{},{WORK}\n",
        license.key,
        hosts.join(" ")
    ));
    let mut site = trouble.active_site(HOST, &license);
    let mut another = trouble.site("another.example");
    let refused = another
        .press("acme-forms", "activate", &license.key)
        .notices()
        .remove(0);
    assert!(!refused.contains(ACTIVE), "{refused}");
    trouble.sign_in(WORK);
    let asked = Instant::now();
    trouble.open(&format!("/account/licenses/{}", license.id));
    eprintln!("the page of 500 sites was drawn after {:?}", asked.elapsed());
    assert!(trouble.main().contains("500 of 500"), "{}", trouble.main());
    trouble.phone.does("click", &["a[rel=next]"]);
    trouble.phone.does("shows", &[".pager", "of 500"]);
    assert_eq!(trouble.phone.asks("faults", json!([])), json!([]));
    trouble
        .phone
        .does("fill", &["input[name=find]", "https://customer.example/wp-admin/"]);
    trouble.phone.does("press", &["Enter"]);
    trouble.phone.does("shows", &[".pager", "1 to 1 of 1"]);
    assert_eq!(trouble.phone.evaluate(TOO_WIDE), 0);
    trouble.give_seat(HOST, None);
    assert_eq!(another.press("acme-forms", "check", "").notices(), [ACTIVE]);
    let refused = site.press("acme-forms", "check", "").notices().remove(0);
    assert_ne!(refused, ACTIVE, "the seat is another site's");
    for site in [&site, &another] {
        assert_eq!(site.complaints(), [""; 0]);
    }
}
