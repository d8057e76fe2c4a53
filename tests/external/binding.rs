//! A binding is on disk before the response is sent. strace shows both.

use crate::support::{Instance, License, Server};
use crate::tools::strace::whole_trace;

#[test]
fn every_first_binding_is_on_disk_before_its_answer() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("sites = \"unlimited\"")]);
    let trace = instance.file("trace");
    let server = Server::start_traced(&instance, "fdatasync,sendto,writev,write", &trace);
    let sites: Vec<String> = (0..5).map(|number| format!("site-{number}.com")).collect();
    for site in &sites {
        assert_eq!(server.validate(&license, site).code(), "ok");
    }
    assert!(server.stop().success());
    let trace = whole_trace(&trace);
    // Each answer follows a sync of the ledger that was not there before the answer in front of it.
    let mut synced = false;
    let mut syncing = None;
    let mut answers = 0;
    for line in trace.lines() {
        if line.contains("fdatasync(") && line.contains("/store/ledger.jsonl>") {
            // The thread's number; another thread may be traced before the call returns.
            syncing = line.split_whitespace().next();
            synced |= line.ends_with("= 0");
        } else if line.contains("<... fdatasync resumed>") && line.split_whitespace().next() == syncing {
            synced |= line.ends_with("= 0");
        } else if line.contains("HTTP/1.1 200 OK") {
            assert!(synced, "an answer without a sync:\n{trace}");
            synced = false;
            answers += 1;
        }
    }
    assert_eq!(answers, sites.len(), "{trace}");
}
