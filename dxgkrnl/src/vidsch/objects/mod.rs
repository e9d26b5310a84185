//! The objects of the scheduler: what each of them has, what it says of itself, and what it can do alone.
//!
//! Nothing here knows the scheduler, the driver's answers to it, or what is done with several objects at once: that stands above. So each file
//! imports only files below it:
//!
//! - at the bottom the adapter, the processes and devices on it, priorities, and memory of fences and doorbells;
//! - above them fences with what is open of them, and the waits and software queues that name fences;
//! - then contexts: hardware contexts with their queues and doorbells, and contexts of packets;
//! - then nodes, which have packets of such contexts, and step by step what a node decides;
//! - then what the scheduler knows of all of these: work for its threads, timeouts, logs, and reports of interrupts.
//!
//! Two files have more than one object, because those know each other: `fence` has fences, what is open of them, and what those of
//! several adapters share; `hardware` has contexts, queues and doorbells.

pub(in crate::vidsch) mod active;
pub(in crate::vidsch) mod call_mapping;
pub(in crate::vidsch) mod device;
pub(in crate::vidsch) mod device_work;
pub(in crate::vidsch) mod doorbell_memory;
pub(in crate::vidsch) mod fence;
pub(in crate::vidsch) mod fence32;
pub(in crate::vidsch) mod fence_log;
pub(in crate::vidsch) mod fence_options;
pub(in crate::vidsch) mod hardware;
pub(in crate::vidsch) mod node;
pub(in crate::vidsch) mod node_next;
pub(in crate::vidsch) mod node_preemption;
pub(in crate::vidsch) mod node_reset;
pub(in crate::vidsch) mod older_sync;
pub(in crate::vidsch) mod overdue;
pub(in crate::vidsch) mod packet;
pub(in crate::vidsch) mod packet_context;
pub(in crate::vidsch) mod pending;
pub(in crate::vidsch) mod preempting;
pub(crate) mod priority;
pub(in crate::vidsch) mod process_adapter;
pub(in crate::vidsch) mod queue_wait;
pub(in crate::vidsch) mod render_adapter;
pub(in crate::vidsch) mod request_queue;
pub(in crate::vidsch) mod residency_slices;
pub(in crate::vidsch) mod running;
pub(in crate::vidsch) mod scheduling_log;
pub(in crate::vidsch) mod signalled;
pub(in crate::vidsch) mod storage;
pub(in crate::vidsch) mod suspects;
pub(in crate::vidsch) mod sync_object;
pub(in crate::vidsch) mod timeouts;
pub(in crate::vidsch) mod update_queue;
pub(in crate::vidsch) mod worker;
