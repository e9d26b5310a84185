//! Contexts of user mode that are scheduled packet by packet, and the software queue of each.
//!
//! Packets, waits and signals keep the order of their submission. A packet that nothing holds goes to its node, which decides when
//! the hardware gets it; a wait blocks everything behind it until its fences have reached their values, and a signal until every
//! packet before it is done. What follows then is moved on by the worker thread.
//! [context-monitoring: GPU wait, GPU signal; native-gpu-fence-objects]

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nt::lock::lock;
use wddm_ddi::status::*;

use super::not_running::NotRunning;
use super::objects::packet::{Owner, Packet};
use super::objects::packet_context::{Item, PacketCommands, PacketContext, SoftwareQueue};
use super::objects::preempting::Stood;
use super::objects::priority::Priority;
use super::objects::queue_wait::Objects;
use super::objects::request_queue::REQUESTS_MAX;
use super::objects::worker::Work;
use super::packet;

/// Interval at which a thread that waits for packets looks at them again.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

impl PacketContext {
    /// Tells the driver where the root page table of its process is.
    pub(super) fn set_root(&self, stands: &NotRunning<'_>) {
        packet::set_root_page_table(&self.adapter, self.kmd, self.node, &self.device.process.space, stands);
    }

    /// As when it was made: the page tables came back to another place while nothing of it was under way.
    pub(super) fn follow_root(&self, stands: &NotRunning<'_>) {
        let _working = self.adapter.use_node(self.node);
        let gone = lock(&self.gone);
        if !*gone {
            self.set_root(stands);
        }
    }

    /// With `away`, holds the packets of the context back from now on and requests a preemption of those that the hardware has; without, hands them over again.
    pub(super) fn set_away(&self, away: bool) {
        let before = self.away.swap(away, Ordering::AcqRel);
        if let Some(node) = self.sch().nodes.get(self.node as usize).filter(|_| before != away) {
            if away {
                node.state().ask_off(self);
            }
            self.sch().dispatch(self.node);
        }
    }

    /// True if the hardware has nothing of it when the machine's clock shows `limit` at the latest.
    pub(super) fn has_left(&self, limit: Duration) -> bool {
        let sch = self.sch();
        let _waits = sch.timeouts.clock().deadline(limit);
        loop {
            if sch.wait_node(self.node, POLL_INTERVAL, |state| !state.flies(self)) {
                return true;
            }
            // A report leaves it to the worker to ask for what was asked for meanwhile.
            sch.dispatch(self.node);
            if sch.timeouts.clock().now() >= limit || sch.timeouts.is_abandoning() || sch.verifier.is_stopped() {
                return false;
            }
        }
    }

    /// The class of the process is another one.
    pub(crate) fn follow_class(&self) {
        self.sch().dispatch(self.node);
    }

    /// Changes priorities, also for packets that are queued.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE for a context that is gone.
    pub(crate) fn set_priority(&self, change: impl FnOnce(&mut Priority)) -> Result<(), NTSTATUS> {
        if self.is_destroyed() {
            return Err(STATUS_INVALID_HANDLE);
        }
        let mut wanted = self.priority();
        change(&mut wanted);
        self.global.store(wanted.global, Ordering::Release);
        self.in_process.store(wanted.in_process, Ordering::Release);
        self.sch().dispatch(self.node);
        Ok(())
    }

    /// What is submitted from now on runs when the fences have reached their values, or when nobody can wait for them any more.
    ///
    /// # Errors
    /// Why a fence is ended; as [`PacketContext::submit`].
    pub(crate) fn submit_wait(&self, conditions: Objects) -> Result<(), NTSTATUS> {
        conditions.check()?;
        self.submit_item(|_| Item::Wait(conditions))
    }

    /// The fences get these values when every packet that was submitted until now is done, or `at_submission`: when all that held
    /// it is over. As signals of a GPU they are written whatever the value was.
    ///
    /// # Errors
    /// As for [`PacketContext::submit_wait`].
    pub(crate) fn submit_signal(&self, signals: Objects, at_submission: bool) -> Result<(), NTSTATUS> {
        signals.check()?;
        self.submit_item(|software| {
            let after = if at_submission { 0 } else { software.submitted };
            Item::Signal { signals, after }
        })
    }

    pub(super) fn submit_item(&self, item: impl FnOnce(&mut SoftwareQueue) -> Item) -> Result<(), NTSTATUS> {
        {
            let mut software = lock(&self.software_queue);
            if self.is_destroyed() {
                return Err(STATUS_INVALID_HANDLE);
            }
            let under_way = software.released.saturating_sub(self.finished.load(Ordering::Acquire));
            if software.held.len() >= REQUESTS_MAX || under_way >= REQUESTS_MAX as u64 {
                return Err(STATUS_INSUFFICIENT_RESOURCES);
            }
            let item = item(&mut software);
            let command = item.command();
            software.held.push(item)?;
            self.sch().count_command(&self.device, self.node, command, false);
            self.run(&mut software);
        }
        self.sch().dispatch(self.node);
        Ok(())
    }

    /// A wait is over or a packet done. On the worker thread.
    pub(super) fn advance(&self) {
        self.run(&mut lock(&self.software_queue));
        self.sch().dispatch(self.node);
    }

    /// Moves submissions on up to the first that must wait.
    pub(super) fn run(&self, software: &mut SoftwareQueue) {
        // Noted before the packets that are done are counted: one of the two sees the other.
        self.attention.store(software.held.len() + software.held.waiters(), Ordering::SeqCst);
        if self.is_lost() {
            self.drop_requests(software);
        } else {
            self.move_on(software);
        }
        if software.held.is_empty() && self.finished.load(Ordering::SeqCst) >= software.released {
            software.held.release_waiters();
        }
        self.attention.store(software.held.len() + software.held.waiters(), Ordering::SeqCst);
    }

    fn move_on(&self, software: &mut SoftwareQueue) {
        let Some(mut waited) = software.held.end_wait() else { return };
        while let Some(item) = software.held.pop() {
            let command = item.command();
            match item {
                Item::Commands((commands, number)) => self.release(software, commands, number),
                Item::Wait(conditions) if !waited && !conditions.is_met() => {
                    software.held.put_back(Item::Wait(conditions.clone()));
                    return self.wait_for(software, conditions);
                }
                Item::Wait(_) => waited = false,
                Item::Signal { after, .. } if self.finished.load(Ordering::SeqCst) < after => {
                    return software.held.put_back(item);
                }
                Item::Signal { signals, .. } => software.held.signal(&signals, self.device.id()),
            }
            self.sch().count_command(&self.device, self.node, command, true);
        }
    }

    fn wait_for(&self, software: &mut SoftwareQueue, conditions: Objects) {
        let (sch, context) = (Arc::downgrade(self.sch()), Weak::clone(&self.this));
        software.held.wait_for(conditions, move || {
            if let Some(sch) = sch.upgrade() {
                sch.worker.add(Work::AdvanceContext(Weak::clone(&context)));
            }
        });
    }

    /// Gives a packet to its node.
    fn release(&self, software: &mut SoftwareQueue, commands: PacketCommands, number: u64) {
        let (Some(this), Some(node)) = (self.this.upgrade(), self.sch().nodes.get(self.node as usize)) else { return };
        software.released = number;
        let packet = self.packet_of(Arc::clone(&this), commands, number);
        node.state().queue(&this, packet);
    }

    /// The packet with a number, as the driver is to see it.
    fn packet_of(&self, this: Arc<Self>, commands: PacketCommands, number: u64) -> Packet {
        let user_private = commands.private.len() as u32;
        let mut private = commands.private;
        private.resize(self.private_size as usize, 0);
        Packet {
            owner: Owner::Render(this, number),
            address: commands.address,
            size: commands.size,
            private,
            user_private,
            null: commands.null || self.flags.NullRendering(),
            again: false,
            id: 0,
            refused: false,
            stood: Stood::default(),
        }
    }

    /// Waits until the node has nothing of it, at most until `end`; false if it still has.
    pub(super) fn wait_until_run(&self, end: Instant) -> bool {
        while self.runs() && Instant::now() < end && self.sch().pause(POLL_INTERVAL).is_none() {}
        !self.runs()
    }

    /// Drops every request. The wait of the first stays, to be cancelled without the lock of the queue. If the context is lost, the driver is told of the packets among
    /// them when the node is dispatched next. [d3dkmddi: DXGKDDI_CANCELCOMMAND]
    pub(super) fn drop_requests(&self, software: &mut SoftwareQueue) {
        let mut packets = Vec::new();
        for item in software.held.drain() {
            self.sch().count_command(&self.device, self.node, item.command(), true);
            if let (Item::Commands((commands, number)), Some(this)) = (item, self.this.upgrade())
                && self.is_lost()
            {
                packets.push(self.packet_of(this, commands, number));
            }
        }
        if let Some(node) = self.sch().nodes.get(self.node as usize).filter(|_| !packets.is_empty()) {
            node.state().drop_held(packets);
        }
    }
}
