//! An adapter is reset while threads of processes wait for the memory of their programs: they are not in the driver, and not waited for.
//! [tdr-changes-in-windows-8; debugger: 0x116]

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};

use crate::minimal::Mutant;
use crate::user_mode::app::elsewhere::{Before, Elsewhere};
use crate::user_mode::app::*;
use crate::user_mode::{DRIVER, Report};
use dxgkrnl::{MachineConfig, Process, Share, TdrOutcome, thunks};
use nt::user_space::UserSpace;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, NTSTATUS};

unsafe extern "win64" fn refuses_to_reset(_: HANDLE, _: *mut DXGKARG_RESETHWENGINE) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

/// A program some of whose memory does not come: it is of a file that nobody answers for, say.
#[derive(Default)]
struct Absent {
    /// The addresses, and whether somebody waits for what is there.
    memory: Mutex<(Range<usize>, bool)>,
    changed: Condvar,
}

impl Absent {
    fn take_away<T>(&self, value: &T) {
        let at = std::ptr::from_ref(value).addr();
        *self.memory.lock().unwrap() = (at..at + size_of::<T>(), false);
    }

    fn come(&self) {
        *self.memory.lock().unwrap() = (0..0, false);
        self.changed.notify_all();
    }

    fn is_wanted(&self) -> bool {
        self.memory.lock().unwrap().1
    }

    fn wait(&self, address: usize) {
        let mut memory = self.memory.lock().unwrap();
        while memory.0.contains(&address) {
            memory.1 = true;
            memory = self.changed.wait(memory).unwrap();
        }
    }
}

/// A test that fails waits for nobody.
struct InTheEnd<'a>(&'a Absent);

impl Drop for InTheEnd<'_> {
    fn drop(&mut self) {
        self.0.come();
    }
}

impl Before for Absent {
    fn copy(&self, address: usize) {
        self.wait(address);
    }
}

/// An adapter whose engines are not reset alone.
fn bench_that_resets_the_adapter() -> Bench {
    let table = |table: &mut DRIVER_INITIALIZATION_DATA| {
        (DRIVER.table)(table);
        table.DxgkDdiResetHwEngine = Some(refuses_to_reset);
    };
    bench_with(Mutant { table, ..DRIVER }, MachineConfig::default())
}

fn until_reset(bench: &Bench) {
    bench.world.report(&bench.bus, Report::Hung);
    eventually("both resets", || {
        assert_eq!(bench.machine.bugcheck(), None);
        bench.machine.tdr_reports(bench.luid).len() == 2
    });
    let outcomes: Vec<_> = bench.machine.tdr_reports(bench.luid).iter().map(|report| report.outcome).collect();
    assert_eq!(outcomes, [TdrOutcome::EngineResetFailed, TdrOutcome::AdapterReset]);
}

fn adapter_of(bench: &Bench) -> D3DKMT_HANDLE {
    call(thunks().D3DKMTOpenAdapterFromLuid, D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: bench.luid, hAdapter: 0 })
        .unwrap()
        .hAdapter
}

#[test]
fn an_adapter_is_reset_while_a_call_waits_for_memory_of_its_program_and_the_call_goes_on_after_it() {
    let bench = bench_that_resets_the_adapter();
    let (app, memory) = (App::new(&bench), Elsewhere::new(Absent::default()));
    let queue = app.queue(&bench);
    let slow =
        Process::elsewhere(&bench.machine, "slow", 77, Arc::clone(&memory) as Arc<dyn UserSpace>, 0, Share::default());
    let mut args = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: bench.luid, hAdapter: 0 };
    memory.take_away(&args);
    std::thread::scope(|scope| {
        let _given = InTheEnd(&memory);
        let waiting = scope.spawn(|| {
            let _attached = slow.attach();
            // SAFETY: the structure lives across the call.
            unsafe { (thunks().D3DKMTOpenAdapterFromLuid)(&raw mut args) }
        });
        eventually("the call waits", || memory.is_wanted());
        until_reset(&bench);
        eventually("the doorbell says so", || queue.status() == ABORT);
        memory.come();
        assert_eq!(waiting.join().unwrap(), STATUS_SUCCESS, "the call goes on");
    });
    slow.exit();
    app.process.exit();
    bench.end();
}

/// The process has ended, and its end waits for the thread, which uses a device.
#[test]
fn an_adapter_is_reset_while_the_end_of_a_process_waits_for_a_call_that_waits_for_memory() {
    let bench = bench_that_resets_the_adapter();
    let (app, memory) = (App::new(&bench), Elsewhere::new(Absent::default()));
    let _queue = app.queue(&bench);
    let slow =
        Process::elsewhere(&bench.machine, "slow", 77, Arc::clone(&memory) as Arc<dyn UserSpace>, 0, Share::default());
    let mut args = D3DKMT_CREATEALLOCATION::zeroed();
    let mut info = [D3DDDI_ALLOCATIONINFO2::zeroed()];
    {
        let _attached = slow.attach();
        let mut device = D3DKMT_CREATEDEVICE::zeroed();
        device.u.hAdapter = adapter_of(&bench);
        args.hDevice = call(thunks().D3DKMTCreateDevice, device).unwrap().hDevice;
    }
    memory.take_away(&info);
    (args.NumAllocations, args.u1.pAllocationInfo2) = (1, info.as_mut_ptr());
    let args = &mut Carried(args);
    std::thread::scope(|scope| {
        let _given = InTheEnd(&memory);
        let waiting = scope.spawn(|| {
            let _attached = slow.attach();
            // SAFETY: the structure lives across the call, and so does what it points at.
            unsafe { (thunks().D3DKMTCreateAllocation2)(args.at()) }
        });
        eventually("the call waits", || memory.is_wanted());
        let ending = scope.spawn(|| slow.terminate());
        eventually("it has begun to end", || {
            let _attached = slow.attach();
            let open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: bench.luid, hAdapter: 0 };
            call(thunks().D3DKMTOpenAdapterFromLuid, open).err() == Some(STATUS_ACCESS_DENIED)
        });
        until_reset(&bench);
        memory.come();
        assert!(!waiting.join().unwrap().is_success(), "the process has ended");
        ending.join().unwrap();
    });
    app.process.exit();
    bench.end();
}

/// Arguments whose pointers are good on another thread.
struct Carried<T>(T);

impl<T> Carried<T> {
    fn at(&mut self) -> *mut T {
        &raw mut self.0
    }
}

// SAFETY: what they point at is used by one thread at a time.
unsafe impl<T> Send for Carried<T> {}
