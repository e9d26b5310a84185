//! A device on the driver of any GPU: its memory, its work, and commands that the tests have no meaning of.

use wddm_ddi::Zeroed;
use wddm_ddi::km::{
    D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY as Compute, D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY as Graphics,
    D3DKMDT_PREEMPTION_CAPS,
};
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::opaque::{Opaque, Values, described};
use crate::rig::{Memory, RawFence, Rig, View};
use crate::{Case, Failure, granted};

/// Packets of a context that a case submits without a wait in between.
pub const QUEUED: u32 = 16;

/// Bytes of the memory for the commands of a context.
const COMMANDS: u64 = 64 << 10;

/// Bytes of the memory that most cases work with.
pub const SIZE: u64 = 64 << 10;

/// A device of a driver of which only the description is known.
pub struct Lab {
    pub rig: Rig,
    pub opaque: Opaque,
}

/// A context with a fence that says how far it is, and memory for its commands.
pub struct Worker {
    pub context: D3DKMT_HANDLE,
    pub(super) fence: RawFence,
    commands: Memory,
    view: View,
    /// Where in the memory the next commands go: those of packets that are under way stay as they are.
    next: u64,
    done: u64,
}

impl Worker {
    /// True if what was submitted last counts as complete, and its device is not lost.
    pub(super) fn is_done(&self) -> bool {
        self.fence.value.load() == self.done
    }
}

/// True if the driver of an adapter is this project's.
pub fn is_campanile(rig: &Rig) -> bool {
    matches!(rig.kmt.driver_data(rig.adapter), Ok(Some(_)))
}

impl Lab {
    /// # Errors
    /// [`Failure::NotApplicable`] if nobody has described what the driver wants.
    pub fn new(rig: Rig) -> Result<Self, Failure> {
        const NONE: &str =
            "nothing says what private data and commands the driver takes: --private-data FILE, see docs/porting.md";
        let opaque = if is_campanile(&rig) {
            Opaque::Campanile
        } else {
            let file = described().map_err(Failure::new)?;
            Opaque::Described(Box::new(file.ok_or_else(|| Failure::NotApplicable(NONE.to_owned()))?))
        };
        Ok(Self { rig, opaque })
    }

    /// Commands that do not end, and that the GPU does not stop either.
    ///
    /// # Errors
    /// [`Failure::NotApplicable`] if the GPU stops packets within a command: what lets itself be preempted is no timeout, so that such commands go on for ever beside others.
    pub fn hang(&self) -> Result<Vec<u8>, Failure> {
        let mut caps = D3DKMT_WDDM_1_2_CAPS::zeroed();
        let kind = KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_WDDM_1_2_CAPS;
        granted(self.rig.kmt.ask(self.rig.adapter, kind, &mut caps), "KMTQAITYPE_WDDM_1_2_CAPS")?;
        let D3DKMDT_PREEMPTION_CAPS { GraphicsPreemptionGranularity: graphics, ComputePreemptionGranularity: compute } =
            caps.PreemptionCaps;
        let finer = [
            ("ComputePreemptionGranularity", compute.0, Compute::D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY.0),
            ("GraphicsPreemptionGranularity", graphics.0, Graphics::D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY.0),
        ];
        match finer.into_iter().find(|(_, granularity, boundary)| granularity > boundary) {
            Some((member, granularity, boundary)) => Err(Failure::NotApplicable(format!(
                "PreemptionCaps.{member} is {granularity}, finer than a DMA buffer ({boundary}): the GPU stops commands that do not end, and what lets itself be preempted is no timeout \
                 [d3dkmdt: D3DKMDT_PREEMPTION_CAPS; timeout-detection-and-recovery]"
            ))),
            None => Ok(self.opaque.hang().unwrap_or_default()),
        }
    }

    pub(super) fn create(&self, size: u64, local: bool) -> Result<D3DKMT_HANDLE, Failure> {
        let none = || Failure::NotApplicable("the description has no line `local`".to_owned());
        let mut data = self.opaque.allocation(size, local).ok_or_else(none)?;
        let created = self.rig.create_raw(&mut data);
        created.map_err(|status| Failure::new(format!("an allocation of {size} bytes, local {local}: {status}")))
    }

    /// An allocation, resident and mapped.
    pub fn memory(&self, size: u64, local: bool) -> Result<Memory, Failure> {
        let handle = self.create(size, local)?;
        self.rig.make_resident(handle)?;
        let address = self.rig.map(self.rig.map_request(handle, size))?;
        Ok(Memory { handle, address, size })
    }

    /// As [`Lab::memory`], in system memory and at this address.
    #[cfg(feature = "inside")]
    pub fn memory_at(&self, size: u64, address: u64) -> Result<Memory, Failure> {
        let handle = self.create(size, false)?;
        self.rig.make_resident(handle)?;
        let mut request = self.rig.map_request(handle, size);
        request.BaseAddress = address;
        Ok(Memory { handle, address: self.rig.map(request)?, size })
    }

    /// Makes an allocation resident, unless that is refused.
    pub(super) fn try_resident(&self, handle: D3DKMT_HANDLE) -> Result<Result<(), NTSTATUS>, Failure> {
        let mut handle = handle;
        let mut arguments = D3DDDI_MAKERESIDENT::zeroed();
        (arguments.hPagingQueue, arguments.NumAllocations) = (self.rig.paging_queue, 1);
        arguments.AllocationList = &mut handle;
        let status = self.rig.kmt.call(self.rig.kmt.table().D3DKMTMakeResident, &mut arguments);
        if status.is_success() {
            self.rig.settle(status, arguments.PagingFenceValue, "D3DKMTMakeResident").map(Ok)
        } else {
            Ok(Err(status))
        }
    }

    pub fn kinds(&self) -> impl Iterator<Item = bool> {
        [false, true].into_iter().filter(|local| self.opaque.allocation(1, *local).is_some())
    }

    pub(super) fn context(&self) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut data = self.opaque.context();
        let mut arguments = D3DKMT_CREATECONTEXTVIRTUAL::zeroed();
        (arguments.hDevice, arguments.NodeOrdinal, arguments.EngineAffinity) =
            (self.rig.device, self.opaque.node(), self.rig.affinity());
        (arguments.pPrivateDriverData, arguments.PrivateDriverDataSize) = (data.as_mut_ptr().cast(), data.len() as u32);
        if data.is_empty() {
            arguments.pPrivateDriverData = std::ptr::null_mut();
        }
        self.rig.kmt.call(self.rig.kmt.table().D3DKMTCreateContextVirtual, &mut arguments).ok()?;
        Ok(arguments.hContext)
    }

    pub fn worker(&self) -> Result<Worker, Failure> {
        let context = self.context();
        let context = context.map_err(|status| Failure::new(format!("D3DKMTCreateContextVirtual: {status}")))?;
        let fence = self.rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?;
        let commands = self.memory(COMMANDS, false)?;
        Ok(Worker { context, fence, commands, view: self.rig.view(commands)?, next: 0, done: 0 })
    }

    /// Submits commands behind everything that was submitted to the worker, of which no more than `QUEUED` packets are under way.
    pub fn hand_over(&self, worker: &mut Worker, commands: &[u8]) -> Result<(), Failure> {
        const SLOT: u64 = COMMANDS / QUEUED as u64;
        ensure!(commands.len() as u64 <= SLOT, "the description's commands are longer than {SLOT} bytes");
        let offset = worker.next % COMMANDS;
        worker.next += SLOT;
        worker.view.write(offset, commands);
        let mut data = self.opaque.submission();
        let mut arguments = D3DKMT_SUBMITCOMMAND::zeroed();
        (arguments.Commands, arguments.CommandLength) = (worker.commands.address + offset, commands.len() as u32);
        arguments.BroadcastContextCount = 1;
        arguments.BroadcastContext[0] = worker.context;
        if !data.is_empty() {
            arguments.pPrivateDriverData = data.as_mut_ptr().cast();
            arguments.PrivateDriverDataSize = data.len() as u32;
        }
        granted(self.rig.kmt.call(self.rig.kmt.table().D3DKMTSubmitCommand, &mut arguments), "D3DKMTSubmitCommand")
    }

    /// As [`Lab::hand_over`], with a signal of the worker's fence behind the commands.
    pub fn submit(&self, worker: &mut Worker, commands: &[u8]) -> Result<(), Failure> {
        self.hand_over(worker, commands)?;
        worker.done += 1;
        let signal = self.rig.context_signal(worker.context, &[(worker.fence.handle, worker.done)]);
        granted(signal, "the signal behind the packet")
    }

    /// A signal of the worker's fence behind commands, by which the device may be in error, so that it takes none.
    pub(super) fn signal_unless_lost(&self, worker: &mut Worker) {
        worker.done += 1;
        let _ = self.rig.context_signal(worker.context, &[(worker.fence.handle, worker.done)]);
    }

    pub fn wait(&self, worker: &Worker) -> Result<(), Failure> {
        granted(self.rig.wait(&[worker.fence.handle], &[worker.done], false), "the wait for the packet")
    }

    /// Work that is under way when nobody waits for it: packets in a queue, and one more that waits for what never comes.
    #[cfg(feature = "inside")]
    pub fn leave_work(&self, worker: &mut Worker, memory: Memory) -> Result<(), Failure> {
        for pattern in 1..QUEUED {
            let commands =
                self.opaque.fill(Values { size: memory.size, target: memory.address, pattern, ..Values::default() });
            self.submit(worker, &commands)?;
        }
        let never = self.rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?;
        granted(self.rig.context_wait(worker.context, &[(never.handle, 1)]), "the wait of a context")?;
        let commands = self.opaque.fill(Values {
            size: memory.size,
            target: memory.address,
            pattern: QUEUED,
            ..Values::default()
        });
        self.submit(worker, &commands)
    }

    /// Submits a copy of memory.
    ///
    /// # Errors
    /// [`Failure::NotApplicable`] if the description has no such commands.
    pub(super) fn submit_copy(&self, worker: &mut Worker, source: u64, target: u64, size: u64) -> Result<(), Failure> {
        let commands = self.opaque.copy(Values { size, source, target, ..Values::default() });
        let none = || Failure::NotApplicable("the description has no line `copy`".to_owned());
        self.submit(worker, &commands.ok_or_else(none)?)
    }

    /// The capabilities of page tables, as the driver claims them.
    pub(super) fn gpu_mmu_caps(&self) -> Result<D3DKMT_GPUMMU_CAPS, Failure> {
        let mut caps = D3DKMT_QUERY_GPUMMU_CAPS::zeroed();
        let kind = KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_QUERY_GPUMMU_CAPS;
        granted(self.rig.kmt.ask(self.rig.adapter, kind, &mut caps), "KMTQAITYPE_QUERY_GPUMMU_CAPS")?;
        Ok(caps.Caps)
    }

    /// Bytes of the memory that the GPU has of its own, or that it has for both kinds if it has none.
    pub fn sizes(&self) -> Result<D3DKMT_SEGMENTSIZEINFO, Failure> {
        let mut sizes = D3DKMT_SEGMENTSIZEINFO::zeroed();
        let kind = KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_GETSEGMENTSIZE;
        granted(self.rig.kmt.ask(self.rig.adapter, kind, &mut sizes), "KMTQAITYPE_GETSEGMENTSIZE")?;
        Ok(sizes)
    }

    /// Fills part of memory with a word, and waits.
    pub fn fill(&self, worker: &mut Worker, target: u64, size: u64, pattern: u32) -> Result<(), Failure> {
        let commands = self.opaque.fill(Values { size, target, pattern, ..Values::default() });
        self.submit(worker, &commands)?;
        self.wait(worker)
    }

    /// Work as a program would do it: memory, a context, a packet, the result.
    pub fn work(&self) -> Result<(), Failure> {
        let mut worker = self.worker()?;
        for local in self.kinds() {
            let memory = self.memory(SIZE, local)?;
            let view = self.rig.view(memory)?;
            view.fill(0);
            self.fill(&mut worker, memory.address, SIZE, 0x5a5a_0001)?;
            holds(&view, 0, SIZE, 0x5a5a_0001, "memory that was filled")?;
            granted(self.rig.destroy_allocation(memory.handle), "destroying the memory")?;
        }
        granted(self.rig.destroy_packet_context(worker.context), "destroying the context")
    }

    pub fn is_active(&self) -> Result<bool, Failure> {
        let state = self.rig.kmt.execution_state(self.rig.device)?;
        Ok(state == D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE)
    }
}

/// Checks that every word of part of a view is the pattern.
pub fn holds(view: &View, offset: u64, size: u64, pattern: u32, what: &str) -> Result<(), Failure> {
    let bytes = view.read(offset, size);
    let words = bytes.as_chunks::<4>().0;
    // A buffer that is equal to itself moved by one word repeats its first word, and comparing slices is quick.
    let repeats = bytes.len() >= 4 && bytes[4..] == bytes[..bytes.len() - 4];
    if repeats && words[0] == pattern.to_le_bytes() {
        return Ok(());
    }
    let is_wrong = |word: &&[u8; 4]| **word != pattern.to_le_bytes();
    let Some(place) = words.iter().position(|word| is_wrong(&word)) else { return Ok(()) };
    let (found, wrong, all) = (u32::from_le_bytes(words[place]), words.iter().filter(is_wrong).count(), words.len());
    Err(Failure::new(format!("{what}: word {place} is {found:#010x}, not {pattern:#010x}; {wrong} of {all} are wrong")))
}

/// True if the description has commands that do not end.
pub fn knows_how_to_hang(case: &Case) -> Result<bool, Failure> {
    Ok(lab(case)?.opaque.hang().is_some())
}

pub fn lab(case: &Case) -> Result<Lab, Failure> {
    Lab::new(case.rig()?)
}
