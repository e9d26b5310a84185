//! Queues: packet queues of the nodes, hardware contexts and queues, doorbells.

pub(crate) mod context;
pub(crate) mod doorbell;
pub(crate) mod hw_queue;
pub(crate) mod numbers;
pub(crate) mod packet;
pub(crate) mod ring;
pub(crate) mod suspend;
