//! The exact order of the accesses of one submission, seen one by one: every page that driver and device share is taken away,
//! each access faults, is noted, and is stepped over.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod fake;

use std::{
    ffi::c_void,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use campanile_umd::*;
use fake::*;

/// What was touched: region, whether written, offset in it, value afterwards.
type Access = (&'static str, bool, u64, u64);

const REGIONS: [&str; 7] = ["commands", "last queued", "ring", "control", "doorbell", "status", "progress"];
/// In the place of a region: a thunk was called.
const THUNK: u64 = REGIONS.len() as u64;
const NOTES: usize = 256;

static ADDRESSES: [AtomicU64; REGIONS.len()] = [const { AtomicU64::new(0) }; REGIONS.len()];
static SIZES: [AtomicU64; REGIONS.len()] = [const { AtomicU64::new(0) }; REGIONS.len()];
static NOTED: [[AtomicU64; 4]; NOTES] = [const { [const { AtomicU64::new(0) }; 4] }; NOTES];
static NEXT: AtomicUsize = AtomicUsize::new(0);
static OPEN: AtomicUsize = AtomicUsize::new(usize::MAX);
static WATCHING: AtomicBool = AtomicBool::new(false);

fn note(region: u64, write: bool, offset: u64) -> usize {
    let index = NEXT.fetch_add(1, Ordering::Relaxed);
    if let Some(slot) = NOTED.get(index) {
        slot[0].store(region, Ordering::Relaxed);
        slot[1].store(u64::from(write), Ordering::Relaxed);
        slot[2].store(offset, Ordering::Relaxed);
    }
    index
}

fn protect(region: usize, protection: i32) {
    let address = ADDRESSES[region].load(Ordering::Relaxed);
    let size = SIZES[region].load(Ordering::Relaxed);
    // SAFETY: a whole mapping of the fake, which expects its pages to be taken away and given back here.
    unsafe { libc::mprotect(address as *mut c_void, size as usize, protection) };
}

/// An access to a region: notes it, gives the page back, and lets one instruction run.
extern "C" fn on_fault(_: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the fault's record.
    let info = unsafe { &*info };
    // SAFETY: faults have an address.
    let address = unsafe { info.si_addr() } as u64;
    // SAFETY: the kernel passes the interrupted context.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    for region in 0..REGIONS.len() {
        let offset = address.wrapping_sub(ADDRESSES[region].load(Ordering::Relaxed));
        if offset < SIZES[region].load(Ordering::Relaxed) && WATCHING.load(Ordering::Relaxed) {
            // Bit 1 of the page-fault error code says write; the trap flag stops after the instruction.
            let write = registers[libc::REG_ERR as usize] & 2 != 0;
            OPEN.store(note(region as u64, write, offset), Ordering::Relaxed);
            protect(region, libc::PROT_READ | libc::PROT_WRITE);
            registers[libc::REG_EFL as usize] |= 0x100;
            return;
        }
    }
    // Not ours: fault again, without us.
    // SAFETY: restores the default action.
    unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
}

/// The instruction ran: notes the value and takes the page away again.
extern "C" fn on_step(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the interrupted context.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    registers[libc::REG_EFL as usize] &= !0x100;
    if let Some(slot) = NOTED.get(OPEN.load(Ordering::Relaxed)) {
        let region = slot[0].load(Ordering::Relaxed) as usize;
        let word = ADDRESSES[region].load(Ordering::Relaxed) + slot[2].load(Ordering::Relaxed);
        // SAFETY: the word that was just accessed, in a page that is still open.
        let value = unsafe { (word as *const u64).read_volatile() };
        slot[3].store(value, Ordering::Relaxed);
        protect(region, libc::PROT_NONE);
    }
}

fn catch(signal: i32, handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void)) {
    // SAFETY: all zero is an empty action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: a valid action with a handler of the right type.
    assert_eq!(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) }, 0);
}

/// Every access to shared memory, and every thunk, while `f` runs.
fn watch<R>(f: impl FnOnce() -> R) -> (R, Vec<Access>) {
    os(|fake| {
        fake.hook = Some(Box::new(|_, _| {
            note(THUNK, false, 0);
        }));
    });
    NEXT.store(0, Ordering::Relaxed);
    WATCHING.store(true, Ordering::SeqCst);
    for region in 0..REGIONS.len() {
        protect(region, libc::PROT_NONE);
    }
    let result = f();
    for region in 0..REGIONS.len() {
        protect(region, libc::PROT_READ | libc::PROT_WRITE);
    }
    WATCHING.store(false, Ordering::SeqCst);
    os(|fake| fake.hook = None);
    let count = NEXT.load(Ordering::Relaxed);
    assert!(count <= NOTES);
    let read = |slot: &[AtomicU64; 4]| {
        let [region, write, offset, value] = [0, 1, 2, 3].map(|at| slot[at].load(Ordering::Relaxed));
        (REGIONS.get(region as usize).copied().unwrap_or("thunk"), write != 0, offset, value)
    };
    (result, NOTED[..count].iter().map(read).collect())
}

fn choose_regions() {
    os(|fake| {
        let doorbell = fake.doorbell();
        let mut pages = vec![
            &doorbell.last_queued,
            &fake.allocation(doorbell.ring).memory,
            &fake.allocation(doorbell.control).memory,
            &doorbell.doorbell,
            &doorbell.status,
            &fake.hw_queue().progress,
        ];
        let commands = fake.objects.values().find_map(|object| match object {
            Object::Allocation(allocation) if allocation.data.size == 8192 => Some(&allocation.memory),
            _ => None,
        });
        pages.insert(0, commands.expect("command memory"));
        for (index, pages) in pages.into_iter().enumerate() {
            ADDRESSES[index].store(pages.address() as u64, Ordering::Relaxed);
            SIZES[index].store(pages.bytes() as u64, Ordering::Relaxed);
        }
    });
}

#[test]
fn submission_touches_shared_memory_in_the_order_of_the_page_and_nothing_else() {
    let device = Device::new(&Adapter::open(&THUNKS).unwrap()).unwrap();
    let options = QueueOptions { ring_entries: 128, command_bytes: 8192, ..QueueOptions::default() };
    let mut queue = Queue::new(&device, Node::Compute, options).unwrap();
    choose_regions();
    catch(libc::SIGSEGV, on_fault);
    catch(libc::SIGTRAP, on_step);

    let (value, accesses) = watch(|| queue.submit(|commands| commands.nop()));
    assert_eq!(value, Ok(1));
    let commands = os(|fake| fake.allocation(fake.doorbell().ring).memory.get(0));
    // The fake gives a queue's progress fence the handle after its own.
    let progress_fence = u64::from(queue.handle() + 1);
    let expected: [Access; 12] = [
        ("commands", true, 0, 0x0101),
        ("commands", true, 8, 0),
        ("commands", true, 16, progress_fence << 32 | 0x0106),
        ("commands", true, 24, 1),
        ("last queued", true, 0, 1),
        ("ring", true, 0, commands),
        ("ring", true, 8, 32),
        ("ring", true, 16, 0),
        ("ring", true, 24, 0),
        ("control", true, 0, 1),
        ("doorbell", true, 0, 1),
        ("status", false, 0, CONNECTED),
    ];
    assert_eq!(accesses, expected);

    // Taken away twice: connect, ring again, look again; the work itself is not written twice.
    os(|fake| {
        fake.doorbell().status.set(0, RETRY);
        fake.connect = [RETRY, CONNECTED].into();
    });
    let (value, accesses) = watch(|| queue.submit(|commands| commands.nop()));
    assert_eq!(value, Ok(2));
    let tail: Vec<_> = accesses.into_iter().skip_while(|access| access.0 != "control").collect();
    let expected: [Access; 11] = [
        ("control", true, 0, 2),
        ("doorbell", true, 0, 2),
        ("status", false, 0, RETRY),
        ("thunk", false, 0, 0),
        ("status", true, 0, RETRY),
        ("doorbell", true, 0, 2),
        ("status", false, 0, RETRY),
        ("thunk", false, 0, 0),
        ("status", true, 0, CONNECTED),
        ("doorbell", true, 0, 2),
        ("status", false, 0, CONNECTED),
    ];
    // A note's value of a thunk is left over from an earlier one.
    let tail: Vec<_> = tail.into_iter().map(|it| if it.0 == "thunk" { ("thunk", false, 0, 0) } else { it }).collect();
    assert_eq!(tail, expected);
}
