//! A tiny miniport and its device: the least that starts, takes a queue and stops.
//!
//! It shares nothing with any real driver or device. A [`Mutant`] changes one answer or makes one mistake.

pub(crate) mod answers;
pub(crate) mod bus;
pub(crate) mod driver;
pub(crate) mod memory;
pub(crate) mod queue;
pub(crate) mod table;

use std::sync::Arc;

use dxgkrnl::{DeviceId, DriverId, DriverImage, LoadError, Machine, MachineConfig, StartError};
use wddm_ddi::km::*;
use wddm_ddi::types::LUID;

pub(crate) use bus::FakeBus;
pub(crate) use driver::Adapter;

/// One deviation from the working driver or device.
#[derive(Clone, Copy)]
pub(crate) struct Mutant {
    /// The version of the interface that the driver is written for.
    pub(crate) version: &'static InterfaceVersion,
    pub(crate) table: fn(&mut DRIVER_INITIALIZATION_DATA),
    pub(crate) caps: fn(&mut DXGK_DRIVERCAPS),
    /// A query that it answers besides, without writing anything.
    pub(crate) answers: Option<DXGK_QUERYADAPTERINFOTYPE>,
    /// A query that it refuses.
    pub(crate) refuses: Option<DXGK_QUERYADAPTERINFOTYPE>,
    /// Answers to the queries about memory that is not the system's to use.
    pub(crate) reserved: ReservedMemory,
    pub(crate) device_caps: fn(&mut DXGK_WDDMDEVICECAPS),
    pub(crate) native_fence_caps: Option<DXGK_NATIVE_FENCE_CAPS>,
    pub(crate) submission_caps: Option<DXGK_USERMODESUBMISSION_CAPS>,
    pub(crate) mmu: fn(&mut DXGK_GPUMMUCAPS),
    pub(crate) level: fn(&mut DXGK_PAGE_TABLE_LEVEL_DESC),
    pub(crate) node: fn(&mut DXGK_NODEMETADATA),
    pub(crate) segments: fn(&mut [DXGK_SEGMENTDESCRIPTOR4; 2]),
    pub(crate) segment_out: fn(&mut DXGK_QUERYSEGMENTOUT4),
    pub(crate) precision: u32,
    pub(crate) dma_buffer_segment_set: u32,
    /// Changes the answer of DxgkDdiCreateAllocation.
    pub(crate) allocation: fn(&mut DXGK_ALLOCATIONINFO),
    /// Features that the driver says it supports.
    pub(crate) features: &'static [DXGK_FEATURE_ID],
    /// Runs in StartDevice, after everything is set up.
    pub(crate) in_start: fn(&mut Adapter),
    /// Runs in the DPC routine, before DxgkCbNotifyDpc.
    pub(crate) in_dpc: fn(&mut Adapter),
    /// Runs in StopDevice.
    pub(crate) in_stop: fn(&mut Adapter),
    /// Power components that the driver declares.
    pub(crate) components: fn() -> Vec<DXGK_POWER_RUNTIME_COMPONENT>,
    /// PCI class of the device.
    pub(crate) class: u32,
}

/// Memory that the system must leave alone, as the driver tells it.
#[derive(Clone, Copy)]
pub(crate) struct ReservedMemory {
    /// Offset and bytes of invalid ranges of each segment that has some.
    pub(crate) invalid: &'static [(u64, u64)],
    /// Answer to FRAMEBUFFERSAVESIZE.
    pub(crate) save_size: Option<usize>,
    /// Answer to HARDWARERESERVEDRANGES: address and bytes.
    pub(crate) ranges: Option<&'static [(i64, i64)]>,
}

static NEWEST: InterfaceVersion = InterfaceVersion {
    version: DXGKDDI_INTERFACE_VERSION_WDDM3_2,
    model: DXGK_WDDMVERSION::DXGKDDI_WDDMv3_2,
    name: "WDDM 3.2",
    driver_table: size_of::<DRIVER_INITIALIZATION_DATA>(),
    callback_table: size_of::<DXGKRNL_INTERFACE>(),
};

/// The working driver.
pub(crate) const SOUND: Mutant = Mutant {
    version: &NEWEST,
    table: |_| (),
    caps: |_| (),
    answers: None,
    refuses: None,
    reserved: ReservedMemory { invalid: &[], save_size: None, ranges: None },
    device_caps: |_| (),
    native_fence_caps: None,
    submission_caps: None,
    mmu: |_| (),
    level: |_| (),
    node: |_| (),
    segments: |_| (),
    segment_out: |_| (),
    precision: 64,
    dma_buffer_segment_set: 1,
    allocation: |_| (),
    features: &[DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH],
    in_start: |_| (),
    in_dpc: |_| (),
    in_stop: |_| (),
    components: Vec::new,
    class: 0x12_0000,
};

/// A machine with the device plugged in and the driver loaded.
pub(crate) struct Bench {
    pub(crate) bus: Arc<FakeBus>,
    pub(crate) machine: Machine,
    pub(crate) device: DeviceId,
    pub(crate) driver: DriverId,
}

impl Bench {
    pub(crate) fn new(mutant: Mutant) -> Result<Self, LoadError> {
        Self::with_config(mutant, MachineConfig { ram: 64 << 20, ..MachineConfig::default() })
    }

    pub(crate) fn with_config(mutant: Mutant, config: MachineConfig) -> Result<Self, LoadError> {
        let machine = Machine::new(config).expect("memory for a machine");
        let bus = FakeBus::new(mutant.class);
        let device = machine.plug_in(bus.clone());
        driver::MUTANT.set(mutant);
        let driver = machine.load_driver(DriverImage::Linked {
            name: "minimal".into(),
            bind: driver::bind,
            entry: driver::driver_entry,
        })?;
        Ok(Self { bus, machine, device, driver })
    }

    pub(crate) fn start(&self) -> Result<LUID, StartError> {
        self.machine.start(self.device, self.driver)
    }
}
