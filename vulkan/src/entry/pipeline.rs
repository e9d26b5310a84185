//! Commands of shader modules, pipelines and their caches.

use core::ffi::c_void;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use ash::vk;

use super::declaration::commands;
use crate::app::App;
use crate::device::Device;
use crate::failure::Answer;
use crate::handle::Object;
use crate::layout::PipelineLayout;
use crate::pipeline::{Pipeline, PipelineCache, ShaderModule, Stage};

commands! { app;
    vkCreateShaderModule: PFN_vkCreateShaderModule(device: vk::Device, info: *const vk::ShaderModuleCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::ShaderModule) -> vk::Result
        = app.need(info).map(|info| app.put(out, ShaderModule::new(words(app, info)).register()));
    vkDestroyShaderModule: PFN_vkDestroyShaderModule(
        device: vk::Device, module: vk::ShaderModule, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(ShaderModule::release(module));
    vkCreateComputePipelines: PFN_vkCreateComputePipelines(device: vk::Device, cache: vk::PipelineCache, count: u32,
        infos: *const vk::ComputePipelineCreateInfo<'_>, allocator: *const vk::AllocationCallbacks<'_>,
        out: *mut vk::Pipeline) -> vk::Result
        = create_pipelines(app, device, cache, app.slice(infos, count), out);
    vkDestroyPipeline: PFN_vkDestroyPipeline(
        device: vk::Device, pipeline: vk::Pipeline, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(Pipeline::release(pipeline));
    vkCreatePipelineCache: PFN_vkCreatePipelineCache(device: vk::Device, info: *const vk::PipelineCacheCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::PipelineCache) -> vk::Result
        = app.need(info).map(|info| {
            let cache = PipelineCache::new(app.bytes(info.p_initial_data, info.initial_data_size));
            app.put(out, cache.register());
        });
    vkDestroyPipelineCache: PFN_vkDestroyPipelineCache(
        device: vk::Device, cache: vk::PipelineCache, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(PipelineCache::release(cache));
    vkMergePipelineCaches: PFN_vkMergePipelineCaches(
        device: vk::Device, to: vk::PipelineCache, count: u32, from: *const vk::PipelineCache) -> vk::Result
        = PipelineCache::needed(to).map(|to| {
            app.slice(from, count).iter().filter_map(|from| PipelineCache::of(*from)).for_each(|from| to.merge(&from));
        });
    vkGetPipelineCacheData: PFN_vkGetPipelineCacheData(
        device: vk::Device, cache: vk::PipelineCache, size: *mut usize, data: *mut c_void) -> vk::Result
        = PipelineCache::needed(cache).and_then(|cache| cache_data(app, &cache, size, data));
}

fn words(app: App<'_>, info: &vk::ShaderModuleCreateInfo<'_>) -> Vec<u32> {
    app.slice(info.p_code, (info.code_size / 4) as u32).to_vec()
}

/// Creates pipelines. One that fails is null; the first failure is the result.
fn create_pipelines(
    app: App<'_>,
    device: vk::Device,
    cache: vk::PipelineCache,
    infos: &[vk::ComputePipelineCreateInfo<'_>],
    out: *mut vk::Pipeline,
) -> Answer<()> {
    let (device, cache) = (app.object::<Device>(device)?, PipelineCache::of(cache));
    let mut outcome = Ok(());
    for (index, info) in infos.iter().enumerate() {
        let begun = Instant::now();
        let made = if outcome.is_err() && info.flags.contains(vk::PipelineCreateFlags::EARLY_RETURN_ON_FAILURE) {
            Err(vk::Result::SUCCESS)
        } else {
            create_pipeline(app, device, cache.as_deref(), info)
        };
        tell_feedback(app, info, begun.elapsed(), made.as_ref().ok().map(|(_, was_cached)| *was_cached));
        let handle = match made {
            Ok((pipeline, _)) => pipeline.register(),
            Err(failure) => {
                outcome = outcome.and(Err(failure));
                vk::Pipeline::null()
            }
        };
        app.put_at(out, index, handle);
    }
    outcome
}

/// Says how a pipeline was made, of the whole and of its only stage, if the application asks for it. `was_cached` is `None` if it was not made.
/// [Vulkan: VkPipelineCreationFeedbackCreateInfo]
fn tell_feedback(app: App<'_>, info: &vk::ComputePipelineCreateInfo<'_>, took: Duration, was_cached: Option<bool>) {
    let Some(asked) = app.find::<vk::PipelineCreationFeedbackCreateInfo<'_>>(info.p_next) else { return };
    type Flags = vk::PipelineCreationFeedbackFlags;
    let flags = match was_cached {
        None => Flags::empty(),
        Some(false) => Flags::VALID,
        Some(true) => Flags::VALID | Flags::APPLICATION_PIPELINE_CACHE_HIT,
    };
    let feedback = vk::PipelineCreationFeedback { flags, duration: took.as_nanos() as u64 };
    app.put(asked.p_pipeline_creation_feedback, feedback);
    for stage in 0..asked.pipeline_stage_creation_feedback_count {
        app.put_at(asked.p_pipeline_stage_creation_feedbacks, stage as usize, feedback);
    }
}

/// A pipeline, and true beside it if the cache had its program.
fn create_pipeline(
    app: App<'_>,
    device: &Device,
    cache: Option<&PipelineCache>,
    info: &vk::ComputePipelineCreateInfo<'_>,
) -> Answer<(Pipeline, bool)> {
    let may_not_compile = info.flags.contains(vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED);
    let stage = &info.stage;
    let name = app.name(stage.p_name).and_then(|name| name.to_str().ok()).ok_or(vk::Result::ERROR_UNKNOWN)?;
    let layout = PipelineLayout::needed(info.layout)?;
    let constants = specialization(app, app.get(stage.p_specialization_info));
    let has_base = info.flags.contains(vk::PipelineCreateFlags::DISPATCH_BASE);
    let made_of = Stage { entry_point: name, specialization: constants, has_base, may_not_compile };
    match ShaderModule::of(stage.module) {
        Some(module) => Pipeline::new(device, &module, made_of, layout, cache),
        // The module may stand in the chain instead. [Vulkan: VK_KHR_maintenance5]
        None => {
            let inline = app.find::<vk::ShaderModuleCreateInfo<'_>>(stage.p_next).ok_or(vk::Result::ERROR_UNKNOWN)?;
            Pipeline::new(device, &ShaderModule::new(words(app, inline)), made_of, layout, cache)
        }
    }
}

/// Bits of specialization constants by their identifiers.
fn specialization(app: App<'_>, info: Option<&vk::SpecializationInfo<'_>>) -> HashMap<u32, u64> {
    let Some(info) = info else { return HashMap::new() };
    let data = app.bytes(info.p_data, info.data_size);
    let entries = app.slice(info.p_map_entries, info.map_entry_count).iter();
    let bits = |entry: &vk::SpecializationMapEntry| {
        let bytes = data.iter().skip(entry.offset as usize).take(entry.size.min(8));
        bytes.rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte))
    };
    entries.map(|entry| (entry.constant_id, bits(entry))).collect()
}

fn cache_data(app: App<'_>, cache: &PipelineCache, size: *mut usize, data: *mut c_void) -> Answer<vk::Result> {
    let capacity = *app.need(size.cast_const())?;
    let (bytes, whole) = cache.data(if data.is_null() { usize::MAX } else { capacity });
    if data.is_null() {
        app.put(size, bytes.len());
        return Ok(vk::Result::SUCCESS);
    }
    // A header is written whole or not at all.
    if capacity < bytes.len() {
        app.put(size, 0);
        return Ok(vk::Result::INCOMPLETE);
    }
    app.put_bytes(data, 0, &bytes);
    app.put(size, bytes.len());
    Ok(if whole { vk::Result::SUCCESS } else { vk::Result::INCOMPLETE })
}
