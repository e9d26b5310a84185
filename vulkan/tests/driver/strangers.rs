//! Descriptors that are not what they are said to be, and objects that were not made for export. The validation layer would complain about each.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd};

use ash::vk;

use crate::external::{INVALID, OPAQUE, SEMAPHORE, SIZE, Side};

/// True if it is an open descriptor of this process.
fn is_open(descriptor: c_int) -> bool {
    // SAFETY: any number may be asked for.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) >= 0 }
}

/// "If the import fails the application keeps the descriptor"; VK_ERROR_INVALID_EXTERNAL_HANDLE says that it is none of the named type. [Vulkan: vkAllocateMemory]
#[test]
fn descriptors_of_other_things_are_refused_and_stay_open() {
    let (ours, theirs) = (Side::new(), Side::new());
    let kind = ours.kind(vk::MemoryPropertyFlags::HOST_VISIBLE);
    let (exported, semaphore) = (ours.exportable(kind), ours.semaphore(None));
    let target = theirs.semaphore(Some(0));
    let good = ours.export(exported).expect("a descriptor");
    let of_semaphore = ours.export_semaphore(semaphore).expect("a descriptor");
    let file = OwnedFd::from(std::fs::File::open("/dev/null").expect("a file"));
    let refused = |fd: c_int, ty, kind, size| assert_eq!(theirs.import_raw(fd, ty, kind, size).map(drop), INVALID);
    refused(file.as_raw_fd(), OPAQUE, kind, SIZE);
    refused(of_semaphore.as_raw_fd(), OPAQUE, kind, SIZE);
    refused(-1, OPAQUE, kind, SIZE);
    refused(0x7fff_fff0, OPAQUE, kind, SIZE);
    refused(good.as_raw_fd(), vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT, kind, SIZE);
    refused(good.as_raw_fd(), OPAQUE, kind, SIZE * 2);
    refused(good.as_raw_fd(), OPAQUE, kind + 1, SIZE);
    for wrong in [file.as_raw_fd(), good.as_raw_fd(), -1] {
        assert_eq!(theirs.import_semaphore_raw(wrong, SEMAPHORE, target, false), INVALID);
    }
    let sync_file = vk::ExternalSemaphoreHandleTypeFlags::SYNC_FD;
    assert_eq!(theirs.import_semaphore_raw(of_semaphore.as_raw_fd(), sync_file, target, false), INVALID);
    // A timeline semaphore has no temporary payload. [Vulkan: VUID-VkImportSemaphoreFdInfoKHR-flags-03323]
    assert_eq!(theirs.import_semaphore_raw(of_semaphore.as_raw_fd(), SEMAPHORE, target, true), INVALID);
    assert_eq!(theirs.value(target), 0, "the payload is what it was");
    assert!([&good, &of_semaphore, &file].iter().all(|descriptor| is_open(descriptor.as_raw_fd())));
    // What was refused did no harm, and an import that succeeds takes the descriptor, but not its copies.
    let copy = good.try_clone().expect("a copy");
    let imported = theirs.import(good, kind, SIZE).expect("imported");
    theirs.free(theirs.import(copy, kind, SIZE).expect("imported"));
    let mut properties = vk::MemoryFdPropertiesKHR::default();
    // SAFETY: a descriptor that is open.
    let told = unsafe { theirs.memory.get_memory_fd_properties(OPAQUE, file.as_raw_fd(), &mut properties) };
    assert_eq!(told, INVALID, "opaque descriptors have no properties");
    theirs.free(imported);
    ours.free(exported);
}

/// "If handleType is VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT, the value of VkSemaphoreTypeCreateInfo::semaphoreType must match that of the semaphore from
/// which handle or name was exported". [Vulkan: VUID-VkImportSemaphoreFdInfoKHR-handleType-03264]
#[test]
fn payloads_of_another_kind_are_refused_and_nothing_changes() {
    let (ours, theirs) = (Side::new(), Side::new());
    let (timeline, binary, fence) = (ours.semaphore(Some(5)), ours.semaphore(None), ours.fence(true));
    let exported = [
        ours.export_semaphore(timeline).expect("a descriptor"),
        ours.export_semaphore(binary).expect("a descriptor"),
        ours.export_fence(fence),
    ];
    let (to_timeline, to_binary, to_fence) = (theirs.semaphore(Some(7)), theirs.semaphore(None), theirs.fence(true));
    let import = |kind: usize, to: usize, temporary| match to {
        0 => theirs.import_semaphore_raw(exported[kind].as_raw_fd(), SEMAPHORE, to_timeline, false),
        1 => theirs.import_semaphore_raw(exported[kind].as_raw_fd(), SEMAPHORE, to_binary, temporary),
        _ => theirs.import_fence_raw(exported[kind].as_raw_fd(), to_fence, temporary),
    };
    for (kind, to) in (0..3).flat_map(|kind| (0..3).map(move |to| (kind, to))).filter(|(kind, to)| kind != to) {
        for temporary in [false, true] {
            assert_eq!(import(kind, to, temporary), INVALID, "{kind} as {to}");
        }
    }
    assert!(exported.iter().all(|descriptor| is_open(descriptor.as_raw_fd())));
    assert!(theirs.value(to_timeline) == 7 && theirs.is_signalled(to_fence), "the payloads are what they were");
    theirs.submit(0, None, None, Some((to_binary, 0)), vk::Fence::null());
    theirs.submit(1, Some((to_binary, 0)), None, None, vk::Fence::null());
    // SAFETY: the device exists; the fences are of their devices, and nothing uses them.
    unsafe {
        theirs.bench.device.device_wait_idle().expect("idle");
        ours.bench.device.destroy_fence(fence, None);
        theirs.bench.device.destroy_fence(to_fence, None);
    }
}

#[test]
fn memory_and_semaphores_that_were_not_made_for_export_are_not_exported() {
    let side = Side::new();
    let bytes = side.bench.words(&[0; 4]);
    assert!(side.export(bytes.memory()).is_err());
    // SAFETY: valid information.
    let semaphore = unsafe { side.bench.device.create_semaphore(&Default::default(), None) }.expect("a semaphore");
    assert!(side.export_semaphore(semaphore).is_err());
    // SAFETY: nothing uses it.
    unsafe { side.bench.device.destroy_semaphore(semaphore, None) };
    // Nor does anything become a descriptor of a type that there is not.
    let (memory, kept) = (side.exportable(0), side.semaphore(None));
    let of_memory =
        vk::MemoryGetFdInfoKHR::default().memory(memory).handle_type(vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT);
    let of_semaphore =
        vk::SemaphoreGetFdInfoKHR::default().semaphore(kept).handle_type(vk::ExternalSemaphoreHandleTypeFlags::SYNC_FD);
    // SAFETY: objects of this device; the type is what the results are about.
    unsafe {
        assert!(side.memory.get_memory_fd(&of_memory).is_err());
        assert!(side.semaphore.get_semaphore_fd(&of_semaphore).is_err());
    }
    side.free(memory);
}
