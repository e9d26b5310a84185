//! Submission.

use ash::vk;

use super::debug::point;
use super::declaration::commands;
use crate::app::App;
use crate::command::CommandBuffer;
use crate::device::Queue;
use crate::failure::Answer;
use crate::handle::Object;
use crate::names;
use crate::submit::{Step, Steps};
use crate::sync::{Fence, Semaphore};

commands! { app;
    vkQueueSubmit: PFN_vkQueueSubmit(
        queue: vk::Queue, count: u32, batches: *const vk::SubmitInfo<'_>, fence: vk::Fence) -> vk::Result
        = submit(app, queue, app.slice(batches, count), steps_of, fence);
    vkQueueSubmit2: PFN_vkQueueSubmit2(
        queue: vk::Queue, count: u32, batches: *const vk::SubmitInfo2<'_>, fence: vk::Fence) -> vk::Result
        = submit(app, queue, app.slice(batches, count), steps_of2, fence);
    vkQueueBindSparse: PFN_vkQueueBindSparse(
        queue: vk::Queue, count: u32, infos: *const vk::BindSparseInfo<'_>, fence: vk::Fence) -> vk::Result
        = Answer::<()>::Err(vk::Result::ERROR_UNKNOWN);
}

fn submit<'c, B>(
    app: App<'c>,
    queue: vk::Queue,
    batches: &'c [B],
    steps_of: impl Fn(App<'c>, &'c B, &mut Steps) -> Answer<()>,
    fence: vk::Fence,
) -> Answer<()> {
    let queue = app.object::<Queue>(queue)?;
    let mut steps = Steps::new();
    for batch in batches {
        steps_of(app, batch, &mut steps)?;
    }
    if let Some(fence) = Fence::of(fence) {
        steps.push(Step::Signal(fence.point()));
    }
    queue.submit(steps)
}

/// The steps of a wait for a semaphore.
fn wait(semaphore: vk::Semaphore, value: u64, steps: &mut Steps) -> Answer<()> {
    let (point, unsignal) = Semaphore::needed(semaphore)?.wait(value);
    steps.push(Step::Wait(point));
    steps.extend(unsignal.map(Step::Signal));
    Ok(())
}

/// The steps of a command buffer: its commands, between the beginning and the end of a label if the buffer has a name.
fn run(app: App<'_>, handle: vk::CommandBuffer, steps: &mut Steps) -> Answer<()> {
    let buffer = app.object::<CommandBuffer>(handle)?;
    let commands = Step::Run(buffer.recording().submitted()?);
    let name = names::of((vk::ObjectType::COMMAND_BUFFER, vk::Handle::as_raw(handle)));
    let labels = buffer.labels();
    let label = name.and_then(|name| Some((labels.begin(&format!("command buffer {name}")).ok()?, labels.end().ok()?)));
    match label {
        Some((begin, end)) => steps.extend([Step::Signal(point(begin)), commands, Step::Signal(point(end))]),
        None => steps.push(commands),
    }
    Ok(())
}

/// Steps of a batch of vkQueueSubmit. Values for binary semaphores are not looked at.
fn steps_of<'c>(app: App<'c>, batch: &'c vk::SubmitInfo<'c>, steps: &mut Steps) -> Answer<()> {
    let values = app.find::<vk::TimelineSemaphoreSubmitInfo<'_>>(batch.p_next);
    let (waited, signalled) = values.map_or((&[][..], &[][..]), |values| {
        (
            app.slice(values.p_wait_semaphore_values, values.wait_semaphore_value_count),
            app.slice(values.p_signal_semaphore_values, values.signal_semaphore_value_count),
        )
    });
    let value = |values: &[u64], index: usize| values.get(index).copied().unwrap_or(0);
    for (index, semaphore) in app.slice(batch.p_wait_semaphores, batch.wait_semaphore_count).iter().enumerate() {
        wait(*semaphore, value(waited, index), steps)?;
    }
    for buffer in app.slice(batch.p_command_buffers, batch.command_buffer_count) {
        run(app, *buffer, steps)?;
    }
    for (index, semaphore) in app.slice(batch.p_signal_semaphores, batch.signal_semaphore_count).iter().enumerate() {
        steps.push(Step::Signal(Semaphore::needed(*semaphore)?.signal(value(signalled, index))));
    }
    Ok(())
}

fn steps_of2<'c>(app: App<'c>, batch: &'c vk::SubmitInfo2<'c>, steps: &mut Steps) -> Answer<()> {
    for info in app.slice(batch.p_wait_semaphore_infos, batch.wait_semaphore_info_count) {
        wait(info.semaphore, info.value, steps)?;
    }
    for info in app.slice(batch.p_command_buffer_infos, batch.command_buffer_info_count) {
        run(app, info.command_buffer, steps)?;
    }
    for info in app.slice(batch.p_signal_semaphore_infos, batch.signal_semaphore_info_count) {
        steps.push(Step::Signal(Semaphore::needed(info.semaphore)?.signal(info.value)));
    }
    Ok(())
}
