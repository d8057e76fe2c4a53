//! Tests of sessions and codes that end early: each once, for good, also after a restart, as long as it would last.

use super::*;
use crate::log::SessionMark;
use crate::log::session_line::SESSION_SLACK;
use crate::session_ends::SessionEnd;
use chrono::TimeDelta;
use countersign_model::issued_license::Hex128;

fn end(mark: SessionMark, seconds: i64) -> SessionEnd {
    SessionEnd {
        mark,
        until: at(seconds) + TimeDelta::minutes(15),
        now: at(seconds),
    }
}

#[tokio::test]
async fn a_code_is_used_once_also_by_two_requests_of_one_commit_and_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let store = open(path).unwrap();
    let code = SessionMark::Code(Hex128([1; 16]));
    let session = SessionMark::Session(Hex128([1; 16]));
    let both = tokio::join!(store.end_session(end(code, 1)), store.end_session(end(code, 1)));
    assert_eq!((both.0.unwrap(), both.1.unwrap()), (true, false));
    assert!(store.has_ended(code) && !store.has_ended(session));
    assert!(store.end_session(end(session, 2)).await.unwrap());
    store.close().unwrap();
    drop(store);
    maintenance::compact(path, at(10)).unwrap();
    let store = open(path).unwrap();
    assert!(store.has_ended(code) && store.has_ended(session));
    assert!(!store.end_session(end(code, 3)).await.unwrap());
    store.close().unwrap();
    drop(store);
    // What nobody can use any more is gone.
    maintenance::compact(path, at(10) + TimeDelta::minutes(15) + SESSION_SLACK).unwrap();
    let store = open(path).unwrap();
    assert!(!store.has_ended(code) && !store.has_ended(session));
}

#[tokio::test]
async fn all_sessions_of_an_owner_end_again_and_again() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let store = open(path).unwrap();
    let owner = Hex128([2; 16]);
    for seconds in [5, 9] {
        assert!(
            store
                .end_session(end(SessionMark::Owner(owner), seconds))
                .await
                .unwrap()
        );
        assert_eq!(store.sessions_ended(owner), Some(at(seconds)));
    }
    store.close().unwrap();
    drop(store);
    maintenance::compact(path, at(10)).unwrap();
    let store = open(path).unwrap();
    assert_eq!(store.sessions_ended(owner), Some(at(9)));
    assert_eq!(store.sessions_ended(Hex128([3; 16])), None);
}
