//! Deliveries, mails and messages that wait for a person: one command line for all three.

use std::fs;
use std::path::{Path, PathBuf};

use chrono::Utc;
use countersign::webhook::event::{EventId, WebhookEvent};
use countersign::webhook::kept_event::{KeptEvent, KeptName};
use countersign::webhook::outbox::Outbox;
use countersign_files::queue::{Queue, Queued};
use countersign_files::spool::Spool;
use countersign_mail::queued_mail::{self, QueuedMail};
use countersign_model::event_kind::EventKind;
use countersign_model::license_key::LicenseId;
use serde_json::{Value, json};

use crate::support::Instance;
use crate::support::cli_json::Page;
use crate::support::server::countersign;

/// A queue, with what its files are.
struct Kept {
    room: &'static str,
    /// The members that only its items have.
    own: &'static [&'static str],
    folder: PathBuf,
}

const COMMON: [&str; 6] = ["id", "state", "event", "queued", "attempts", "reason"];

/// Each queue with one item that waits and one that is parked.
fn three_queues(instance: &Instance) -> [Kept; 3] {
    instance.write(
        "countersign.toml",
        "[shops.stripe]\n[webhooks.crm]\nurl = 'https://crm.example/'\n",
    );
    let store = instance.file("store");
    let now = Utc::now();
    let license = LicenseId::from_bytes([7; 32]);

    let spool = Spool::open(&store).unwrap();
    let delivery = |id: &str| format!("{{\"id\":\"{id}\",\"type\":\"x\",\"created\":1,\"data\":{{\"object\":{{}}}}}}");
    spool
        .put(&"stripe".parse().unwrap(), now, delivery("evt_1").as_bytes())
        .unwrap();
    assert!(spool.park(spool.waiting()[0], now, "no offer".to_owned()).unwrap());
    spool
        .put(&"stripe".parse().unwrap(), now, delivery("evt_2").as_bytes())
        .unwrap();

    let mails = Queue::open(queued_mail::folder(&store)).unwrap();
    let outbox = Outbox::open(&store, &"crm".parse().unwrap()).unwrap();
    for number in [1, 2] {
        let mail = QueuedMail::new(
            "anna@example.com".parse().unwrap(),
            vec![license],
            &format!("evt_{number}"),
        );
        let mail = Queued::new(mail.unwrap(), now);
        let id = EventId::of(format_args!("{number}"));
        let event = WebhookEvent::new(id, EventKind::Bound, license, now, json!({}));
        let message = Queued::new(KeptEvent::new(&event).unwrap(), now);
        let (mail, message) = match number {
            1 => (
                mail.refused("no offer".to_owned(), None, now),
                message.refused("no offer".to_owned(), None, now),
            ),
            _ => (mail, message),
        };
        mails.put(mail.item.id(), &mail).unwrap();
        outbox.kept.put(KeptName { number, id }, &message).unwrap();
    }
    [
        Kept {
            room: "shop",
            own: &["shop"],
            folder: store.join("deliveries"),
        },
        Kept {
            room: "mail",
            own: &["address", "licenses"],
            folder: store.join("mail"),
        },
        Kept {
            room: "webhook",
            own: &["webhook", "license"],
            folder: store.join("webhooks/crm"),
        },
    ]
}

fn parked(instance: &Instance, room: &str, arguments: &[&str]) -> Value {
    let mut command = countersign(instance);
    let output = command.args([room, "parked"]).args(arguments).arg("--json").output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The states that a list has, in the order of their names.
fn states(list: &Value) -> Vec<&str> {
    let items = list.as_array().unwrap().iter();
    let mut states: Vec<&str> = items.map(|item| item["state"].as_str().unwrap()).collect();
    states.sort_unstable();
    states
}

#[test]
fn deliveries_mails_and_messages_are_listed_retried_and_dropped_alike() {
    let instance = Instance::new();
    let page = Page::read();
    for Kept { room, own, .. } in three_queues(&instance) {
        let schema = format!("{room}-parked-list");
        let list = parked(&instance, room, &["list"]);
        page.check(&schema, &list);
        assert_eq!(states(&list), ["parked"], "{room}");
        let item = &list[0];
        for member in COMMON.iter().chain(own) {
            // A delivery is tried every few seconds, and nobody counts.
            let is_there = item.get(member).is_some();
            assert_eq!(
                is_there,
                (*member, room) != ("attempts", "shop"),
                "{room} {member}: {item}"
            );
        }
        assert_eq!(item["reason"], "no offer");
        let all = parked(&instance, room, &["list", "--all"]);
        page.check(&schema, &all);
        assert_eq!(states(&all), ["parked", "waiting"], "{room}");

        let id = item["id"].as_str().unwrap();
        let retried = parked(&instance, room, &["retry", &id[..8]]);
        page.check("parked-retry", &retried);
        assert_eq!(retried, json!({ "retried": [id] }), "{room}");
        assert_eq!(parked(&instance, room, &["list"]), json!([]));
        let dropped = parked(&instance, room, &["drop", "--all"]);
        assert_eq!(dropped, json!({ "dropped": [] }), "{room}: both wait");
        let dropped = parked(&instance, room, &["drop", id]);
        page.check("parked-drop", &dropped);
        assert_eq!(dropped, json!({ "dropped": [id] }), "{room}");
        assert_eq!(states(&parked(&instance, room, &["list", "--all"])), ["waiting"]);
        let retried = parked(&instance, room, &["retry", "--all"]);
        assert_eq!(retried["retried"].as_array().unwrap().len(), 1, "{room}");
    }
}

/// The file of an item.
fn file_of(folder: &Path, id: &str) -> Option<PathBuf> {
    let mut files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.find(|file| file.file_name().unwrap().to_str().unwrap().contains(id))
}

#[test]
fn a_damaged_file_hides_no_other_and_can_be_dropped() {
    let instance = Instance::new();
    for Kept { room, folder, .. } in three_queues(&instance) {
        let list = parked(&instance, room, &["list"]);
        let id = list[0]["id"].as_str().unwrap();
        let file = file_of(&folder, id).unwrap();
        let whole = fs::read_to_string(&file).unwrap();
        for content in ["{".to_owned(), format!("{whole}x")] {
            fs::write(&file, &content).unwrap();
            let list = parked(&instance, room, &["list", "--all"]);
            assert_eq!(list.as_array().unwrap().len(), 2, "{room}: {list}");
            let damaged = list.as_array().unwrap().iter().find(|item| item["id"] == id).unwrap();
            assert!(
                damaged["state"] == "damaged" && damaged.get("event").is_none() && damaged["reason"].is_string(),
                "{room} {content}: {damaged}"
            );
        }
        assert_eq!(parked(&instance, room, &["drop", "--all"]), json!({ "dropped": [id] }));
        assert_eq!(file_of(&folder, id), None, "{room}");
    }
}

#[test]
fn an_item_that_cannot_be_deleted_stops_no_others() {
    let instance = Instance::new();
    let [_, Kept { folder, .. }, _] = three_queues(&instance);
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let longest = names.map(|name| name.len()).max().unwrap() - ".json".len();
    // Listed first.
    fs::create_dir(folder.join(format!("{}.json", "0".repeat(longest)))).unwrap();
    let parked = parked(&instance, "mail", &["list"]);
    assert_eq!(states(&parked), ["damaged", "parked"]);
    let id = &parked[1]["id"];
    let output = countersign(&instance)
        .args(["mail", "parked", "drop", "--all", "--json"])
        .output()
        .unwrap();
    let dropped: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(dropped, json!({ "dropped": [id] }));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(4) && said.contains("Is a directory"),
        "{said}"
    );
}
