//! VidMm: GPU address spaces, allocations, residency, and the paging process.
//!
//! Page tables lie where the driver wants them. They are written by the driver with the CPU, through the kernel's mapping of that
//! memory, before BuildPagingBuffer returns, or if it claims that by the GPU (see `table_work`). Moving and clearing memory is work for
//! the paging node, packed into buffers of the paging process. Requests never wait for that work unless memory is short or the CPU wants to see the result; they hand out a value of the
//! paging queue's fence instead.
//!
//! It knows the [`port`](crate::port) to the driver and nothing above itself: the scheduler is a [`Scheduler`] that plug and play gives it, and who
//! asks for memory is a [`MemoryOwner`].
//!
//! Its files import one another from the top down only, and nothing from this one, which shows them to others. At the bottom are data: identities, places, address spaces, views of locked
//! allocations, paging work, requests. Above them stands [`memory`], the state behind the memory lock, with what works on that state alone: page tables, paging buffers, windows of
//! apertures. Above that stands the [`manager`], which has the state and its lock, and above that are the operations, each of which adds its functions to both.
//! `xtask/layers.toml` has the order. Functions of the state call one another across its files, because whoever takes memory may have something leave, and what leaves
//! needs memory itself.
//!
//! No process is waited for with the memory lock held: see [`moving`].
//!
//! No DDI but BuildPagingBuffer, submission and those of the CPU host aperture is called with the memory lock held. The order of its locks is
//! in [`rank`](crate::rank).

mod address_space;
mod addresses;
mod allocation;
mod answer;
mod aperture_pages;
mod asking;
mod budget;
mod budget_change;
mod budget_group;
mod copy_entries;
mod counts;
mod cpu_cache;
mod creation;
mod doorbell_use;
mod driver;
mod ending;
mod eviction;
mod existing;
mod fence_pages;
mod fence_place;
mod fence_storage;
mod host_aperture;
mod ids;
pub(crate) mod joint_limit;
mod location;
mod lock;
mod locked_views;
mod manager;
mod mapping;
mod memory;
mod moving;
mod notices;
mod notify;
mod offer;
mod offered;
mod page_size;
mod page_table;
mod paging;
mod paging_queue;
mod paging_work;
mod placement;
mod query;
mod reclaim;
mod request;
mod request_queue;
mod reset;
mod residency;
mod residency_queue;
mod scheduler;
mod search;
mod segment;
mod shared_resource;
mod sharing;
mod spaces;
mod standby;
mod start;
mod suspended;
mod system_memory;
mod table;
mod table_memory;
mod table_operation;
pub(crate) mod table_rules;
mod table_tree;
mod table_work;
mod transfer;
mod trim;
mod update;
mod user_mapping;
mod user_memory;
mod va_space;
mod written_tables;

pub(crate) use address_space::{AddressSpace, Protection};
pub(crate) use addresses::{GpuMapping, MapRequest, Shows};
pub(crate) use allocation::{Allocation, Request as AllocationRequest};
pub(crate) use answer::Backing;
pub(crate) use budget_group::Group;
pub use counts::ResidencyCounts;
pub(crate) use counts::Total;
pub(crate) use cpu_cache::SharedPages;
pub(crate) use fence_pages::{FencePage, FencePageAccess};
pub(crate) use fence_place::PagePin;
pub(crate) use fence_storage::FenceValueKind;
pub(crate) use manager::VidMm;
pub(crate) use notices::{BudgetRegistration, TrimRegistration};
pub(crate) use notify::InProcess;
pub(crate) use offered::{OfferPriority, OfferTerms};
pub(crate) use query::{ResidencyStatus, SegmentFigures};
pub(crate) use residency_queue::{QueueFence, ResidencyQueue};
pub(crate) use scheduler::{IdlePoint, MemoryOwner, PagingContext, Running, Scheduler, SuspendOutcome};
pub(crate) use search::EvictionSearch;
pub(crate) use shared_resource::{Resource, ResourceData, SharedResource};
pub(crate) use start::next_device_id;
pub(crate) use update::{Change, Span, Update};
pub(crate) use user_mapping::{Kept, UserMapping};
pub(crate) use va_space::{Access, REGION_ALIGN};
