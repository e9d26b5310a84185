//! A tiny miniport and its device: the least that starts, takes a queue and stops.
//!
//! It shares nothing with any real driver or device. A [`Mutant`] changes one answer or makes one mistake.

pub mod bus;
pub mod driver;
pub mod table;

use dxgkrnl::{DeviceId, DriverId, DriverImage, LoadError, Machine, MachineConfig, StartError};
use wddm_ddi::km::*;
use wddm_ddi::types::LUID;

pub use bus::FakeBus;
pub use driver::Adapter;

/// One deviation from the working driver or device.
#[derive(Clone, Copy)]
pub struct Mutant {
    pub table: fn(&mut DRIVER_INITIALIZATION_DATA),
    pub caps: fn(&mut DXGK_DRIVERCAPS),
    pub device_caps: fn(&mut DXGK_WDDMDEVICECAPS),
    pub native_fence_caps: Option<DXGK_NATIVE_FENCE_CAPS>,
    pub submission_caps: Option<DXGK_USERMODESUBMISSION_CAPS>,
    pub mmu: fn(&mut DXGK_GPUMMUCAPS),
    pub level: fn(&mut DXGK_PAGE_TABLE_LEVEL_DESC),
    pub node: fn(&mut DXGK_NODEMETADATA),
    pub segments: fn(&mut [DXGK_SEGMENTDESCRIPTOR4; 2]),
    pub segment_out: fn(&mut DXGK_QUERYSEGMENTOUT4),
    pub precision: u32,
    pub dma_buffer_segment_set: u32,
    /// Features that the driver says it supports.
    pub features: &'static [DXGK_FEATURE_ID],
    /// Runs in StartDevice, after everything is set up.
    pub in_start: fn(&mut Adapter),
    /// Runs in the DPC routine, before DxgkCbNotifyDpc.
    pub in_dpc: fn(&mut Adapter),
    /// Runs in StopDevice.
    pub in_stop: fn(&mut Adapter),
    /// PCI class of the device.
    pub class: u32,
}

/// The working driver.
pub const SOUND: Mutant = Mutant {
    table: |_| (),
    caps: |_| (),
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
    features: &[DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH],
    in_start: |_| (),
    in_dpc: |_| (),
    in_stop: |_| (),
    class: 0x12_0000,
};

/// A machine with the device plugged in and the driver loaded.
pub struct Bench {
    pub machine: Machine,
    pub device: DeviceId,
    pub driver: DriverId,
}

impl Bench {
    pub fn new(mutant: Mutant) -> Result<Self, LoadError> {
        Self::with_config(mutant, MachineConfig { ram: 64 << 20, ..MachineConfig::default() })
    }

    pub fn with_config(mutant: Mutant, config: MachineConfig) -> Result<Self, LoadError> {
        let machine = Machine::new(config).expect("memory for a machine");
        let device = machine.plug_in(FakeBus::new(mutant.class));
        driver::MUTANT.set(mutant);
        let driver = machine.load_driver(DriverImage::Linked {
            name: "minimal".into(),
            bind: driver::bind,
            entry: driver::driver_entry,
        })?;
        Ok(Self { machine, device, driver })
    }

    pub fn start(&self) -> Result<LUID, StartError> {
        self.machine.start(self.device, self.driver)
    }
}
