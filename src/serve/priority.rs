//! Priority: lets the threads that answer go before those that compute for long, `signer`'s and `reload`'s.

/// A tenth of an ordinary thread's share, where both have work to do.
const NICE: i32 = 10;

/// Lets other threads go before this one: a signature takes a hundred times what an answer without one takes. On Linux
/// the nice value is a thread's own (sched(7)).
pub fn stand_back() {
    // Where it is not allowed, the threads are equals.
    let _ = rustix::process::nice(NICE);
}
