//! A compute-only Vulkan driver over the user-mode driver: `libcampanile_vulkan.so`, which the loader finds by its manifest.
//!
//! Queues are hardware queues, semaphores and fences are native fences of the GPU, and a submission is an entry in a ring and one store to a doorbell:
//! vkQueueSubmit enters no kernel. The machine behind it is the one of `libcampanile_kmt.so`, by the same variables.
//!
//! The driver is not conformant in Khronos' sense and says so: its conformance version is 0.0.0.0. `docs/vulkan.md` has what there is and what there is not.
//!
//! Layers, each of which uses only those after it: the interface to the loader, the commands, submission, command buffers, the objects, and what they stand on.

mod app;
mod backlog;
mod clock;
mod command;
mod descriptor;
mod device;
mod entry;
mod external;
mod failure;
mod fault;
mod format;
mod handle;
mod icd;
mod image;
mod instance;
mod labels;
mod layout;
mod machine;
mod memory;
mod messenger;
mod names;
mod physical;
mod pipeline;
mod private_data;
mod query;
mod records;
#[cfg(all(windows, feature = "start"))]
mod start;
mod submit;
mod sync;
mod template;

pub use icd::{vk_icdGetInstanceProcAddr, vk_icdGetPhysicalDeviceProcAddr, vk_icdNegotiateLoaderICDInterfaceVersion};
