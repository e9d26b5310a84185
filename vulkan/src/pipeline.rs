//! Shader modules and compute pipelines.

use std::collections::HashMap;
use std::sync::Arc;

use ash::vk;
use campanile_compiler::{Options, compile};
use campanile_umd::Program;

use crate::device::Device;
use crate::failure::{Answer, result, tell};
use crate::fault::{Fault, Report};
use crate::handle::{Object, objects};
use crate::layout::PipelineLayout;
use crate::physical::CACHE_UUID;

objects! {
    ShaderModule => vk::ShaderModule,
    Pipeline => vk::Pipeline,
    PipelineCache => vk::PipelineCache,
}

/// A module of SPIR-V.
pub(crate) struct ShaderModule {
    pub(crate) words: Vec<u32>,
}

/// A compute pipeline: a program that was compiled for a layout.
pub(crate) struct Pipeline {
    pub(crate) program: Program,
    pub(crate) layout: Arc<PipelineLayout>,
    /// True if its argument blocks end with the place of the first workgroup.
    pub(crate) has_base: bool,
    /// What its dispatches report.
    pub(crate) report: Report,
    /// The device, by the handle of its objects.
    device: usize,
}

/// What a pipeline is made of besides its module and layout.
pub(crate) struct Stage<'s> {
    pub(crate) entry_point: &'s str,
    pub(crate) specialization: HashMap<u32, u64>,
    /// True if its dispatches say with which workgroup they begin.
    pub(crate) has_base: bool,
}

impl Pipeline {
    /// Compiles a module for a layout. What the compiler refuses is told on standard error, for Vulkan has no result that says it.
    ///
    /// # Errors
    /// VK_ERROR_UNKNOWN for a module that the compiler refuses; what the operating system refuses.
    pub(crate) fn new(device: &Device, words: &[u32], stage: Stage<'_>, layout: Arc<PipelineLayout>) -> Answer<Self> {
        let options = Options {
            entry_point: stage.entry_point.to_owned(),
            specialization: stage.specialization,
            push_constant_offset: 0,
            bindings: layout.bindings(),
            robust: true,
            workgroup_base: stage.has_base.then_some(layout.size),
        };
        let compiled = compile(words, &options).map_err(|error| {
            tell(&format_args!("a compute pipeline was not created: {error}"));
            vk::Result::ERROR_UNKNOWN
        })?;
        if compiled.arguments.push_constants.end > layout.push || compiled.arguments.size > layout.size {
            tell(
                &"a compute pipeline was not created: its layout lacks push constants or a binding that its shader uses",
            );
            return Err(vk::Result::ERROR_UNKNOWN);
        }
        let program = device.umd().create_program(&compiled.program).map_err(result)?;
        let report = Report::new(device, stage.entry_point)?;
        Ok(Self { program, layout, has_base: stage.has_base, report, device: key(device) })
    }
}

/// What tells the objects of one device from those of another.
fn key(device: &Device) -> usize {
    core::ptr::from_ref(device) as usize
}

impl Device {
    /// The faults of dispatches of its pipelines.
    ///
    /// # Errors
    /// As [`Report::fault`].
    pub(crate) fn faults(&self) -> Answer<Vec<Fault>> {
        let own = Pipeline::all().into_iter().filter(|pipeline| pipeline.device == key(self));
        own.filter_map(|pipeline| pipeline.report.fault().transpose()).collect()
    }
}

/// A pipeline cache, which keeps nothing yet.
pub(crate) struct PipelineCache;

impl PipelineCache {
    /// The data of the cache: its header. [Vulkan: VkPipelineCacheHeaderVersionOne]
    pub(crate) fn data() -> Vec<u8> {
        use campanile_hw::pci::{DEVICE_ID, VENDOR_ID};
        let size = 16 + vk::UUID_SIZE as u32;
        let version = vk::PipelineCacheHeaderVersion::ONE.as_raw() as u32;
        let words = [size, version, u32::from(VENDOR_ID), u32::from(DEVICE_ID)];
        words.iter().flat_map(|word| word.to_le_bytes()).chain(CACHE_UUID).collect()
    }
}
