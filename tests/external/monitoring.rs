//! The rules for Prometheus and the dashboard for Grafana in packaging/, loaded by a Prometheus that reads a real server.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Instance, License, Server, eventually};
use crate::tools::daemon::{Daemon, free_port, give, run, tool, unprivileged};

const RULES: &str = "packaging/prometheus/countersign.rules.yml";
const DASHBOARD: &str = include_str!("../../packaging/grafana/countersign.json");
const EXPECTED: &str = include_str!("monitoring.test.yml");
fn promtool() -> Command {
    let mut command = Command::new(tool(".databases/usr/bin/promtool"));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

/// `promtool` runs the rules on series that are written down: in one row an alert is silent, and in one it fires.
#[test]
fn the_rules_are_sound_and_each_alert_is_silent_and_fires() {
    let rules = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(RULES)).unwrap();
    let alerts: Vec<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    assert!(alerts.len() > 15, "{alerts:?}");
    for alert in alerts {
        let silent = format!("alertname: {alert}, exp_alerts: []");
        let firing = format!("alertname: {alert}\n        exp_alerts:\n          - exp_labels");
        assert!(EXPECTED.contains(&silent), "no row in which {alert} is silent");
        assert!(EXPECTED.contains(&firing), "no row in which {alert} fires");
    }
    run(promtool().args(["check", "rules", RULES]));
    run(promtool().args(["test", "rules", "tests/external/monitoring.test.yml"]));
}

/// The expressions of the dashboard's panels, with its variables filled in.
fn panels() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    targets
        .map(|target| target["expr"].as_str().unwrap().replace("$instance", ".*"))
        .collect()
}

/// The names of the server's series in a text.
fn series_in(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("countersign_"))
}

#[test]
fn prometheus_loads_the_rules_and_every_panel_of_the_dashboard_has_data() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    instance.write(
        "countersign.toml",
        "[mail]\nserver = \"localhost\"\nport = 1\nfrom = \"a@example.com\"\ntls = \"none\"\n\
         [webhooks.crm]\nurl = \"http://127.0.0.1:1/\"\nsecret_file = \"crm.secret\"\n[shops.stripe]\nsecret_file = \"stripe.secret\"\n",
    );
    instance.write_secret("crm.secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    instance.write_secret("stripe.secret", "whsec_9f9b0c2d4e6f80a1b3c5d7e9\n");
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");

    let folder = tempfile::tempdir().unwrap();
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join(RULES);
    fs::copy(rules, folder.path().join("countersign.rules.yml")).unwrap();
    let settings = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [countersign.rules.yml]\n\
         scrape_configs:\n  - job_name: countersign\n    static_configs: [{{ targets: [\"{}\"] }}]\n",
        server.admin
    );
    fs::write(folder.path().join("prometheus.yml"), settings).unwrap();
    give(folder.path());
    let port = free_port();
    let mut command = unprivileged(tool(".databases/usr/bin/prometheus"));
    command
        .arg(format!(
            "--config.file={}",
            folder.path().join("prometheus.yml").display()
        ))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let _prometheus = Daemon::start("prometheus", command, &folder.path().join("prometheus.log"));
    let ask = |path: &str, query: &[&str]| -> Value {
        let mut command = Command::new("curl");
        command.args(["--silent", "--get", &format!("http://127.0.0.1:{port}/api/v1/{path}")]);
        let output = command.args(query).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    };
    let query = |expression: &str| ask("query", &["--data-urlencode", &format!("query={expression}")]);
    let has_data = |expression: &str| {
        let answer = query(expression);
        assert_ne!(answer["status"], "error", "{expression}: {answer}");
        answer["data"]["result"]
            .as_array()
            .is_some_and(|series| !series.is_empty())
    };
    eventually("Prometheus has read the server", || {
        has_data("rate(countersign_requests_total[5m])")
    });
    for expression in panels() {
        // The server speaks no TLS here.
        if expression.contains("tls_certificate") {
            assert_eq!(query(&expression)["status"], "success", "{expression}");
            continue;
        }
        eventually(&expression, || has_data(&expression));
    }
    // A rule or a panel about a series that the server does not have is silent for ever.
    let rules = fs::read_to_string(folder.path().join("countersign.rules.yml")).unwrap();
    let names = [&*rules, DASHBOARD].into_iter().flat_map(series_in);
    let names: BTreeSet<_> = names.filter(|name| !name.contains("tls_certificate")).collect();
    assert!(names.len() > 18, "{names:?}");
    for name in names {
        eventually(name, || has_data(name));
    }
    eventually("every rule was evaluated", || {
        let answer = ask("rules", &[]);
        let groups = answer["data"]["groups"].as_array().unwrap().clone();
        let rules: Vec<Value> = groups
            .iter()
            .flat_map(|group| group["rules"].as_array().unwrap().clone())
            .collect();
        assert!(groups.len() == 2 && rules.len() > 15, "{answer}");
        assert!(rules.iter().all(|rule| rule["health"] != "err"), "{answer}");
        rules.iter().all(|rule| rule["health"] == "ok")
    });
}
