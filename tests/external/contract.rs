//! The server conforms to its published interface: a contract tester runs against it and finds no difference.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::http::request;
use crate::support::server::countersign_in;
use crate::support::{Server, get, post_json};

const SITE: &str = "https://shop.example";

/// So that a run that fails can be repeated.
const SEED: &str = "20261122";

fn said(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// Writes settings behind the head of this table, which is added if it is missing.
fn add_settings(instance: &Path, table: &str, settings: &str) {
    let file = instance.join("countersign.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    let after = match before.split_once(&format!("[{table}]\n")) {
        Some((above, below)) => format!("{above}[{table}]\n{settings}{below}"),
        None => format!("{before}\n[{table}]\n{settings}"),
    };
    std::fs::write(&file, after).unwrap();
}

/// Lets the tester try what is there as often as anything else that the schema allows.
fn often(schema: &mut Value, value: &str) {
    *schema = json!({ "anyOf": [{ "enum": [value] }, schema.clone()] });
}

#[test]
fn a_contract_tester_that_drives_the_server_from_its_published_interface_finds_nothing() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tester = project.join("tests/tools/.venv/bin/schemathesis");
    assert!(tester.exists(), "the tool is installed: make tools");
    let folder = tempfile::TempDir::new().unwrap();
    let demo = folder.path().join("demo");
    let keys = said(countersign_in(&demo).args(["init", "--demo"]).arg(&demo));
    let key = keys
        .split_whitespace()
        .find(|word| word.len() == 29 && word.matches('-').count() == 4)
        .unwrap();
    said(countersign_in(&demo).arg("build"));
    add_settings(&demo, "shops.stripe", "");
    let secret = demo.join("keys/shops/stripe.secret");
    std::fs::create_dir_all(secret.parent().unwrap()).unwrap();
    std::fs::write(&secret, "whsec_of_the_contract").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let server = Server::start_in(&demo, &[]);
    let question = json!({ "license_key": key, "site_url": SITE });
    assert_eq!(
        post_json(server.address, "/api/v1/validate-license", &question).code(),
        "ok"
    );
    let key_id = get(server.address, "/.well-known/jwks.json").json()["keys"][0]["kid"]
        .as_str()
        .unwrap()
        .to_owned();

    let published = std::fs::read_to_string(project.join("public/openapi.json")).unwrap();
    let mut interface: Value = serde_json::from_str(&published).unwrap();
    let fields = &mut interface["components"]["schemas"]["Question"]["properties"];
    often(&mut fields["license_key"], key);
    often(&mut fields["site_url"], SITE);
    for (path, method) in [
        ("/api/v1/updates/{plugin}", "get"),
        ("/api/v1/releases/{plugin}", "get"),
        ("/api/v1/releases/{plugin}/{version}", "get"),
        ("/api/v1/security-updates/{plugin}", "get"),
        ("/api/v1/packages/{plugin}", "get"),
        ("/api/v1/packages/{plugin}/{version}", "get"),
        ("/keys/{key_id}.pem", "get"),
        ("/hooks/{shop}", "post"),
    ] {
        for parameter in interface["paths"][path][method]["parameters"].as_array_mut().unwrap() {
            let value = match parameter["name"].as_str().unwrap() {
                "license_key" => key,
                "site_url" => SITE,
                "plugin" => "acme-forms",
                "key_id" => &key_id,
                "shop" => "stripe",
                _ => continue,
            };
            often(&mut parameter["schema"], value);
        }
    }
    let file = folder.path().join("openapi.json");
    std::fs::write(&file, interface.to_string()).unwrap();
    let mut bounded = Command::new("timeout");
    bounded
        .arg("400")
        .arg(tester)
        .arg("--config-file")
        .arg(project.join("tests/tools/schemathesis.toml"));
    bounded
        .arg("run")
        .arg(&file)
        .arg("--url")
        .arg(format!("http://{}", server.address));
    bounded.args([
        "--seed",
        SEED,
        "--generation-database",
        "none",
        "--max-examples",
        "60",
        "--request-timeout",
        "10",
    ]);
    bounded.args(["--phases", "examples,coverage,fuzzing", "--checks", "all", "--no-color"]);
    // That is another test's.
    bounded.args(["--exclude-path-regex", "^/api/v1/(licenses|reports|rollouts)"]);
    // It writes what it finds into the folder it is run in.
    let found = bounded.current_dir(folder.path()).output().unwrap();
    let report = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(
        found.status.success(),
        "{report}{}",
        String::from_utf8_lossy(&found.stderr)
    );
    // It looked at everything, and got behind the first check.
    assert!(report.contains("Tested: 12"), "{report}");
    let reached = |operation, code| {
        let series = format!("countersign_requests_total{{operation=\"{operation}\",code=\"{code}\"}}");
        server.metric(&series).unwrap_or_default() > 0.0
    };
    for (operation, code) in [
        ("validate", "ok"),
        ("validate", "malformed_site_url"),
        ("validate", "malformed_request"),
        ("updates", "update"),
        ("releases", "missing_field"),
        ("security_updates", "missing_field"),
        ("updates", "malformed_license_key"),
        ("updates", "missing_field"),
        ("downloads", "not_found"),
        ("hooks", "unauthorized"),
        ("hooks", "not_found"),
        ("public", "ok"),
        ("public", "not_found"),
    ] {
        assert!(reached(operation, code), "{operation} {code}: {report}");
    }
}

#[test]
fn every_operation_lists_every_status_it_can_end_with_and_no_empty_site() {
    let published = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("public/openapi.json")).unwrap();
    let interface: Value = serde_json::from_str(&published).unwrap();
    let statuses = |path: &str, method: &str| {
        let responses = interface["paths"][path][method]["responses"].as_object().unwrap();
        responses
            .keys()
            .map(|status| status.parse().unwrap())
            .collect::<BTreeSet<u16>>()
    };
    // What a head alone can lead to, a wrong method, and our own fault.
    let any = [400, 405, 414, 429, 431, 500, 501];
    let public = [&any[..], &[200, 206, 304, 404, 412, 416]].concat();
    let body = [408, 413, 415];
    // Of a token, and of a ledger that cannot be asked.
    let asked = [&any[..], &[401, 403, 404, 408, 503]].concat();
    let changed = [&asked[..], &body, &[409, 412]].concat();
    let with = |base: &[u16], more: &[u16]| [base, more].concat();
    let rollout = with(&asked, &[&body[..], &[200, 409, 422]].concat());
    let site = with(&any, &[200, 403, 404, 422, 503]);
    let licenses = |rest: &str| format!("/api/v1/licenses{rest}");
    let mut all = Vec::new();
    for (rest, method, listed) in [
        ("", "get", with(&asked, &[200, 422])),
        ("", "post", with(&asked, &[&body[..], &[200, 201, 409, 422]].concat())),
        ("/{id}", "get", with(&asked, &[200])),
        ("/{id}", "patch", with(&changed, &[200])),
        ("/{id}/renew", "post", with(&changed, &[200, 422])),
        ("/{id}/suspend", "post", with(&changed, &[200, 422])),
        ("/{id}/resume", "post", with(&changed, &[200, 422])),
        ("/{id}/revoke", "post", with(&changed, &[200, 422])),
        ("/{id}/release", "post", with(&changed, &[200, 422])),
        ("/{id}/rekey", "post", with(&changed, &[200, 201, 422])),
        ("/{id}/resend", "post", with(&changed, &[202, 422])),
        ("/{id}/vouch", "post", with(&asked, &[&body[..], &[200, 422]].concat())),
        (
            "/{id}/unvouch",
            "post",
            with(&asked, &[&body[..], &[200, 422]].concat()),
        ),
    ] {
        all.push((licenses(rest), method, listed));
    }
    for (path, method, listed) in [
        ("/api/v1/reports/usage/{plugin}", "get", with(&asked, &[200])),
        ("/api/v1/reports/history", "get", with(&asked, &[200])),
        ("/api/v1/reports/review", "get", with(&asked, &[200])),
        ("/api/v1/rollouts/{plugin}", "get", with(&asked, &[200])),
        ("/api/v1/rollouts/{plugin}/pause", "post", rollout.clone()),
        ("/api/v1/rollouts/{plugin}/resume", "post", rollout.clone()),
        ("/api/v1/rollouts/{plugin}/finish", "post", rollout),
        ("/api/v1/releases/{plugin}", "get", site.clone()),
        ("/api/v1/releases/{plugin}/{version}", "get", site.clone()),
        ("/api/v1/security-updates/{plugin}", "get", site.clone()),
        ("/api/v1/updates/{plugin}", "get", site),
        (
            "/hooks/{shop}",
            "post",
            [&any[..], &body, &[200, 401, 404, 503]].concat(),
        ),
        (
            "/api/v1/release-site",
            "post",
            [&any[..], &body, &[200, 403, 422, 503]].concat(),
        ),
        (
            "/api/v1/validate-license",
            "post",
            [&any[..], &[200, 408, 413, 415, 422, 503]].concat(),
        ),
        (
            "/api/v1/downloads/{plugin}/{version}/{token}/{file}",
            "get",
            [&public[..], &[403, 410, 503]].concat(),
        ),
        (
            "/api/v1/packages/{plugin}",
            "get",
            [&public[..], &[403, 422, 503]].concat(),
        ),
        (
            "/api/v1/packages/{plugin}/{version}",
            "get",
            [&public[..], &[403, 422, 503]].concat(),
        ),
        ("/.well-known/jwks.json", "get", public.clone()),
        ("/keys/{key_id}.pem", "get", public),
    ] {
        all.push((path.to_owned(), method, listed));
    }
    for (path, method, listed) in &all {
        assert_eq!(
            statuses(path, method),
            listed.iter().copied().collect(),
            "{method} {path}"
        );
    }
    let items = interface["paths"].as_object().unwrap().values();
    let methods = items.flat_map(|item| ["get", "post", "patch"].map(|method| item.get(method)));
    assert_eq!(methods.flatten().count(), all.len(), "an operation without a row");
    assert_shapes(&interface, "");
    let question = &interface["components"]["schemas"]["Question"]["properties"];
    let parameters = interface["paths"]["/api/v1/updates/{plugin}"]["get"]["parameters"]
        .as_array()
        .unwrap();
    let parameter = |name: &str| parameters.iter().find(|parameter| parameter["name"] == name).unwrap();
    for schema in [&question["site_url"], &parameter("site_url")["schema"]] {
        assert_eq!(schema["minLength"], 1);
    }
    assert!(
        parameter("license_key")["description"]
            .as_str()
            .unwrap()
            .contains("Authorization: License")
    );
}

/// Errors are shared responses, and every array says what it has, wherever it is in the description.
fn assert_shapes(part: &Value, place: &str) {
    if part["type"] == "array" {
        assert!(part["items"].is_object(), "{place}: an array without items");
    }
    if let Some(responses) = part["responses"].as_object().filter(|_| place != "/components") {
        for (status, response) in responses.iter().filter(|(status, _)| status.starts_with(['4', '5'])) {
            assert!(response["$ref"].is_string(), "{place}: {status} is no shared response");
        }
    }
    match part {
        Value::Object(members) => {
            for (name, member) in members {
                assert_shapes(member, &format!("{place}/{name}"));
            }
        }
        Value::Array(items) => items.iter().for_each(|item| assert_shapes(item, place)),
        _ => {}
    }
}

#[test]
fn the_management_interface_is_as_it_is_published() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tester = project.join("tests/tools/.venv/bin/schemathesis");
    assert!(tester.exists(), "the tool is installed: make tools");
    let folder = tempfile::TempDir::new().unwrap();
    let demo = folder.path().join("demo");
    said(countersign_in(&demo).args(["init", "--demo"]).arg(&demo));
    said(countersign_in(&demo).arg("build"));
    // Nobody answers there, so mails wait.
    let mail = "server = \"127.0.0.1\"\nport = 1\ntls = \"none\"\nfrom = \"licenses@acme.example\"\n";
    add_settings(&demo, "mail", mail);
    let server = Server::start_in(
        &demo,
        &["--failures-per-minute", "100000", "--requests-per-minute", "1000000"],
    );
    let create = [
        "token",
        "create",
        "tester",
        "--scope",
        "licenses:write",
        "--scope",
        "reports:read",
        "--scope",
        "keys:read",
    ];
    let token = said(countersign_in(&demo).args(create));
    let bearer = format!("Bearer {}", token.trim());
    let body = json!({ "modules": { "forms": [] }, "expires": "never", "sites": "unlimited", "reference": "order 1" });
    let headers = [("Authorization", bearer.as_str()), ("Idempotency-Key", "1")];
    let issued = request(
        server.address,
        "POST",
        "/api/v1/licenses",
        &headers,
        body.to_string().as_bytes(),
    );
    let id = issued.json()["id"].as_str().unwrap().to_owned();

    let published = std::fs::read_to_string(project.join("public/openapi.json")).unwrap();
    let mut interface: Value = serde_json::from_str(&published).unwrap();
    for (path, item) in interface["paths"].as_object_mut().unwrap() {
        if path == "/api/v1/reports/usage/{plugin}" {
            often(&mut item["get"]["parameters"][0]["schema"], "acme-forms");
        }
        if path == "/api/v1/reports/history" {
            often(&mut item["get"]["parameters"][0]["schema"], "acme-forms");
        }
        if path.starts_with("/api/v1/licenses/") {
            often(&mut item["parameters"][0]["schema"], &id);
        }
    }
    let file = folder.path().join("openapi.json");
    std::fs::write(&file, interface.to_string()).unwrap();
    let mut bounded = Command::new("timeout");
    bounded
        .arg("400")
        .arg(tester)
        .arg("--config-file")
        .arg(project.join("tests/tools/schemathesis.toml"))
        .arg("run")
        .arg(&file)
        .args([
            "--url",
            &format!("http://{}", server.address),
            "--header",
            &format!("Authorization: {bearer}"),
        ])
        .args([
            "--include-path-regex",
            "^/api/v1/(licenses|reports)",
            "--seed",
            SEED,
            "--generation-database",
            "none",
        ])
        .args(["--max-examples", "25", "--request-timeout", "10", "--no-color"])
        .args(["--phases", "examples,coverage,fuzzing", "--checks", "all"]);
    // It writes what it finds into the folder it is run in.
    let found = bounded.current_dir(folder.path()).output().unwrap();
    let report = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(
        found.status.success(),
        "{report}{}",
        String::from_utf8_lossy(&found.stderr)
    );
    assert!(report.contains("Tested: 16"), "{report}");
    let reached = |code: &str| {
        let series = format!("countersign_requests_total{{operation=\"licenses\",code=\"{code}\"}}");
        server.metric(&series).unwrap_or_default() > 0.0
    };
    for code in [
        "ok",
        "malformed_request",
        "missing_field",
        "not_found",
        "unauthorized",
        "precondition_failed",
        "conflict",
    ] {
        assert!(reached(code), "{code}: {report}");
    }
    // It had the key mailed, which only one answer tells.
    let waiting = server.metric("countersign_mails{state=\"waiting\"}");
    assert!(waiting.unwrap_or_default() > 0.0, "no mail: {report}");
}

/// A linter finds no error in the description, and two generators make clients that work.
#[test]
fn clients_that_are_generated_from_the_interface_drive_the_server() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tools = project.join("tests/tools");
    let modules = tools.join("node_modules");
    assert!(
        modules.join(".bin/redocly").exists(),
        "the tools are installed: make tools"
    );
    let interface = project.join("public/openapi.json");
    let mut lint = Command::new(modules.join(".bin/redocly"));
    lint.arg("lint").arg(&interface).args(["--format", "stylish"]);
    lint.envs([("REDOCLY_TELEMETRY", "off"), ("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true")]);
    said(&mut lint);

    let folder = tempfile::TempDir::new().unwrap();
    let demo = folder.path().join("demo");
    let keys = said(countersign_in(&demo).args(["init", "--demo"]).arg(&demo));
    let is_key = |word: &&str| word.len() == 29 && word.matches('-').count() == 4;
    let key = keys.split_whitespace().find(is_key).unwrap();
    said(countersign_in(&demo).arg("build"));
    let server = Server::start_in(&demo, &[]);
    let create = ["token", "create", "tester", "--scope", "licenses:write"];
    let token = said(countersign_in(&demo).args(create));
    let url = format!("http://{}", server.address);
    let arguments = [url.as_str(), token.trim(), key];

    // Python.
    let settings = folder.path().join("generator.yml");
    std::fs::write(&settings, "post_hooks: []\n").unwrap();
    let mut generate = Command::new(tools.join(".venv/bin/openapi-python-client"));
    generate.args(["generate", "--meta", "none"]);
    generate.arg("--path").arg(&interface).arg("--config").arg(&settings);
    said(generate.arg("--output-path").arg(folder.path().join("countersign_api")));
    let mut drive = Command::new(tools.join(".venv/bin/python"));
    drive.arg(tools.join("generated_client.py")).arg(folder.path());
    assert_eq!(said(drive.args(arguments)), "done\n");

    // TypeScript: the types must fit, too.
    let made = folder.path().join("typescript");
    std::fs::create_dir(&made).unwrap();
    std::os::unix::fs::symlink(&modules, made.join("node_modules")).unwrap();
    let source = made.join("generated_client.mts");
    std::fs::copy(tools.join("generated_client.mts"), &source).unwrap();
    let mut generate = Command::new(modules.join(".bin/openapi-typescript"));
    // A field with a default may be left out of a request.
    generate.arg("--default-non-nullable=false");
    said(generate.arg(&interface).arg("--output").arg(made.join("schema.d.ts")));
    let mut compile = Command::new(modules.join(".bin/tsc"));
    compile.args([
        "--strict",
        "--skipLibCheck",
        "--target",
        "es2022",
        "--module",
        "nodenext",
    ]);
    let compiled = compile.arg(&source).current_dir(&made).output().unwrap();
    let report = String::from_utf8_lossy(&compiled.stdout).into_owned();
    assert!(compiled.status.success(), "{report}");
    let mut drive = Command::new("node");
    drive.arg(made.join("generated_client.mjs")).args(arguments);
    assert_eq!(said(&mut drive), "done\n");
}
