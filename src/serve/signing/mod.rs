//! Signing statements: the pool of threads that hold the key, and the queue in front of them.

pub mod pool;
pub mod queue;
