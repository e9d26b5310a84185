//! What the system keeps for one process is bounded: one that asks for more is refused, and other processes have as much as before.

use std::ffi::c_void;
use std::sync::Arc;

use crate::minimal::memory::{ask, call};
use crate::minimal::{Bench, SOUND};
use dxgkrnl::{Process, further_thunks, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, LUID, NTSTATUS};

/// Calls something of a process by its threads.
fn by<T>(process: &Arc<Process>, act: impl FnOnce() -> T) -> T {
    let _attached = process.attach();
    act()
}

fn adapter(luid: LUID) -> D3DKMT_HANDLE {
    call(thunks().D3DKMTOpenAdapterFromLuid, D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: luid, hAdapter: 0 }).hAdapter
}

fn end(bench: Bench, luid: LUID) {
    bench.machine.remove(luid).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
}

fn mutex_with(data: &mut [u8], shared_by_kernel_handles: bool) -> Result<D3DKMT_HANDLE, NTSTATUS> {
    let mut args = D3DKMT_CREATEKEYEDMUTEX2::zeroed();
    args.pPrivateRuntimeData = data.as_mut_ptr().cast::<c_void>();
    args.PrivateRuntimeDataSize = data.len() as u32;
    args.Flags = args.Flags.with_NtSecuritySharing(shared_by_kernel_handles);
    let (status, args) = ask(further_thunks().D3DKMTCreateKeyedMutex2, args);
    status.ok().map(|()| args.hKeyedMutex)
}

fn destroy_mutex(mutex: D3DKMT_HANDLE) {
    call(further_thunks().D3DKMTDestroyKeyedMutex, D3DKMT_DESTROYKEYEDMUTEX { hKeyedMutex: mutex });
}

/// The numbers of handles that every process knows are of all processes, and each mutex keeps data: one process alone does not have all of them.
#[test]
fn a_process_has_so_many_keyed_mutexes_with_as_much_data_as_they_keep_and_another_one_as_many() {
    const MOST: usize = 1024;
    const DATA: usize = 1 << 16;
    let bench = Bench::new(SOUND).unwrap();
    let luid = bench.start().unwrap();
    let [one, other] = ["one", "other"].map(|name| Process::new(&bench.machine, name));
    let mut data = vec![7; DATA];
    let made: Vec<_> = by(&one, || (0..MOST).map(|number| mutex_with(&mut data, number % 2 == 0).unwrap()).collect());
    for by_kernel_handles in [false, true] {
        by(&one, || assert_eq!(mutex_with(&mut [], by_kernel_handles), Err(STATUS_INSUFFICIENT_RESOURCES)));
    }
    by(&other, || assert!((0..MOST).all(|_| mutex_with(&mut [], false).is_ok()), "another process has its own"));
    by(&one, || destroy_mutex(made[0]));
    by(&one, || assert!(mutex_with(&mut data, false).is_ok(), "in the place of one that is gone"));
    drop((one, other));
    end(bench, luid);
}

#[test]
fn a_process_reserves_so_many_gpu_addresses_and_one_more_when_one_is_freed() {
    const MOST: usize = 1 << 18;
    const LEN: u64 = 1 << 16;
    let bench = Bench::new(SOUND).unwrap();
    let luid = bench.start().unwrap();
    let [one, other] = ["one", "other"].map(|name| Process::new(&bench.machine, name));
    let reserve = |adapter| {
        let mut args = D3DDDI_RESERVEGPUVIRTUALADDRESS::zeroed();
        (args.u.hAdapter, args.Size) = (adapter, LEN);
        let (status, args) = ask(thunks().D3DKMTReserveGpuVirtualAddress, args);
        status.ok().map(|()| args.VirtualAddress)
    };
    by(&one, || {
        let adapter = adapter(luid);
        let first = reserve(adapter).expect("addresses");
        assert!((1..MOST).all(|_| reserve(adapter).is_ok()));
        assert_eq!(reserve(adapter), Err(STATUS_INSUFFICIENT_RESOURCES));
        call(
            thunks().D3DKMTFreeGpuVirtualAddress,
            D3DKMT_FREEGPUVIRTUALADDRESS { hAdapter: adapter, BaseAddress: first, Size: LEN },
        );
        assert_eq!(reserve(adapter), Ok(first));
    });
    by(&other, || assert!(reserve(adapter(luid)).is_ok(), "another process has its own"));
    drop((one, other));
    end(bench, luid);
}
