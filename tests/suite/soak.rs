//! Long tests for `make soak`: the faults of the other modules, many more times. Each reports its progress and, at
//! the end, its figures. `tests/external/soak.rs` has more.

use crate::support::soak::timed;
use crate::{account, binding, linear, reload, trace};

#[test]
#[ignore = "takes long: make soak"]
fn a_million_acknowledged_bindings_survive_500_times_kill_9() {
    timed("kill -9", || {
        let acknowledged = binding::kill_9(500, 2_000);
        assert!(acknowledged >= 1_000_000, "{acknowledged}");
        format!("500 kills, {acknowledged} acknowledged, none lost, none changed")
    });
}

#[test]
#[ignore = "takes long: make soak"]
fn first_bindings_are_linearizable_ten_thousand_times() {
    timed("linearizability", || {
        for sites in [1, 2, 5] {
            linear::in_process(sites, 10_000);
        }
        "10,000 rounds with 1, 2 and 5 sites each".to_owned()
    });
}

#[test]
#[ignore = "takes long: make soak"]
fn memory_stays_flat_over_ten_thousand_reloads() {
    timed("reload", || {
        reload::rounds(10_000);
        "10,000 rounds".to_owned()
    });
}

#[test]
#[ignore = "takes long: make soak"]
fn a_million_build_ids_are_read_back_and_ten_million_others_are_none_of_ours() {
    timed("build ids", || {
        trace::build_ids_are_read_back(1_000_000);
        let decrypted = trace::others_are_none_of_ours(10_000_000);
        format!("1,000,000 read back, no two alike; of 10,000,000 others {decrypted} had the zeros, and none a license")
    });
}

#[test]
#[ignore = "takes long: make soak"]
fn of_ten_thousand_known_and_as_many_unknown_addresses_nobody_learns_which_is_which() {
    timed("known addresses", || account::known_and_unknown_are_alike(10_000));
}
