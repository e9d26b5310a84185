//! Commands of descriptor sets and their layouts, pools and templates.

use core::ffi::c_void;
use std::sync::Arc;

use ash::vk;

use super::declaration::commands;
use crate::app::App;
use crate::descriptor::{DescriptorPool, DescriptorSet, Write, Written, read, stride};
use crate::failure::Answer;
use crate::handle::Object;
use crate::image::Sampler;
use crate::layout::{PipelineLayout, SetLayout};
use crate::physical::{DESCRIPTORS_OF_SET, INLINE_BLOCKS_MAX, INLINE_BYTES_MAX};
use crate::template::{Entry, Template};

commands! { app;
    vkCreateDescriptorSetLayout: PFN_vkCreateDescriptorSetLayout(device: vk::Device,
        info: *const vk::DescriptorSetLayoutCreateInfo<'_>, allocator: *const vk::AllocationCallbacks<'_>,
        out: *mut vk::DescriptorSetLayout) -> vk::Result
        = app.need(info).and_then(|info| match is_supported(app, info) {
            true => {
                app.put(out, set_layout(app, info).register());
                Ok(())
            }
            false => Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY),
        });
    vkDestroyDescriptorSetLayout: PFN_vkDestroyDescriptorSetLayout(
        device: vk::Device, layout: vk::DescriptorSetLayout, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(SetLayout::release(layout));
    vkGetDescriptorSetLayoutSupport: PFN_vkGetDescriptorSetLayoutSupport(device: vk::Device,
        info: *const vk::DescriptorSetLayoutCreateInfo<'_>, support: *mut vk::DescriptorSetLayoutSupport<'_>)
        = if let Some(info) = app.get(info) {
            app.change(support, |support| {
                support.supported = is_supported(app, info).into();
                app.extend::<vk::DescriptorSetVariableDescriptorCountLayoutSupport<'_>>(support.p_next, |_| ());
            });
        };
    vkCreatePipelineLayout: PFN_vkCreatePipelineLayout(device: vk::Device,
        info: *const vk::PipelineLayoutCreateInfo<'_>, allocator: *const vk::AllocationCallbacks<'_>,
        out: *mut vk::PipelineLayout) -> vk::Result
        = app.need(info).map(|info| app.put(out, pipeline_layout(app, info).register()));
    vkDestroyPipelineLayout: PFN_vkDestroyPipelineLayout(
        device: vk::Device, layout: vk::PipelineLayout, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(PipelineLayout::release(layout));
    vkCreateDescriptorPool: PFN_vkCreateDescriptorPool(device: vk::Device,
        info: *const vk::DescriptorPoolCreateInfo<'_>, allocator: *const vk::AllocationCallbacks<'_>,
        out: *mut vk::DescriptorPool) -> vk::Result
        = app.need(info).map(|info| app.put(out, DescriptorPool::new(info.max_sets).register()));
    vkDestroyDescriptorPool: PFN_vkDestroyDescriptorPool(
        device: vk::Device, pool: vk::DescriptorPool, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(DescriptorPool::release(pool));
    vkResetDescriptorPool: PFN_vkResetDescriptorPool(
        device: vk::Device, pool: vk::DescriptorPool, flags: vk::DescriptorPoolResetFlags) -> vk::Result
        = DescriptorPool::needed(pool).map(|pool| pool.reset());
    vkAllocateDescriptorSets: PFN_vkAllocateDescriptorSets(device: vk::Device,
        info: *const vk::DescriptorSetAllocateInfo<'_>, sets: *mut vk::DescriptorSet) -> vk::Result
        = allocate_sets(app, info, sets);
    vkFreeDescriptorSets: PFN_vkFreeDescriptorSets(device: vk::Device, pool: vk::DescriptorPool, count: u32,
        sets: *const vk::DescriptorSet) -> vk::Result
        = DescriptorPool::needed(pool).map(|pool| pool.free(app.slice(sets, count)));
    vkUpdateDescriptorSets: PFN_vkUpdateDescriptorSets(device: vk::Device, writes: u32,
        write: *const vk::WriteDescriptorSet<'_>, copies: u32, copy: *const vk::CopyDescriptorSet<'_>)
        = {
            app.slice(write, writes).iter().for_each(|write| update(app, write));
            app.slice(copy, copies).iter().for_each(copy_set);
        };
    vkCreateDescriptorUpdateTemplate: PFN_vkCreateDescriptorUpdateTemplate(device: vk::Device,
        info: *const vk::DescriptorUpdateTemplateCreateInfo<'_>, allocator: *const vk::AllocationCallbacks<'_>,
        out: *mut vk::DescriptorUpdateTemplate) -> vk::Result
        = app.need(info).map(|info| app.put(out, template(app, info).register()));
    vkDestroyDescriptorUpdateTemplate: PFN_vkDestroyDescriptorUpdateTemplate(device: vk::Device,
        template: vk::DescriptorUpdateTemplate, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(Template::release(template));
    vkUpdateDescriptorSetWithTemplate: PFN_vkUpdateDescriptorSetWithTemplate(device: vk::Device,
        set: vk::DescriptorSet, template: vk::DescriptorUpdateTemplate, data: *const c_void)
        = if let (Some(set), Some(template)) = (DescriptorSet::of(set), Template::of(template)) {
            template.writes(app, data, |_| true).iter().for_each(|write| set.write(write));
        };
}

/// True for bindings of types that there are, of which a set has no more descriptors than a set may have.
fn is_supported(app: App<'_>, info: &vk::DescriptorSetLayoutCreateInfo<'_>) -> bool {
    let bindings = app.slice(info.p_bindings, info.binding_count);
    let is_block = |binding: &&vk::DescriptorSetLayoutBinding<'_>| {
        binding.descriptor_type == vk::DescriptorType::INLINE_UNIFORM_BLOCK
    };
    type Bindings<'b> = Vec<&'b vk::DescriptorSetLayoutBinding<'b>>;
    let (blocks, others): (Bindings<'_>, Bindings<'_>) = bindings.iter().partition(is_block);
    let count = others.iter().map(|binding| u64::from(binding.descriptor_count)).sum::<u64>();
    let is_known = |binding: &&vk::DescriptorSetLayoutBinding<'_>| {
        let kind = binding.descriptor_type;
        // Those of Vulkan 1.0 have the first numbers.
        (vk::DescriptorType::SAMPLER..=vk::DescriptorType::INPUT_ATTACHMENT).contains(&kind)
    };
    let fits = blocks.len() <= INLINE_BLOCKS_MAX as usize
        && blocks.iter().all(|block| block.descriptor_count <= INLINE_BYTES_MAX);
    others.iter().all(is_known) && count <= u64::from(DESCRIPTORS_OF_SET) && fits
}

fn set_layout(app: App<'_>, info: &vk::DescriptorSetLayoutCreateInfo<'_>) -> SetLayout {
    let bindings = app.slice(info.p_bindings, info.binding_count).iter();
    let flags = app.find::<vk::DescriptorSetLayoutBindingFlagsCreateInfo<'_>>(info.p_next);
    let flags = flags.map_or(&[][..], |flags| app.slice(flags.p_binding_flags, flags.binding_count));
    let is_updated_after_bind = flags.iter().any(|flags| flags.contains(vk::DescriptorBindingFlags::UPDATE_AFTER_BIND));
    let mut layout = SetLayout::new(bindings.map(|binding| {
        type Kind = vk::DescriptorType;
        let named = match binding.descriptor_type {
            Kind::SAMPLER | Kind::COMBINED_IMAGE_SAMPLER => {
                app.slice(binding.p_immutable_samplers, binding.descriptor_count)
            }
            // Other types have none, whatever stands there.
            _ => &[],
        };
        let samplers = named.iter().map(|sampler| Sampler::of(*sampler).map_or(0, |sampler| sampler.address()));
        (binding.binding, binding.descriptor_type, binding.descriptor_count, samplers.collect())
    }));
    layout.is_updated_after_bind = is_updated_after_bind;
    layout
}

fn pipeline_layout(app: App<'_>, info: &vk::PipelineLayoutCreateInfo<'_>) -> PipelineLayout {
    let sets = app.slice(info.p_set_layouts, info.set_layout_count).iter().map(|layout| SetLayout::of(*layout));
    let ranges = app.slice(info.p_push_constant_ranges, info.push_constant_range_count).iter();
    let push = ranges.map(|range| range.offset.saturating_add(range.size)).max().unwrap_or(0);
    PipelineLayout::new(push.min(crate::physical::PUSH_CONSTANTS_MAX), sets.collect())
}

fn allocate_sets(
    app: App<'_>,
    info: *const vk::DescriptorSetAllocateInfo<'_>,
    out: *mut vk::DescriptorSet,
) -> Answer<()> {
    let info = app.need(info)?;
    let layouts = app.slice(info.p_set_layouts, info.descriptor_set_count).iter();
    let layouts: Vec<Arc<SetLayout>> = layouts.map(|layout| SetLayout::needed(*layout)).collect::<Answer<_>>()?;
    let sets = DescriptorPool::needed(info.descriptor_pool)?.allocate(layouts)?;
    for (index, set) in sets.into_iter().enumerate() {
        app.put_at(out, index, set);
    }
    Ok(())
}

/// The descriptors of a write, which the layout of the set may name itself.
pub(super) fn pushed(app: App<'_>, layout: &SetLayout, what: &vk::WriteDescriptorSet<'_>) -> Option<Write> {
    (!layout.names_all_of(what.dst_binding)).then(|| write(app, what))
}

/// The descriptors of a write.
fn write(app: App<'_>, write: &vk::WriteDescriptorSet<'_>) -> Write {
    type Kind = vk::DescriptorType;
    let kind = write.descriptor_type;
    let start = match kind {
        Kind::UNIFORM_TEXEL_BUFFER | Kind::STORAGE_TEXEL_BUFFER => write.p_texel_buffer_view.cast(),
        Kind::SAMPLER | Kind::COMBINED_IMAGE_SAMPLER | Kind::SAMPLED_IMAGE | Kind::STORAGE_IMAGE => {
            write.p_image_info.cast()
        }
        _ => write.p_buffer_info.cast(),
    };
    let at = |index: u32| stride(kind) * index as usize;
    let what = match kind {
        Kind::INLINE_UNIFORM_BLOCK => {
            let block = app.find::<vk::WriteDescriptorSetInlineUniformBlock<'_>>(write.p_next);
            Written::Bytes(block.map_or(Vec::new(), |block| app.bytes(block.p_data, block.data_size as usize).to_vec()))
        }
        _ => Written::Descriptors((0..write.descriptor_count).map(|index| read(app, kind, start, at(index))).collect()),
    };
    Write { binding: write.dst_binding, element: write.dst_array_element, what }
}

fn update(app: App<'_>, what: &vk::WriteDescriptorSet<'_>) {
    if let Some(set) = DescriptorSet::of(what.dst_set) {
        set.write(&write(app, what));
    }
}

fn copy_set(copy: &vk::CopyDescriptorSet<'_>) {
    if let (Some(from), Some(to)) = (DescriptorSet::of(copy.src_set), DescriptorSet::of(copy.dst_set)) {
        let what = from.read(copy.src_binding, copy.src_array_element, copy.descriptor_count);
        to.write(&Write { binding: copy.dst_binding, element: copy.dst_array_element, what });
    }
}

fn template(app: App<'_>, info: &vk::DescriptorUpdateTemplateCreateInfo<'_>) -> Template {
    let entries = app.slice(info.p_descriptor_update_entries, info.descriptor_update_entry_count).iter();
    Template {
        entries: entries
            .map(|entry| Entry {
                binding: entry.dst_binding,
                element: entry.dst_array_element,
                count: entry.descriptor_count,
                kind: entry.descriptor_type,
                offset: entry.offset,
                stride: entry.stride,
            })
            .collect(),
        layout: PipelineLayout::of(info.pipeline_layout),
        set: info.set,
    }
}
