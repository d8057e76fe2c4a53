//! Tests of reminders: who claims one first has it, and nobody has it again.

use super::*;
use crate::reminder_table::KEPT;
use countersign_model::reminder::ReminderKind;

fn claim(mail: u8, licenses: &[u8], kind: ReminderKind, seconds: i64) -> ReminderClaim {
    ReminderClaim {
        expires: "2027-01-31".parse().unwrap(),
        kind,
        licenses: licenses
            .iter()
            .map(|number| LicenseId::from_bytes([*number; 32]))
            .collect(),
        mail: Hex128([mail; 16]),
        now: at(seconds),
    }
}

#[tokio::test]
async fn a_reminder_is_claimed_once_also_by_two_requests_of_one_commit_and_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let before = ReminderKind::Before(7);
    let store = open(path).unwrap();
    let both = tokio::join!(
        store.claim_reminder(claim(1, &[1, 2], before, 1)),
        store.claim_reminder(claim(2, &[2, 3], before, 1)),
    );
    assert_eq!((both.0.unwrap(), both.1.unwrap()), (2, 1));
    let mail = |store: &Ledger, license: u8, kind| {
        let id = LicenseId::from_bytes([license; 32]);
        store.reminder_of(&id, "2027-01-31".parse().unwrap(), kind)
    };
    for _ in 0..2 {
        assert_eq!(store.claim_reminder(claim(3, &[1, 2, 3], before, 2)).await.unwrap(), 0);
    }
    assert_eq!(mail(&store, 2, before), Some(Hex128([1; 16])));
    assert_eq!(mail(&store, 2, ReminderKind::Before(1)), None);
    // Another end, and another reminder, are others.
    let other = ReminderClaim {
        expires: "2028-01-31".parse().unwrap(),
        ..claim(4, &[1], before, 3)
    };
    assert_eq!(store.claim_reminder(other).await.unwrap(), 1);
    assert_eq!(
        store
            .claim_reminder(claim(5, &[1], ReminderKind::After(3), 3))
            .await
            .unwrap(),
        1
    );
    store.close().unwrap();
    drop(store);
    maintenance::compact(path, at(10)).unwrap();
    let store = open(path).unwrap();
    assert_eq!(mail(&store, 3, before), Some(Hex128([2; 16])));
    assert_eq!(store.claim_reminder(claim(6, &[1, 2, 3], before, 4)).await.unwrap(), 0);
    store.close().unwrap();
    drop(store);
    // What nobody asks for any more is gone.
    maintenance::compact(path, at(10) + KEPT).unwrap();
    let store = open(path).unwrap();
    assert_eq!(mail(&store, 3, before), None);
}

#[tokio::test]
async fn the_switch_has_the_time_of_its_first_line_until_it_is_switched_off() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let store = open(path).unwrap();
    let switch = |on, seconds| ReminderSwitch { on, now: at(seconds) };
    store.switch_reminders(switch(false, 1)).await.unwrap();
    assert_eq!(
        (store.reminders_since(), store.ledger_end().unwrap().sequence),
        (None, 0)
    );
    for seconds in [2, 3] {
        store.switch_reminders(switch(true, seconds)).await.unwrap();
        assert_eq!(store.reminders_since(), Some(at(2)));
    }
    store.close().unwrap();
    drop(store);
    maintenance::compact(path, at(10) + KEPT).unwrap();
    let store = open(path).unwrap();
    assert_eq!(store.reminders_since(), Some(at(2)));
    store.switch_reminders(switch(false, 4)).await.unwrap();
    assert_eq!(store.reminders_since(), None);
    store.switch_reminders(switch(true, 5)).await.unwrap();
    assert_eq!(store.reminders_since(), Some(at(5)));
}
