//! A site and its staging copy take one seat together, also if they ask different nodes, in either order.

use std::thread;

use super::database::prepared_cluster;
use super::node::{code, instance, start};
use crate::support::instance::License;

#[test]
fn a_site_and_its_copies_that_ask_two_nodes_at_once_take_one_seat() {
    let cluster = prepared_cluster();
    let licenses: Vec<_> = (0..20).map(|_| License::new()).collect();
    let folders = [(); 2].map(|()| instance(&licenses.iter().collect::<Vec<_>>()));
    let nodes = folders.each_ref().map(|folder| start(folder, &cluster.url("node")));
    let subdomains = ["example.com", "staging.example.com", "dev.example.com", "other.com"];
    let on_web_hosts = ["example.com", "a.kinsta.cloud", "b.kinsta.cloud", "c.ngrok-free.app"];
    for (number, license) in licenses.iter().enumerate() {
        let sites = if number % 2 == 0 { subdomains } else { on_web_hosts };
        let answers: Vec<String> = thread::scope(|scope| {
            let asked = sites.iter().enumerate().map(|(at, site)| {
                let node = &nodes[at % 2];
                scope.spawn(move || code(&node.validate(license, site)))
            });
            let asked: Vec<_> = asked.collect();
            asked.into_iter().map(|answer| answer.join().unwrap()).collect()
        });
        let bound: Vec<_> = sites
            .iter()
            .zip(&answers)
            .filter(|(_, code)| *code == "ok")
            .map(|(site, _)| *site)
            .collect();
        // The site and a copy; or the one that was first, if the others do not belong to it.
        let is_right = match bound[..] {
            [first, second] => first == "example.com" && (second.ends_with(".example.com") || sites == on_web_hosts),
            [alone] => alone != "example.com",
            _ => false,
        };
        assert!(is_right, "{answers:?}");
        // Both nodes say the same afterwards.
        for node in &nodes {
            let again: Vec<_> = sites.iter().map(|site| code(&node.validate(license, site))).collect();
            let bound_now = sites
                .iter()
                .zip(&again)
                .filter(|(_, code)| *code == "ok")
                .map(|(site, _)| *site);
            let bound_now: Vec<_> = bound_now.collect();
            assert!(
                bound.iter().all(|site| bound_now.contains(site)) && bound_now.len() <= 2,
                "{bound:?} {again:?}"
            );
        }
    }
}

#[test]
fn of_200_sites_on_a_web_host_that_ask_two_nodes_at_once_one_needs_no_seat() {
    let cluster = prepared_cluster();
    let [alone, beside] = [License::new(), License::new()];
    let folders = [(); 2].map(|()| instance(&[&alone, &beside]));
    let nodes = folders.each_ref().map(|folder| start(folder, &cluster.url("node")));
    assert_eq!(code(&nodes[0].validate(&beside, "example.com")), "ok");
    for (license, expected) in [(&alone, 1), (&beside, 1)] {
        let bound = thread::scope(|scope| {
            let asked: Vec<_> = (0..200)
                .map(|number| {
                    let node = &nodes[number % 2];
                    scope.spawn(move || code(&node.validate(license, &format!("s{number}.kinsta.cloud"))))
                })
                .collect();
            let codes = asked.into_iter().map(|answer| answer.join().unwrap());
            codes.filter(|code| code == "ok").count()
        });
        assert_eq!(bound, expected);
    }
    // The site comes to the first license, too, and its copy stays; there is no room for one more.
    assert_eq!(code(&nodes[1].validate(&alone, "example.com")), "ok");
    for license in [&alone, &beside] {
        assert_eq!(
            code(&nodes[0].validate(license, "other.kinsta.cloud")),
            "bound_elsewhere"
        );
    }
}
