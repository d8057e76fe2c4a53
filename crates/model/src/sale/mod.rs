//! Sales of shops. A [`fact`] is what a shop said about one of its objects. [`facts`] collects those of one sale, in any order and
//! any number of times. [`grants`] is the one function that says what the facts grant. [`terms`] is what a price granted when it
//! was first sold, and [`edits`] what people changed since.

pub mod edits;
pub mod fact;
pub mod facts;
pub mod grants;
pub mod terms;
