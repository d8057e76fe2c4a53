//! Signs statements: threads that have the key, and a queue before them.

pub mod pool;
pub mod queue;
