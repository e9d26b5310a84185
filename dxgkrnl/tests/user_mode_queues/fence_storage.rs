//! Where fence values lie: what the policy, the driver's answer and sharing make of it. [native-gpu-fence-objects: physical
//! memory storage; d3dkmddi: D3DKMDT_FENCESTORAGESURFACEDATA]

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use crate::minimal::Mutant;
use crate::user_mode::app::*;
use crate::user_mode::{DRIVER, StorageAnswer};
use dxgkrnl::{FeaturePolicy, MachineConfig};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

const MONITORED: i32 = 1;
const CURRENT: i32 = 0;
const DEFAULT: i32 = 0;
const INTRA_GPU: i32 = 1;

fn config(optimized: bool, intra_gpu: bool) -> MachineConfig {
    let features =
        FeaturePolicy { optimized_default_fences: optimized, intra_gpu_fences: intra_gpu, ..FeaturePolicy::default() };
    MachineConfig { features, ..MachineConfig::default() }
}

/// A machine with both kinds, whose driver wants fences in segment 2.
fn local_bench(mutant: Mutant) -> Bench {
    let bench = bench_with(mutant, config(true, true));
    answer(&bench, in_vram);
    bench
}

fn answer(bench: &Bench, answer: StorageAnswer) {
    *bench.world.storage.lock().unwrap() = Some(answer);
}

fn in_vram(data: &mut D3DKMDT_FENCESTORAGESURFACEDATA) -> NTSTATUS {
    data.AllocationInfo.SupportedWriteSegmentSet = 0b10;
    data.AllocationInfo.EvictionSegmentSet = 0b01;
    data.AllocationInfo.PreferredSegment = D3DDDI_SEGMENTPREFERENCE::new().with_SegmentId0(2);
    STATUS_SUCCESS
}

impl App {
    fn try_intra(&self, flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS) -> Result<D3DKMT_CREATENATIVEFENCE, NTSTATUS> {
        let _attached = self.process.attach();
        let mut args = D3DKMT_CREATENATIVEFENCE { hDevice: self.device, ..Zeroed::zeroed() };
        args.Info.Type = D3DDDI_NATIVEFENCE_TYPE(INTRA_GPU);
        args.Info.InitialFenceValue = 77;
        args.Info.Flags = flags;
        call(dxgkrnl::thunks().D3DKMTCreateNativeFence, args)
    }

    fn intra(&self) -> D3DKMT_CREATENATIVEFENCE {
        self.try_intra(D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new()).unwrap()
    }
}

/// Number of times that a 64-bit word is found in VRAM.
fn in_vram_file(bench: &Bench, wanted: u64) -> usize {
    let mut bytes = vec![0; crate::minimal::bus::VRAM_SIZE as usize];
    bench.bus.vram.read_exact_at(&mut bytes, 0).unwrap();
    bytes.as_chunks::<8>().0.iter().filter(|word| u64::from_le_bytes(**word) == wanted).count()
}

fn shareable() -> D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS {
    D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new().with_Shared(true).with_NtSecuritySharing(true)
}

#[test]
fn a_driver_reads_from_the_system_which_types_have_local_storage() {
    for (optimized, intra_gpu) in [(false, false), (false, true), (true, false), (true, true)] {
        let bench = bench_with(DRIVER, config(optimized, intra_gpu));
        let caps = *bench.world.os_caps.lock().unwrap();
        let found = (caps.SupportOptimizedDefaultFenceType(), caps.SupportIntraGpuFenceType());
        assert_eq!(found, (optimized, intra_gpu));
        let app = App::new(&bench);
        app.fence(&bench, 1);
        let intra = app.try_intra(D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new());
        assert_eq!(intra.err(), (!intra_gpu).then_some(STATUS_NOT_SUPPORTED));
        let mut asked = Vec::new();
        asked.extend(optimized.then_some((MONITORED, DEFAULT)));
        asked.extend(intra_gpu.then_some([(CURRENT, INTRA_GPU), (MONITORED, INTRA_GPU)]).into_iter().flatten());
        assert_eq!(*bench.world.storage_asked.lock().unwrap(), asked, "asked for what the policy allows");
        app.process.exit();
        bench.end();
    }
    let first_release = FeaturePolicy::default();
    assert!(!first_release.intra_gpu_fences && !first_release.optimized_default_fences);
}

#[test]
fn the_monitored_value_of_an_optimised_fence_lies_where_the_driver_says_and_is_updated_there() {
    for short_lived_addresses in [false, true] {
        let bench = bench_with(DRIVER, MachineConfig { short_lived_addresses, ..config(true, false) });
        answer(&bench, in_vram);
        let app = App::new(&bench);
        let fences: Vec<Fence> = (0..3).map(|_| app.fence(&bench, 5)).collect();
        assert_eq!(*bench.world.storage_asked.lock().unwrap(), [(MONITORED, DEFAULT)], "once for a page");
        assert_eq!(in_vram_file(&bench, u64::MAX), 3, "unmonitored");
        app.wait(&[(fences[1].handle, 0x1234_5679)], false, Some(&event())).unwrap();
        assert_eq!(in_vram_file(&bench, 0x1234_5678), 1);
        assert_eq!(in_vram_file(&bench, 5), 0, "the current value stays in system memory");
        assert_eq!(word(fences[1].user).load(Ordering::SeqCst), 5);
        assert!(!is_writable(fences[1].user));
        let batches = bench.world.batches.lock().unwrap().clone();
        let lent = batches.last().unwrap().addresses[0];
        assert_eq!(is_mapped(lent), !short_lived_addresses, "the kernel address is good for the call");
        bench.world.signal(&bench.bus, fences[1].system, as_gpu(fences[1].user), 0x1234_5679);
        eventually("nobody waits any more", || in_vram_file(&bench, u64::MAX) == 3);
        let before = bench.machine.inspect(bench.luid).unwrap().to_string();
        assert_eq!(before.matches("values in system and local memory").count(), 3, "{before}");
        app.process.exit();
        bench.end();
    }
}

#[test]
fn a_driver_that_declines_has_plain_fences() {
    fn declines(_: &mut D3DKMDT_FENCESTORAGESURFACEDATA) -> NTSTATUS {
        STATUS_NOT_SUPPORTED
    }
    let bench = bench_with(DRIVER, config(true, true));
    answer(&bench, declines);
    let app = App::new(&bench);
    let fence = app.fence(&bench, 5);
    app.wait(&[(fence.handle, 9)], false, Some(&event())).unwrap();
    assert_eq!((bench.world.monitored(fence.system), in_vram_file(&bench, 8)), (8, 0));
    let refused = app.try_intra(D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new());
    assert_eq!(refused.err(), Some(STATUS_NOT_SUPPORTED), "there is no plain fence between engines");
    app.process.exit();
    bench.end();
}

#[test]
fn an_answer_that_breaks_a_rule_fails_the_creation_by_name_and_leaves_nothing_behind() {
    let rules: [(&str, StorageAnswer); 9] = [
        ("SupportedWriteSegmentSet is empty", |_| STATUS_SUCCESS),
        ("a segment that does not exist", |data| {
            data.AllocationInfo.SupportedWriteSegmentSet = 0b110;
            STATUS_SUCCESS
        }),
        ("PreferredSegment names a segment outside", |data| {
            data.AllocationInfo.SupportedWriteSegmentSet = 0b10;
            data.AllocationInfo.PreferredSegment = D3DDDI_SEGMENTPREFERENCE::new().with_SegmentId0(1);
            STATUS_SUCCESS
        }),
        ("EvictionSegmentSet", |data| {
            data.AllocationInfo.EvictionSegmentSet = 0b10;
            data.AllocationInfo.SupportedWriteSegmentSet = 0b10;
            STATUS_SUCCESS
        }),
        ("Size is not", |data| {
            data.AllocationInfo.Size = 8192;
            in_vram(data)
        }),
        ("Size is not", |data| {
            data.AllocationInfo.Size = usize::MAX;
            in_vram(data)
        }),
        ("Alignment is no power of two", |data| {
            data.AllocationInfo.u.Alignment = 4097;
            in_vram(data)
        }),
        ("Alignment is larger", |data| {
            data.AllocationInfo.u.Alignment = 1 << 30;
            in_vram(data)
        }),
        ("no private data", |data| {
            data.PrivateDriverDataSize = 8;
            in_vram(data)
        }),
    ];
    for (rule, broken) in rules {
        let bench = local_bench(DRIVER);
        answer(&bench, broken);
        let app = App::new(&bench);
        bench.world.take_calls();
        assert_eq!(app.try_fence(1).err(), Some(STATUS_DRIVER_INTERNAL_ERROR), "{rule}");
        let intra = app.try_intra(D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new());
        assert_eq!(intra.err(), Some(STATUS_DRIVER_INTERNAL_ERROR), "{rule}");
        let log = bench.machine.debug_log();
        assert!(log.iter().any(|line| line.contains("fence storage") && line.contains(rule)), "{rule}: {log:#?}");
        assert!(bench.world.take_calls().is_empty(), "the driver hears of no fence");
        answer(&bench, in_vram);
        let fence = app.fence(&bench, 5);
        app.wait(&[(fence.handle, 9)], false, Some(&event())).unwrap();
        assert_eq!(in_vram_file(&bench, 8), 1, "nothing is left of the refusal");
        app.process.exit();
        bench.end();
    }
}

#[test]
fn a_segment_that_the_cpu_does_not_reach_is_refused_for_fence_values() {
    let hidden = Mutant {
        segments: |[_, vram]| {
            vram.Size = 4 << 20;
            vram.Flags = DXGK_SEGMENTFLAGS::new();
        },
        // Page tables have to be elsewhere then.
        level: |level| {
            level.PageTableSegmentId = 0;
            level.PagingProcessPageTableSegmentId = 0;
        },
        ..DRIVER
    };
    let bench = local_bench(hidden);
    let app = App::new(&bench);
    assert_eq!(app.try_fence(1).err(), Some(STATUS_DRIVER_INTERNAL_ERROR));
    assert!(bench.machine.debug_log().iter().any(|line| line.contains("does not reach")));
    app.process.exit();
    bench.end();
}

#[test]
fn the_alignment_that_a_driver_asks_for_is_kept() {
    let bench = local_bench(DRIVER);
    answer(&bench, |data| {
        data.AllocationInfo.u.Alignment = 1 << 20;
        in_vram(data)
    });
    let app = App::new(&bench);
    app.fence(&bench, 1);
    let mut bytes = vec![0; crate::minimal::bus::VRAM_SIZE as usize];
    bench.bus.vram.read_exact_at(&mut bytes, 0).unwrap();
    let at = bytes.as_chunks::<8>().0.iter().position(|word| *word == [0xff; 8]).unwrap() * 8;
    assert_eq!(at % (1 << 20), 0, "{at:#x}");
    app.process.exit();
    bench.end();
}

#[test]
fn a_fence_between_engines_has_nothing_for_the_cpu() {
    let bench = local_bench(DRIVER);
    let (app, plain) = (App::new(&bench), App::new(&bench));
    let made = app.intra();
    let map = made.Info.NativeFenceMapping;
    assert!(map.CurrentValueCpuVa.is_null(), "no address for user mode");
    assert!(map.CurrentValueGpuVa != 0 && map.MonitoredValueGpuVa != 0);
    assert_eq!(*bench.world.types.lock().unwrap(), [INTRA_GPU]);
    assert_eq!(in_vram_file(&bench, u64::MAX), 1, "the monitored value");
    assert_eq!(in_vram_file(&bench, 77), 0, "the GPU writes the first current value, not the system");
    let tree = bench.machine.inspect(bench.luid).unwrap().to_string();
    assert!(tree.contains("values in local memory"), "{tree}");
    let fence = app.fence(&bench, 0);
    let (mixed, updates) = ([(fence.handle, 3), (made.hSyncObject, 1)], bench.world.batches.lock().unwrap().len());
    assert_eq!(app.wait(&[(made.hSyncObject, 0)], false, None), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(app.wait(&mixed, true, Some(&event())), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(app.signal(made.hSyncObject, 1, D3DDDICB_SIGNALFLAGS::new()), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(app.signal_all(&mixed), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(word(fence.user).load(Ordering::SeqCst), 0, "none or all");
    assert_eq!(bench.world.batches.lock().unwrap().len(), updates, "the driver is told nothing");
    assert_eq!(bench.world.monitored(fence.system), u64::MAX);
    let across = D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new().with_CrossAdapter(true);
    assert_eq!(app.try_intra(across).err(), Some(STATUS_INVALID_PARAMETER));
    assert_eq!(app.try_intra(shareable().with_CrossAdapter(true)).err(), Some(STATUS_INVALID_PARAMETER));
    assert_eq!(
        app.try_intra(D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new().with_Shared(true)).err(),
        Some(STATUS_INVALID_PARAMETER)
    );
    app.destroy_fence(made.hSyncObject).unwrap();
    plain.process.exit();
    app.process.exit();
    bench.end();
}

#[test]
fn the_value_of_a_fence_of_several_adapters_lies_in_system_memory() {
    const VALUE: u64 = 0x6b1d_0000_7777_1234;
    let bench = local_bench(DRIVER);
    let app = App::new(&bench);
    let made = app.try_shared(shareable().with_CrossAdapter(true)).unwrap();
    app.signal(made.hSyncObject, VALUE, D3DDDICB_SIGNALFLAGS::new()).unwrap();
    assert_eq!(word(made.Info.NativeFenceMapping.CurrentValueCpuVa).load(Ordering::SeqCst), VALUE);
    assert_eq!(in_vram_file(&bench, VALUE), 0);
    let asked = bench.world.storage_asked.lock().unwrap().clone();
    assert!(!asked.iter().any(|(value, _)| *value == CURRENT), "{asked:?}: no segment for the current value");
    app.process.exit();
    bench.end();
}

#[test]
fn shared_fences_lie_alone_on_pages_of_system_memory_whatever_their_type() {
    let bench = local_bench(DRIVER);
    let (app, other) = (App::new(&bench), App::new(&bench));
    let all: Vec<_> = (0..3)
        .map(|_| app.try_shared(shareable()).unwrap())
        .chain((0..3).map(|_| app.try_intra(shareable()).unwrap()))
        .collect();
    app.fence(&bench, 0);
    app.intra();
    let asked = bench.world.storage_asked.lock().unwrap().clone();
    assert_eq!(asked, [(MONITORED, DEFAULT), (CURRENT, INTRA_GPU), (MONITORED, INTRA_GPU)], "for the private ones");
    let pages: BTreeSet<u64> =
        bench.world.opened.lock().unwrap().iter().flat_map(|(a, b)| [a >> 12, b >> 12]).collect();
    assert_eq!(pages.len(), 2 * (all.len() + 2), "each value of each fence has its own page");
    for (made, for_cpu) in all.iter().zip([true, true, true, false, false, false]) {
        let handle = app.share(made.hSyncObject).unwrap();
        let value = 0x5a5a_0000_u64 + made.hSyncObject as u64;
        if for_cpu {
            app.signal(made.hSyncObject, value, D3DDDICB_SIGNALFLAGS::new()).unwrap();
        }
        assert!(other.open(handle).is_err(), "a kernel handle means nothing in another process");
        let here = app.open(handle).unwrap();
        assert_eq!(here.NativeFenceMapping.CurrentValueCpuVa.is_null(), !for_cpu);
        assert_eq!(in_vram_file(&bench, value), 0);
        app.close(handle).unwrap();
    }
    app.process.exit();
    other.process.exit();
    bench.end();
}

fn caps(change: fn(&mut DXGK_NATIVE_FENCE_CAPS)) -> Mutant {
    let mut caps = DRIVER.native_fence_caps.unwrap();
    change(&mut caps);
    Mutant { native_fence_caps: Some(caps), ..DRIVER }
}

#[test]
fn every_class_of_private_fences_is_packed_by_the_stride_on_pages_of_its_own() {
    for (stride, per_page, change) in [
        (64, 64, (|_| ()) as fn(&mut DXGK_NATIVE_FENCE_CAPS)),
        (8, 512, |caps| caps.MonitoredValueStride = 8),
        (24, 170, |caps| caps.MonitoredValueStride = 24),
        (2048, 2, |caps| caps.MonitoredValueStride = 2048),
        (4096, 1, |caps| caps.MonitoredValueStride = 4096),
    ] {
        let bench = local_bench(caps(change));
        let app = App::new(&bench);
        let count = (2 * per_page + 1).min(200);
        for intra in [false, true] {
            bench.world.opened.lock().unwrap().clear();
            for _ in 0..count {
                if intra {
                    app.intra().hSyncObject
                } else {
                    app.fence(&bench, 0).handle
                };
            }
            let opened = bench.world.opened.lock().unwrap().clone();
            for values in [0, 1].map(|which| {
                opened.iter().map(|pair| if which == 0 { pair.0 } else { pair.1 }).collect::<BTreeSet<u64>>()
            }) {
                assert_eq!(values.len(), count, "each has its own place");
                assert!(
                    values.iter().all(|at| (at & 0xfff) % stride == 0 && at & 0xfff <= 4088),
                    "{stride}: {values:x?}"
                );
                let pages: BTreeSet<u64> = values.iter().map(|at| at >> 12).collect();
                assert_eq!(pages.len(), count.div_ceil(per_page), "stride {stride}");
            }
        }
        let opened = bench.world.storage_asked.lock().unwrap().len();
        assert_eq!(opened, 3 * count.div_ceil(per_page), "asked once for each page in local memory");
        app.process.exit();
        bench.end();
    }
}

#[test]
fn ten_thousand_fences_leave_nothing_behind_and_their_places_are_used_again() {
    let bench = local_bench(DRIVER);
    let app = App::new(&bench);
    let mut places = BTreeSet::new();
    for round in 0..2 {
        bench.world.opened.lock().unwrap().clear();
        let handles: Vec<_> =
            (0..10_000).map(|n| if n % 8 == 0 { app.intra() } else { app.try_fence(n).unwrap() }.hSyncObject).collect();
        let opened: BTreeSet<_> = bench.world.opened.lock().unwrap().iter().copied().collect();
        assert_eq!(opened.len(), 10_000, "round {round}");
        if round == 0 {
            places = opened;
        } else {
            assert_eq!(opened, places, "round {round}");
        }
        // In an order that empties no page before the end.
        for start in 0..7 {
            handles.iter().skip(start).step_by(7).for_each(|handle| app.destroy_fence(*handle).unwrap());
        }
    }
    // One place again and again while another fence keeps the page.
    let keeper = app.fence(&bench, 0);
    bench.world.opened.lock().unwrap().clear();
    for _ in 0..100 {
        let fence = app.fence(&bench, 0);
        app.destroy_fence(fence.handle).unwrap();
    }
    let used: BTreeSet<_> = bench.world.opened.lock().unwrap().iter().copied().collect();
    assert_eq!(used.len(), 1);
    app.destroy_fence(keeper.handle).unwrap();
    app.process.exit();
    bench.end();
}

#[test]
fn local_memory_that_is_used_up_is_no_memory_and_comes_back() {
    let whole_pages = caps(|caps| caps.MonitoredValueStride = 4096);
    let bench = local_bench(whole_pages);
    let app = App::new(&bench);
    let mut held = Vec::new();
    let full = loop {
        match app.try_fence(0) {
            Ok(made) => held.push(made.hSyncObject),
            Err(status) => break status,
        }
    };
    assert_eq!(full, STATUS_NO_MEMORY);
    assert!((500..1024).contains(&held.len()), "{} pages of 4 MiB", held.len());
    let most = held.len();
    for _ in 0..3 {
        held.drain(..).for_each(|fence| app.destroy_fence(fence).unwrap());
        held.extend((0..most).map(|_| app.try_fence(0).unwrap().hSyncObject));
    }
    app.process.exit();
    bench.end();
}

#[test]
fn addresses_of_fences_stay_within_the_drivers_bounds_in_every_storage() {
    const BOUNDS: (u64, u64) = (0x10_0000_0000, 0x10_0fff_ffff);
    let bench = local_bench(caps(|caps| {
        (caps.MinimumAddress, caps.MaximumAddress) = BOUNDS;
        caps.MapToGpuSystemProcess = 1;
    }));
    let app = App::new(&bench);
    app.fence(&bench, 0);
    app.intra();
    app.try_shared(shareable()).unwrap();
    let opened = bench.world.opened.lock().unwrap().clone();
    let in_system = bench.world.system_addresses.lock().unwrap().clone();
    for (current, monitored) in opened.into_iter().chain(in_system) {
        for at in [current, monitored] {
            assert!(BOUNDS.0 <= at && at <= BOUNDS.1, "{at:#x}");
        }
    }
    app.process.exit();
    bench.end();
}

#[test]
fn log_buffers_are_in_the_paging_process_whether_or_not_fences_are() {
    for change in [(|_| ()) as fn(&mut DXGK_NATIVE_FENCE_CAPS), |caps| caps.MapToGpuSystemProcess = 1] {
        let bench = bench_of(caps(change));
        let app = App::new(&bench);
        app.queue(&bench);
        let logs = bench.world.log_addresses.lock().unwrap().clone();
        assert_eq!(logs.len(), 2);
        assert!(logs.iter().all(|(process, system)| *process != 0 && *system != 0), "{logs:x?}");
        assert!(logs[0].0 != logs[1].0 && logs[0].1 != logs[1].1);
        app.process.exit();
        bench.end();
    }
}

#[test]
fn native_and_monitored_progress_fences_lie_in_their_own_storage() {
    let bench = local_bench(DRIVER);
    let app = App::new(&bench);
    {
        let _attached = app.process.attach();
        let context = app.context();
        for native in [true, false] {
            let flags = D3DDDI_CREATEHWQUEUEFLAGS::new().with_NativeProgressFence(native);
            let args = D3DKMT_CREATEHWQUEUE { hHwContext: context, Flags: flags, ..Zeroed::zeroed() };
            call(dxgkrnl::thunks().D3DKMTCreateHwQueue, args).unwrap();
        }
        let without = D3DDDI_CREATEHWQUEUEFLAGS::new().with_UserModeSubmission(true);
        let args = D3DKMT_CREATEHWQUEUE { hHwContext: context, Flags: without, ..Zeroed::zeroed() };
        assert_eq!(call(dxgkrnl::thunks().D3DKMTCreateHwQueue, args).err(), Some(STATUS_INVALID_PARAMETER));
    }
    assert_eq!(*bench.world.storage_asked.lock().unwrap(), [(MONITORED, DEFAULT)], "for the native one");
    let tree = bench.machine.inspect(bench.luid).unwrap().to_string();
    let contexts = tree.split("contexts").nth(1).unwrap();
    assert_eq!(contexts.matches("values in system and local memory").count(), 1, "{tree}");
    assert_eq!(contexts.matches("values in system memory").count(), 1, "{tree}");
    app.process.exit();
    bench.end();
}
