//! Tests of bindings in memory: found among many, and kept while somebody reads them.

use super::*;

/// The bindings of a license that is bound to as many sites.
fn bound_to(license: &License, sites: u32) -> BindingsByLicense {
    let mut builder = checksum::BindingsBuilder::default();
    for number in 0..sites {
        let binding = Binding::new(host(&format!("site-{number}.com")), at(1));
        builder.add(LedgerEntry {
            license: license.id,
            binding,
        });
    }
    builder.finish()
}

fn bound(license: &License, sites: u32) -> LedgerTables {
    LedgerTables {
        by_license: bound_to(license, sites),
        ..LedgerTables::default()
    }
}

/// Binds a host that finds a free seat.
fn bind(memory: &BindingMemory, license: &License, host: &SiteHost) {
    let (request, _pending) = waiting(WantedSeat::from(SeatRequest::new(license, host, at(5))));
    let mut batch = BindingBatch::new(memory, vec![request]);
    assert_eq!(batch.decide(None).len(), 1, "{host}");
    batch.complete(Ok(()));
}

#[test]
fn a_site_among_20_000_costs_much_the_same_as_one_among_100() {
    // The fastest of 50 runs of finding the last site and binding a new one.
    let quickest = |sites| {
        let license = license(1, 100_000);
        let held = BindingMemory::new(bound(&license, sites));
        let last = host(&format!("site-{}.com", sites - 1));
        let rounds = (0..50).map(|round| {
            let new = host(&format!("new-{round}.com"));
            let started = std::time::Instant::now();
            assert_eq!(license.seat(&held.of(&license.id), &0.into(), &last), Seat::Held);
            let looked_up = started.elapsed();
            bind(&held, &license, &new);
            (looked_up, started.elapsed() - looked_up)
        });
        let (look_ups, bindings): (Vec<_>, Vec<_>) = rounds.unzip();
        assert_eq!(held.count(), sites as usize + 50);
        (look_ups.into_iter().min().unwrap(), bindings.into_iter().min().unwrap())
    };
    let few = quickest(100);
    let many = quickest(20_000);
    assert!(many.0 < few.0 * 10 && many.1 < few.1 * 10, "{few:?} became {many:?}");
}

#[test]
fn who_read_a_license_before_it_was_bound_once_more_keeps_what_there_was() {
    let license = license(1, 100);
    let held = BindingMemory::new(bound(&license, 2));
    let at_first = held.of(&license.id);
    bind(&held, &license, &host("a.com"));
    let then = held.of(&license.id);
    bind(&held, &license, &host("b.com"));
    let now = held.of(&license.id);
    assert_eq!([&at_first, &then, &now].map(|bound| bound.len()), [2, 3, 4]);
    assert_eq!(held.count(), 4);
    assert!(
        ["site-0.com", "site-1.com", "a.com", "b.com"]
            .iter()
            .all(|name| now.find(&host(name)).is_some())
    );
}

#[test]
fn a_host_is_found_among_many_and_one_bound_again_counts_where_it_was_bound_last() {
    let license = license(1, 100);
    let by_license = bound_to(&license, 20);
    let mut bindings = by_license.of(&license.id).unwrap().clone();
    for name in ["a.com", "site-7.com", "z.com", "site-0.com"] {
        bindings.add(Binding::new(host(name), at(5)));
    }
    let bound = BoundSites(Some(BindingsRef::Settled(&bindings)));
    for binding in bound.iter() {
        assert_eq!(bound.find(&binding.host), Some(binding));
    }
    assert_eq!((bound.len(), bound.find(&host("b.com"))), (22, None));
    let last: Vec<_> = bound[18..].iter().map(|binding| binding.host.as_str()).collect();
    assert_eq!(last, ["a.com", "site-7.com", "z.com", "site-0.com"]);
}
