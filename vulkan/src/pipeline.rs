//! Shader modules and compute pipelines.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ash::vk;
use campanile_compiler::{Binding, Options, compile};
use campanile_umd::Program;
use sha2::{Digest as _, Sha256};

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
    words: Vec<u32>,
    /// SHA-256 of the words, which stands for them in the keys of caches.
    digest: [u8; 32],
}

impl ShaderModule {
    pub(crate) fn new(words: Vec<u32>) -> Self {
        let mut digest = Sha256::new();
        words.iter().for_each(|word| digest.update(word.to_le_bytes()));
        Self { digest: digest.finalize().into(), words }
    }
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

/// The entry point and the options of a compute stage, beside its module and layout.
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
    fn key(&self, module: &ShaderModule, layout: &PipelineLayout) -> Vec<u8> {
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
        key.extend(module.digest);
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
    ///
    /// Beside the pipeline is true if the cache had its program.
    pub(crate) fn new(
        device: &Device,
        module: &ShaderModule,
        stage: Stage<'_>,
        layout: Arc<PipelineLayout>,
        cache: Option<&PipelineCache>,
    ) -> Answer<(Self, bool)> {
        let key = cache.map(|_| stage.key(module, &layout));
        let cached = cache.zip(key.as_ref()).and_then(|(cache, key)| cache.programs().get(key).cloned());
        let cached = cached.and_then(|cached| cached.load(device));
        let was_cached = cached.is_some();
        let program = match cached {
            Some(program) => program,
            None if stage.may_not_compile => return Err(vk::Result::PIPELINE_COMPILE_REQUIRED),
            None => {
                let compiled = stage.compile(&module.words, &layout)?;
                let program = device.umd().create_program(&compiled).map_err(result)?;
                if let (Some(cache), Some(key)) = (cache, key) {
                    let cached = Cached { bytes: compiled, loaded: OnceLock::from(program.clone()) };
                    cache.programs().insert(key, Arc::new(cached));
                }
                program
            }
        };
        let report = Report::new(device, stage.entry_point)?;
        let pipeline = Self { program, layout, has_base: stage.has_base, report, device: number_of(device) };
        Ok((pipeline, was_cached))
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

/// A program of a pipeline cache.
struct Cached {
    bytes: Vec<u8>,
    /// The program in memory of the device whose cache it is, once a pipeline was made of it. All such pipelines share it.
    loaded: OnceLock<Program>,
}

impl Cached {
    /// The program in memory of the device. What came out of the application's data is checked as the compiler's own is; `None` for what fails, which is compiled anew.
    fn load(&self, device: &Device) -> Option<Program> {
        if let Some(program) = self.loaded.get() {
            return Some(program.clone());
        }
        let program = device.umd().create_program(&self.bytes).ok()?;
        Some(self.loaded.get_or_init(|| program).clone())
    }
}

/// A pipeline cache: programs by all that they were made of.
#[derive(Default)]
pub(crate) struct PipelineCache {
    programs: Mutex<HashMap<Vec<u8>, Arc<Cached>>>,
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
                let cached = Cached { bytes: program.to_vec(), loaded: OnceLock::new() };
                programs.insert(key.to_vec(), Arc::new(cached));
            }
        }
        Self { programs: Mutex::new(programs) }
    }

    fn programs(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Arc<Cached>>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The header and, each whole, as many programs as fit; and whether these are all.
    pub(crate) fn data(&self, capacity: usize) -> (Vec<u8>, bool) {
        let (mut data, mut whole) = (header(), true);
        for (key, program) in self.programs().iter() {
            if capacity.saturating_sub(data.len()) < 8 + key.len() + program.bytes.len() {
                whole = false;
                continue;
            }
            put_sized(&mut data, key);
            put_sized(&mut data, &program.bytes);
        }
        (data, whole)
    }

    /// Takes what another cache has.
    pub(crate) fn merge(&self, other: &Self) {
        let others: Vec<_> = other.programs().iter().map(|(key, program)| (key.clone(), program.clone())).collect();
        self.programs().extend(others);
    }
}
