//! VK_EXT_debug_utils: names and labels go to the traces of the machine, and messages to the program that asked for them.

use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

use ash::vk;

use crate::kit::{Bench, Made, entry};
use crate::programs::{built, manifest, run};

/// Environment variable that has [`debug_names_appear_in_the_timeline`] be the program that names its objects.
const PROGRAM: &str = "CAMPANILE_VULKAN_TEST_NAMES";

impl Bench {
    fn debug(&self) -> ash::ext::debug_utils::Device {
        ash::ext::debug_utils::Device::new(&self.instance, &self.device)
    }

    fn named<H: vk::Handle>(&self, object: H, name: &CStr) -> H {
        let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(name);
        // SAFETY: an object of this device.
        unsafe { self.debug().set_debug_utils_object_name(&info) }.expect("named");
        vk::Handle::from_raw(info.object_handle)
    }
}

fn label(name: &CStr) -> vk::DebugUtilsLabelEXT<'_> {
    vk::DebugUtilsLabelEXT::default().label_name(name)
}

/// A program that names its objects, and what its queue runs.
fn program() {
    let bench = Bench::new();
    let debug = bench.debug();
    let queue = bench.named(bench.queue(0, 0), c"physics");
    let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
    let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
    // SAFETY: valid information.
    let semaphore = unsafe { bench.device.create_semaphore(&info, None) }.expect("a semaphore");
    bench.keep(Made::Semaphore(semaphore));
    let semaphore = bench.named(semaphore, c"frame done");
    let data = bench.words(&[0; 64]);
    bench.named(data.buffer, c"positions");
    bench.named(data.memory(), c"heap of bodies");
    let buffer = bench.record(|device, buffer| {
        // SAFETY: the buffer is being recorded; what is recorded is of this device.
        unsafe {
            debug.cmd_begin_debug_utils_label(buffer, &label(c"integrate"));
            device.cmd_fill_buffer(buffer, data.buffer, 0, vk::WHOLE_SIZE, 7);
            debug.cmd_insert_debug_utils_label(buffer, &label(c"half way"));
            device.cmd_fill_buffer(buffer, data.buffer, 0, 4, 8);
            debug.cmd_end_debug_utils_label(buffer);
        }
    });
    let buffers = [bench.named(buffer, c"step")];
    let (semaphores, values) = ([semaphore], [1]);
    let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
    let batch =
        vk::SubmitInfo::default().command_buffers(&buffers).signal_semaphores(&semaphores).push_next(&mut timeline);
    let wait = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
    // SAFETY: objects of this device, which are kept until it is idle.
    unsafe {
        debug.queue_begin_debug_utils_label(queue, &label(c"frame 1"));
        bench.device.queue_submit(queue, &[batch], vk::Fence::null()).expect("submitted");
        debug.queue_end_debug_utils_label(queue);
        debug.queue_insert_debug_utils_label(queue, &label(c"presented"));
        bench.device.wait_semaphores(&wait, u64::MAX).expect("waited for");
        bench.device.queue_wait_idle(queue).expect("idle");
    }
    assert_eq!(data.read()[..2], [8, 7]);
    // A name that is taken away, and names of what no trace shows, change nothing.
    bench.named(data.buffer, c"");
    bench.named(data.buffer, c"positions");
    bench.named(bench.pools[0], c"a pool");
}

/// A scratch file of this process.
fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()))
}

#[test]
fn names_and_labels_change_nothing_that_is_computed() {
    program();
}

/// "debug names appear in the timeline": of queues, semaphores, memory and buffers, of command buffers and of labels, from a machine in another process.
#[test]
fn debug_names_appear_in_the_timeline() {
    if std::env::var_os(PROGRAM).is_some() {
        return program();
    }
    let campanile = built().join("../campanile");
    if !campanile.is_file() {
        assert!(std::env::var_os("CI").is_none(), "{} is not built", campanile.display());
        return println!("NOT TESTED: {} is not built; `cargo xtask test` builds it", campanile.display());
    }
    let (trace, page) = (scratch("names.pftrace"), scratch("names.html"));
    let mut command = Command::new(&campanile);
    command.args(["vulkan", "--manifest"]).arg(manifest()).arg("--trace").arg(&trace).arg("--");
    command.arg(std::env::current_exe().expect("a path"));
    command.args(["debug::debug_names_appear_in_the_timeline", "--exact", "--nocapture"]).env(PROGRAM, "1");
    print!("{}", run(command.env_remove("CAMPANILE_MACHINE")));
    run(Command::new(&campanile).arg("timeline").arg(&trace).arg("--out").arg(&page));
    let (file, drawn) = (std::fs::read(&trace).expect("a trace"), std::fs::read_to_string(&page).expect("a page"));
    for name in [
        "physics",
        "frame done",
        "bytes: positions",
        "bytes: heap of bodies",
        "command buffer step",
        "integrate",
        "half way",
        "frame 1",
        "presented",
    ] {
        assert!(file.windows(name.len()).any(|bytes| bytes == name.as_bytes()), "{name} is not in the trace");
        assert!(drawn.contains(name), "{name} is not on the page");
    }
    [trace, page].iter().for_each(|path| std::fs::remove_file(path).expect("removed"));
}

/// Texts of the messages that the messenger got.
static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "system" fn hear(
    _severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _types: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _user: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the data are those that were submitted.
    let text = unsafe { (*data).message_as_c_str() }.expect("a message");
    HEARD.lock().expect("a list").push(text.to_string_lossy().into_owned());
    vk::FALSE
}

#[test]
fn a_messenger_hears_what_it_asked_for() {
    type Severity = vk::DebugUtilsMessageSeverityFlagsEXT;
    let bench = Bench::new();
    let debug = ash::ext::debug_utils::Instance::new(&entry(), &bench.instance);
    let all = vk::DebugUtilsMessageTypeFlagsEXT::GENERAL | vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION;
    let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(Severity::ERROR)
        .message_type(all)
        .pfn_user_callback(Some(hear));
    let submit = |severity, text: &CStr| {
        let data = vk::DebugUtilsMessengerCallbackDataEXT::default().message(text);
        // SAFETY: a message of this frame.
        unsafe { debug.submit_debug_utils_message(severity, vk::DebugUtilsMessageTypeFlagsEXT::GENERAL, &data) };
    };
    // SAFETY: the function lives as long as the program.
    let messenger = unsafe { debug.create_debug_utils_messenger(&info, None) }.expect("a messenger");
    submit(Severity::ERROR, c"heard");
    submit(Severity::INFO, c"of another severity");
    // SAFETY: the messenger is of this instance.
    unsafe { debug.destroy_debug_utils_messenger(messenger, None) };
    submit(Severity::ERROR, c"after the end");
    assert_eq!(*HEARD.lock().expect("a list"), ["heard"]);
}

#[test]
fn devices_have_the_commands_of_names_with_the_extension_only() {
    let has = |bench: &Bench| {
        let name = c"vkSetDebugUtilsObjectNameEXT".as_ptr();
        // SAFETY: the device exists, and the name is terminated.
        unsafe { bench.instance.get_device_proc_addr(bench.device.handle(), name) }.is_some()
    };
    assert!(has(&Bench::new()) && !has(&Bench::with_instance(&[])));
}
