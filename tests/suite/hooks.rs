//! Deliveries of shops: what their shop signed is on disk before the answer, and nothing else is taken.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use crate::deliveries::delivery_files;
use crate::support::server::countersign;
use crate::support::{Instance, Response, Server, eventually, request};

const SECRET: &str = "whsec_CANARY_of_the_hook";
const TEST_SHOPS: &str = "[shops.lemonsqueezy]\n[shops.own-store]\nkind = \"woocommerce\"\n";

/// The hex HMAC that Lemon Squeezy sends.
fn sign(secret: &str, body: &[u8]) -> String {
    let mac = <Hmac<Sha256> as hmac::Mac>::new_from_slice(secret.as_bytes()).unwrap();
    const_hex::encode(mac.chain_update(body).finalize().into_bytes())
}

fn with_shops() -> Instance {
    let instance = Instance::new();
    instance.write("countersign.toml", TEST_SHOPS);
    instance.write_secret("keys/shops/lemonsqueezy.secret", &format!("{SECRET}\nwhsec_old\n"));
    instance.write_secret("keys/shops/own-store.secret", SECRET);
    instance
}

fn deliver(server: &Server, shop: &str, signature: Option<&str>, body: &[u8]) -> Response {
    let mut headers = vec![("Content-Type", "application/json")];
    headers.extend(signature.map(|signature| ("X-Signature", signature)));
    request(server.address, "POST", &format!("/hooks/{shop}"), &headers, body)
}

#[test]
fn a_signed_delivery_is_kept_once_and_survives_a_kill() {
    let instance = with_shops();
    let server = Server::start(&instance);
    let bodies = [&b"{\"meta\":{},\"buyer\":\"jane@example.com\"}"[..], b"{\"meta\":{}}\n"];
    for body in bodies {
        for secret in [SECRET, "whsec_old"] {
            let answer = deliver(&server, "lemonsqueezy", Some(&sign(secret, body)), body);
            assert_eq!((answer.status, answer.text().as_str()), (200, "{}"), "{}", server.log());
        }
    }
    server.kill();
    let files = delivery_files(&instance);
    for file in &files {
        assert_eq!(
            fs::metadata(file).unwrap().permissions().mode() & 0o777,
            0o600,
            "{}",
            file.display()
        );
        let content = fs::read(file).unwrap();
        let head = content.iter().position(|byte| *byte == b'\n').unwrap();
        assert!(bodies.iter().any(|body| content[head + 1..] == **body), "byte for byte");
    }
    assert_eq!(files.len(), 2);
}

#[test]
fn what_no_shop_signed_is_refused_and_nothing_is_kept() {
    let instance = with_shops();
    let server = Server::start(&instance);
    let body = b"{\"meta\":{}}";
    let right = sign(SECRET, body);
    let forged = sign("whsec_other", body);
    for (shop, signature, sent, status, code) in [
        ("lemonsqueezy", None, &body[..], 401, "unauthorized"),
        ("lemonsqueezy", Some(forged.as_str()), body, 401, "unauthorized"),
        ("lemonsqueezy", Some("sha256=none"), body, 401, "unauthorized"),
        ("lemonsqueezy", Some(&right[..62]), body, 401, "unauthorized"),
        (
            "lemonsqueezy",
            Some(right.as_str()),
            b"{\"meta\":{} }",
            401,
            "unauthorized",
        ),
        // Its secret is the same one, its header is another.
        ("own-store", Some(right.as_str()), body, 401, "unauthorized"),
        ("stripe", Some(right.as_str()), body, 404, "not_found"),
        ("lemonsqueezy/x", Some(right.as_str()), body, 404, "not_found"),
    ] {
        let answer = deliver(&server, shop, signature, sent);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, code),
            "{shop} {signature:?}"
        );
        assert!(!answer.text().contains("whsec"));
    }
    let large = vec![b' '; (1 << 20) + 1];
    assert_eq!(
        deliver(&server, "lemonsqueezy", Some(&sign(SECRET, &large)), &large).status,
        413
    );
    let ping = request(server.address, "POST", "/hooks/own-store", &[], b"webhook_id=12");
    assert_eq!(ping.status, 200);
    assert_eq!(
        request(server.address, "GET", "/hooks/lemonsqueezy", &[], b"").status,
        405
    );
    assert!(delivery_files(&instance).is_empty());
    eventually("the failure is logged once a minute", || {
        server.log().matches("a delivery was not taken").count() == 2
    });
    assert!(!server.log().contains("CANARY"));
    let refused = server.metric("countersign_requests_total{operation=\"hooks\",code=\"unauthorized\"}");
    assert_eq!(refused, Some(6.0));
}

#[test]
fn a_whole_day_of_sales_from_one_address_is_taken() {
    let instance = with_shops();
    let server = Server::start_with(&instance, &["--requests-per-minute", "20"]);
    for number in 0..60 {
        let body = format!("{{\"meta\":{number}}}");
        let signature = sign(SECRET, body.as_bytes());
        assert_eq!(
            deliver(&server, "lemonsqueezy", Some(&signature), body.as_bytes()).status,
            200
        );
    }
    assert_eq!(delivery_files(&instance).len(), 60);
}

#[test]
fn a_delivery_that_cannot_be_kept_is_sent_again_and_a_new_secret_counts_at_once() {
    let instance = with_shops();
    let server = Server::start(&instance);
    let body = b"{\"meta\":{}}";
    instance.write_secret("keys/shops/lemonsqueezy.secret", "whsec_new");
    assert_eq!(
        deliver(&server, "lemonsqueezy", Some(&sign(SECRET, body)), body).status,
        401
    );
    assert_eq!(
        deliver(&server, "lemonsqueezy", Some(&sign("whsec_new", body)), body).status,
        200
    );

    eventually("it is parked", || server.log().contains("a delivery is parked"));
    fs::remove_dir_all(instance.file("store/deliveries")).unwrap();
    fs::write(instance.file("store/deliveries"), "").unwrap();
    let answer = deliver(&server, "lemonsqueezy", Some(&sign("whsec_new", body)), body);
    assert_eq!((answer.status, answer.code().as_str()), (503, "store_unavailable"));
    assert_eq!(answer.header("retry-after"), Some("60"));

    fs::remove_file(instance.file("keys/shops/lemonsqueezy.secret")).unwrap();
    assert_eq!(
        deliver(&server, "lemonsqueezy", Some(&sign("whsec_new", body)), body).status,
        503
    );
}

#[test]
fn a_server_does_not_start_with_a_shop_that_it_cannot_check() {
    let instance = with_shops();
    let secret = instance.file("keys/shops/lemonsqueezy.secret");
    let fails = |with: &str| {
        let output = countersign(&instance).arg("serve").output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(with), "{error}");
        assert!(error.contains("hint: "), "{error}");
        assert!(!instance.file("store").exists(), "it opened nothing");
    };
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    fails("others can read the secret of this shop (mode 0644)");
    instance.write_secret("keys/shops/lemonsqueezy.secret", "x y");
    fails("not the secret of this shop");
    fs::remove_file(&secret).unwrap();
    fails("there is no secret of this shop");
}

/// As Kubernetes mounts secrets with `fsGroup`: they belong to root, and to a group that the process has beside its own.
#[test]
fn a_secret_may_be_read_by_a_supplementary_group_of_the_process_and_by_no_other_group() {
    const USER: u32 = 65_534;
    const GROUP: u32 = 65_533;
    let instance = with_shops();
    let secret = instance.file("keys/shops/lemonsqueezy.secret");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o440)).unwrap();
    let owned = Command::new("chown")
        .args(["--recursive", &format!("{USER}:{USER}")])
        .arg(instance.path())
        .status();
    assert!(
        owned.unwrap().success(),
        "only root gives files to another user: run the tests as root"
    );
    std::os::unix::fs::chown(&secret, Some(0), Some(GROUP)).unwrap();
    let check = |groups: &str| {
        let program = countersign(&instance);
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), groups]);
        command
            .arg(program.get_program())
            .arg("-C")
            .arg(instance.path())
            .arg("doctor");
        let output = command.output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let refused = "the secret of this shop";
    let said = check("--clear-groups");
    assert!(said.contains(refused), "{said}");
    let said = check(&format!("--groups={GROUP}"));
    assert!(!said.contains(refused), "{said}");
}
