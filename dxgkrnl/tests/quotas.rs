//! What the system keeps for one process is bounded: one that asks for more is refused, and other processes have as much as before.

// Each test program uses its part of the shared miniport.
#[allow(dead_code)]
mod minimal;

use std::ffi::c_void;
use std::sync::Arc;

use dxgkrnl::{Process, further_thunks, thunks};
use minimal::memory::{ask, call};
use minimal::{Bench, SOUND};
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

#[test]
fn the_system_keeps_so_much_data_with_the_keyed_mutexes_of_a_process_and_no_more() {
    const EACH: usize = 1 << 16;
    const MOST: usize = (64 << 20) / EACH;
    let bench = Bench::new(SOUND).unwrap();
    let luid = bench.start().unwrap();
    let [one, other] = ["one", "other"].map(|name| Process::new(&bench.machine, name));
    let mut data = vec![7; EACH];
    let made: Vec<_> = by(&one, || (0..MOST).map(|_| mutex_with(&mut data, true).unwrap()).collect());
    by(&one, || assert_eq!(mutex_with(&mut data[..1], true), Err(STATUS_INSUFFICIENT_RESOURCES)));
    by(&one, || assert!(mutex_with(&mut [], true).is_ok(), "one without data"));
    by(&other, || assert!(mutex_with(&mut data, true).is_ok(), "another process has its own"));
    by(&one, || destroy_mutex(made[0]));
    by(&one, || assert!(mutex_with(&mut data, true).is_ok(), "in the place of one that is gone"));
    drop((one, other));
    end(bench, luid);
}

/// The numbers of such handles, and names, are of all processes: one process alone does not have all of them.
#[test]
fn a_process_has_so_many_handles_that_every_process_knows_and_another_one_as_many() {
    const MOST: usize = 1024;
    let bench = Bench::new(SOUND).unwrap();
    let luid = bench.start().unwrap();
    let [one, other] = ["one", "other"].map(|name| Process::new(&bench.machine, name));
    let made: Vec<_> = by(&one, || (0..MOST).map(|_| mutex_with(&mut [], false).unwrap()).collect());
    by(&one, || assert_eq!(mutex_with(&mut [], false), Err(STATUS_INSUFFICIENT_RESOURCES)));
    by(&one, || assert!(mutex_with(&mut [], true).is_ok(), "one without such a handle"));
    by(&other, || assert!((0..MOST).all(|_| mutex_with(&mut [], false).is_ok()), "another process has its own"));
    by(&one, || destroy_mutex(made[0]));
    by(&one, || assert!(mutex_with(&mut [], false).is_ok(), "in the place of one that is gone"));
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
