//! Reminders of two nodes: each is mailed once, and who says no at one of them is reminded by none.

use std::fs;
use std::time::Duration;

use super::database::{lines, prepared_cluster};
use super::node;
use crate::mail::reminders::{Shop, Wanted, in_days};
use crate::support::eventually_within;
use crate::support::http::Client;
use crate::support::instance::Instance;
use crate::support::server::countersign;
use crate::tools::midnight::wait_past_midnight;
use crate::tools::smtp::{MailServer, header};

const PATIENCE: Duration = Duration::from_secs(120);
const CUSTOMERS: usize = 40;

#[test]
fn two_nodes_mail_each_reminder_once_and_know_who_said_no() {
    wait_past_midnight();
    let cluster = prepared_cluster();
    let url = cluster.url("node");
    let mail = MailServer::start("none");
    let shop = Shop::new(mail.port);
    shop.with(|shop, store| {
        for number in 0..CUSTOMERS {
            let address = format!("buyer{number}@buyer.example");
            let wanted = Wanted {
                customer: Some(&address),
                ..Wanted::default()
            };
            shop.issue(store, in_days(7), &wanted);
            shop.issue(store, in_days(7), &wanted);
        }
    });
    shop.command(&["bindings", "copy", "--to", &url]);
    let other = Instance::new();
    for file in [
        "countersign.toml",
        "keys/signing.pem",
        "keys/issuing.key",
        "keys/references.key",
        "keys/downloads.key",
    ] {
        let _ = fs::remove_file(other.file(file));
        fs::create_dir_all(other.file(file).parent().unwrap()).unwrap();
        fs::copy(shop.instance.file(file), other.file(file)).unwrap();
    }
    let first = node::start(&shop.instance, &url);
    let second = node::start(&other, &url);
    eventually_within("each has a mail", PATIENCE, || mail.mails().len() >= CUSTOMERS);
    std::thread::sleep(Duration::from_secs(5));
    let mut recipients: Vec<_> = mail.mails().iter().map(|mail| header(mail, "To").to_owned()).collect();
    assert_eq!(recipients.len(), CUSTOMERS);
    recipients.sort();
    recipients.dedup();
    assert_eq!(recipients.len(), CUSTOMERS);
    let claims = lines(|statement| cluster.psql(statement));
    let claims = claims.lines().filter(|line| line.contains("\"kind\":\"before 7\""));
    assert_eq!(claims.count(), CUSTOMERS);

    // Said at one node, and heard by both.
    let link = header(&mail.mails()[0], "List-Unsubscribe")
        .trim_matches(['<', '>'])
        .to_owned();
    let path = link.strip_prefix("https://licenses.acme.example").unwrap();
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let said = Client::connect(second.address).request("POST", path, &form, b"List-Unsubscribe=One-Click");
    assert_eq!(said.status, 200);
    let output = countersign(&shop.instance)
        .args([
            "customer",
            "show",
            header(&mail.mails()[0], "To"),
            "--store",
            &url,
            "--json",
        ])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("\"reminders\": false"), "{output:?}");
    assert!(first.stop().success() && second.stop().success());
}
