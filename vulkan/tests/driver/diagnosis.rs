//! What the owner of a lost device is told of it. [Vulkan: VK_EXT_device_fault]

use ash::vk;

use crate::kit::{Bench, Bytes, Kernel, glsl};
use crate::programs::is_alone;

/// What a lost device tells: addresses with their types, texts of vendor information, and the reason.
struct Told {
    addresses: Vec<(vk::DeviceFaultAddressTypeEXT, u64)>,
    texts: Vec<String>,
    why: String,
}

impl Bench {
    /// Runs a kernel that costs the device.
    fn lose_by(&self, kernel: &Kernel, data: &Bytes, push: &[u8]) -> Told {
        let set = self.set(kernel, &[data]);
        let buffers = [self.record(|device, buffer| {
            kernel.bind(device, buffer, set);
            // SAFETY: the buffer is being recorded, and what is bound fits the kernel.
            unsafe {
                if !push.is_empty() {
                    device.cmd_push_constants(buffer, kernel.layout, vk::ShaderStageFlags::COMPUTE, 0, push);
                }
                device.cmd_dispatch(buffer, 1, 1, 1);
            }
        })];
        let batch = vk::SubmitInfo::default().command_buffers(&buffers);
        // SAFETY: objects of this device.
        unsafe {
            let submitted = self.device.queue_submit(self.queue(0, 0), &[batch], vk::Fence::null());
            assert!(matches!(submitted, Ok(()) | Err(vk::Result::ERROR_DEVICE_LOST)), "{submitted:?}");
            assert_eq!(self.device.device_wait_idle(), Err(vk::Result::ERROR_DEVICE_LOST));
        }
        self.told()
    }

    fn told(&self) -> Told {
        let functions = ash::ext::device_fault::Device::new(&self.instance, &self.device);
        let get = functions.fp().get_device_fault_info_ext;
        let mut counts = vk::DeviceFaultCountsEXT::default();
        // SAFETY: a device that is lost.
        let counted = unsafe { get(self.device.handle(), &mut counts, std::ptr::null_mut()) };
        assert_eq!(counted, vk::Result::SUCCESS);
        let mut addresses = vec![vk::DeviceFaultAddressInfoEXT::default(); counts.address_info_count as usize];
        let mut vendor = vec![vk::DeviceFaultVendorInfoEXT::default(); counts.vendor_info_count as usize];
        let mut info = vk::DeviceFaultInfoEXT::default();
        (info.p_address_infos, info.p_vendor_infos) = (addresses.as_mut_ptr(), vendor.as_mut_ptr());
        // SAFETY: as above, with space for as many as were counted.
        let told = unsafe { get(self.device.handle(), &mut counts, &mut info) };
        assert_eq!(told, vk::Result::SUCCESS);
        let text = |text: Result<&std::ffi::CStr, _>| text.expect("a text").to_string_lossy().into_owned();
        Told {
            addresses: addresses.iter().map(|info| (info.address_type, info.reported_address)).collect(),
            texts: vendor.iter().map(|info| text(info.description_as_c_str())).collect(),
            why: text(info.description_as_c_str()),
        }
    }
}

/// [Vulkan: VkDeviceFaultAddressTypeEXT]
#[test]
fn a_page_fault_says_whether_it_was_a_read_or_a_write() {
    type Kind = vk::DeviceFaultAddressTypeEXT;
    let access = |statement: &str| {
        glsl(&format!(
            "#extension GL_EXT_buffer_reference_uvec2 : require
            layout(local_size_x = 1) in;
            layout(buffer_reference, std430, buffer_reference_align = 4) buffer Word {{ uint word; }};
            layout(push_constant) uniform Push {{ uvec2 address; }};
            layout(set = 0, binding = 0) buffer Data {{ uint data[]; }};
            void main() {{ {statement} }}"
        ))
    };
    let cases =
        [("data[0] = Word(address).word;", Kind::READ_INVALID), ("Word(address).word = data[0];", Kind::WRITE_INVALID)];
    for (statement, kind) in cases {
        let bench = Bench::new();
        let (kernel, data) = (bench.kernel(&access(statement), 1, 8, &[]), bench.words(&[7]));
        let told = bench.lose_by(&kernel, &data, &0x7777_0000_0000u64.to_le_bytes());
        assert_eq!(told.addresses, [(kind, 0x7777_0000_0000)], "{statement}");
    }
}

/// Commands that cannot tell of the loss return one of their own results. [Vulkan: Lost Device; Return Codes of vkAllocateMemory, vkCreateFence, vkSetEvent]
#[test]
fn a_lost_device_makes_nothing_and_says_so_by_results_that_are_listed() {
    let bench = Bench::new();
    let module = glsl(
        "#extension GL_EXT_buffer_reference_uvec2 : require
        layout(local_size_x = 1) in;
        layout(buffer_reference, std430, buffer_reference_align = 4) buffer Word { uint word; };
        layout(set = 0, binding = 0) buffer Data { uvec2 data[]; };
        void main() { data[0].x = Word(data[0]).word; }",
    );
    let (kernel, data) = (bench.kernel(&module, 1, 0, &[]), bench.words(&[0, 0x7777]));
    // SAFETY: the device exists.
    let event = unsafe { bench.device.create_event(&vk::EventCreateInfo::default(), None) }.expect("an event");
    bench.lose_by(&kernel, &data, &[]);
    let memory = vk::MemoryAllocateInfo::default().allocation_size(4096);
    // SAFETY: the device exists, though it is lost.
    let results = unsafe {
        [
            bench.device.allocate_memory(&memory, None).err(),
            bench.device.create_fence(&vk::FenceCreateInfo::default(), None).err(),
            bench.device.set_event(event).err(),
        ]
    };
    for refused in results {
        assert!(
            matches!(refused, Some(vk::Result::ERROR_OUT_OF_HOST_MEMORY | vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)),
            "{refused:?}"
        );
    }
    // SAFETY: nothing uses the event.
    unsafe { bench.device.destroy_event(event, None) };
}

/// On a GPU that leaves no dispatch before its end, an endless one is a timeout, and whoever debugs it learns where it stood.
#[test]
fn a_hang_names_program_and_line() {
    if !is_alone("diagnosis::a_hang_names_program_and_line", "preemption=dispatch") {
        return;
    }
    let bench = Bench::new();
    let module = glsl(
        "layout(local_size_x = 1) in;
        layout(set = 0, binding = 0) volatile buffer Data { uint data[]; };
        void main() { while (data[0] == 0) { data[1] += 1; } }",
    );
    let (kernel, data) = (bench.kernel(&module, 1, 0, &[]), bench.words(&[0; 4]));
    let told = bench.lose_by(&kernel, &data, &[]);
    assert_eq!((told.addresses.len(), told.texts.len()), (0, 1));
    assert!(told.why.contains("no progress"), "{}", told.why);
    let [text] = &told.texts[..] else { unreachable!("one, as was counted") };
    assert!(text.starts_with("Reset in program main, instruction "), "{text}");
}
