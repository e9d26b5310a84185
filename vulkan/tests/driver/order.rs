//! Semaphores, fences and events order work on queues and processor.

use std::time::Duration;

use crate::kit::{Bench, Bytes, Made};
use ash::vk;

impl Bench {
    fn timeline(&self, value: u64) -> vk::Semaphore {
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE).initial_value(value);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: valid information.
        let semaphore = unsafe { self.device.create_semaphore(&info, None) }.expect("a semaphore");
        self.keep(Made::Semaphore(semaphore));
        semaphore
    }

    fn value(&self, semaphore: vk::Semaphore) -> u64 {
        // SAFETY: a semaphore of this device.
        unsafe { self.device.get_semaphore_counter_value(semaphore) }.expect("a value")
    }

    fn wait(&self, semaphores: &[vk::Semaphore], values: &[u64], any: bool, limit: Duration) -> Result<(), vk::Result> {
        let flags = if any { vk::SemaphoreWaitFlags::ANY } else { vk::SemaphoreWaitFlags::empty() };
        let info = vk::SemaphoreWaitInfo::default().semaphores(semaphores).values(values).flags(flags);
        // SAFETY: semaphores of this device.
        unsafe { self.device.wait_semaphores(&info, limit.as_nanos() as u64) }
    }

    /// Submits by vkQueueSubmit2: waits, a buffer, signals.
    fn submit2(
        &self,
        queue: vk::Queue,
        waits: &[(vk::Semaphore, u64)],
        buffer: Option<vk::CommandBuffer>,
        signals: &[(vk::Semaphore, u64)],
    ) {
        let infos = |of: &[(vk::Semaphore, u64)]| -> Vec<vk::SemaphoreSubmitInfo<'static>> {
            let stage = vk::PipelineStageFlags2::ALL_COMMANDS;
            let info = |(semaphore, value): &(vk::Semaphore, u64)| {
                vk::SemaphoreSubmitInfo::default().semaphore(*semaphore).value(*value).stage_mask(stage)
            };
            of.iter().map(info).collect()
        };
        let (waits, signals) = (infos(waits), infos(signals));
        let buffers: Vec<_> =
            buffer.iter().map(|buffer| vk::CommandBufferSubmitInfo::default().command_buffer(*buffer)).collect();
        let batch = vk::SubmitInfo2::default()
            .wait_semaphore_infos(&waits)
            .command_buffer_infos(&buffers)
            .signal_semaphore_infos(&signals);
        // SAFETY: objects of this device.
        unsafe { self.device.queue_submit2(queue, &[batch], vk::Fence::null()) }.expect("submitted");
    }

    /// A buffer that copies the first word of one buffer to another place.
    fn copy_word(&self, family: usize, from: &Bytes, to: &Bytes, word: u64) -> vk::CommandBuffer {
        self.record_for(family, |device, buffer| {
            let region = [vk::BufferCopy { src_offset: 0, dst_offset: word * 4, size: 4 }];
            // SAFETY: the buffer is being recorded, and the words lie in their buffers.
            unsafe { device.cmd_copy_buffer(buffer, from.buffer, to.buffer, &region) };
        })
    }
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_queue_waits_for_a_value_that_nobody_has_submitted_yet() {
    let bench = Bench::new();
    let semaphore = bench.timeline(3);
    assert_eq!(bench.value(semaphore), 3);
    let (from, to) = (bench.words(&[1]), bench.words(&[0, 0]));
    let (early, late) = (bench.copy_word(1, &from, &to, 0), bench.copy_word(0, &from, &to, 1));
    bench.submit2(bench.queue(0, 0), &[(semaphore, 5)], Some(late), &[(semaphore, 6)]);
    assert_eq!(bench.wait(&[semaphore], &[6], false, Duration::from_millis(50)), Err(vk::Result::TIMEOUT));
    assert_eq!(to.read(), [0, 0]);
    bench.submit2(bench.queue(1, 0), &[], Some(early), &[(semaphore, 5)]);
    bench.wait(&[semaphore], &[6], false, LONG).expect("signalled");
    assert_eq!((to.read(), bench.value(semaphore)), (vec![1, 1], 6));
}

#[test]
fn the_processor_releases_a_queue() {
    let bench = Bench::new();
    let semaphore = bench.timeline(0);
    let (from, to) = (bench.words(&[7]), bench.words(&[0]));
    bench.submit2(bench.queue(0, 1), &[(semaphore, 1)], Some(bench.copy_word(0, &from, &to, 0)), &[(semaphore, 2)]);
    let info = vk::SemaphoreSignalInfo::default().semaphore(semaphore).value(1);
    // SAFETY: a semaphore of this device.
    unsafe { bench.device.signal_semaphore(&info) }.expect("signalled");
    bench.wait(&[semaphore], &[2], false, LONG).expect("signalled");
    assert_eq!(to.read(), [7]);
}

#[test]
fn one_of_several_semaphores_is_enough() {
    let bench = Bench::new();
    let semaphores = [bench.timeline(0), bench.timeline(0), bench.timeline(4)];
    assert_eq!(bench.wait(&semaphores, &[1, 1, 5], true, Duration::ZERO), Err(vk::Result::TIMEOUT));
    assert_eq!(bench.wait(&semaphores, &[1, 1, 5], true, Duration::from_millis(20)), Err(vk::Result::TIMEOUT));
    bench.wait(&semaphores, &[1, 1, 4], true, Duration::ZERO).expect("the third is there");
    bench.submit2(bench.queue(1, 1), &[], None, &[(semaphores[1], 1)]);
    bench.wait(&semaphores, &[1, 1, 5], true, LONG).expect("the second one");
    assert_eq!(bench.wait(&semaphores, &[1, 1, 5], false, Duration::from_millis(20)), Err(vk::Result::TIMEOUT));
}

/// More than one call of the thunk takes, which is 64.
#[test]
fn one_of_a_hundred_and_thirty_semaphores_is_enough() {
    let bench = Bench::new();
    let semaphores: Vec<_> = (0..130).map(|_| bench.timeline(0)).collect();
    for (value, one) in (1..).zip([0, 63, 64, 65, 129]) {
        let values = [value; 130];
        assert_eq!(bench.wait(&semaphores, &values, true, Duration::from_millis(5)), Err(vk::Result::TIMEOUT));
        let (device, semaphore) = (bench.device.clone(), semaphores[one]);
        let signaller = std::thread::spawn(move || {
            let info = vk::SemaphoreSignalInfo::default().semaphore(semaphore).value(value);
            // SAFETY: a semaphore of this device, which lives until the thread has ended.
            unsafe { device.signal_semaphore(&info) }
        });
        bench.wait(&semaphores, &values, true, LONG).expect("one of them");
        signaller.join().expect("the thread").expect("signalled");
        assert_eq!(bench.wait(&semaphores, &values, false, Duration::from_millis(5)), Err(vk::Result::TIMEOUT));
    }
}

#[test]
fn binary_semaphores_order_two_queues_a_hundred_times() {
    let bench = Bench::new();
    let info = vk::SemaphoreCreateInfo::default();
    // SAFETY: valid information.
    let [there, back] = [(), ()].map(|()| unsafe { bench.device.create_semaphore(&info, None) }.expect("a semaphore"));
    [there, back].into_iter().for_each(|semaphore| bench.keep(Made::Semaphore(semaphore)));
    let (a, b) = (bench.words(&[1]), bench.words(&[0]));
    let (to_b, to_a) = (bench.copy_word(0, &a, &b, 0), bench.copy_word(1, &b, &a, 0));
    let stage = [vk::PipelineStageFlags::ALL_COMMANDS];
    for turn in 0..100 {
        let (waits, signals) = ([back], [there]);
        let first = [to_b];
        let mut batch = vk::SubmitInfo::default().command_buffers(&first).signal_semaphores(&signals);
        if turn > 0 {
            batch = batch.wait_semaphores(&waits).wait_dst_stage_mask(&stage);
        }
        let second = [to_a];
        let other = vk::SubmitInfo::default()
            .wait_semaphores(&signals)
            .wait_dst_stage_mask(&stage)
            .command_buffers(&second)
            .signal_semaphores(&waits);
        // SAFETY: objects of this device.
        unsafe {
            bench.device.queue_submit(bench.queue(0, 0), &[batch], vk::Fence::null()).expect("submitted");
            bench.device.queue_submit(bench.queue(1, 0), &[other], vk::Fence::null()).expect("submitted");
        }
    }
    // SAFETY: the device exists, and no other thread uses its queues.
    unsafe { bench.device.device_wait_idle() }.expect("idle");
    assert_eq!((a.read(), b.read()), (vec![1], vec![1]));
}

#[test]
fn fences_are_reset_and_one_of_several_ends_a_wait() {
    let bench = Bench::new();
    let device = &bench.device;
    // SAFETY: objects of this device, in this order.
    unsafe {
        let new = |flags| device.create_fence(&vk::FenceCreateInfo::default().flags(flags), None).expect("a fence");
        let (signalled, plain) = (new(vk::FenceCreateFlags::SIGNALED), new(vk::FenceCreateFlags::empty()));
        assert_eq!([signalled, plain].map(|fence| device.get_fence_status(fence)), [Ok(true), Ok(false)]);
        device.wait_for_fences(&[plain, signalled], false, 0).expect("one of them");
        assert_eq!(device.wait_for_fences(&[plain, signalled], true, 1_000_000), Err(vk::Result::TIMEOUT));
        for _ in 0..3 {
            device.reset_fences(&[signalled, plain]).expect("reset");
            assert_eq!([signalled, plain].map(|fence| device.get_fence_status(fence)), [Ok(false), Ok(false)]);
            device.queue_submit(bench.queue(0, 0), &[], plain).expect("submitted");
            device.wait_for_fences(&[signalled, plain], false, u64::MAX).expect("one of them");
            device.queue_submit(bench.queue(1, 0), &[], signalled).expect("submitted");
            device.wait_for_fences(&[signalled, plain], true, u64::MAX).expect("both");
        }
        device.destroy_fence(plain, None);
        device.destroy_fence(signalled, None);
    }
}

#[test]
fn an_event_of_the_processor_releases_a_command_buffer() {
    let bench = Bench::new();
    let device = &bench.device;
    let (from, to) = (bench.words(&[3]), bench.words(&[0]));
    // SAFETY: objects of this device, in this order.
    unsafe {
        let [go, seen] =
            [(), ()].map(|()| device.create_event(&vk::EventCreateInfo::default(), None).expect("an event"));
        [go, seen].into_iter().for_each(|event| bench.keep(Made::Event(event)));
        let stage = vk::PipelineStageFlags::TRANSFER;
        let buffer = bench.record(|device, buffer| {
            device.cmd_wait_events(buffer, &[go], vk::PipelineStageFlags::HOST, stage, &[], &[], &[]);
            let region = [vk::BufferCopy { src_offset: 0, dst_offset: 0, size: 4 }];
            device.cmd_copy_buffer(buffer, from.buffer, to.buffer, &region);
            device.cmd_set_event(buffer, seen, stage);
            device.cmd_reset_event(buffer, go, stage);
        });
        let (fence, buffers) = (device.create_fence(&Default::default(), None).expect("a fence"), [buffer]);
        let batch = vk::SubmitInfo::default().command_buffers(&buffers);
        device.queue_submit(bench.queue(0, 0), &[batch], fence).expect("submitted");
        assert_eq!(device.wait_for_fences(&[fence], true, 20_000_000), Err(vk::Result::TIMEOUT));
        assert_eq!(device.get_event_status(seen), Ok(false));
        device.set_event(go).expect("set");
        device.wait_for_fences(&[fence], true, u64::MAX).expect("done");
        assert_eq!([go, seen].map(|event| device.get_event_status(event)), [Ok(false), Ok(true)]);
        device.destroy_fence(fence, None);
    }
    assert_eq!(to.read(), [3]);
}

/// An event that the processor has reset is waited for until it is set again. [Vulkan: vkResetEvent]
#[test]
fn the_processor_resets_an_event() {
    let bench = Bench::new();
    let device = &bench.device;
    // SAFETY: valid information, and objects of this device.
    unsafe {
        let event = device.create_event(&vk::EventCreateInfo::default(), None).expect("an event");
        bench.keep(Made::Event(event));
        for _ in 0..3 {
            device.set_event(event).expect("set");
            assert_eq!(device.get_event_status(event), Ok(true));
            device.reset_event(event).expect("reset");
            assert_eq!(device.get_event_status(event), Ok(false));
        }
        device.reset_event(event).expect("reset although it is not set");
        let data = bench.words(&[0]);
        let fill = bench.record(|device, buffer| {
            let stage = vk::PipelineStageFlags::HOST;
            device.cmd_wait_events(buffer, &[event], stage, vk::PipelineStageFlags::TRANSFER, &[], &[], &[]);
            device.cmd_fill_buffer(buffer, data.buffer, 0, 4, 5);
        });
        let buffers = [fill];
        let batch = vk::SubmitInfo::default().command_buffers(&buffers);
        device.queue_submit(bench.queue(0, 0), &[batch], vk::Fence::null()).expect("submitted");
        assert_eq!(data.read(), [0]);
        device.set_event(event).expect("set");
        device.device_wait_idle().expect("idle");
        assert_eq!(data.read(), [5]);
    }
}
