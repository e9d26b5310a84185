use std::panic::Location;
use std::sync::Arc;

use super::*;
use crate::ranks;

ranks! {
    from 0;
    Outer,
    Numbered: several,
    Gate: tried,
    Inner,
}

fn entry<R: Rank>(key: u64, way: Way) -> Held {
    Held::of::<R>(0x1000, key, way)
}

#[test]
fn ranks_grow_in_the_order_of_their_declaration_and_leaves_come_last() {
    let levels = [Outer::LEVEL, Numbered::LEVEL, Gate::LEVEL, Inner::LEVEL, Leaf::LEVEL, Innermost::LEVEL];
    assert!(levels.is_sorted_by(|one, other| one < other), "{levels:?}");
    assert_eq!((Outer::NAME, Numbered::SEVERAL, Gate::TRIED), ("Outer", true, true));
    assert_eq!((Outer::SEVERAL, Outer::TRIED, Numbered::TRIED, Gate::SEVERAL), (false, false, false, false));
}

#[test]
fn a_lock_of_a_later_rank_may_be_waited_for_and_no_other_one() {
    let outer = entry::<Outer>(0, Way::Alone);
    let inner = entry::<Inner>(0, Way::Alone);
    assert!(outer.allows(&inner));
    assert!(!inner.allows(&outer));
    assert!(!inner.allows(&inner), "two locks of one rank");
    assert!(
        !entry::<Inner>(0, Way::Shared).allows(&entry::<Inner>(0, Way::Shared)),
        "a reader may stand behind a writer"
    );
}

#[test]
fn several_locks_of_one_rank_are_taken_by_growing_keys() {
    let first = entry::<Numbered>(1, Way::Alone);
    let second = entry::<Numbered>(2, Way::Alone);
    assert!(first.allows(&second));
    assert!(!second.allows(&first));
    assert!(!second.allows(&second));
}

#[test]
fn who_reads_what_is_only_tried_for_writing_is_in_nobodys_way() {
    let reading = entry::<Gate>(0, Way::Shared);
    assert!(reading.allows(&entry::<Outer>(0, Way::Alone)));
    assert!(reading.allows(&reading));
    let writing = entry::<Gate>(0, Way::Alone);
    assert!(!writing.allows(&entry::<Outer>(0, Way::Alone)));
    assert!(!writing.allows(&reading));
    assert!(!entry::<Inner>(0, Way::Alone).allows(&reading), "a thread that writes may want what this thread has");
}

#[test]
fn a_conflict_is_with_any_lock_that_is_held_not_only_with_the_last_one() {
    let held = [entry::<Inner>(0, Way::Alone), entry::<Outer>(0, Way::Alone)];
    let found = held::conflict(&held, &entry::<Numbered>(0, Way::Alone)).expect("Inner is held");
    assert_eq!(found.name, "Inner");
    assert_eq!(found.place.file(), Location::caller().file());
    assert!(held::conflict(&held, &entry::<Leaf>(0, Way::Alone)).is_none());
}

#[test]
fn the_list_of_a_thread_follows_guards_of_every_kind() {
    let (outer, gate, inner) = (Mutex::<_, Outer>::new(1), RwLock::<_, Gate>::new(2), Mutex::<_, Inner>::new(3));
    let count = |expected| assert_eq!(held(), if cfg!(debug_assertions) { expected } else { 0 });
    let one = outer.lock();
    let two = gate.try_write().expect("nobody has it");
    count(2);
    assert!(gate.try_read().is_none() && gate.try_write().is_none());
    let two = RwLockWriteGuard::downgrade(two);
    count(2);
    let again = gate.read();
    let three = inner.try_lock().expect("nobody has it");
    assert!(inner.try_lock().is_none());
    count(4);
    assert_eq!(*one + *two + *again + *three, 8);
    drop((one, two, again, three));
    count(0);
    assert_eq!((outer.into_inner(), inner.into_inner()), (1, 3));
}

#[test]
fn a_lock_that_is_waited_with_is_not_held_meanwhile() {
    let shared = Arc::new((Mutex::<_, Outer>::new(false), Condvar::new()));
    let other = Arc::clone(&shared);
    let mut ready = shared.0.lock();
    let thread = std::thread::spawn(move || {
        *other.0.lock() = true;
        other.1.notify_all();
    });
    while !*ready {
        ready = shared.1.wait(ready);
    }
    assert_eq!(held(), usize::from(cfg!(debug_assertions)));
    ready = shared.1.wait_timeout(ready, Duration::ZERO);
    assert_eq!((*ready, held()), (true, usize::from(cfg!(debug_assertions))));
    drop(ready);
    assert_eq!(held(), 0);
    assert!(thread.join().is_ok());
}

#[test]
fn a_panic_elsewhere_does_not_keep_a_lock() {
    let shared = Arc::new(Mutex::<_>::new(7));
    let other = Arc::clone(&shared);
    let thread = std::thread::spawn(move || {
        let _guard = other.lock();
        panic!("elsewhere");
    });
    assert!(thread.join().is_err());
    assert_eq!(*shared.lock(), 7);
}

#[test]
fn frames_that_were_abandoned_hold_nothing_in_the_list() {
    let (outer, inner) = (Mutex::<_, Outer>::new(()), Mutex::<_, Inner>::new(()));
    let _one = outer.lock();
    let before = held();
    std::mem::forget(inner.lock());
    forget_down_to(before);
    assert_eq!(held(), before);
}

/// Runs a test of this file that ends its process, and returns what that said.
#[cfg(debug_assertions)]
#[test]
fn a_thread_that_takes_a_lock_out_of_order_ends_the_process_with_both_names() {
    const CHILD: &str = "CAMPANILE_LOCK_OUT_OF_ORDER";
    if std::env::var_os(CHILD).is_some() {
        let (outer, inner) = (Mutex::<_, Outer>::new(()), Mutex::<_, Inner>::new(()));
        let _inner = inner.lock();
        let _outer = outer.lock();
        return;
    }
    let name = "lock::tests::a_thread_that_takes_a_lock_out_of_order_ends_the_process_with_both_names";
    let program = std::env::current_exe().expect("a test has a path");
    let output = std::process::Command::new(program)
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("the test starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("lock order: Outer is taken at nt/src/lock/tests.rs:"), "{said}");
    assert!(said.contains("while Inner, taken at nt/src/lock/tests.rs:"), "{said}");
}

#[test]
fn threads_that_are_delayed_at_locks_meet_where_they_seldom_do() {
    /// Two threads each read a number under the lock and, under the lock again, put it back as one more: some additions are lost if they meet.
    fn counted_twice() -> bool {
        let number = Mutex::<_, Leaf>::new(0);
        let add = || {
            let read = *number.lock();
            *number.lock() = read + 1;
        };
        std::thread::scope(|scope| {
            scope.spawn(add);
            add();
        });
        number.into_inner() == 2
    }
    let before = delays::count();
    delays::delay(1_000_000, 7);
    let lost = (0..200).filter(|_| !counted_twice()).count();
    delays::delay(0, 0);
    assert!(lost > 0, "the threads never met in 200 tries");
    // Each try takes four locks and gives four back.
    assert!(delays::count() - before >= 200 * 8, "{} delays", delays::count() - before);
}
