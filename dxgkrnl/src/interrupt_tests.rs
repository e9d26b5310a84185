//! Tests of interrupts and their counts.

use std::ffi::c_void;

use wddm_ddi::Zeroed;
use wddm_ddi::km::DRIVER_INITIALIZATION_DATA;
use wddm_ddi::types::BOOLEAN;

use super::*;
use crate::registration::Registered;
use nt::bus::Bar;
use nt::driver::Driver;
use nt::irql;
use nt::ram::Ram;

#[test]
fn the_interrupt_lock_raises_may_be_nested_and_excludes_others() {
    let interrupts = Interrupts::default();
    {
        let _outer = interrupts.acquire();
        assert_eq!(irql::current(), DEVICE_LEVEL);
        let inner = interrupts.acquire();
        drop(inner);
        assert!(interrupts.is_held_here());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(!interrupts.is_held_here());
                assert!(interrupts.line.try_lock().is_none());
            });
        });
    }
    assert!(!interrupts.is_held_here());
    assert_eq!(irql::current(), 0);
    assert!(interrupts.line.try_lock().is_some());
}

#[test]
fn messages_beyond_the_last_vector_are_ignored_and_equal_ones_merged() {
    let interrupts = Arc::new(Interrupts::default());
    let sink = |function| Sink { interrupts: Arc::downgrade(&interrupts), function };
    sink(0).message(3);
    sink(0).message(3);
    sink(0).message(8);
    sink(1).message(2);
    sink(1).message(u16::MAX);
    assert_eq!(interrupts.pending.load(Ordering::Relaxed), 1 << 3 | 1 << 10);
    assert!(interrupts.queue_dpc(0) && interrupts.queue_dpc(1));
    assert!(!interrupts.queue_dpc(0) && !interrupts.queue_dpc(1));
}

#[test]
fn a_report_that_no_dpc_answers_is_told_once_unless_a_dpc_is_queued() {
    let interrupts = Interrupts::default();
    let report = TraceKind::Dpc;
    assert_eq!(interrupts.take_overdue_report(Duration::ZERO), None, "nothing was reported");
    interrupts.count_notification(1, false, report);
    assert_eq!(interrupts.take_overdue_report(Duration::from_secs(3600)), None, "it is not late");
    interrupts.queue_dpc(0);
    assert_eq!(interrupts.take_overdue_report(Duration::ZERO), None, "a DPC is queued");
    interrupts.dpc_queued.store(0, Ordering::Release);
    assert!(interrupts.take_overdue_report(Duration::ZERO).is_some());
    assert_eq!(interrupts.take_overdue_report(Duration::ZERO), None, "told once");
    interrupts.count_notification(1, false, report);
    interrupts.count_dpc_notification();
    assert_eq!(interrupts.take_overdue_report(Duration::ZERO), None, "it was answered");
}

/// A bus of a function that asserts its line for ever: it counts how often the line is unmasked.
#[derive(Default)]
struct Asserts(AtomicU64);

impl Bus for Asserts {
    fn name(&self) -> String {
        "a line that is asserted".to_owned()
    }
    fn config_read(&self, _: u16, _: u8) -> u32 {
        u32::MAX
    }
    fn config_write(&self, _: u16, _: u8, _: u32) {}
    fn bar(&self, _: u8) -> Option<Bar> {
        None
    }
    fn register_read(&self, _: u8, _: u64, _: u8) -> u64 {
        u64::MAX
    }
    fn register_write(&self, _: u8, _: u64, _: u8, _: u64) {}
    fn connect_interrupts(&self, _: u16, _: Arc<dyn InterruptSink>) -> std::io::Result<()> {
        Ok(())
    }
    fn unmask_line(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn disconnect_interrupts(&self) {}
    fn map_memory(&self, _: &Arc<Ram>) -> std::io::Result<()> {
        Ok(())
    }
    fn unmap_memory(&self, _: &Ram) {}
}

/// Claims interrupts of the adapters whose context is odd.
extern "win64" fn claims_odd(context: *mut c_void, _message: u32) -> BOOLEAN {
    (context.addr() % 2) as BOOLEAN
}

extern "win64" fn does_nothing(_context: *mut c_void) {}

/// An adapter of two functions, of which the driver claims the interrupts of the second.
struct World {
    interrupts: Arc<Interrupts>,
    miniport: Miniport,
    contexts: [KmdHandle; 2],
}

impl World {
    fn new() -> Self {
        let mut table = DRIVER_INITIALIZATION_DATA::zeroed();
        table.DxgkDdiInterruptRoutine = Some(claims_odd);
        table.DxgkDdiDpcRoutine = Some(does_nothing);
        let miniport =
            Miniport::new(Registered::newest(table), Driver::for_tests("storm"), Arc::default(), Arc::default());
        let interrupts = Arc::new(Interrupts::default());
        interrupts.connect();
        let contexts = [2, 3].map(|number| KmdHandle::new(std::ptr::without_provenance_mut(number)));
        Self { interrupts, miniport, contexts }
    }

    /// So many interrupts of a function, each delivered by itself.
    fn interrupt(&self, function: u32, message: u16, times: u32) {
        let sink = Sink { interrupts: Arc::downgrade(&self.interrupts), function };
        for _ in 0..times {
            sink.message(message);
            assert!(self.interrupts.deliver(&self.miniport, &self.contexts));
        }
    }

    /// Lines of the log that tell of answers FALSE.
    fn told(&self) -> Vec<String> {
        let lines = self.miniport.driver().verifier().log_lines();
        lines.into_iter().filter(|line| line.contains("answered FALSE for")).collect()
    }
}

#[test]
fn a_line_that_nobody_claims_is_unmasked_up_to_the_limit_and_stays_masked_from_then_on() {
    let (world, line) = (World::new(), Arc::new(Asserts::default()));
    let bus: Arc<dyn Bus> = Arc::<Asserts>::clone(&line);
    world.interrupts.add_line(0, &bus);
    world.interrupt(0, 0, UNCLAIMED_MAX - 1);
    assert_eq!(line.0.load(Ordering::Relaxed), u64::from(UNCLAIMED_MAX) - 1, "each of them is sent again");
    assert_eq!(world.told(), [""; 0]);
    world.interrupt(0, 0, 1);
    assert_eq!(line.0.load(Ordering::Relaxed), u64::from(UNCLAIMED_MAX) - 1, "the line is masked");
    let told = world.told();
    assert!(told.len() == 1 && told[0].contains("line-based interrupt 1000 times in succession"), "{told:?}");
    assert_eq!(world.interrupts.counters().unclaimed_interrupts, u64::from(UNCLAIMED_MAX));
}

#[test]
fn each_line_and_each_message_of_each_linked_function_has_a_count_of_its_own() {
    let (world, line) = (World::new(), Arc::new(Asserts::default()));
    let bus: Arc<dyn Bus> = Arc::<Asserts>::clone(&line);
    world.interrupts.add_line(1, &bus);
    for round in 0..UNCLAIMED_MAX {
        // A function whose interrupts are claimed, and another message, make nobody's count begin anew or grow.
        world.interrupt(1, 0, 1);
        world.interrupt(0, 5, round % 2);
        assert_eq!(world.told(), [""; 0], "round {round}");
        world.interrupt(0, 3, 1);
    }
    let told = world.told();
    assert!(told.len() == 1 && told[0].contains("message 3 of function 0 1000 times in succession"), "{told:?}");
    world.interrupt(0, 3, UNCLAIMED_MAX);
    assert_eq!(world.told().len(), 1, "a message is told of once");
    world.interrupt(0, 5, UNCLAIMED_MAX / 2);
    let told = world.told();
    assert!(told.len() == 2 && told[1].contains("message 5 of function 0 1000 times"), "{told:?}");
}

/// Interrupts of a line that the routine claims, with a DPC behind each; the DPC routine does nothing.
fn claim_with_dpcs(world: &World, times: u32) {
    for _ in 0..times {
        world.interrupt(1, 0, 1);
        world.interrupts.queue_dpc(1);
        assert!(world.interrupts.deliver(&world.miniport, &world.contexts));
    }
}

/// The routine is to dismiss the interrupt. [dispmprt: DXGKDDI_INTERRUPT_ROUTINE] That so many without a report are one that is never dismissed is this system's rule.
#[test]
fn a_line_that_is_claimed_with_a_dpc_each_time_and_never_dismissed_is_masked_named_and_a_finding() {
    let (world, line) = (World::new(), Arc::new(Asserts::default()));
    let bus: Arc<dyn Bus> = Arc::<Asserts>::clone(&line);
    world.interrupts.add_line(1, &bus);
    let unmasked = || line.0.load(Ordering::Relaxed);
    claim_with_dpcs(&world, UNREPORTED_MAX - 1);
    // A report says what the interrupt was for, and the count begins anew.
    world.interrupts.count_notification(1, false, TraceKind::Dpc);
    world.interrupts.count_dpc_notification();
    claim_with_dpcs(&world, UNREPORTED_MAX - 1);
    let sent_again = 2 * u64::from(UNREPORTED_MAX - 1);
    assert_eq!((unmasked(), world.interrupts.rescues.take()), (sent_again, vec![]));
    // One is enough, unless this thread has stood still meanwhile, when the count begins anew.
    let masked = (0..100 * UNREPORTED_MAX).any(|_| {
        let before = unmasked();
        claim_with_dpcs(&world, 1);
        unmasked() == before
    });
    assert!(masked, "the line is masked, also behind the DPC routine");
    assert_eq!(world.interrupts.rescues.take(), [(Rescue::UnendingInterrupt, 1)]);
    let log = world.miniport.driver().verifier().log_lines();
    let told: Vec<_> =
        log.iter().filter(|line| line.contains("DxgkDdiInterruptRoutine of driver storm claimed")).collect();
    assert!(told.len() == 1 && told[0].contains("the line-based interrupt of function 1 10000 times"), "{log:?}");
    let masked = unmasked();
    world.interrupts.unmask_unending();
    assert_eq!(unmasked(), masked + 1, "it is heard again when somebody looks for timeouts");
    claim_with_dpcs(&world, 1);
    world.interrupts.unmask_unending();
    assert_eq!((unmasked(), world.interrupts.rescues.take()), (masked + 2, vec![]), "and is told once");
}

/// Ours, for no page has a number: a clock of the function that the driver serves is no line that never ends.
#[test]
fn interrupts_that_are_claimed_now_and_then_without_a_report_are_no_line_that_never_ends() {
    let (mut unreported, start) = (Unreported::default(), Instant::now());
    assert!((0..2 * UNREPORTED_MAX).all(|tick| !unreported.note_claim(true, 0, start + UNREPORTED_GAP * tick)));
    let (mut unreported, last) = (Unreported::default(), UNREPORTED_MAX - 1);
    assert!((0..last).all(|tick| !unreported.note_claim(true, 0, start + UNREPORTED_GAP * tick / 2)));
    assert!(unreported.note_claim(true, 0, start + UNREPORTED_GAP * last / 2));
}

#[test]
fn a_machine_that_has_stopped_tells_of_no_answers() {
    let world = World::new();
    world.miniport.driver().verifier().raise(Bugcheck::fatal("the end"));
    world.interrupt(0, 3, UNCLAIMED_MAX);
    assert_eq!(world.told(), [""; 0]);
}
