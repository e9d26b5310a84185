//! Device loss is told to the owner of the work that caused it, and to nobody else.

use ash::vk;

use crate::kit::{Bench, COUNT, Kernel, glsl, wgsl};

impl Bench {
    /// Submits a kernel on a buffer; returns what a wait for its fence and a later submission answer.
    fn lose(&self, kernel: &Kernel, push: &[u8]) -> [Result<(), vk::Result>; 3] {
        let data = self.words(&[0; 16]);
        let set = self.set(kernel, &[&data]);
        let buffer = self.record(|device, buffer| {
            kernel.bind(device, buffer, set);
            // SAFETY: the buffer is being recorded, and what is bound fits the kernel.
            unsafe {
                device.cmd_push_constants(buffer, kernel.layout, vk::ShaderStageFlags::COMPUTE, 0, push);
                device.cmd_dispatch(buffer, 1, 1, 1);
            }
        });
        let buffers = [buffer];
        let batch = vk::SubmitInfo::default().command_buffers(&buffers);
        // SAFETY: objects of this device.
        unsafe {
            let fence = self.device.create_fence(&vk::FenceCreateInfo::default(), None).expect("a fence");
            // The device may be lost before the command has come back. [Vulkan: vkQueueSubmit, VK_ERROR_DEVICE_LOST]
            let submitted = self.device.queue_submit(self.queue(0, 0), &[batch], fence);
            assert!(matches!(submitted, Ok(()) | Err(vk::Result::ERROR_DEVICE_LOST)), "{submitted:?}");
            let waited = self.device.wait_for_fences(&[fence], true, u64::MAX);
            // A status that is asked for again and again says it in the end. [Vulkan: vkGetFenceStatus]
            let status = loop {
                match self.device.get_fence_status(fence) {
                    Ok(false) => std::thread::yield_now(),
                    status => break status.map(|_| ()),
                }
            };
            // The fence ends with the process, as all objects of a device that is lost.
            [waited, status, self.device.queue_submit(self.queue(0, 0), &[batch], vk::Fence::null())]
        }
    }

    /// A kernel counts on this bench.
    fn works(&self) {
        let (kernel, data) = (self.kernel(&wgsl(COUNT), 1, 0, &[]), self.words(&[0; 4]));
        self.dispatch(&kernel, &[&data], [5, 1, 1], &[]);
        assert_eq!(data.read()[0], 5);
    }
}

#[test]
fn an_endless_shader_lets_others_run() {
    let (endless, other) = (Bench::new(), Bench::new());
    let module = glsl(
        "layout(local_size_x = 1) in;
        layout(set = 0, binding = 0) volatile buffer Data { uint data[]; };
        void main() { while (data[0] == 0) { data[1] += 1; } }",
    );
    let (kernel, data) = (endless.kernel(&module, 1, 0, &[]), endless.words(&[0; 16]));
    let set = endless.set(&kernel, &[&data]);
    let buffers = [endless.record(|device, buffer| {
        kernel.bind(device, buffer, set);
        // SAFETY: the buffer is being recorded, and what is bound fits the kernel.
        unsafe { device.cmd_dispatch(buffer, 1, 1, 1) };
    })];
    let batch = vk::SubmitInfo::default().command_buffers(&buffers);
    let device = &endless.device;
    // SAFETY: objects of this device.
    unsafe {
        let fence = device.create_fence(&vk::FenceCreateInfo::default(), None).expect("a fence");
        device.queue_submit(endless.queue(0, 0), &[batch], fence).expect("submitted");
        other.works();
        assert_eq!(device.get_fence_status(fence), Ok(false));
        data.write(&[1]);
        device.wait_for_fences(&[fence], true, u64::MAX).expect("done");
        device.destroy_fence(fence, None);
    }
    assert_ne!(data.read()[1], 0);
}

#[test]
fn an_address_of_nothing_costs_the_device() {
    let bench = Bench::new();
    let module = glsl(
        "#extension GL_EXT_buffer_reference : require
        #extension GL_EXT_buffer_reference_uvec2 : require
        layout(local_size_x = 1) in;
        layout(buffer_reference, std430, buffer_reference_align = 4) buffer Word { uint word; };
        layout(push_constant) uniform Push { uvec2 address; };
        layout(set = 0, binding = 0) buffer Data { uint data[]; };
        void main() { data[0] = Word(address).word; }",
    );
    let kernel = bench.kernel(&module, 1, 8, &[]);
    let data = bench.words(&[77]);
    let address = vk::BufferDeviceAddressInfo::default().buffer(data.buffer);
    // SAFETY: a buffer of this device, which has memory for addresses.
    let address = unsafe { bench.device.get_buffer_device_address(&address) };
    let result = bench.words(&[0]);
    bench.dispatch(&kernel, &[&result], [1, 1, 1], &address.to_le_bytes());
    assert_eq!(result.read(), [77]);
    let other = Bench::new();
    let functions = ash::ext::device_fault::Device::new(&bench.instance, &bench.device);
    let get = functions.fp().get_device_fault_info_ext;
    assert_eq!(bench.lose(&kernel, &0x7777_0000_0000u64.to_le_bytes()), [Err(vk::Result::ERROR_DEVICE_LOST); 3]);
    let mut counts = vk::DeviceFaultCountsEXT::default();
    let mut address = vk::DeviceFaultAddressInfoEXT::default();
    let mut vendor = vk::DeviceFaultVendorInfoEXT::default();
    let mut info = vk::DeviceFaultInfoEXT::default().address_infos(&mut address).vendor_infos(&mut vendor);
    // SAFETY: a device that is lost, and space for one of each.
    unsafe {
        assert_eq!(get(bench.device.handle(), &mut counts, std::ptr::null_mut()), vk::Result::SUCCESS);
        assert_eq!((counts.address_info_count, counts.vendor_info_count), (1, 1));
        assert_eq!(get(bench.device.handle(), &mut counts, &mut info), vk::Result::SUCCESS);
        // One that works has nothing to tell.
        let mut counts = vk::DeviceFaultCountsEXT::default();
        let working = get(other.device.handle(), &mut counts, std::ptr::null_mut());
        assert_eq!((working, counts.vendor_info_count), (vk::Result::ERROR_UNKNOWN, 0));
    }
    assert!(info.description_as_c_str().expect("a text").to_string_lossy().contains("not mapped"));
    assert_eq!(address.reported_address, 0x7777_0000_0000);
    let text = vendor.description_as_c_str().expect("a text").to_string_lossy().into_owned();
    assert!(text.starts_with("PageFault in program main, instruction "), "{text}");
    other.works();
}
