//! The store as the server sees it, on a real disk and on one that fails when told to.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::*;
use crate::model::license::{Modules, Released, Sites, Status};

fn license(number: u8, sites: u32) -> License {
    License {
        id: LicenseId::from_bytes([number; 32]),
        status: Status::Active,
        expires: NaiveDate::MAX,
        modules: Modules::new(),
        sites: Sites::Limited(NonZeroU32::new(sites).unwrap()),
        grace_period_hours: None,
        hosts: vec![],
        released: Released::default(),
        note: String::new(),
    }
}

fn host(text: &str) -> SiteHost {
    text.parse().unwrap()
}

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap()
}

fn hosts_of(store: &dyn Bindings, license: &License) -> Vec<String> {
    store.of(&license.id).iter().map(|binding| binding.host.to_string()).collect()
}

fn elsewhere(first: &str) -> Outcome {
    Outcome::Elsewhere { first: host(first) }
}

/// Binds one license from 64 hosts at once.
async fn race(store: Arc<dyn Bindings>, license: License) -> Vec<(SiteHost, Outcome)> {
    let mut tasks = JoinSet::new();
    for number in 0..64 {
        let (store, license, host) = (store.clone(), license.clone(), host(&format!("site-{number}.com")));
        tasks.spawn(async move {
            let outcome = store.bind(&license, &host, at(1)).await.unwrap();
            (host, outcome)
        });
    }
    tasks.join_all().await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_64_hosts_at_once_exactly_as_many_are_bound_as_there_are_sites() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    for (round, sites) in (0..100).zip([1, 3].into_iter().cycle()) {
        let license = license(round, sites);
        let outcomes = race(store.clone(), license.clone()).await;
        let bound = hosts_of(&*store, &license);
        assert_eq!(bound.len(), sites as usize);
        let told_bound: HashSet<_> = outcomes
            .iter()
            .filter(|(_, outcome)| *outcome == Outcome::Bound)
            .map(|(host, _)| host.to_string())
            .collect();
        assert_eq!(told_bound, bound.iter().cloned().collect());
        for (host, outcome) in &outcomes {
            assert!(*outcome == Outcome::Bound || *outcome == elsewhere(&bound[0]), "{host}: {outcome:?}");
        }
    }
}
