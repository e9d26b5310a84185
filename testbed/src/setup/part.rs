//! An adapter of a system with its GPUs: plugged in, started, pulled out, removed.

use std::sync::{Arc, Mutex, PoisonError};

use dxgkrnl::bus::Bus;
use dxgkrnl::{DeviceId, DriverId, Machine, PnpError};
use wddm_ddi::types::LUID;

use super::bus::{Attached, BusChoice, Keeper};
use super::counters::GpuCounters;
use super::error::{
    ADVICE_BUS, ADVICE_DEFECT, ADVICE_FUNCTION, ADVICE_MEMORY, ADVICE_PROGRAM, ADVICE_SOCKET, SetupError,
};
use super::gpu_handle::GpuHandle;
use super::options::AdapterOptions;
use super::watch::RemovalWatch;

/// A GPU of a system, or the GPUs of a linked board, and the adapter.
pub struct Part {
    luid: LUID,
    first: Function,
    /// The other functions of a linked board.
    others: Vec<Function>,
    stage: Stage,
    slot: Slot,
    /// Notice that a started GPU goes.
    watches: Vec<RemovalWatch>,
}

/// A function on the bus.
pub(super) struct Function {
    device: DeviceId,
    attached: Attached,
    /// Among all functions of the system.
    place: usize,
}

/// Configuration of a slot, with which a GPU is plugged in again after it was pulled out.
pub(super) struct Slot {
    pub(super) bus: BusChoice,
    pub(super) threads: bool,
    pub(super) options: AdapterOptions,
}

/// Payload with which [`Part::gpu`] unwinds.
#[derive(Clone, Copy, Debug)]
pub struct GpuElsewhere;

/// State of an adapter between plugging in and start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Removed,
    Stopped,
    Started,
}

impl Part {
    /// The adapter.
    pub fn luid(&self) -> LUID {
        self.luid
    }

    /// The GPU behind the bus, to look into it and to step it.
    ///
    /// Unwinds with [`GpuElsewhere`] if the GPU is in another process: the caller cannot go on there.
    pub fn gpu(&self) -> &GpuHandle {
        self.first.gpu()
    }

    /// As [`Part::gpu`], the GPU of each function: by engine, if they are linked.
    pub fn gpus(&self) -> Vec<&GpuHandle> {
        self.functions().map(Function::gpu).collect()
    }

    /// Engines of each node: the GPUs that are linked.
    pub fn engines(&self) -> u32 {
        self.functions().count() as u32
    }

    pub(super) fn functions(&self) -> impl Iterator<Item = &Function> {
        [&self.first].into_iter().chain(&self.others)
    }

    /// Ends what keeps its GPUs alive, all of it. The first failure.
    pub(super) fn end_keepers(&mut self) -> Result<(), SetupError> {
        let mut outcome = Ok(());
        for function in [&mut self.first].into_iter().chain(&mut self.others) {
            let ended = std::mem::replace(&mut function.attached.keeper, Keeper::Nobody).end();
            outcome = outcome.and(ended.map_err(|e| SetupError::new("The GPU was given up", e, ADVICE_DEFECT)));
        }
        outcome
    }

    /// The GPU behind the bus, for faults to be injected.
    ///
    /// # Errors
    /// The GPU is in another process; an error of input.
    pub fn faulty_gpu(&self) -> Result<&GpuHandle, SetupError> {
        let cause = "the GPU is in another process, which takes no faults";
        self.first.attached.gpu.as_ref().ok_or_else(|| SetupError::input("No faults on this bus", cause, ADVICE_BUS))
    }

    /// The bus that the first GPU is on.
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.first.attached.bus
    }

    /// As [`BusChoice::is_by_messages`], of the bus that it is on.
    pub fn is_by_messages(&self) -> bool {
        self.slot.bus.is_by_messages()
    }

    /// A register of the GPU, `size` bytes at `offset`.
    pub fn register(&self, offset: u64, size: u8) -> u64 {
        self.bus().register_read(campanile_hw::pci::BAR_REGISTERS, offset, size)
    }

    /// The GPU's own counters.
    pub fn counters(&self) -> GpuCounters {
        GpuCounters::read(|offset| self.register(offset, 8))
    }

    /// True if its nodes report that they have been idle for a while, so that they may enter F1 and lose their doorbells.
    pub fn reports_idle_engines(&self) -> bool {
        !matches!(self.register(campanile_hw::registers::IDLE_TICKS, 8), 0 | u64::MAX)
    }

    /// Plugs the functions of a device in.
    pub(super) fn plug_in(
        machine: &Machine,
        functions: Vec<(usize, Attached)>,
        slot: Slot,
    ) -> Result<Self, SetupError> {
        let mut functions = functions.into_iter();
        let (place, attached) = functions.next().expect("a device has a first function");
        let first = Function::plug_in(machine, place, attached, &slot.options, None)?;
        let beside = Some(first.device);
        let others =
            functions.map(|(place, attached)| Function::plug_in(machine, place, attached, &slot.options, beside));
        let others = others.collect::<Result<_, _>>()?;
        let luid = LUID { LowPart: 0, HighPart: 0 };
        Ok(Self { luid, first, others, stage: Stage::Removed, slot, watches: Vec::new() })
    }

    pub(super) fn start(&mut self, machine: &Machine, driver: DriverId) -> Result<(), SetupError> {
        if self.watches.iter().any(RemovalWatch::has_seen_the_end) {
            self.settle()?;
        }
        if self.stage == Stage::Started {
            return Ok(());
        }
        for function in [&mut self.first].into_iter().chain(&mut self.others) {
            // Nobody answers where a GPU was pulled out, or its server has gone. A server of others that is still connected is not asked for another
            // function: it may have one client, and would not answer the second.
            let is_replaced = !matches!(self.slot.bus, BusChoice::Sockets(_)) || function.attached.bus.is_gone();
            if function.attached.bus.config_read(0, 4) == u32::MAX && is_replaced {
                function.replace(machine, &self.slot)?;
            }
        }
        self.luid = machine.start(self.first.device, driver).map_err(|e| SetupError::start(&e))?;
        self.stage = Stage::Started;
        let watch = |function: &Function| {
            let bus = || Arc::clone(&function.attached.bus);
            let watch = |sign| RemovalWatch::start(sign, bus(), machine.clone(), self.luid);
            function.attached.sign().and_then(|sign| sign.map(watch).transpose()).transpose()
        };
        let watches = self.functions().filter_map(watch).collect::<Result<_, _>>();
        self.watches = watches.map_err(|e| SetupError::new("The GPU cannot be watched", e, ADVICE_MEMORY))?;
        Ok(())
    }

    /// Ends the watches over the functions. One that has gone meanwhile has taken the adapter along, for all of them.
    pub(super) fn settle(&mut self) -> Result<(), SetupError> {
        let outcomes: Vec<_> = self.watches.drain(..).filter_map(RemovalWatch::end).collect();
        if outcomes.is_empty() {
            return Ok(());
        }
        self.stage = Stage::Removed;
        let done = outcomes.iter().any(Result::is_ok);
        let failed = outcomes.into_iter().find_map(Result::err).filter(|_| !done);
        failed.map_or(Ok(()), |error| Err(removal_error(error)))
    }

    /// Pulls one of the GPUs out. The machine is not told.
    pub(super) fn pull_out(&self, engine: usize) -> Result<(), SetupError> {
        let none = || SetupError::new("The GPU could not be pulled out", "there is no such GPU", "");
        self.functions().nth(engine).ok_or_else(none)?.gpu().pull_out();
        Ok(())
    }

    /// Tells the machine that the GPU was pulled out.
    pub(super) fn notice_removal(&mut self, machine: &Machine) -> Result<(), SetupError> {
        self.settle()?;
        if self.stage < Stage::Started {
            return Ok(());
        }
        self.stage = Stage::Removed;
        machine.surprise_remove(self.luid).map_err(removal_error)
    }

    /// Tells the machine that the GPU was reset by its bus: what there was is removed as if it had been pulled out, and the function is
    /// found anew. [wdm: FunctionLevelDeviceReset]
    pub(super) fn notice_reset(&mut self, machine: &Machine) -> Result<(), SetupError> {
        self.notice_removal(machine)?;
        [&mut self.first].into_iter().chain(&mut self.others).try_for_each(|function| {
            let again = machine.plug_in_again(Arc::clone(&function.attached.bus), function.device);
            function.device = again.map_err(plug_in_error)?;
            machine.set_features(function.device, self.slot.options.features).map_err(plug_in_error)
        })
    }

    pub(super) fn stop(&mut self, machine: &Machine) -> Result<(), SetupError> {
        self.settle()?;
        if self.stage < Stage::Started {
            return Ok(());
        }
        self.stage = Stage::Stopped;
        machine.stop(self.luid).map_err(|e| SetupError::step("The adapter could not be stopped", &e))
    }

    pub(super) fn remove(&mut self, machine: &Machine) -> Result<(), SetupError> {
        self.stop(machine)?;
        if self.stage < Stage::Stopped {
            return Ok(());
        }
        self.stage = Stage::Removed;
        machine.remove(self.luid).map_err(|e| SetupError::step("The adapter could not be removed", &e))
    }
}

/// Functions that others serve and that were reached to find out whether they are there, by bus and place: the machine that comes first goes on with the connection, for a server
/// may have one client and end.
static REACHED: Mutex<Vec<(String, usize, Attached)>> = Mutex::new(Vec::new());

impl Function {
    /// Reaches function number `place` of a bus of functions that others serve, for whoever attaches it first.
    pub(super) fn reach(place: usize, slot: &Slot) -> Result<(), SetupError> {
        let (_, attached) = Self::attach(place, slot)?;
        REACHED.lock().unwrap_or_else(PoisonError::into_inner).push((slot.bus.to_string(), place, attached));
        Ok(())
    }

    /// Makes or reaches function number `place` of a system.
    pub(super) fn attach(place: usize, slot: &Slot) -> Result<(usize, Attached), SetupError> {
        let mut reached = REACHED.lock().unwrap_or_else(PoisonError::into_inner);
        let bus = slot.bus.to_string();
        if let Some(found) = reached.iter().position(|(of, at, _)| (of, *at) == (&bus, place)) {
            return Ok((place, reached.swap_remove(found).2));
        }
        drop(reached);
        let attached = Attached::new(&slot.bus, place, &slot.options.variant, slot.threads);
        Ok((place, attached.map_err(|e| attach_error(&slot.bus, e))?))
    }

    /// Plugs a function in, as the next one of the device of `other`.
    pub(super) fn plug_in(
        machine: &Machine,
        place: usize,
        attached: Attached,
        options: &AdapterOptions,
        other: Option<DeviceId>,
    ) -> Result<Self, SetupError> {
        let bus = Arc::clone(&attached.bus);
        let device = match other {
            None => machine.plug_in(bus),
            Some(other) => machine.plug_in_beside(bus, other).map_err(plug_in_error)?,
        };
        machine.set_features(device, options.features).map_err(plug_in_error)?;
        Ok(Self { device, attached, place })
    }

    /// Puts a GPU like the one that was pulled out into its place.
    pub(super) fn replace(&mut self, machine: &Machine, slot: &Slot) -> Result<(), SetupError> {
        (_, self.attached) = Self::attach(self.place, slot)?;
        let bus = Arc::clone(&self.attached.bus);
        self.device = machine.plug_in_again(bus, self.device).map_err(plug_in_error)?;
        machine.set_features(self.device, slot.options.features).map_err(plug_in_error)
    }

    fn gpu(&self) -> &GpuHandle {
        match &self.attached.gpu {
            Some(gpu) => gpu,
            // Not a panic: no hook speaks of a defect where there is none.
            None => std::panic::resume_unwind(Box::new(GpuElsewhere)),
        }
    }
}

fn plug_in_error(error: PnpError) -> SetupError {
    SetupError::step("The GPU could not be plugged in", &error)
}

/// The error of an adapter that could not be removed after its GPU was pulled out.
fn removal_error(error: PnpError) -> SetupError {
    SetupError::step("The adapter that was pulled out could not be removed", &error)
}

/// The error of a GPU that could not be built or reached.
pub(super) fn attach_error(choice: &BusChoice, error: std::io::Error) -> SetupError {
    match choice {
        BusChoice::Sockets(_) => SetupError::input("The GPU could not be reached", error, ADVICE_SOCKET),
        BusChoice::Process(_) => SetupError::input("The GPU could not be reached", error, ADVICE_PROGRAM),
        BusChoice::Functions(_) => SetupError::input("The GPU could not be reached", error, ADVICE_FUNCTION),
        _ => SetupError::new("The GPU could not be built", error, ADVICE_MEMORY),
    }
}
