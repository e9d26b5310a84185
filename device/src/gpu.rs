//! The PCI function: its BARs, its power and reset, and its work in slices.

mod access;
mod posted;

use crate::bar_memory::BarMemory;
use crate::cmp::power::NextLook;
use crate::cmp::{Activity, Cmp};
use crate::context::Features;
use crate::context::doorbells::Doorbells;
use crate::fault::{Delivery, Faults};
use crate::host_aperture::HostAperture;
use crate::lock::lock;
use crate::memory::{HostMapping, LentMemory, Memory};
use crate::msix::MsiX;
use crate::pci::{ConfigSpace, Effects};
use crate::registers::RegisterFile;
use crate::sending::Sending;
use crate::variant::Variant;
use campanile_hw::doorbell::DOORBELL_PAGE_SIZE;
use campanile_hw::pci;
use campanile_hw::registers::{NODES, VRAM_PAGE_SIZE};
use posted::Posted;
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Thread;

/// The byte that VRAM is filled with when its contents are lost. A page-table entry or an address of such bytes leads nowhere.
const LOST: u8 = 0xd3;

/// Receiver of interrupt messages.
pub trait Interrupts: Send + Sync {
    /// The function sends the message of `vector`. It is called without any lock of the function, on the thread that caused the message;
    /// accesses of other threads to the function may wait for it to return.
    fn message(&self, vector: u16);
}

/// The emulated function.
pub struct Gpu {
    variant: Variant,
    pub(crate) memory: Memory,
    pub(crate) cmp: Cmp,
    bar_sizes: [u64; 6],
    doorbell_memory: Arc<BarMemory>,
    vram: Arc<BarMemory>,
    pub(crate) config: Mutex<ConfigSpace>,
    pub(crate) msix: Mutex<MsiX>,
    listener: Mutex<Option<Arc<dyn Interrupts>>>,
    pub(crate) registers: Mutex<RegisterFile>,
    host_aperture: HostAperture,
    pub(crate) posted: Mutex<Posted>,
    /// True while the BARs answer: memory decoding is enabled and the function is in D0.
    pub(crate) visible: AtomicBool,
    /// True once the function was pulled out of its slot.
    gone: AtomicBool,
    /// Accesses to BAR0 since it was pulled out.
    missed: AtomicU64,
    messages: AtomicU64,
    sending: Sending,
    steps: AtomicU64,
    order: AtomicU64,
    /// The thread of a runner, which [`Gpu::nudge`] wakes.
    sleeper: Mutex<Option<Thread>>,
    asleep: AtomicBool,
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Gpu").field("variant", &self.variant).finish_non_exhaustive()
    }
}

impl Gpu {
    /// A function as after power-on: D0, nothing enabled, VRAM zero.
    ///
    /// # Errors
    /// `InvalidInput` says which property of the variant is not possible; otherwise what the system says about making or
    /// mapping the VRAM and doorbell files.
    pub fn new(variant: &Variant) -> io::Result<Arc<Self>> {
        variant.check().map_err(|what| io::Error::new(io::ErrorKind::InvalidInput, what))?;
        let doorbells_size = (u64::from(variant.doorbell_count()) * DOORBELL_PAGE_SIZE).next_power_of_two();
        let mut bar_sizes = [0; 6];
        for (bar, size) in [
            (pci::BAR_REGISTERS, pci::REGISTERS_SIZE),
            (pci::BAR_DOORBELLS, doorbells_size),
            (pci::BAR_VRAM, variant.vram_window),
        ] {
            if let Some(slot) = bar_sizes.get_mut(usize::from(bar)) {
                *slot = size;
            }
        }
        let vram = BarMemory::new(c"campanile-vram", variant.vram_size)?;
        let doorbell_memory = BarMemory::new(c"campanile-doorbells", doorbells_size)?;
        let lend = |memory: &Arc<BarMemory>| HostMapping::lent(Arc::<BarMemory>::clone(memory));
        let pages = lend(&doorbell_memory);
        let doorbells = Doorbells::new(pages, variant.doorbell_count(), variant.global_doorbell);
        let doorbells = if variant.notify_doorbells { doorbells.unpolled() } else { doorbells };
        let features = Features {
            native_fence: variant.has_native_fences(),
            atomics64: variant.atomics64,
            log_flush: variant.delayed_log_writes,
            optimised_fence_interrupt: variant.optimised_fence_interrupt,
            one_fence_event: variant.one_fence_event,
            system_fences: variant.fence_limit(),
            vram: variant.vram_size,
            idle_ticks: variant.idle_ticks,
            linked: variant.linked,
            interpreter: variant.interpreter,
            preemption: variant.preemption,
        };
        Ok(Arc::new(Self {
            memory: Memory::new(lend(&vram)).on_host(variant.cached_host),
            cmp: Cmp::new(features, variant.queue_limit, doorbells),
            bar_sizes,
            doorbell_memory,
            vram,
            config: Mutex::new(ConfigSpace::new(bar_sizes, variant.linked, variant.atomics64)),
            msix: Mutex::new(MsiX::new()),
            listener: Mutex::new(None),
            registers: Mutex::new(RegisterFile::default()),
            host_aperture: HostAperture::new(variant.host_aperture, variant.vram_size),
            posted: Mutex::new(Posted::default()),
            visible: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            missed: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            sending: Sending::default(),
            steps: AtomicU64::new(0),
            // The generator below never leaves zero.
            order: AtomicU64::new(variant.seed.max(1)),
            sleeper: Mutex::new(None),
            asleep: AtomicBool::new(false),
            variant: variant.clone(),
        }))
    }

    /// Sets the receiver of interrupt messages. Without one, messages are counted as sent all the same.
    pub fn set_interrupts(&self, receiver: Option<Arc<dyn Interrupts>>) {
        *lock(&self.listener) = receiver;
    }

    /// Masks or unmasks a vector on behalf of a hypervisor that emulates the MSI-X table; an unmasked vector sends a pending message.
    pub fn mask_vector(&self, vector: u16, masked: bool) {
        lock(&self.msix).mask(vector, masked);
        self.deliver();
    }

    /// Size of a BAR in bytes; `None` for a BAR that is not there, or is the upper half of another.
    pub fn bar_size(&self, bar: u8) -> Option<u64> {
        self.bar_sizes.get(usize::from(bar)).copied().filter(|size| *size != 0)
    }

    /// Page of the file of [`Gpu::bar_file`] that page `page` of a BAR shows at the moment; `None` for a page of the host aperture
    /// that shows nothing.
    pub fn bar_page(&self, bar: u8, page: u64) -> Option<u64> {
        match page.checked_sub(self.variant.linear_window() / VRAM_PAGE_SIZE) {
            Some(page) if bar == pci::BAR_VRAM && self.variant.host_aperture > 0 => self.host_aperture.shown(page),
            _ => Some(page),
        }
    }

    /// The file whose first [`Gpu::bar_size`] bytes are the BAR, except where [`Gpu::bar_page`] says otherwise; `None` for the
    /// registers, which have effects.
    pub fn bar_file(&self, bar: u8) -> Option<Arc<File>> {
        self.bar_memory(bar).map(|memory| Arc::clone(memory.file()))
    }

    fn bar_memory(&self, bar: u8) -> Option<&BarMemory> {
        match bar {
            pci::BAR_DOORBELLS => Some(&self.doorbell_memory),
            pci::BAR_VRAM => Some(&self.vram),
            _ => None,
        }
    }

    /// Has `count` pages of [`Gpu::bar_file`] from page `first` on lie in another file, at the same offset, in one step for the engines. The file must not
    /// shrink. What the pages held stays in the file before, and what they hold in `file` is there.
    ///
    /// # Errors
    /// `Unsupported` for registers, and for the doorbell that all queues ring; `InvalidInput` for pages that are not there, or not in the file; otherwise
    /// what the system says about mapping the file.
    pub fn show_bar_pages(&self, bar: u8, first: u64, count: u64, file: &Arc<File>) -> io::Result<()> {
        let shared = bar == pci::BAR_DOORBELLS && self.variant.global_doorbell;
        self.bar_memory(bar).filter(|_| !shared).ok_or(io::ErrorKind::Unsupported)?.show(first, count, file)
    }

    /// Copies bytes of what [`Gpu::bar_file`] and [`Gpu::show_bar_pages`] name.
    ///
    /// # Errors
    /// `Unsupported` for registers; `InvalidInput` for bytes that are not there.
    pub fn read_bar(&self, bar: u8, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.bar_memory(bar).ok_or(io::ErrorKind::Unsupported)?.read(offset, bytes)
    }

    /// Makes `len` bytes of `file` from `offset` visible to the function at bus address `iova`. The file must not shrink as long
    /// as the range is mapped.
    ///
    /// # Errors
    /// `InvalidInput` for a range that is empty, not in whole pages, beyond 52-bit addresses or outside the file; `AlreadyExists`
    /// if it overlaps another; otherwise what the system says about mapping the file.
    pub fn map_dma(&self, iova: u64, file: &File, offset: u64, len: u64, writable: bool) -> io::Result<()> {
        self.memory.map(iova, file, offset, len, writable)
    }

    /// Makes memory of this process visible to the function, from bus address `iova` on.
    ///
    /// # Errors
    /// As [`Gpu::map_dma`].
    pub fn map_lent(&self, iova: u64, memory: Arc<dyn LentMemory>) -> io::Result<()> {
        self.memory.map_lent(iova, memory)
    }

    /// Takes bus addresses away, whole ranges or parts of them. When it returns, no access to them is under way.
    pub fn unmap_dma(&self, iova: u64, len: u64) {
        self.memory.unmap(iova, len);
    }

    /// Reads 1, 2 or 4 bytes of config space; anything else reads as all ones.
    pub fn config_read(&self, offset: u16, size: u8) -> u32 {
        if self.is_gone() {
            return u32::MAX >> (32 - 8 * u32::from(size.clamp(1, 4)));
        }
        self.settle_posted();
        lock(&self.config).read(offset, size)
    }

    /// Writes 1, 2 or 4 bytes of config space; anything else has no effect. What it causes is done when it returns.
    pub fn config_write(&self, offset: u16, size: u8, value: u32) {
        self.settle_posted();
        let mut config = lock(&self.config);
        if self.is_gone() {
            return;
        }
        let effects = config.write(offset, size, value);
        self.apply(effects);
        drop(config);
        self.deliver();
        self.nudge();
    }

    fn apply(&self, effects: Effects) {
        if self.variant.posted_writes && !effects.reset && (effects.slept || !effects.bus_master) {
            self.end_posted();
        }
        if effects.slept {
            // Nothing moves in D3hot. The state of the function is lost on the return to D0, the contents of VRAM here.
            self.cmp.stop();
            if !self.variant.vram_kept_in_d3 {
                self.lose_vram();
            }
        }
        if effects.reset {
            self.drop_posted();
            self.reset_inside();
            lock(&self.msix).reset();
        }
        self.visible.store(effects.memory, Ordering::Release);
        self.memory.enable(effects.bus_master);
        lock(&self.msix).configure(effects.msix, effects.msix_mask, effects.bus_master);
    }

    /// Conventional reset: everything but the contents of VRAM is as after power-on.
    pub fn reset(&self) {
        let mut config = lock(&self.config);
        config.reset();
        self.apply(config.effects(true));
        drop(config);
        // Waits for a message under way.
        self.sending.settle();
        self.nudge();
    }

    /// Pulls the function out of its slot, whatever it is doing. When this returns it reaches no memory any more and sends no message, and
    /// registers and configuration space read as all ones; for good. VRAM and doorbell pages read as all ones too, until they are written
    /// again.
    pub fn pull_out(&self) {
        let config = lock(&self.config);
        self.gone.store(true, Ordering::SeqCst);
        self.visible.store(false, Ordering::SeqCst);
        self.drop_posted();
        self.cmp.stop();
        self.memory.enable(false);
        lock(&self.msix).configure(false, true, false);
        drop(config);
        // Waits for a message under way.
        self.sending.settle();
        for memory in [&self.vram, &self.doorbell_memory] {
            if let Err(error) = memory.overwrite(u8::MAX) {
                let _ = writeln!(
                    io::stderr(),
                    "memory of a function that was pulled out could not be overwritten: {error}"
                );
            }
        }
        self.nudge();
    }

    /// True if the function was pulled out.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Accesses to BAR0 since the function was pulled out.
    pub fn missed_accesses(&self) -> u64 {
        self.missed.load(Ordering::SeqCst)
    }

    fn note_missed(&self) {
        if self.is_gone() {
            self.missed.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Power cycle: everything is as after power-on, and the contents of VRAM are lost.
    pub fn power_cycle(&self) {
        self.reset();
        self.lose_vram();
        self.nudge();
    }

    /// The contents of VRAM are lost.
    fn lose_vram(&self) {
        if let Err(error) = self.vram.overwrite(LOST) {
            // The host's memory is exhausted, or worse; the old contents of VRAM stay where they are.
            let _ = writeln!(
                io::stderr(),
                "campanile: the contents of VRAM should have been lost, but could not be overwritten: {error}"
            );
        }
    }

    /// Forgets queues, doorbells, waits, translations, events, counters and register values.
    fn reset_inside(&self) {
        let mut registers = lock(&self.registers);
        self.reset_registers(&mut registers);
    }

    fn reset_registers(&self, registers: &mut RegisterFile) {
        self.cmp.reset();
        self.cmp.faults().drop_late();
        self.messages.store(0, Ordering::Relaxed);
        self.host_aperture.clear();
        *registers = RegisterFile::default();
    }

    /// Sends the messages that are due. No lock is taken while one is sent. When this returns, every message has been sent that was due
    /// when it was called.
    pub(crate) fn deliver(&self) {
        self.sending.during(|| self.send_due());
    }

    fn send_due(&self) {
        let mut due = None;
        if self.cmp.events().take_announcement() && lock(&self.msix).raise(pci::VECTOR_EVENTS) {
            due = Some(pci::VECTOR_EVENTS);
        }
        while let Some(vector) = due.take().or_else(|| lock(&self.msix).take_pending()) {
            let copies = match self.cmp.faults().delivery(vector, self.steps()) {
                Delivery::Now => 1,
                Delivery::Twice => 2,
                Delivery::Later | Delivery::Never => continue,
            };
            (0..copies).for_each(|_| self.send(vector));
            self.cmp.faults().take_overtaken().into_iter().for_each(|vector| self.send(vector));
        }
    }

    fn send(&self, vector: u16) {
        if self.is_gone() {
            return;
        }
        self.messages.fetch_add(1, Ordering::Relaxed);
        let receiver = lock(&self.listener).clone();
        if let Some(receiver) = receiver {
            receiver.message(vector);
        }
    }

    /// Sends the messages that [`crate::FaultRule::LateInterrupt`] has delayed long enough.
    fn deliver_late(&self) -> bool {
        let mut any = false;
        self.sending.during(|| {
            for vector in self.cmp.faults().take_late(self.steps()) {
                any = true;
                self.send(vector);
            }
        });
        any
    }

    /// One bounded slice of work: polls doorbells (and fences, on a linked function), then offers a slice to the nodes, in an order drawn
    /// from the seed, until one has work. False when there was none at all.
    ///
    /// Deterministic as long as one thread calls it and nothing else changes shared memory meanwhile.
    pub fn step(&self) -> bool {
        self.steps.store(self.steps.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // First the doorbells, so that work which was just rung is begun in the same step.
        let arrived = self.step_posted();
        let mut worked = arrived | self.cmp.poll() | self.cmp.poll_waits(&self.memory);
        worked |= self.run_a_node();
        self.cmp.compiling().look();
        worked |= self.cmp.flush_events(&self.memory);
        worked = worked || self.cmp.watch_idle(&self.memory);
        if !worked && self.cmp.tidy() {
            // So is what only a search found.
            worked = true;
            self.run_a_node();
        }
        if self.cmp.events().has_announcement() {
            self.deliver();
        }
        if self.cmp.faults().has_late() {
            worked |= self.deliver_late();
        }
        worked
    }

    /// Offers a slice to the nodes until one has work. False when none has.
    fn run_a_node(&self) -> bool {
        let first = self.draw() % NODES;
        (0..NODES).any(|turn| self.cmp.run_node(&self.memory, (first + turn) % NODES))
    }

    /// A step of the xorshift generator. Threads that race for it may draw the same number, which does no harm.
    fn draw(&self) -> u32 {
        let mut state = self.order.load(Ordering::Relaxed);
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.order.store(state, Ordering::Relaxed);
        (state >> 32) as u32
    }

    /// The number of slices since the function was made. While it does not change, no thread spends time on the function.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Injected faults.
    pub fn faults(&self) -> &Faults {
        self.cmp.faults()
    }

    /// Ends a hang of `node` without a reset: the engine continues with the packet in which it hangs.
    pub fn let_go(&self, node: u32) {
        self.cmp.let_go(&self.memory, node);
        self.deliver();
        self.nudge();
    }

    /// Makes the watchdog of `node` report a hang, whatever the node does.
    pub fn declare_hung(&self, node: u32) {
        self.cmp.report_hung(&self.memory, node);
        self.deliver();
    }

    /// True if the scheduler does not run or every node is in F1, so that only a register access can make work.
    pub(crate) fn stands_still(&self) -> bool {
        self.cmp.stands_still()
    }

    /// When a runner has to step the function next.
    pub(crate) fn next_look(&self) -> NextLook {
        self.cmp.next_look()
    }

    /// Counts of the scheduler's steps since the function was made.
    pub fn activity(&self) -> Activity {
        self.cmp.activity()
    }

    /// SIGNAL packets that the nodes other than the paging node executed since the function was made, whatever it forgot meanwhile.
    pub fn signals_ever(&self) -> u64 {
        self.cmp.signals_ever()
    }

    /// Names the thread that steps the function and that [`Gpu::nudge`] wakes.
    pub(crate) fn set_sleeper(&self, thread: Option<Thread>) {
        self.cmp.compiling().set_apart(thread.is_some());
        *lock(&self.sleeper) = thread;
    }

    /// True while a runner sleeps and only a register access wakes it.
    pub fn sleeps_until_register_access(&self) -> bool {
        self.asleep.load(Ordering::SeqCst) && self.cmp.next_look() == NextLook::AtRegisterAccess
    }

    /// Notes that the runner is about to sleep, or has woken.
    pub(crate) fn set_asleep(&self, asleep: bool) {
        self.asleep.store(asleep, Ordering::SeqCst);
    }

    /// Wakes a runner that sleeps: a register access may have made work.
    fn nudge(&self) {
        if self.asleep.swap(false, Ordering::SeqCst)
            && let Some(thread) = &*lock(&self.sleeper)
        {
            thread.unpark();
        }
    }
}
