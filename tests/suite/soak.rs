//! The long ones, for `make soak`: the faults of the other modules, many more times. Each says how far it is.

use crate::binding;

#[test]
#[ignore = "takes long: make soak"]
fn a_million_acknowledged_bindings_survive_500_times_kill_9() {
    let acknowledged = binding::kill_9(500, 2_000);
    assert!(acknowledged >= 1_000_000, "{acknowledged}");
}
