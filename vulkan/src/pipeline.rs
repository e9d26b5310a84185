//! Shader modules and compute pipelines.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::vk;
use campanile_compiler::{Binding, Options, compile};
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
    /// Report of its latest dispatch.
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
    /// True if only a cache may have the program.
    pub(crate) may_not_compile: bool,
}

impl Stage<'_> {
    /// All that the program follows from.
    fn key(&self, words: &[u32], layout: &PipelineLayout) -> Vec<u8> {
        let mut constants: Vec<_> = self.specialization.iter().collect();
        constants.sort_unstable();
        let mut key = Vec::new();
        put_sized(&mut key, self.entry_point.as_bytes());
        key.extend(
            [layout.push, layout.size, self.has_base.into(), constants.len() as u32].map(u32::to_le_bytes).concat(),
        );
        for (id, bits) in constants {
            key.extend(id.to_le_bytes());
            key.extend(bits.to_le_bytes());
        }
        for Binding { set, binding, offset, count } in layout.bindings() {
            key.extend([set, binding, offset, count].map(u32::to_le_bytes).concat());
        }
        key.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        key
    }

    fn compile(&self, words: &[u32], layout: &PipelineLayout) -> Answer<Vec<u8>> {
        let options = Options {
            entry_point: self.entry_point.to_owned(),
            specialization: self.specialization.clone(),
            push_constant_offset: 0,
            bindings: layout.bindings(),
            robust: true,
            workgroup_base: self.has_base.then_some(layout.size),
        };
        let refused = |why: &dyn core::fmt::Display| {
            tell(&format_args!("a compute pipeline was not created: {why}"));
            vk::Result::ERROR_UNKNOWN
        };
        let compiled = compile(words, &options).map_err(|error| refused(&error))?;
        if compiled.arguments.push_constants.end > layout.push || compiled.arguments.size > layout.size {
            return Err(refused(&"its layout lacks push constants or a binding that its shader uses"));
        }
        Ok(compiled.program)
    }
}

impl Pipeline {
    /// Compiles a module for a layout, unless a cache has the program. What the compiler refuses is told on standard error, for Vulkan has no result that says it.
    ///
    /// # Errors
    /// VK_ERROR_UNKNOWN for a module that the compiler refuses; VK_PIPELINE_COMPILE_REQUIRED; what the operating system refuses.
    pub(crate) fn new(
        device: &Device,
        words: &[u32],
        stage: Stage<'_>,
        layout: Arc<PipelineLayout>,
        cache: Option<&PipelineCache>,
    ) -> Answer<Self> {
        let key = cache.map(|_| stage.key(words, &layout));
        let cached = cache.zip(key.as_ref()).and_then(|(cache, key)| cache.programs().get(key).cloned());
        // What came out of the application's data is checked as the compiler's own; what fails is compiled anew.
        let cached = cached.and_then(|program| device.umd().create_program(&program).ok());
        let program = match cached {
            Some(program) => program,
            None if stage.may_not_compile => return Err(vk::Result::PIPELINE_COMPILE_REQUIRED),
            None => {
                let compiled = stage.compile(words, &layout)?;
                let program = device.umd().create_program(&compiled).map_err(result)?;
                if let (Some(cache), Some(key)) = (cache, key) {
                    cache.programs().insert(key, Arc::new(compiled));
                }
                program
            }
        };
        let report = Report::new(device, stage.entry_point)?;
        Ok(Self { program, layout, has_base: stage.has_base, report, device: number_of(device) })
    }
}

/// A number that no other device of the process has at the same time.
fn number_of(device: &Device) -> usize {
    core::ptr::from_ref(device) as usize
}

/// The faults of dispatches of a device's pipelines.
///
/// # Errors
/// As [`Report::fault`].
pub(crate) fn faults(device: &Device) -> Answer<Vec<Fault>> {
    let own = Pipeline::all().into_iter().filter(|pipeline| pipeline.device == number_of(device));
    own.filter_map(|pipeline| pipeline.report.fault().transpose()).collect()
}

/// A pipeline cache: programs by all that they were made of.
#[derive(Default)]
pub(crate) struct PipelineCache {
    programs: Mutex<HashMap<Vec<u8>, Arc<Vec<u8>>>>,
}

/// Bytes of the header of a cache's data.
const HEADER: usize = 16 + vk::UUID_SIZE;

/// The header of a cache's data. [Vulkan: VkPipelineCacheHeaderVersionOne]
fn header() -> Vec<u8> {
    use campanile_hw::pci::{DEVICE_ID, VENDOR_ID};
    let version = vk::PipelineCacheHeaderVersion::ONE.as_raw() as u32;
    let words = [HEADER as u32, version, u32::from(VENDOR_ID), u32::from(DEVICE_ID)];
    words.iter().flat_map(|word| word.to_le_bytes()).chain(CACHE_UUID).collect()
}

/// Bytes that begin with their number.
fn put_sized(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend((bytes.len() as u32).to_le_bytes());
    to.extend_from_slice(bytes);
}

/// Takes bytes that begin with their number.
fn take_sized<'d>(from: &mut &'d [u8]) -> Option<&'d [u8]> {
    let (size, rest) = from.split_first_chunk::<4>()?;
    let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*size) as usize)?;
    *from = rest;
    Some(bytes)
}

impl PipelineCache {
    /// A cache with what the data of another one have. Data of another device or driver, and what is cut off, count for nothing.
    pub(crate) fn new(data: &[u8]) -> Self {
        let mut programs = HashMap::new();
        if let Some(mut rest) = data.strip_prefix(header().as_slice()) {
            while let (Some(key), Some(program)) = (take_sized(&mut rest), take_sized(&mut rest)) {
                programs.insert(key.to_vec(), Arc::new(program.to_vec()));
            }
        }
        Self { programs: Mutex::new(programs) }
    }

    fn programs(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Arc<Vec<u8>>>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The header and, each whole, as many programs as there is room for; and whether these are all.
    pub(crate) fn data(&self, room: usize) -> (Vec<u8>, bool) {
        let (mut data, mut whole) = (header(), true);
        for (key, program) in self.programs().iter() {
            if room.saturating_sub(data.len()) < 8 + key.len() + program.len() {
                whole = false;
                continue;
            }
            put_sized(&mut data, key);
            put_sized(&mut data, program);
        }
        (data, whole)
    }

    /// Takes what another cache has.
    pub(crate) fn merge(&self, other: &Self) {
        let others: Vec<_> = other.programs().iter().map(|(key, program)| (key.clone(), program.clone())).collect();
        self.programs().extend(others);
    }
}
