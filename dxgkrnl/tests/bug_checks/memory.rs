//! Drivers that break rules of the memory manager.

use std::sync::Arc;
use std::time::Duration;

use dxgkrnl::verifier::Bugcheck;
use dxgkrnl::{Process, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, LUID, NTSTATUS};

use crate::minimal::memory::{self, ask};
use crate::minimal::{Bench, Mutant, driver};
use crate::packet_engine::app::App;
use crate::packet_engine::{self, completed};
use crate::scheduler;
use crate::user_mode::app::{event, eventually};

type Outcome = Option<(Bugcheck, [u64; 3])>;
type Operation = DXGK_BUILDPAGINGBUFFER_OPERATION;

/// Bytes of a paging buffer of this driver, and of its private data.
const BUFFER: u64 = 4096;
const PRIVATE: u32 = 64;
/// Allocations of this driver that VRAM holds at most; one more makes another one leave.
const MANY: usize = 150;

fn code(status: NTSTATUS) -> u64 {
    u64::from(status.0 as u32)
}

/// The driver that keeps the rules: allocations in VRAM where the CPU sees them, and private data of paging buffers.
const LOCAL: Mutant = Mutant { segment_out: |out| out.PagingBufferPrivateDataSize = PRIVATE, ..memory::LOCAL };

/// A process with a device and its paging queue. The thread that made it is attached.
struct User {
    process: Arc<Process>,
    device: D3DKMT_HANDLE,
    queue: D3DKMT_HANDLE,
    _attached: dxgkrnl::Attached,
}

impl User {
    fn new(bench: &Bench) -> (Self, LUID) {
        let luid = bench.start().unwrap();
        let process = Process::new(&bench.machine, "user");
        let attached = process.attach();
        let open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: luid, hAdapter: 0 };
        let mut args = D3DKMT_CREATEDEVICE::zeroed();
        args.u.hAdapter = ask(thunks().D3DKMTOpenAdapterFromLuid, open).1.hAdapter;
        let device = ask(thunks().D3DKMTCreateDevice, args).1.hDevice;
        let args = D3DKMT_CREATEPAGINGQUEUE { hDevice: device, ..Zeroed::zeroed() };
        let queue = ask(thunks().D3DKMTCreatePagingQueue, args).1.hPagingQueue;
        (Self { process, device, queue, _attached: attached }, luid)
    }

    fn create(&self) -> D3DKMT_HANDLE {
        let mut info = [D3DDDI_ALLOCATIONINFO2::zeroed()];
        let mut args = D3DKMT_CREATEALLOCATION { hDevice: self.device, NumAllocations: 1, ..Zeroed::zeroed() };
        args.u1.pAllocationInfo2 = info.as_mut_ptr();
        assert_eq!(ask(thunks().D3DKMTCreateAllocation2, args).0, STATUS_SUCCESS);
        info[0].hAllocation
    }

    fn resident(&self, list: &mut [D3DKMT_HANDLE]) -> NTSTATUS {
        let mut args = D3DDDI_MAKERESIDENT::zeroed();
        (args.hPagingQueue, args.NumAllocations) = (self.queue, list.len() as u32);
        args.AllocationList = list.as_mut_ptr();
        ask(thunks().D3DKMTMakeResident, args).0
    }

    fn evict(&self, list: &mut [D3DKMT_HANDLE]) {
        let args = D3DKMT_EVICT {
            hDevice: self.device,
            NumAllocations: list.len() as u32,
            AllocationList: list.as_mut_ptr(),
            ..Zeroed::zeroed()
        };
        assert_eq!(ask(thunks().D3DKMTEvict, args).0, STATUS_SUCCESS);
    }

    fn map(&self, allocation: D3DKMT_HANDLE) -> NTSTATUS {
        let mut args = D3DDDI_MAPGPUVIRTUALADDRESS::zeroed();
        (args.hPagingQueue, args.hAllocation, args.SizeInPages) = (self.queue, allocation, 16);
        args.Protection.set_Write(true);
        ask(thunks().D3DKMTMapGpuVirtualAddress, args).0
    }

    fn lock(&self, allocation: D3DKMT_HANDLE) -> NTSTATUS {
        let args = D3DKMT_LOCK2 { hDevice: self.device, hAllocation: allocation, ..Zeroed::zeroed() };
        ask(thunks().D3DKMTLock2, args).0
    }

    fn unlock(&self, allocation: D3DKMT_HANDLE) -> NTSTATUS {
        ask(thunks().D3DKMTUnlock2, D3DKMT_UNLOCK2 { hDevice: self.device, hAllocation: allocation }).0
    }
}

/// What a process does on this driver or, without the mistake, on `sound`.
fn run(breaks: bool, mutant: Mutant, sound: Mutant, earned: [u64; 3], act: impl FnOnce(&User, bool)) -> Outcome {
    let bench = Bench::new(if breaks { mutant } else { sound }).unwrap();
    let (user, luid) = User::new(&bench);
    assert_eq!(bench.machine.bugcheck(), None, "before the mistake");
    act(&user, breaks);
    let stopped = bench.machine.bugcheck();
    user.process.exit();
    if breaks {
        return Some((stopped.expect("the machine stops at once"), earned));
    }
    drop(user);
    bench.machine.remove(luid).unwrap();
    bench.machine.unload(bench.driver).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
    None
}

/// An allocation is brought to VRAM.
fn bring(user: &User, breaks: bool) {
    let status = user.resident(&mut [user.create()]);
    assert_eq!(status, if breaks { STATUS_DEVICE_REMOVED } else { STATUS_PENDING });
}

/// A DxgkDdiBuildPagingBuffer that answers for itself where `$body` does, and works otherwise.
macro_rules! mutant_of_paging {
    ($name:ident, |$context:ident, $args:ident| $body:expr) => {
        unsafe extern "win64" fn $name($context: HANDLE, args: *mut DXGKARG_BUILDPAGINGBUFFER) -> NTSTATUS {
            // SAFETY: the system passes the structure.
            let $args = unsafe { &mut *args };
            match $body {
                Some(status) => status,
                // SAFETY: the arguments are the system's.
                None => unsafe { driver::build_paging_buffer($context, args) },
            }
        }
    };
}

mutant_of_paging!(answers_no_memory, |context, args| {
    (args.Operation == Operation::DXGK_OPERATION_VIRTUAL_FILL).then_some(STATUS_NO_MEMORY)
});

pub(crate) fn illegal_answer(breaks: bool) -> Outcome {
    let mutant = Mutant { table: |table| table.DxgkDdiBuildPagingBuffer = Some(answers_no_memory), ..LOCAL };
    let earned = [Operation::DXGK_OPERATION_VIRTUAL_FILL.0 as u64, code(STATUS_NO_MEMORY), 0];
    run(breaks, mutant, LOCAL, earned, bring)
}

mutant_of_paging!(writes_on, |context, args| {
    (args.Operation == Operation::DXGK_OPERATION_VIRTUAL_FILL).then(|| {
        args.pDmaBuffer = args.pDmaBuffer.wrapping_byte_add(args.DmaSize as usize + 8);
        STATUS_SUCCESS
    })
});

pub(crate) fn buffer_overflow(breaks: bool) -> Outcome {
    let mutant = Mutant { table: |table| table.DxgkDdiBuildPagingBuffer = Some(writes_on), ..LOCAL };
    run(breaks, mutant, LOCAL, [BUFFER + 8, BUFFER, 0], bring)
}

mutant_of_paging!(writes_on_privately, |context, args| {
    (args.Operation == Operation::DXGK_OPERATION_VIRTUAL_FILL).then(|| {
        args.pDmaBuffer = args.pDmaBuffer.wrapping_byte_add(8);
        let beyond = args.DmaBufferPrivateDataSize as usize + 1;
        args.pDmaBufferPrivateData = args.pDmaBufferPrivateData.wrapping_byte_add(beyond);
        STATUS_SUCCESS
    })
});

pub(crate) fn private_overflow(breaks: bool) -> Outcome {
    let mutant = Mutant { table: |table| table.DxgkDdiBuildPagingBuffer = Some(writes_on_privately), ..LOCAL };
    run(breaks, mutant, LOCAL, [u64::from(PRIVATE) + 1, PRIVATE.into(), 0], bring)
}

mutant_of_paging!(is_busy_for_ever, |context, args| {
    (args.Operation == Operation::DXGK_OPERATION_VIRTUAL_TRANSFER).then_some(STATUS_GRAPHICS_ALLOCATION_BUSY)
});

pub(crate) fn busy_eviction(breaks: bool) -> Outcome {
    let mutant = Mutant { table: |table| table.DxgkDdiBuildPagingBuffer = Some(is_busy_for_ever), ..LOCAL };
    let earned = [Operation::DXGK_OPERATION_VIRTUAL_TRANSFER.0 as u64, code(STATUS_GRAPHICS_ALLOCATION_BUSY), 0];
    run(breaks, mutant, LOCAL, earned, |user, breaks| {
        // More than VRAM holds, one after the other: the first ones have to leave.
        let mut last = STATUS_SUCCESS;
        for _ in 0..MANY {
            let mut one = [user.create()];
            last = user.resident(&mut one);
            if !last.is_success() {
                break;
            }
            user.evict(&mut one);
        }
        assert_eq!(last.is_success(), !breaks, "{last}");
    })
}

mutant_of_paging!(refuses_entries, |context, args| {
    // SAFETY: the operation selects this arm.
    let maps = || !unsafe { args.u.UpdatePageTable }.hAllocation.is_null();
    (args.Operation == Operation::DXGK_OPERATION_UPDATE_PAGE_TABLE && maps()).then_some(STATUS_GRAPHICS_ALLOCATION_BUSY)
});

pub(crate) fn table_refused(breaks: bool) -> Outcome {
    let mutant = Mutant { table: |table| table.DxgkDdiBuildPagingBuffer = Some(refuses_entries), ..LOCAL };
    let earned = [Operation::DXGK_OPERATION_UPDATE_PAGE_TABLE.0 as u64, code(STATUS_GRAPHICS_ALLOCATION_BUSY), 0];
    run(breaks, mutant, LOCAL, earned, |user, breaks| {
        let allocation = user.create();
        assert!(user.resident(&mut [allocation]).is_success());
        assert_eq!(user.map(allocation).is_success(), !breaks);
    })
}

unsafe extern "win64" fn opens(_: HANDLE, _: *const DXGKARG_MAPCPUHOSTAPERTURE) -> NTSTATUS {
    STATUS_SUCCESS
}

unsafe extern "win64" fn does_not_open(_: HANDLE, _: *const DXGKARG_MAPCPUHOSTAPERTURE) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

unsafe extern "win64" fn closes(_: HANDLE, _: *const DXGKARG_UNMAPCPUHOSTAPERTURE) -> NTSTATUS {
    STATUS_SUCCESS
}

unsafe extern "win64" fn does_not_close(_: HANDLE, _: *const DXGKARG_UNMAPCPUHOSTAPERTURE) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

/// VRAM behind a CPU host aperture; page tables in system memory.
const WINDOWED: Mutant = Mutant {
    table: |table| {
        table.DxgkDdiMapCpuHostAperture = Some(opens);
        table.DxgkDdiUnmapCpuHostAperture = Some(closes);
    },
    segments: |[_, vram]| {
        vram.Flags = DXGK_SEGMENTFLAGS::new().with_SupportsCpuHostAperture(true);
        // SAFETY: the minimal driver has filled this arm.
        let address = unsafe { vram.u.CpuTranslatedAddress };
        vram.u.CpuHostAperture = DXGK_CPUHOSTAPERTURE { PhysicalAddress: address.QuadPart as u64, SizeInPages: 64 };
    },
    level: |level| (level.PageTableSegmentId, level.PagingProcessPageTableSegmentId) = (0, 0),
    // What the CPU wants to see must be able to lie in system memory too.
    allocation: |info| {
        (LOCAL.allocation)(info);
        info.SupportedWriteSegmentSet |= 0b01;
    },
    ..LOCAL
};

/// A lock opens a window, and its end closes it.
fn look_through(user: &User, breaks: bool, opens: bool) {
    let allocation = user.create();
    assert!(user.resident(&mut [allocation]).is_success());
    assert_eq!(user.lock(allocation).is_success(), opens);
    if opens {
        assert!(user.unlock(allocation).is_success() || breaks);
    }
}

pub(crate) fn window_not_opened(breaks: bool) -> Outcome {
    let table = |table: &mut DRIVER_INITIALIZATION_DATA| {
        (WINDOWED.table)(table);
        table.DxgkDdiMapCpuHostAperture = Some(does_not_open);
    };
    let mutant = Mutant { table, ..WINDOWED };
    run(breaks, mutant, WINDOWED, [code(STATUS_UNSUCCESSFUL), 0, 0], |user, breaks| look_through(user, breaks, !breaks))
}

pub(crate) fn window_not_closed(breaks: bool) -> Outcome {
    let table = |table: &mut DRIVER_INITIALIZATION_DATA| {
        (WINDOWED.table)(table);
        table.DxgkDdiUnmapCpuHostAperture = Some(does_not_close);
    };
    let mutant = Mutant { table, ..WINDOWED };
    run(breaks, mutant, WINDOWED, [code(STATUS_UNSUCCESSFUL), 0, 0], |user, breaks| look_through(user, breaks, true))
}

/// The packet engine carries no command out. Without the mistake its paging packets are not complete either, and whoever waits for the fence may do so.
pub(crate) fn unwritten_fence(breaks: bool) -> Outcome {
    let machine = scheduler::machine();
    let app = App::new(&machine);
    if !breaks {
        machine.engine.hold_paging();
    }
    let (fence, value) = packet_engine::page(app.device, &app.process);
    let awaited = event();
    app.cpu_wait_by_event(fence, value, &awaited).unwrap();
    let look = || machine.bench.machine.advance(Duration::ZERO);
    if breaks {
        eventually("a bug check", || {
            look();
            machine.bench.machine.bugcheck().is_some()
        });
        app.process.exit();
        return Some((machine.bugcheck(), [value, 0, 0]));
    }
    (0..10).for_each(|_| look());
    assert_eq!(machine.bench.machine.bugcheck(), None);
    machine.engine.release_paging();
    for packet in machine.engine.paged(1) {
        machine.engine.report(completed(0, packet.fence));
    }
    machine.end(&app.process);
    None
}
