//! What the pages for people share, at the desk and for customers: names of the host, sessions, signing in by mail, forms, answers,
//! and how times and texts are shown.
//!
//! A [`label`](label::PageLabel) says for whom the pages are. A session, a code or a link of one label is worth nothing at another.

pub(in crate::serve) mod answer;
pub(in crate::serve) mod form;
pub(in crate::serve) mod label;
pub(in crate::serve) mod mail_sign_in;
pub(in crate::serve) mod page_problem;
pub(in crate::serve) mod scan_turn;
pub(in crate::serve) mod session;
pub(in crate::serve) mod shown;
