//! Memory, semaphores and fences that leave their device by file descriptors, and come to another one: of the same process, and of another process on one machine.

use std::ffi::{CStr, c_int};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;

use ash::vk;
use testbed::programs::{MachineServer, Observer, Stop};
use testbed::setup::{MachineOptions, System};

use crate::kit::{Bench, COUNT, wgsl};

pub(crate) const OPAQUE: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;
pub(crate) const SEMAPHORE: vk::ExternalSemaphoreHandleTypeFlags = vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD;
const FENCE: vk::ExternalFenceHandleTypeFlags = vk::ExternalFenceHandleTypeFlags::OPAQUE_FD;
pub(crate) const INVALID: Result<(), vk::Result> = Err(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE);
pub(crate) const SIZE: u64 = 64 << 10;

/// A second device with the extensions, and their commands.
pub(crate) struct Side {
    pub(crate) bench: Bench,
    pub(crate) memory: ash::khr::external_memory_fd::Device,
    pub(crate) semaphore: ash::khr::external_semaphore_fd::Device,
    fence: ash::khr::external_fence_fd::Device,
}

impl Side {
    pub(crate) fn new() -> Self {
        let bench = Bench::new();
        let memory = ash::khr::external_memory_fd::Device::new(&bench.instance, &bench.device);
        let semaphore = ash::khr::external_semaphore_fd::Device::new(&bench.instance, &bench.device);
        let fence = ash::khr::external_fence_fd::Device::new(&bench.instance, &bench.device);
        Self { bench, memory, semaphore, fence }
    }

    /// A buffer for external memory.
    fn buffer(&self) -> vk::Buffer {
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(OPAQUE);
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST;
        let info = vk::BufferCreateInfo::default().size(SIZE).usage(usage).push_next(&mut external);
        // SAFETY: valid information.
        unsafe { self.bench.device.create_buffer(&info, None) }.expect("a buffer")
    }

    /// Memory that can be exported, of a type.
    pub(crate) fn exportable(&self, kind: u32) -> vk::DeviceMemory {
        let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(OPAQUE);
        let info =
            vk::MemoryAllocateInfo::default().allocation_size(SIZE).memory_type_index(kind).push_next(&mut export);
        // SAFETY: valid information.
        unsafe { self.bench.device.allocate_memory(&info, None) }.expect("memory")
    }

    pub(crate) fn export(&self, memory: vk::DeviceMemory) -> Result<OwnedFd, vk::Result> {
        let info = vk::MemoryGetFdInfoKHR::default().memory(memory).handle_type(OPAQUE);
        // SAFETY: memory of this device; the descriptor is new.
        unsafe { self.memory.get_memory_fd(&info).map(|fd| OwnedFd::from_raw_fd(fd)) }
    }

    /// Imports memory; the descriptor is the driver's if that succeeds, and otherwise it is closed here.
    pub(crate) fn import(&self, fd: OwnedFd, kind: u32, size: u64) -> Result<vk::DeviceMemory, vk::Result> {
        let raw = fd.into_raw_fd();
        let made = self.import_raw(raw, OPAQUE, kind, size);
        if made.is_err() {
            // SAFETY: an import that fails leaves the descriptor to the application.
            drop(unsafe { OwnedFd::from_raw_fd(raw) });
        }
        made
    }

    pub(crate) fn import_raw(
        &self,
        fd: c_int,
        handle_type: vk::ExternalMemoryHandleTypeFlags,
        kind: u32,
        size: u64,
    ) -> Result<vk::DeviceMemory, vk::Result> {
        let mut import = vk::ImportMemoryFdInfoKHR::default().handle_type(handle_type).fd(fd);
        let info =
            vk::MemoryAllocateInfo::default().allocation_size(size).memory_type_index(kind).push_next(&mut import);
        // SAFETY: what is wrong with the descriptor is told by the result.
        unsafe { self.bench.device.allocate_memory(&info, None) }
    }

    /// The memory type that is visible to device and processor and lies there.
    pub(crate) fn kind(&self, with: vk::MemoryPropertyFlags) -> u32 {
        self.bench.kind(with, vk::MemoryPropertyFlags::empty())
    }

    /// Fills a buffer in this memory with a word, by the GPU.
    pub(crate) fn fill(&self, memory: vk::DeviceMemory, word: u32) {
        let bound = self.buffer();
        let device = &self.bench.device;
        // SAFETY: objects of this device, which are used until they are destroyed.
        unsafe {
            device.bind_buffer_memory(bound, memory, 0).expect("bound");
            let fill =
                self.bench.record(|device, buffer| device.cmd_fill_buffer(buffer, bound, 0, vk::WHOLE_SIZE, word));
            self.bench.run_on(0, fill);
            device.destroy_buffer(bound, None);
        }
    }

    /// The first and the last word of a buffer in this memory, as the GPU reads them.
    pub(crate) fn ends(&self, memory: vk::DeviceMemory) -> Vec<u32> {
        let (bound, read) = (self.buffer(), self.bench.words(&[0; 2]));
        let device = &self.bench.device;
        // SAFETY: objects of this device, which are used until they are destroyed.
        unsafe {
            device.bind_buffer_memory(bound, memory, 0).expect("bound");
            let copy = self.bench.record(|device, buffer| {
                let regions = [
                    vk::BufferCopy { src_offset: 0, dst_offset: 0, size: 4 },
                    vk::BufferCopy { src_offset: SIZE - 4, dst_offset: 4, size: 4 },
                ];
                device.cmd_copy_buffer(buffer, bound, read.buffer, &regions);
            });
            self.bench.run_on(0, copy);
            device.destroy_buffer(bound, None);
        }
        read.read()
    }

    pub(crate) fn free(&self, memory: vk::DeviceMemory) {
        // SAFETY: memory of this device that nothing uses.
        unsafe { self.bench.device.free_memory(memory, None) };
    }

    /// A semaphore that can be exported: binary, or a timeline with this value. It is destroyed with the bench.
    pub(crate) fn semaphore(&self, timeline: Option<u64>) -> vk::Semaphore {
        let made = self.new_semaphore(timeline);
        self.bench.keep(crate::kit::Made::Semaphore(made));
        made
    }

    /// As [`Side::semaphore`], for the caller to destroy.
    pub(crate) fn new_semaphore(&self, timeline: Option<u64>) -> vk::Semaphore {
        let mut export = vk::ExportSemaphoreCreateInfo::default().handle_types(SEMAPHORE);
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut export);
        let info = match timeline {
            Some(value) => {
                kind.initial_value = value;
                info.push_next(&mut kind)
            }
            None => info,
        };
        // SAFETY: valid information.
        unsafe { self.bench.device.create_semaphore(&info, None) }.expect("a semaphore")
    }

    pub(crate) fn export_semaphore(&self, semaphore: vk::Semaphore) -> Result<OwnedFd, vk::Result> {
        let info = vk::SemaphoreGetFdInfoKHR::default().semaphore(semaphore).handle_type(SEMAPHORE);
        // SAFETY: a semaphore of this device; the descriptor is new.
        unsafe { self.semaphore.get_semaphore_fd(&info).map(|fd| OwnedFd::from_raw_fd(fd)) }
    }

    pub(crate) fn import_semaphore(&self, fd: OwnedFd, to: vk::Semaphore, temporary: bool) -> Result<(), vk::Result> {
        let raw = fd.into_raw_fd();
        let made = self.import_semaphore_raw(raw, SEMAPHORE, to, temporary);
        if made.is_err() {
            // SAFETY: an import that fails leaves the descriptor to the application.
            drop(unsafe { OwnedFd::from_raw_fd(raw) });
        }
        made
    }

    pub(crate) fn import_semaphore_raw(
        &self,
        fd: c_int,
        handle_type: vk::ExternalSemaphoreHandleTypeFlags,
        to: vk::Semaphore,
        temporary: bool,
    ) -> Result<(), vk::Result> {
        let flags = if temporary { vk::SemaphoreImportFlags::TEMPORARY } else { vk::SemaphoreImportFlags::empty() };
        let info = vk::ImportSemaphoreFdInfoKHR::default().semaphore(to).flags(flags).handle_type(handle_type).fd(fd);
        // SAFETY: a semaphore of this device; what is wrong with the descriptor is told by the result.
        unsafe { self.semaphore.import_semaphore_fd(&info) }
    }

    /// Submits a wait, a buffer and a signal to the first queue of a family.
    pub(crate) fn submit(
        &self,
        family: u32,
        wait: Option<(vk::Semaphore, u64)>,
        buffer: Option<vk::CommandBuffer>,
        signal: Option<(vk::Semaphore, u64)>,
        fence: vk::Fence,
    ) {
        let info = |(semaphore, value): (vk::Semaphore, u64)| {
            let stage = vk::PipelineStageFlags2::ALL_COMMANDS;
            vk::SemaphoreSubmitInfo::default().semaphore(semaphore).value(value).stage_mask(stage)
        };
        let (waits, signals): (Vec<_>, Vec<_>) =
            (wait.map(info).into_iter().collect(), signal.map(info).into_iter().collect());
        let buffers: Vec<_> =
            buffer.iter().map(|buffer| vk::CommandBufferSubmitInfo::default().command_buffer(*buffer)).collect();
        let batch = vk::SubmitInfo2::default()
            .wait_semaphore_infos(&waits)
            .command_buffer_infos(&buffers)
            .signal_semaphore_infos(&signals);
        // SAFETY: objects of this device.
        unsafe { self.bench.device.queue_submit2(self.bench.queue(family, 0), &[batch], fence) }.expect("submitted");
    }

    pub(crate) fn value(&self, semaphore: vk::Semaphore) -> u64 {
        // SAFETY: a timeline semaphore of this device.
        unsafe { self.bench.device.get_semaphore_counter_value(semaphore) }.expect("a value")
    }

    pub(crate) fn wait(&self, semaphore: vk::Semaphore, value: u64) {
        let (semaphores, values) = ([semaphore], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: a timeline semaphore of this device.
        unsafe { self.bench.device.wait_semaphores(&info, u64::MAX) }.expect("waited for");
    }

    pub(crate) fn fence(&self, signalled: bool) -> vk::Fence {
        let mut export = vk::ExportFenceCreateInfo::default().handle_types(FENCE);
        let flags = if signalled { vk::FenceCreateFlags::SIGNALED } else { vk::FenceCreateFlags::empty() };
        let info = vk::FenceCreateInfo::default().flags(flags).push_next(&mut export);
        // SAFETY: valid information.
        unsafe { self.bench.device.create_fence(&info, None) }.expect("a fence")
    }

    pub(crate) fn export_fence(&self, fence: vk::Fence) -> OwnedFd {
        let info = vk::FenceGetFdInfoKHR::default().fence(fence).handle_type(FENCE);
        // SAFETY: a fence of this device; the descriptor is new.
        unsafe { OwnedFd::from_raw_fd(self.fence.get_fence_fd(&info).expect("a descriptor")) }
    }

    pub(crate) fn import_fence_raw(&self, fd: c_int, to: vk::Fence, temporary: bool) -> Result<(), vk::Result> {
        let flags = if temporary { vk::FenceImportFlags::TEMPORARY } else { vk::FenceImportFlags::empty() };
        let info = vk::ImportFenceFdInfoKHR::default().fence(to).flags(flags).handle_type(FENCE).fd(fd);
        // SAFETY: a fence of this device that nothing uses; what is wrong with the descriptor is told by the result.
        unsafe { self.fence.import_fence_fd(&info) }
    }

    pub(crate) fn is_signalled(&self, fence: vk::Fence) -> bool {
        // SAFETY: a fence of this device.
        unsafe { self.bench.device.get_fence_status(fence) }.expect("a status")
    }

    pub(crate) fn reset(&self, fence: vk::Fence) {
        // SAFETY: a fence of this device that no submission signals.
        unsafe { self.bench.device.reset_fences(&[fence]) }.expect("reset");
    }
}

/// "exportFromImportedHandleTypes", "compatibleHandleTypes" and features tell what works. [Vulkan: vkGetPhysicalDeviceExternalBufferProperties]
#[test]
fn what_can_be_exported_and_imported_is_told() {
    let bench = Bench::new();
    let (instance, physical) = (&bench.instance, bench.physical);
    let both = vk::ExternalMemoryFeatureFlags::EXPORTABLE | vk::ExternalMemoryFeatureFlags::IMPORTABLE;
    for (handle_type, there) in [(OPAQUE, true), (vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT, false)] {
        let info = vk::PhysicalDeviceExternalBufferInfo::default()
            .usage(vk::BufferUsageFlags::STORAGE_BUFFER)
            .handle_type(handle_type);
        let mut told = vk::ExternalBufferProperties::default();
        // SAFETY: the physical device is of the instance; so below.
        unsafe { instance.get_physical_device_external_buffer_properties(physical, &info, &mut told) };
        let told = told.external_memory_properties;
        let types = if there { handle_type } else { Default::default() };
        assert_eq!(told.external_memory_features, if there { both } else { Default::default() });
        assert_eq!(told.export_from_imported_handle_types, types);
        assert!(!there || told.compatible_handle_types == types);
        let mut external = vk::PhysicalDeviceExternalImageFormatInfo::default().handle_type(handle_type);
        let image = vk::PhysicalDeviceImageFormatInfo2::default()
            .format(vk::Format::R8G8B8A8_UNORM)
            .ty(vk::ImageType::TYPE_2D)
            .usage(vk::ImageUsageFlags::STORAGE)
            .push_next(&mut external);
        let mut told = vk::ExternalImageFormatProperties::default();
        let mut format = vk::ImageFormatProperties2::default().push_next(&mut told);
        // SAFETY: as above.
        let found = unsafe { instance.get_physical_device_image_format_properties2(physical, &image, &mut format) };
        assert_eq!(found, if there { Ok(()) } else { Err(vk::Result::ERROR_FORMAT_NOT_SUPPORTED) });
        assert!(!there || told.external_memory_properties.external_memory_features == both);
    }
    for (handle_type, there) in [(SEMAPHORE, true), (vk::ExternalSemaphoreHandleTypeFlags::SYNC_FD, false)] {
        let info = vk::PhysicalDeviceExternalSemaphoreInfo::default().handle_type(handle_type);
        let mut told = vk::ExternalSemaphoreProperties::default();
        // SAFETY: as above.
        unsafe { instance.get_physical_device_external_semaphore_properties(physical, &info, &mut told) };
        assert_eq!(told.external_semaphore_features.is_empty(), !there);
        assert_eq!(told.export_from_imported_handle_types.contains(handle_type), there);
    }
    for (handle_type, there) in [(FENCE, true), (vk::ExternalFenceHandleTypeFlags::SYNC_FD, false)] {
        let info = vk::PhysicalDeviceExternalFenceInfo::default().handle_type(handle_type);
        let mut told = vk::ExternalFenceProperties::default();
        // SAFETY: as above.
        unsafe { instance.get_physical_device_external_fence_properties(physical, &info, &mut told) };
        assert_eq!(told.external_fence_features.is_empty(), !there);
        assert_eq!(told.compatible_handle_types.contains(handle_type), there);
    }
}

/// "Importing memory object payloads from Linux handles": the memory is one, and lives while somebody has it.
#[test]
fn memory_that_is_imported_has_the_same_bytes() {
    type Flags = vk::MemoryPropertyFlags;
    let (ours, theirs) = (Side::new(), Side::new());
    for with in
        [Flags::DEVICE_LOCAL, Flags::HOST_VISIBLE, Flags::DEVICE_LOCAL | Flags::HOST_VISIBLE, Flags::HOST_CACHED]
    {
        let kind = ours.kind(with);
        let exported = ours.exportable(kind);
        let imported = theirs.import(ours.export(exported).expect("a descriptor"), kind, SIZE).expect("imported");
        ours.fill(exported, 0x1111_0000 + kind);
        assert_eq!(theirs.ends(imported), [0x1111_0000 + kind; 2]);
        theirs.fill(imported, 0x2222_0000 + kind);
        assert_eq!(ours.ends(exported), [0x2222_0000 + kind; 2]);
        ours.free(exported);
        assert_eq!(theirs.ends(imported), [0x2222_0000 + kind; 2], "it stays while somebody has it");
        theirs.free(imported);
    }
}

/// A descriptor by itself keeps the memory. [Vulkan: vkGetMemoryFdKHR]
#[test]
fn a_descriptor_keeps_the_memory_and_is_imported_any_number_of_times_by_its_copies() {
    let (ours, theirs) = (Side::new(), Side::new());
    let kind = ours.kind(vk::MemoryPropertyFlags::DEVICE_LOCAL);
    let exported = ours.exportable(kind);
    ours.fill(exported, 77);
    let descriptor = ours.export(exported).expect("a descriptor");
    ours.free(exported);
    let copy = descriptor.try_clone().expect("a copy");
    let [first, second] = [descriptor, copy].map(|one| theirs.import(one, kind, SIZE).expect("imported"));
    assert_eq!(theirs.ends(first), [77; 2]);
    theirs.fill(first, 78);
    theirs.free(first);
    assert_eq!(theirs.ends(second), [78; 2]);
    theirs.free(second);
}

/// Opaque descriptors have reference transference: payloads are shared, in both directions. [Vulkan: Handle Types Supported by VkImportSemaphoreFdInfoKHR]
#[test]
fn a_timeline_that_is_imported_is_one_with_the_exported_one() {
    let (ours, theirs) = (Side::new(), Side::new());
    let (exported, imported) = (ours.semaphore(Some(3)), theirs.semaphore(Some(0)));
    theirs.import_semaphore(ours.export_semaphore(exported).expect("a descriptor"), imported, false).expect("imported");
    assert_eq!(theirs.value(imported), 3);
    // The other device's queue waits for what this one's signals, and answers.
    theirs.submit(0, Some((imported, 5)), None, Some((imported, 6)), vk::Fence::null());
    assert_eq!(ours.value(exported), 3);
    ours.submit(1, None, None, Some((exported, 5)), vk::Fence::null());
    ours.wait(exported, 6);
    theirs.wait(imported, 6);
    // An imported payload is exported again.
    let third = ours.semaphore(Some(0));
    ours.import_semaphore(theirs.export_semaphore(imported).expect("a descriptor"), third, false).expect("imported");
    assert_eq!(ours.value(third), 6);
}

/// A wait unsignals a binary semaphore for all that share its payload. [Vulkan: Semaphore Signaling; Importing Semaphore Payloads]
#[test]
fn a_binary_semaphore_orders_the_queues_of_two_devices_again_and_again() {
    let (ours, theirs) = (Side::new(), Side::new());
    let kind = ours.kind(vk::MemoryPropertyFlags::DEVICE_LOCAL);
    let memory = ours.exportable(kind);
    let same = theirs.import(ours.export(memory).expect("a descriptor"), kind, SIZE).expect("imported");
    let pair = || {
        let (exported, imported) = (ours.semaphore(None), theirs.semaphore(None));
        let descriptor = ours.export_semaphore(exported).expect("a descriptor");
        theirs.import_semaphore(descriptor, imported, false).expect("imported");
        (exported, imported)
    };
    let (there, back) = (pair(), pair());
    let (bound_ours, bound_theirs) = (ours.buffer(), theirs.buffer());
    let seen = theirs.bench.words(&[0; 20]);
    // SAFETY: objects of their devices, alive until the end of the test.
    unsafe {
        ours.bench.device.bind_buffer_memory(bound_ours, memory, 0).expect("bound");
        theirs.bench.device.bind_buffer_memory(bound_theirs, same, 0).expect("bound");
    }
    for turn in 0..20u32 {
        let fill = ours.bench.record(|device, buffer| {
            // SAFETY: the buffer is being recorded.
            unsafe { device.cmd_fill_buffer(buffer, bound_ours, 0, 4, turn + 1) };
        });
        let copy = theirs.bench.record(|device, buffer| {
            let region = [vk::BufferCopy { src_offset: 0, dst_offset: u64::from(turn) * 4, size: 4 }];
            // SAFETY: the buffer is being recorded.
            unsafe { device.cmd_copy_buffer(buffer, bound_theirs, seen.buffer, &region) };
        });
        let wait = (turn != 0).then_some((back.0, 0));
        ours.submit(0, wait, Some(fill), Some((there.0, 0)), vk::Fence::null());
        theirs.submit(0, Some((there.1, 0)), Some(copy), Some((back.1, 0)), vk::Fence::null());
    }
    ours.submit(0, Some((back.0, 0)), None, None, vk::Fence::null());
    // SAFETY: objects of their devices, which are idle when they are destroyed.
    unsafe {
        ours.bench.device.device_wait_idle().expect("idle");
        theirs.bench.device.device_wait_idle().expect("idle");
        ours.bench.device.destroy_buffer(bound_ours, None);
        theirs.bench.device.destroy_buffer(bound_theirs, None);
    }
    assert_eq!(seen.read(), (1..=20).collect::<Vec<_>>());
    ours.free(memory);
    theirs.free(same);
}

/// "The next wait restores the prior permanent payload." [Vulkan: Importing Semaphore Payloads, VK_SEMAPHORE_IMPORT_TEMPORARY_BIT]
#[test]
fn a_temporary_payload_ends_with_the_next_wait() {
    let (ours, theirs) = (Side::new(), Side::new());
    let (exported, semaphore) = (ours.semaphore(None), theirs.semaphore(None));
    theirs.import_semaphore(ours.export_semaphore(exported).expect("a descriptor"), semaphore, true).expect("imported");
    ours.submit(0, None, None, Some((exported, 0)), vk::Fence::null());
    theirs.submit(0, Some((semaphore, 0)), None, None, vk::Fence::null());
    // From here on it is the semaphore that it was: it is signalled and waited for without the other one.
    theirs.submit(0, None, None, Some((semaphore, 0)), vk::Fence::null());
    theirs.submit(1, Some((semaphore, 0)), None, None, vk::Fence::null());
    // SAFETY: the device exists.
    unsafe { theirs.bench.device.device_wait_idle() }.expect("idle");
    // And the other one is unsignalled, so that it can be signalled and waited for, too.
    ours.submit(0, None, None, Some((exported, 0)), vk::Fence::null());
    ours.submit(1, Some((exported, 0)), None, None, vk::Fence::null());
    for side in [&ours, &theirs] {
        // SAFETY: the device exists.
        unsafe { side.bench.device.device_wait_idle() }.expect("idle");
    }
}

/// A reset of a fence with a temporary payload restores the permanent one first. [Vulkan: vkResetFences]
#[test]
fn fences_are_shared_as_semaphores_are() {
    let (ours, theirs) = (Side::new(), Side::new());
    let (exported, imported, temporary) = (ours.fence(false), theirs.fence(true), theirs.fence(true));
    for (to, is_temporary) in [(imported, false), (temporary, true)] {
        theirs.import_fence_raw(ours.export_fence(exported).into_raw_fd(), to, is_temporary).expect("imported");
    }
    assert!(!theirs.is_signalled(imported) && !theirs.is_signalled(temporary));
    ours.submit(0, None, None, None, exported);
    // SAFETY: fences of this device.
    unsafe { theirs.bench.device.wait_for_fences(&[imported, temporary], true, u64::MAX) }.expect("signalled");
    theirs.reset(temporary);
    assert!(theirs.is_signalled(imported), "the reset was of the permanent payload");
    theirs.reset(imported);
    assert!(!ours.is_signalled(exported) && !theirs.is_signalled(temporary));
    theirs.submit(0, None, None, None, imported);
    // SAFETY: a fence of this device.
    unsafe { ours.bench.device.wait_for_fences(&[exported], true, u64::MAX) }.expect("signalled");
    assert!(!theirs.is_signalled(temporary));
    // SAFETY: fences of their devices, which nothing uses.
    unsafe {
        ours.bench.device.destroy_fence(exported, None);
        theirs.bench.device.destroy_fence(imported, None);
        theirs.bench.device.destroy_fence(temporary, None);
    }
}

/// Descriptors fit devices whose deviceUUID and driverUUID are the same. [Vulkan: External Memory Handle Types Compatibility]
fn identity(bench: &Bench) -> [u8; 16] {
    let mut id = vk::PhysicalDeviceIDProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut id);
    // SAFETY: the physical device is of the instance.
    unsafe { bench.instance.get_physical_device_properties2(bench.physical, &mut properties) };
    id.device_uuid
}

/// Environment variable that has [`two_processes_of_one_machine_share`] play a part: `exports`, or `imports` with the descriptors and the device of the other.
const PART: &str = "CAMPANILE_VULKAN_TEST_PART";
const WORD: u32 = 0x0bad_cafe;

/// A program that is this test again, with a part.
fn part(part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args(["external::two_processes_of_one_machine_share", "--exact", "--nocapture"]).env(PART, part);
    command
}

fn exports() {
    let side = Side::new();
    let kind = side.kind(vk::MemoryPropertyFlags::DEVICE_LOCAL);
    let (memory, timeline, binary) = (side.exportable(kind), side.semaphore(Some(1)), side.semaphore(None));
    let descriptors = [side.export(memory), side.export_semaphore(timeline), side.export_semaphore(binary)];
    let descriptors = descriptors.map(|descriptor| descriptor.expect("a descriptor"));
    for descriptor in &descriptors {
        // SAFETY: a descriptor of this process, which the other program inherits.
        assert_eq!(unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, 0) }, 0);
    }
    let numbers = descriptors.each_ref().map(|descriptor| descriptor.as_raw_fd().to_string()).join(",");
    let id = identity(&side.bench).map(|byte| format!("{byte:02x}")).concat();
    let mut other = part(&format!("imports {numbers} {id}")).spawn().expect("it starts");
    // The other process fills the memory when this one has signalled both semaphores, and says so.
    side.submit(0, None, None, Some((binary, 0)), vk::Fence::null());
    side.submit(0, None, None, Some((timeline, 2)), vk::Fence::null());
    // A process that has failed signals nothing, so that its end comes before the wait.
    assert!(other.wait().expect("an end").success());
    side.wait(timeline, 3);
    assert_eq!(side.ends(memory), [WORD; 2]);
    side.free(memory);
    // A program with a machine of its own has another device, and is refused.
    let mut stranger = part(&format!("stranger {numbers} {id}"));
    assert!(stranger.env_remove("CAMPANILE_MACHINE").status().expect("an end").success());
}

fn imports(text: &str, stranger: bool) {
    let (numbers, id) = text.split_once(' ').expect("two words");
    let descriptors: Vec<c_int> = numbers.split(',').map(|number| number.parse().expect("a number")).collect();
    let side = Side::new();
    let same = identity(&side.bench).map(|byte| format!("{byte:02x}")).concat() == id;
    assert_eq!(same, !stranger, "the device is the same where the machine is");
    let kind = side.kind(vk::MemoryPropertyFlags::DEVICE_LOCAL);
    let (timeline, binary) = (side.semaphore(Some(0)), side.semaphore(None));
    if stranger {
        assert_eq!(side.import_raw(descriptors[0], OPAQUE, kind, SIZE).map(drop), INVALID);
        assert_eq!(side.import_semaphore_raw(descriptors[1], SEMAPHORE, timeline, false), INVALID);
        return;
    }
    let memory = side.import_raw(descriptors[0], OPAQUE, kind, SIZE).expect("imported");
    side.import_semaphore_raw(descriptors[1], SEMAPHORE, timeline, false).expect("imported");
    side.import_semaphore_raw(descriptors[2], SEMAPHORE, binary, true).expect("imported");
    side.submit(0, Some((binary, 0)), None, None, vk::Fence::null());
    side.wait(timeline, 2);
    side.fill(memory, WORD);
    side.submit(0, None, None, Some((timeline, 3)), vk::Fence::null());
    side.wait(timeline, 3);
    side.free(memory);
}

#[test]
fn two_processes_of_one_machine_share() {
    if let Ok(part) = std::env::var(PART) {
        match part.split_once(' ') {
            None => exports(),
            Some((what, text)) => imports(text, what == "stranger"),
        }
        return;
    }
    let socket = std::env::temp_dir().join(format!("campanile-external-test-{}", std::process::id()));
    let stop = Stop::new().expect("a descriptor");
    let server = MachineServer::bind(&socket, 8, stop.clone()).expect("served");
    let system = System::boot(&MachineOptions::default().in_use().system()).expect("a machine");
    let observer: Observer = Arc::new(|_| ());
    std::thread::scope(|scope| {
        scope.spawn(|| server.serve(system.machine(), &observer).expect("served"));
        let output = part("exports").env("CAMPANILE_MACHINE", &socket).output();
        stop.stop();
        let output = output.expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
    });
}

/// The commands are there with their extensions only, and count where a shader of the other device does.
#[test]
fn a_shader_counts_in_memory_of_another_device() {
    let (ours, theirs) = (Side::new(), Side::new());
    let kind = ours.kind(vk::MemoryPropertyFlags::HOST_VISIBLE);
    let memory = ours.exportable(kind);
    let same = theirs.import(ours.export(memory).expect("a descriptor"), kind, SIZE).expect("imported");
    ours.fill(memory, 0);
    let (kernel, bound) = (theirs.bench.kernel(&wgsl(COUNT), 1, 0, &[]), theirs.buffer());
    let set = theirs.bench.empty_set(&kernel);
    let info = [vk::DescriptorBufferInfo { buffer: bound, offset: 0, range: 16 }];
    let write = vk::WriteDescriptorSet::default().dst_set(set).descriptor_type(crate::kit::STORAGE).buffer_info(&info);
    // SAFETY: objects of this device, in use until they are destroyed.
    unsafe {
        theirs.bench.device.bind_buffer_memory(bound, same, 0).expect("bound");
        theirs.bench.device.update_descriptor_sets(&[write], &[]);
        let count = theirs.bench.record(|device, buffer| {
            kernel.bind(device, buffer, set);
            device.cmd_dispatch(buffer, 9, 1, 1);
        });
        theirs.bench.run_on(0, count);
        theirs.bench.device.destroy_buffer(bound, None);
    }
    assert_eq!(ours.ends(memory)[0], 9);
    ours.free(memory);
    theirs.free(same);
    let has = |name: &CStr| {
        // SAFETY: the device exists, and the name is terminated.
        unsafe { ours.bench.instance.get_device_proc_addr(ours.bench.device.handle(), name.as_ptr()) }.is_some()
    };
    assert!(has(c"vkGetMemoryFdKHR") && has(c"vkImportSemaphoreFdKHR") && has(c"vkGetFenceFdKHR"));
    assert!(!has(c"vkGetMemoryWin32HandleKHR"));
}
