//! docs/coming-from-edd.md as a recipe: the settings and commands of that page move a shop over.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::imports::{EDD_HEADER, LATER, edd_row, license};
use crate::support::{Instance, Server, get};

/// The blocks of the page in this language, in order.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let begin = format!("```{language}\n");
    let parts = page.split(&begin).skip(1);
    parts.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// The answer to a client of EDD.
fn ask(server: &Server, action: &str, number: usize, site: &str) -> Value {
    let key = license(number).key;
    let target = format!("/?edd_action={action}&item_id=12&license={key}&url=https%3A%2F%2F{site}");
    let answer = get(server.address, &target);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[test]
fn the_page_moves_a_shop_over_without_new_keys() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/coming-from-edd.md")).unwrap();
    let instance = Instance::new();
    let settings = blocks(&page, "toml");
    let [keys, entry, clients] = &settings[..] else {
        panic!("three blocks of settings: {settings:?}")
    };
    instance.write("countersign.toml", &format!("{keys}{clients}"));
    let file = instance.file("registry/plugins/acme-forms.toml");
    let before = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{entry}{before}")).unwrap();
    let server = Server::start(&instance);

    let export = [
        EDD_HEADER.to_owned(),
        edd_row(1, "active", "Acme Forms", LATER, "1", "one.example/"),
        edd_row(2, "inactive", "Acme Bundle", "0", "0", ""),
        edd_row(3, "active", "Nobody's Plugin", LATER, "1", ""),
    ];
    instance.write("edd-export-licenses.csv", &export.concat());
    let commands = blocks(&page, "sh");
    let [import] = &commands[..] else {
        panic!("one block of commands: {commands:?}")
    };
    let program = Path::new(env!("CARGO_BIN_EXE_countersign"));
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let ran = Command::new("sh")
        .args(["-c", import])
        .current_dir(instance.path())
        .env("PATH", path)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    // One row names a product that no entry has, and is reported as the page says.
    assert_eq!(ran.status.code(), Some(3), "{printed}");
    let rejects = fs::read_to_string(instance.file("rejects.csv")).unwrap();
    assert!(
        rejects.contains("Nobody's Plugin") && !rejects.contains("Acme Bundle"),
        "{rejects}"
    );

    // The old keys work for clients of both kinds, and the bound site came along.
    assert_eq!(server.validate(&license(1), "https://one.example").code(), "ok");
    assert_eq!(
        server.validate(&license(1), "https://two.example").code(),
        "bound_elsewhere"
    );
    assert_eq!(ask(&server, "check_license", 1, "one.example")["license"], "valid");
    assert_eq!(
        ask(&server, "activate_license", 1, "two.example")["error"],
        "no_activations_left"
    );
    assert_eq!(ask(&server, "check_license", 2, "two.example")["license"], "inactive");
    assert_eq!(ask(&server, "activate_license", 2, "two.example")["license"], "valid");
    assert_eq!(ask(&server, "get_version", 2, "two.example")["new_version"], "1.2.0");
}
