//! Why a device was lost: what the dispatches of its pipelines report, and what the operating system says.

use ash::vk;
use campanile_hw::event::FaultKind;
use campanile_hw::packet::{DISPATCH_FAULTED, DispatchReport};
use campanile_umd::LossReason;

use crate::device::Device;
use crate::failure::{Answer, result};
use crate::records::Record;

/// Memory for the report of the dispatches of a pipeline, and what the pipeline is called.
pub(crate) struct Report {
    record: Record,
    name: String,
}

/// The fault of a dispatch.
pub(crate) struct Fault {
    /// The GPU virtual address, or the one in other memory that the kind of fault is about.
    pub(crate) address: u64,
    /// A number of `FaultKind`.
    pub(crate) kind: u16,
    /// True if the access that faulted was a write.
    is_write: bool,
    /// Number of the instruction in the program.
    pub(crate) instruction: u32,
    /// Line of the source, 0 if the module names none.
    pub(crate) line: u32,
    /// Entry point of the program.
    pub(crate) program: String,
}

impl Report {
    /// # Errors
    /// The error of the operating system, as [`result`](crate::failure::result) translates it.
    pub(crate) fn new(device: &Device, name: &str) -> Answer<Self> {
        let empty = [0; DispatchReport::SIZE];
        Ok(Self { record: device.reports().put(&empty)?, name: name.to_owned() })
    }

    /// GPU virtual address of the report.
    pub(crate) fn address(&self) -> u64 {
        self.record.address()
    }

    /// The fault that it tells of, if it does.
    pub(crate) fn fault(&self) -> Answer<Option<Fault>> {
        let mut bytes = [0; DispatchReport::SIZE];
        self.record.read(&mut bytes)?;
        let report = DispatchReport::from_bytes(&bytes);
        Ok((report.state == DISPATCH_FAULTED).then(|| Fault {
            address: report.address,
            kind: report.fault,
            is_write: report.write != 0,
            instruction: report.instruction,
            line: report.line,
            program: self.name.clone(),
        }))
    }
}

impl Fault {
    /// One sentence for developers: kind of the fault, program, instruction and line.
    pub(crate) fn text(&self) -> String {
        let kind = u8::try_from(self.kind).ok().and_then(FaultKind::from_number);
        let kind = kind.map_or_else(|| format!("fault {}", self.kind), |kind| format!("{kind:?}"));
        let line = if self.line == 0 { String::new() } else { format!(", line {}", self.line) };
        format!("{kind} in program {}, instruction {}{line}", self.program, self.instruction)
    }

    /// What the fault says of its address, if that is one of the GPU's virtual addresses. [Vulkan: VkDeviceFaultAddressTypeEXT]
    pub(crate) fn address_type(&self) -> Option<vk::DeviceFaultAddressTypeEXT> {
        match u8::try_from(self.kind).ok().and_then(FaultKind::from_number)? {
            FaultKind::PageFault if self.is_write => Some(vk::DeviceFaultAddressTypeEXT::WRITE_INVALID),
            FaultKind::PageFault => Some(vk::DeviceFaultAddressTypeEXT::READ_INVALID),
            FaultKind::ReadOnly => Some(vk::DeviceFaultAddressTypeEXT::WRITE_INVALID),
            FaultKind::NoExecute => Some(vk::DeviceFaultAddressTypeEXT::EXECUTE_INVALID),
            // No page is at fault.
            FaultKind::Misaligned => Some(vk::DeviceFaultAddressTypeEXT::NONE),
            _ => None,
        }
    }
}

/// Why a device was lost, in a few words.
///
/// # Errors
/// VK_ERROR_UNKNOWN for a device that works; that of the question.
pub(crate) fn reason(device: &Device) -> Answer<&'static str> {
    Ok(match device.umd().loss().map_err(result)?.ok_or(vk::Result::ERROR_UNKNOWN)? {
        LossReason::Hung => "work of this device made no progress",
        LossReason::Reset => "an engine or the adapter was reset because of work of another device",
        LossReason::Fault => "work of this device broke a rule, or accessed memory that is not mapped",
        LossReason::Removed => "the adapter is gone, or was stopped",
        LossReason::Other(_) => "the operating system stopped the device",
    })
}
