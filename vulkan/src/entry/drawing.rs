//! The commands of Vulkan 1.0 to 1.3 that draw, blit, resolve, or make what drawing needs. Their valid usage asks for a queue family or a feature that this device
//! lacks, so that a valid program calls none of them. They have addresses all the same, as every command of the version has, and say so when they are called:
//! what would make an object returns VK_ERROR_FEATURE_NOT_PRESENT, and what would be recorded makes vkEndCommandBuffer return it.
//! [Vulkan: vkGetDeviceProcAddr]

use ash::vk;

use super::command::record;
use super::declaration::commands;
use crate::app::App;
use crate::failure::Answer;

/// Answer of a command that would make an object.
const REFUSED: Answer<()> = Err(vk::Result::ERROR_FEATURE_NOT_PRESENT);

commands! { app;
    vkCreateGraphicsPipelines: PFN_vkCreateGraphicsPipelines(device: vk::Device, cache: vk::PipelineCache, count: u32,
        infos: *const vk::GraphicsPipelineCreateInfo<'_>, allocator: *const vk::AllocationCallbacks<'_>,
        out: *mut vk::Pipeline) -> vk::Result = no_pipelines(app, count, out);
    vkCreateFramebuffer: PFN_vkCreateFramebuffer(device: vk::Device, info: *const vk::FramebufferCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::Framebuffer) -> vk::Result = REFUSED;
    vkDestroyFramebuffer: PFN_vkDestroyFramebuffer(device: vk::Device, framebuffer: vk::Framebuffer,
        allocator: *const vk::AllocationCallbacks<'_>) = ();
    vkCreateRenderPass: PFN_vkCreateRenderPass(device: vk::Device, info: *const vk::RenderPassCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::RenderPass) -> vk::Result = REFUSED;
    vkDestroyRenderPass: PFN_vkDestroyRenderPass(device: vk::Device, render_pass: vk::RenderPass,
        allocator: *const vk::AllocationCallbacks<'_>) = ();
    vkGetRenderAreaGranularity: PFN_vkGetRenderAreaGranularity(device: vk::Device, render_pass: vk::RenderPass,
        granularity: *mut vk::Extent2D) = ();
    vkCmdSetViewport: PFN_vkCmdSetViewport(buffer: vk::CommandBuffer, first_viewport: u32, viewport_count: u32,
        viewports: *const vk::Viewport) = cannot_draw(app, buffer);
    vkCmdSetScissor: PFN_vkCmdSetScissor(buffer: vk::CommandBuffer, first_scissor: u32, scissor_count: u32,
        scissors: *const vk::Rect2D) = cannot_draw(app, buffer);
    vkCmdSetLineWidth: PFN_vkCmdSetLineWidth(buffer: vk::CommandBuffer, line_width: f32) = cannot_draw(app, buffer);
    vkCmdSetDepthBias: PFN_vkCmdSetDepthBias(buffer: vk::CommandBuffer, depth_bias_constant_factor: f32,
        depth_bias_clamp: f32, depth_bias_slope_factor: f32) = cannot_draw(app, buffer);
    vkCmdSetBlendConstants: PFN_vkCmdSetBlendConstants(buffer: vk::CommandBuffer, blend_constants: *const [f32; 4])
        = cannot_draw(app, buffer);
    vkCmdSetDepthBounds: PFN_vkCmdSetDepthBounds(buffer: vk::CommandBuffer, min_depth_bounds: f32,
        max_depth_bounds: f32) = cannot_draw(app, buffer);
    vkCmdSetStencilCompareMask: PFN_vkCmdSetStencilCompareMask(buffer: vk::CommandBuffer,
        face_mask: vk::StencilFaceFlags, compare_mask: u32) = cannot_draw(app, buffer);
    vkCmdSetStencilWriteMask: PFN_vkCmdSetStencilWriteMask(buffer: vk::CommandBuffer, face_mask: vk::StencilFaceFlags,
        write_mask: u32) = cannot_draw(app, buffer);
    vkCmdSetStencilReference: PFN_vkCmdSetStencilReference(buffer: vk::CommandBuffer, face_mask: vk::StencilFaceFlags,
        reference: u32) = cannot_draw(app, buffer);
    vkCmdBindIndexBuffer: PFN_vkCmdBindIndexBuffer(buffer: vk::CommandBuffer, from: vk::Buffer,
        offset: vk::DeviceSize, index_type: vk::IndexType) = cannot_draw(app, buffer);
    vkCmdBindVertexBuffers: PFN_vkCmdBindVertexBuffers(buffer: vk::CommandBuffer, first_binding: u32,
        binding_count: u32, buffers: *const vk::Buffer, offsets: *const vk::DeviceSize) = cannot_draw(app, buffer);
    vkCmdDraw: PFN_vkCmdDraw(buffer: vk::CommandBuffer, vertex_count: u32, instance_count: u32, first_vertex: u32,
        first_instance: u32) = cannot_draw(app, buffer);
    vkCmdDrawIndexed: PFN_vkCmdDrawIndexed(buffer: vk::CommandBuffer, index_count: u32, instance_count: u32,
        first_index: u32, vertex_offset: i32, first_instance: u32) = cannot_draw(app, buffer);
    vkCmdDrawIndirect: PFN_vkCmdDrawIndirect(buffer: vk::CommandBuffer, from: vk::Buffer, offset: vk::DeviceSize,
        draw_count: u32, stride: u32) = cannot_draw(app, buffer);
    vkCmdDrawIndexedIndirect: PFN_vkCmdDrawIndexedIndirect(buffer: vk::CommandBuffer, from: vk::Buffer,
        offset: vk::DeviceSize, draw_count: u32, stride: u32) = cannot_draw(app, buffer);
    vkCmdBlitImage: PFN_vkCmdBlitImage(buffer: vk::CommandBuffer, from_image: vk::Image,
        from_image_layout: vk::ImageLayout, to_image: vk::Image, to_image_layout: vk::ImageLayout, region_count: u32,
        regions: *const vk::ImageBlit, filter: vk::Filter) = cannot_draw(app, buffer);
    vkCmdClearDepthStencilImage: PFN_vkCmdClearDepthStencilImage(buffer: vk::CommandBuffer, image: vk::Image,
        image_layout: vk::ImageLayout, depth_stencil: *const vk::ClearDepthStencilValue, range_count: u32,
        ranges: *const vk::ImageSubresourceRange) = cannot_draw(app, buffer);
    vkCmdClearAttachments: PFN_vkCmdClearAttachments(buffer: vk::CommandBuffer, attachment_count: u32,
        attachments: *const vk::ClearAttachment, rect_count: u32, rects: *const vk::ClearRect)
        = cannot_draw(app, buffer);
    vkCmdResolveImage: PFN_vkCmdResolveImage(buffer: vk::CommandBuffer, from_image: vk::Image,
        from_image_layout: vk::ImageLayout, to_image: vk::Image, to_image_layout: vk::ImageLayout, region_count: u32,
        regions: *const vk::ImageResolve) = cannot_draw(app, buffer);
    vkCmdBeginQuery: PFN_vkCmdBeginQuery(buffer: vk::CommandBuffer, query_pool: vk::QueryPool, query: u32,
        flags: vk::QueryControlFlags) = cannot_draw(app, buffer);
    vkCmdEndQuery: PFN_vkCmdEndQuery(buffer: vk::CommandBuffer, query_pool: vk::QueryPool, query: u32)
        = cannot_draw(app, buffer);
    vkCmdBeginRenderPass: PFN_vkCmdBeginRenderPass(buffer: vk::CommandBuffer,
        render_pass_begin: *const vk::RenderPassBeginInfo<'_>, contents: vk::SubpassContents)
        = cannot_draw(app, buffer);
    vkCmdNextSubpass: PFN_vkCmdNextSubpass(buffer: vk::CommandBuffer, contents: vk::SubpassContents)
        = cannot_draw(app, buffer);
    vkCmdEndRenderPass: PFN_vkCmdEndRenderPass(buffer: vk::CommandBuffer) = cannot_draw(app, buffer);
    vkCreateSamplerYcbcrConversion: PFN_vkCreateSamplerYcbcrConversion(device: vk::Device,
        info: *const vk::SamplerYcbcrConversionCreateInfo<'_>, allocator: *const vk::AllocationCallbacks<'_>,
        out: *mut vk::SamplerYcbcrConversion) -> vk::Result = REFUSED;
    vkDestroySamplerYcbcrConversion: PFN_vkDestroySamplerYcbcrConversion(device: vk::Device,
        ycbcr_conversion: vk::SamplerYcbcrConversion, allocator: *const vk::AllocationCallbacks<'_>) = ();
    vkCmdDrawIndirectCount: PFN_vkCmdDrawIndirectCount(buffer: vk::CommandBuffer, from: vk::Buffer,
        offset: vk::DeviceSize, count_buffer: vk::Buffer, count_buffer_offset: vk::DeviceSize, max_draw_count: u32,
        stride: u32) = cannot_draw(app, buffer);
    vkCmdDrawIndexedIndirectCount: PFN_vkCmdDrawIndexedIndirectCount(buffer: vk::CommandBuffer, from: vk::Buffer,
        offset: vk::DeviceSize, count_buffer: vk::Buffer, count_buffer_offset: vk::DeviceSize, max_draw_count: u32,
        stride: u32) = cannot_draw(app, buffer);
    vkCreateRenderPass2: PFN_vkCreateRenderPass2(device: vk::Device, info: *const vk::RenderPassCreateInfo2<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::RenderPass) -> vk::Result = REFUSED;
    vkCmdBeginRenderPass2: PFN_vkCmdBeginRenderPass2(buffer: vk::CommandBuffer,
        render_pass_begin: *const vk::RenderPassBeginInfo<'_>, subpass_begin_info: *const vk::SubpassBeginInfo<'_>)
        = cannot_draw(app, buffer);
    vkCmdNextSubpass2: PFN_vkCmdNextSubpass2(buffer: vk::CommandBuffer,
        subpass_begin_info: *const vk::SubpassBeginInfo<'_>, subpass_end_info: *const vk::SubpassEndInfo<'_>)
        = cannot_draw(app, buffer);
    vkCmdEndRenderPass2: PFN_vkCmdEndRenderPass2(buffer: vk::CommandBuffer,
        subpass_end_info: *const vk::SubpassEndInfo<'_>) = cannot_draw(app, buffer);
    vkCmdBlitImage2: PFN_vkCmdBlitImage2(buffer: vk::CommandBuffer, blit_image_info: *const vk::BlitImageInfo2<'_>)
        = cannot_draw(app, buffer);
    vkCmdResolveImage2: PFN_vkCmdResolveImage2(buffer: vk::CommandBuffer,
        resolve_image_info: *const vk::ResolveImageInfo2<'_>) = cannot_draw(app, buffer);
    vkCmdBeginRendering: PFN_vkCmdBeginRendering(buffer: vk::CommandBuffer,
        rendering_info: *const vk::RenderingInfo<'_>) = cannot_draw(app, buffer);
    vkCmdEndRendering: PFN_vkCmdEndRendering(buffer: vk::CommandBuffer) = cannot_draw(app, buffer);
    vkCmdSetCullMode: PFN_vkCmdSetCullMode(buffer: vk::CommandBuffer, cull_mode: vk::CullModeFlags)
        = cannot_draw(app, buffer);
    vkCmdSetFrontFace: PFN_vkCmdSetFrontFace(buffer: vk::CommandBuffer, front_face: vk::FrontFace)
        = cannot_draw(app, buffer);
    vkCmdSetPrimitiveTopology: PFN_vkCmdSetPrimitiveTopology(buffer: vk::CommandBuffer,
        primitive_topology: vk::PrimitiveTopology) = cannot_draw(app, buffer);
    vkCmdSetViewportWithCount: PFN_vkCmdSetViewportWithCount(buffer: vk::CommandBuffer, viewport_count: u32,
        viewports: *const vk::Viewport) = cannot_draw(app, buffer);
    vkCmdSetScissorWithCount: PFN_vkCmdSetScissorWithCount(buffer: vk::CommandBuffer, scissor_count: u32,
        scissors: *const vk::Rect2D) = cannot_draw(app, buffer);
    vkCmdBindVertexBuffers2: PFN_vkCmdBindVertexBuffers2(buffer: vk::CommandBuffer, first_binding: u32,
        binding_count: u32, buffers: *const vk::Buffer, offsets: *const vk::DeviceSize, sizes: *const vk::DeviceSize,
        strides: *const vk::DeviceSize) = cannot_draw(app, buffer);
    vkCmdSetDepthTestEnable: PFN_vkCmdSetDepthTestEnable(buffer: vk::CommandBuffer, depth_test_enable: vk::Bool32)
        = cannot_draw(app, buffer);
    vkCmdSetDepthWriteEnable: PFN_vkCmdSetDepthWriteEnable(buffer: vk::CommandBuffer, depth_write_enable: vk::Bool32)
        = cannot_draw(app, buffer);
    vkCmdSetDepthCompareOp: PFN_vkCmdSetDepthCompareOp(buffer: vk::CommandBuffer, depth_compare_op: vk::CompareOp)
        = cannot_draw(app, buffer);
    vkCmdSetDepthBoundsTestEnable: PFN_vkCmdSetDepthBoundsTestEnable(buffer: vk::CommandBuffer,
        depth_bounds_test_enable: vk::Bool32) = cannot_draw(app, buffer);
    vkCmdSetStencilTestEnable: PFN_vkCmdSetStencilTestEnable(buffer: vk::CommandBuffer,
        stencil_test_enable: vk::Bool32) = cannot_draw(app, buffer);
    vkCmdSetStencilOp: PFN_vkCmdSetStencilOp(buffer: vk::CommandBuffer, face_mask: vk::StencilFaceFlags,
        fail_op: vk::StencilOp, pass_op: vk::StencilOp, depth_fail_op: vk::StencilOp, compare_op: vk::CompareOp)
        = cannot_draw(app, buffer);
    vkCmdSetRasterizerDiscardEnable: PFN_vkCmdSetRasterizerDiscardEnable(buffer: vk::CommandBuffer,
        rasterizer_discard_enable: vk::Bool32) = cannot_draw(app, buffer);
    vkCmdSetDepthBiasEnable: PFN_vkCmdSetDepthBiasEnable(buffer: vk::CommandBuffer, depth_bias_enable: vk::Bool32)
        = cannot_draw(app, buffer);
    vkCmdSetPrimitiveRestartEnable: PFN_vkCmdSetPrimitiveRestartEnable(buffer: vk::CommandBuffer,
        primitive_restart_enable: vk::Bool32) = cannot_draw(app, buffer);
}

/// A pipeline that is not made is a null handle.
fn no_pipelines(app: App<'_>, count: u32, out: *mut vk::Pipeline) -> Answer<()> {
    for index in 0..count as usize {
        app.put_at(out, index, vk::Pipeline::null());
    }
    REFUSED
}

/// Has vkEndCommandBuffer return that the device does not draw.
fn cannot_draw(app: App<'_>, buffer: vk::CommandBuffer) {
    record(app, buffer, |_| REFUSED);
}
