//! What the scheduler keeps about one node of the adapter: packets that wait, packets on the hardware, and a preemption.
//!
//! Fence ids count up per node and are given when a packet is handed over; paging packets get theirs when they are queued, since
//! somebody waits for it, and are handed over before all others. What a preemption takes off the hardware comes back first: paging
//! packets in their order under their old ids, render packets in front of their contexts and under new ids. So does what the reset of
//! its engine left, see [`super::node_reset`]. [gpu-preemption; tdr-changes-in-windows-8: packets that a reset does not affect]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nt::lock::{Condvar, Mutex, MutexGuard, lock};

use crate::fence::{InvalidFence, PacketFences};
use crate::rank;

use super::packet::Packet;
use super::packet_context::PacketContext;
use super::preempting::Preempting;
use super::priority::PacketPriority;
use super::running::{Leaving, Running};
use super::suspects::GivenUp;

/// Render packets that the hardware has at a time: one runs, one is ready to follow.
pub(in crate::vidsch) const RENDER_DEPTH: usize = 2;

/// How long a packet may run, or wait in the hardware, while work of others waits for the node. [gpu-preemption: quantum]
const QUANTUM: Duration = Duration::from_millis(10);

/// Packets of one context that may run.
pub(in crate::vidsch) struct Queued {
    pub(in crate::vidsch) context: Arc<PacketContext>,
    pub(in crate::vidsch) packets: VecDeque<Packet>,
}

/// The state of a node.
pub(crate) struct NodeState {
    pub(in crate::vidsch) fences: PacketFences,
    /// On the hardware, in the order of their ids.
    pub(in crate::vidsch) flight: VecDeque<Packet>,
    pub(in crate::vidsch) paging: VecDeque<Packet>,
    /// Contexts with packets that may run, in the order in which they get time slices.
    pub(in crate::vidsch) queued: Vec<Queued>,
    /// The preemption under way, and how many there were.
    pub(in crate::vidsch) preemption: Option<Preempting>,
    pub(in crate::vidsch) preemptions: u32,
    /// Number of preemptions that returned at least one packet from the hardware.
    pub(in crate::vidsch) taken_back: u32,
    /// Number of times that a packet was found without progress since the last packet was completed.
    pub(in crate::vidsch) standing: u32,
    /// The last packet that completed, which one that faulted or was aborted did not.
    pub(in crate::vidsch) called_complete: u32,
    /// The driver cannot stop a packet that runs.
    pub(in crate::vidsch) begun_ends: bool,
    /// Packets that were handed over again after one.
    pub(in crate::vidsch) resubmitted: u64,
    /// Threads wait for a context to leave the hardware, or for its time slice.
    pub(in crate::vidsch) evicting: bool,
    /// Somebody wants to know whether what is on the hardware, whosever it is, lets itself be taken off: the oldest packet, and how long it has stood.
    pub(in crate::vidsch) probing: Option<(u32, Duration)>,
    /// The engine is being reset: nothing is handed over, and what it says is not heard.
    pub(in crate::vidsch) held: bool,
    /// Packets and preemption that the driver may report although they count as complete.
    pub(in crate::vidsch) given_up: GivenUp,
    /// Render packets stay where they are.
    pub(in crate::vidsch) paused: bool,
    /// The oldest packet on the hardware while others wait for the node, and since when.
    pub(in crate::vidsch) slice: Option<(u32, Duration)>,
    /// Done, and not yet announced.
    pub(in crate::vidsch) finished: Vec<Packet>,
    /// The driver is told of packets that are dropped. [d3dkmddi: DXGK_VIDSCHCAPS, CancelCommandAware]
    cancels: bool,
    /// Dropped, oldest first: they are done when the driver was told.
    cancelled: VecDeque<Packet>,
    pub(in crate::vidsch) running: Running,
}

impl NodeState {
    fn new(begun_ends: bool, cancels: bool) -> Self {
        Self {
            cancels,
            cancelled: VecDeque::new(),
            fences: PacketFences::starting_after(0),
            flight: VecDeque::new(),
            paging: VecDeque::new(),
            queued: Vec::new(),
            preemption: None,
            preemptions: 0,
            taken_back: 0,
            standing: 0,
            called_complete: 0,
            begun_ends,
            resubmitted: 0,
            evicting: false,
            probing: None,
            held: false,
            given_up: GivenUp::default(),
            paused: false,
            slice: None,
            finished: Vec::new(),
            running: Running::default(),
        }
    }

    /// Queues a paging packet; its id.
    pub(in crate::vidsch) fn queue_paging(&mut self, mut packet: Packet) -> u32 {
        packet.id = self.fences.submit();
        let id = packet.id;
        if !self.fences.is_abandoned() {
            self.paging.push_back(packet);
        }
        id
    }

    /// The node is gone: every packet counts as done, also those to come.
    pub(in crate::vidsch) fn abandon(&mut self) {
        self.fences.abandon();
        self.end_everything();
        self.forget_cancelled();
    }

    /// The node starts over: every packet counts as done. Those to come run.
    pub(crate) fn start_over(&mut self) {
        self.fences.start_over();
        self.give_up();
        self.end_everything();
    }

    fn end_everything(&mut self) {
        (self.preemption, self.evicting, self.slice) = (None, false, None);
        (self.probing, self.held) = (None, false);
        self.end_flight(|_| Leaving::Faulted);
        let queued: Vec<Packet> = self.queued.drain(..).flat_map(|queued| queued.packets).collect();
        self.finished.extend(self.flight.drain(..).chain(self.paging.drain(..)));
        self.drop_packets(queued);
    }

    /// These waited for the node and are dropped, since their devices are in error: they are done, or will be when the driver was told.
    pub(in crate::vidsch) fn drop_packets(&mut self, packets: impl IntoIterator<Item = Packet>) {
        let told = self.cancels && !self.fences.is_abandoned();
        for packet in packets {
            let is_known = packet.context().is_some_and(|context| !context.ended.load(Ordering::Acquire));
            if told && is_known {
                self.cancelled.push_back(packet);
            } else {
                self.finished.push(packet);
            }
        }
    }

    /// These never came to the node, since a wait in front of them in their context was not over, and are dropped because their device is in error: the driver is told of
    /// them if it is told of any.
    pub(in crate::vidsch) fn drop_held(&mut self, packets: impl IntoIterator<Item = Packet>) {
        if self.cancels {
            self.drop_packets(packets);
        }
    }

    /// The driver is told of no packets of this context any more, which it is about to destroy.
    pub(in crate::vidsch) fn end_context(&mut self, context: &PacketContext) {
        context.ended.store(true, Ordering::Release);
        let is_of = |packet: &Packet| packet.context().is_some_and(|own| core::ptr::eq(Arc::as_ptr(own), context));
        let (own, others): (VecDeque<Packet>, VecDeque<Packet>) =
            core::mem::take(&mut self.cancelled).into_iter().partition(is_of);
        self.cancelled = others;
        self.finished.extend(own);
    }

    /// The oldest dropped packet that the driver was not told of. It stays until [`NodeState::end_cancelled`], so that the node has something to decide.
    pub(in crate::vidsch) fn next_cancelled(&self) -> Option<Packet> {
        self.cancelled.front().cloned()
    }

    /// The driver was told of the oldest dropped packet, which is done.
    pub(in crate::vidsch) fn end_cancelled(&mut self) {
        self.finished.extend(self.cancelled.pop_front());
    }

    /// The driver is told of nothing any more.
    pub(in crate::vidsch) fn forget_cancelled(&mut self) {
        self.finished.extend(self.cancelled.drain(..));
    }

    /// The driver has written into the private data of a packet, which stay with it until it is done.
    pub(in crate::vidsch) fn keep_private(&mut self, packet: &Packet) {
        let flying = self.flight.iter_mut().find(|flying| flying.id == packet.id);
        if let Some(flying) = flying.filter(|flying| flying.private != packet.private) {
            flying.private.clone_from(&packet.private);
        }
    }

    /// Queues a packet of a context behind its others.
    pub(in crate::vidsch) fn queue(&mut self, context: &Arc<PacketContext>, packet: Packet) {
        if self.fences.is_abandoned() {
            return self.finished.push(packet);
        }
        self.queued_of(context).push_back(packet);
    }

    fn queued_of(&mut self, context: &Arc<PacketContext>) -> &mut VecDeque<Packet> {
        let place = self.place_of(context).unwrap_or_else(|| {
            self.queued.push(Queued { context: Arc::clone(context), packets: VecDeque::new() });
            self.queued.len() - 1
        });
        &mut self.queued[place].packets
    }

    /// The packet at the head has the node.
    pub(in crate::vidsch) fn give_to_head(&mut self) {
        if let Some(head) = self.flight.front() {
            self.running.gets_node(head.weak_context(), head.process());
        }
    }

    pub(in crate::vidsch) fn has_render(&self) -> bool {
        self.flight.iter().any(|packet| packet.context().is_some())
    }

    /// The packet with this id, if it is on the hardware.
    pub(in crate::vidsch) fn in_flight(&self, id: u32) -> Option<&Packet> {
        self.flight.iter().find(|packet| packet.id == id)
    }

    /// All packets up to `id` leave the hardware: that one as `how` says, those before it complete.
    ///
    /// # Errors
    /// The id is not on the hardware.
    pub(in crate::vidsch) fn complete(&mut self, id: u32, how: Leaving) -> Result<(), InvalidFence> {
        // A report may have been under way when the device vanished.
        if self.fences.is_abandoned() {
            return Ok(());
        }
        if self.in_flight(id).is_none() {
            return if self.is_given_up(id) { Ok(()) } else { Err(self.fences.invalid(id)) };
        }
        self.fences.complete(id)?;
        self.standing = 0;
        let count = self.flight.iter().position(|packet| packet.id == id).map_or(0, |place| place + 1);
        let last = if how == Leaving::Completed { count.checked_sub(1) } else { count.checked_sub(2) };
        if let Some(packet) = last.and_then(|place| self.flight.get(place)) {
            self.called_complete = packet.id;
        }
        let more = self.flight.len() > count;
        let done = self.flight.drain(..count);
        let from = self.finished.len();
        self.finished.extend(done);
        // Those behind the first had it one after the other.
        for packet in &self.finished[from..] {
            self.running.gets_node(packet.weak_context(), packet.process());
        }
        let leaving = |packet: &Packet| match packet.refused {
            true => Leaving::Faulted,
            false if packet.id == id => how,
            false => Leaving::Completed,
        };
        let left = self.finished[from..].iter().map(|packet| (packet.process(), leaving(packet)));
        self.running.ends(left, more);
        self.settle();
        self.give_to_head();
        Ok(())
    }

    /// Completes refused packets that nothing is in front of.
    fn settle(&mut self) {
        while let Some(packet) = self.flight.pop_front_if(|packet| packet.refused) {
            // It is newer than the last completed one, as everything on the hardware.
            let _ = self.fences.complete(packet.id);
            self.running.ends([(packet.process(), Leaving::Faulted)].into_iter(), !self.flight.is_empty());
            self.finished.push(packet);
        }
    }

    /// The driver refused the packet with this id.
    pub(in crate::vidsch) fn refuse(&mut self, id: u32) {
        for packet in self.flight.iter_mut().filter(|packet| packet.id == id) {
            packet.refused = true;
        }
        self.settle();
    }

    /// What is on the hardware leaves it without being done; only the first packet has had the node.
    fn end_flight(&mut self, how: impl Fn(&Packet) -> Leaving) {
        for packet in &self.flight {
            self.running.ends([(packet.process(), how(packet))].into_iter(), false);
        }
    }

    /// The figures of the node until now.
    pub(in crate::vidsch) fn figures(&mut self) -> &Running {
        if let Some(head) = self.flight.front() {
            self.running.charge_head(head.process());
        }
        &self.running
    }

    /// What is on the hardware comes back to be handed over again: the first packet has had the node, so its context goes behind others, and those behind it
    /// come next. Otherwise a context could be taken back each time before it has had the node, behind others that wait for what it does.
    pub(in crate::vidsch) fn take_back(&mut self) {
        self.taken_back = self.taken_back.wrapping_add(1);
        let is_lost = |packet: &Packet| packet.context().is_some_and(|context| context.is_lost());
        let is_dropped = |packet: &Packet| packet.context().is_some() && (packet.refused || is_lost(packet));
        self.end_flight(|packet| if is_dropped(packet) { Leaving::Faulted } else { Leaving::Preempted });
        let mut lost = VecDeque::new();
        while let Some(mut packet) = self.flight.pop_back() {
            packet.again = true;
            match packet.context().cloned() {
                None => self.paging.push_front(packet),
                // The driver has nothing of one that it has refused.
                Some(_) if packet.refused => self.finished.push(packet),
                Some(_) if is_lost(&packet) => lost.push_front(packet),
                Some(context) => {
                    self.queued_of(&context).push_front(packet);
                    if self.flight.is_empty() {
                        self.end_slice(&context);
                    } else {
                        self.come_next(&context);
                    }
                }
            }
        }
        self.drop_packets(lost);
    }

    /// The context goes before all others of its rank.
    fn come_next(&mut self, context: &PacketContext) {
        if let Some(place) = self.place_of(context) {
            let own = self.queued.remove(place);
            self.queued.insert(0, own);
        }
    }

    fn place_of(&self, context: &PacketContext) -> Option<usize> {
        self.queued.iter().position(|queued| core::ptr::eq(&raw const *queued.context, context))
    }

    /// The context at `place` and those of its process go behind others of their rank: the time slice goes to the next process first, and within a process to the next context.
    pub(in crate::vidsch) fn move_behind_equals(&mut self, place: usize, standing: PacketPriority) {
        if place >= self.queued.len() {
            return;
        }
        let own = self.queued.remove(place);
        let (ours, mut others): (Vec<Queued>, Vec<Queued>) =
            self.queued.drain(..).partition(|queued| queued.context.packet_priority().shares_slice(standing));
        others.extend(ours);
        others.push(own);
        self.queued = others;
    }

    /// The context and its process go behind others of their rank.
    fn end_slice(&mut self, context: &PacketContext) {
        if let Some(place) = self.place_of(context) {
            self.move_behind_equals(place, context.packet_priority());
        }
    }

    /// True if a render packet is on the hardware and work of others waits for the node.
    pub(in crate::vidsch) fn is_contended(&self) -> bool {
        let Some(context) = self.flight.front().and_then(Packet::context) else { return false };
        let standing = context.packet_priority();
        let other = |queued: &Queued| {
            !Arc::ptr_eq(&queued.context, context)
                && !queued.context.is_away()
                && !standing.outranks(queued.context.packet_priority())
        };
        self.preemption.is_none()
            && !self.paused
            && (self.queued.iter().any(other) || self.flight.iter().any(|packet| !packet.is_of(context)))
    }

    /// Looks at the time: true when the oldest packet has had the node for its quantum, and is preempted now.
    pub(in crate::vidsch) fn ends_slice(&mut self, now: Duration) -> bool {
        let oldest = self.flight.front().map(|packet| packet.id).filter(|_| self.is_contended());
        match (oldest, self.slice) {
            (None, _) => self.slice = None,
            (Some(id), Some((since_id, since))) if id == since_id => {
                self.evicting |= now.saturating_sub(since) >= QUANTUM;
            }
            (Some(id), _) => self.slice = Some((id, now)),
        }
        self.evicting
    }

    /// A time slice counts only while another context waits: when none does any more, the next one begins anew.
    fn restart_slice_if_alone(&mut self) {
        if !self.is_contended() {
            self.slice = None;
        }
    }

    /// Drops what a context has queued; true if something of it is still on the hardware.
    pub(in crate::vidsch) fn drop_context(&mut self, context: &PacketContext) -> bool {
        let mut dropped = Vec::new();
        self.queued.retain_mut(|queued| {
            let own = core::ptr::eq(&raw const *queued.context, context);
            if own {
                dropped.extend(queued.packets.drain(..));
            }
            !own
        });
        self.drop_packets(dropped);
        self.restart_slice_if_alone();
        self.ask_off(context)
    }

    /// Requests a preemption if the hardware has packets of the context. True if it has.
    pub(in crate::vidsch) fn ask_off(&mut self, context: &PacketContext) -> bool {
        let flies = self.flies(context);
        self.evicting |= flies;
        flies
    }

    /// True if something of the context is on the hardware.
    pub(in crate::vidsch) fn flies(&self, context: &PacketContext) -> bool {
        self.flight.iter().any(|packet| packet.is_of(context) && !packet.refused)
    }

    /// From now on render packets wait, and those on the hardware come back; or they go on.
    pub(crate) fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
        self.evicting |= paused;
    }

    /// True if render packets are on the hardware.
    pub(in crate::vidsch) fn is_rendering(&self) -> bool {
        self.has_render()
    }

    /// True if nothing is on the hardware.
    pub(crate) fn is_off_hardware(&self) -> bool {
        self.flight.is_empty()
    }

    /// True if nothing is on the hardware or waits to be.
    pub(in crate::vidsch) fn is_idle(&self) -> bool {
        self.flight.is_empty() && self.paging.is_empty() && self.queued.is_empty()
    }

    /// True if there is something to decide.
    pub(in crate::vidsch) fn has_waiting(&self) -> bool {
        !self.paging.is_empty()
            || !self.queued.is_empty()
            || !self.finished.is_empty()
            || !self.cancelled.is_empty()
            || self.evicting
            || self.probing.is_some()
    }

    /// Packets on the hardware; packets that wait.
    pub(in crate::vidsch) fn counts(&self) -> (usize, usize) {
        let queued: usize = self.queued.iter().map(|queued| queued.packets.len()).sum();
        (self.flight.len(), self.paging.len() + queued)
    }

    /// Preemptions asked for, and packets handed over again.
    pub(in crate::vidsch) fn preemptions(&self) -> (u32, u64) {
        (self.preemptions, self.resubmitted)
    }

    /// Remembers what is on the hardware, which is about to count as complete.
    pub(in crate::vidsch) fn give_up(&mut self) {
        self.given_up.packets.extend(self.flight.iter().map(|packet| packet.id));
        self.given_up.preemption = self.preemption.map(|preemption| preemption.id).or(self.given_up.preemption);
    }

    /// True for a packet that counts as complete although the driver may report it still.
    pub(crate) fn is_given_up(&self, id: u32) -> bool {
        self.given_up.packets.contains(&id)
    }

    /// As [`NodeState::is_given_up`], for a preemption.
    pub(in crate::vidsch) fn is_given_up_preemption(&self, id: u32) -> bool {
        self.given_up.preemption == Some(id)
    }
}

/// One node.
pub(crate) struct Node {
    /// Held by whoever hands packets to the driver, so that ids arrive in order. Taken before `state`.
    pub(in crate::vidsch) dispatching: Mutex<(), rank::Dispatching>,
    /// Device level takes it.
    state: Mutex<NodeState, rank::NodeState>,
    pub(in crate::vidsch) completed: Condvar,
}

impl Node {
    /// A node without work. The first id is 1, so that a driver may take 0 for "nothing completed yet". `begun_ends`: the driver cannot stop a packet that
    /// runs. `cancels`: the driver is told of packets that are dropped.
    pub(crate) fn new(begun_ends: bool, cancels: bool) -> Self {
        let state = NodeState::new(begun_ends, cancels);
        Self { dispatching: Mutex::new(()), state: Mutex::new(state), completed: Condvar::new() }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, NodeState, rank::NodeState> {
        lock(&self.state)
    }

    /// Sleeps until packets complete, at most for `nap`. True once `done` is.
    pub(in crate::vidsch) fn sleep_until(&self, nap: Duration, done: impl Fn(&NodeState) -> bool) -> bool {
        let state = self.state();
        if done(&state) {
            return true;
        }
        let state = self.completed.wait_timeout(state, nap);
        done(&state)
    }
}
