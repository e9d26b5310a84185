//! Copies, fills, updates and timestamps, on both queue families.

use crate::kit::Bench;
use ash::vk;

#[test]
fn both_families_copy_fill_and_update() {
    let bench = Bench::new();
    for family in [0, 1] {
        let from = bench.words(&(0..64).collect::<Vec<_>>());
        let vram = bench.buffer_in(
            bench.kind(vk::MemoryPropertyFlags::DEVICE_LOCAL, vk::MemoryPropertyFlags::HOST_VISIBLE),
            256,
            false,
        );
        let to = bench.words(&[0xdead; 64]);
        let buffer = bench.record_for(family as usize, |device, buffer| {
            let whole = [vk::BufferCopy { src_offset: 0, dst_offset: 0, size: 256 }];
            let parts = [
                vk::BufferCopy { src_offset: 0, dst_offset: 0, size: 16 },
                vk::BufferCopy { src_offset: 32, dst_offset: 24, size: 8 },
            ];
            // SAFETY: the buffer is being recorded, and the ranges lie in their buffers.
            unsafe {
                device.cmd_copy_buffer(buffer, from.buffer, vram.buffer, &whole);
                device.cmd_fill_buffer(buffer, vram.buffer, 8, 8, 0x0505_0505);
                device.cmd_copy_buffer(buffer, vram.buffer, to.buffer, &parts);
                device.cmd_update_buffer(buffer, to.buffer, 128, &[1, 2, 3, 4, 5, 6, 7, 8]);
                device.cmd_fill_buffer(buffer, to.buffer, 192, vk::WHOLE_SIZE, 9);
            }
        });
        bench.run_on(family, buffer);
        let mut expected = [0xdead; 64];
        expected[..4].copy_from_slice(&[0, 1, 0x0505_0505, 0x0505_0505]);
        expected[6..8].copy_from_slice(&[8, 9]);
        expected[32..34].copy_from_slice(&[0x0403_0201, 0x0807_0605]);
        expected[48..].fill(9);
        assert_eq!(to.read(), expected, "family {family}");
    }
}

#[test]
fn every_memory_type_is_what_it_says() {
    let bench = Bench::new();
    // SAFETY: the physical device is of the instance.
    let memory = unsafe { bench.instance.get_physical_device_memory_properties(bench.physical) };
    assert!(memory.memory_heap_count == 2 && memory.memory_heaps[0].flags == vk::MemoryHeapFlags::DEVICE_LOCAL);
    for (index, kind) in (0..).zip(&memory.memory_types[..memory.memory_type_count as usize]) {
        let visible = kind.property_flags.contains(vk::MemoryPropertyFlags::HOST_VISIBLE);
        let bytes = bench.buffer_in(index, 4096, visible);
        if visible {
            bytes.write(&[5; 1024]);
            assert_eq!(bytes.read(), [5; 1024]);
        }
    }
}

#[test]
fn timestamps_are_there_in_order_when_their_buffer_is_done() {
    let bench = Bench::new();
    let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(3);
    let copied = bench.words(&[0; 8]);
    // SAFETY: valid information, and objects of this device.
    unsafe {
        let pool = bench.device.create_query_pool(&info, None).expect("a pool");
        bench.device.reset_query_pool(pool, 0, 3);
        let mut none = [0u64; 3];
        let flags = vk::QueryResultFlags::TYPE_64;
        assert_eq!(bench.device.get_query_pool_results(pool, 0, &mut none, flags), Err(vk::Result::NOT_READY));
        let buffer = bench.record(|device, buffer| {
            device.cmd_reset_query_pool(buffer, pool, 0, 3);
            device.cmd_write_timestamp(buffer, vk::PipelineStageFlags::TOP_OF_PIPE, pool, 0);
            device.cmd_write_timestamp(buffer, vk::PipelineStageFlags::BOTTOM_OF_PIPE, pool, 1);
            let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WITH_AVAILABILITY;
            device.cmd_copy_query_pool_results(buffer, pool, 0, 2, copied.buffer, 0, 16, flags);
        });
        bench.run_on(0, buffer);
        let mut times = [0u64; 2];
        bench.device.get_query_pool_results(pool, 0, &mut times, flags).expect("both are there");
        assert!(times[0] != 0 && times[1] >= times[0], "{times:?}");
        let words: Vec<u64> =
            copied.read().chunks(2).map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32).collect();
        assert_eq!(words, [times[0], 1, times[1], 1]);
        let mut with = [[7u64; 2]; 3];
        let flags = flags | vk::QueryResultFlags::WITH_AVAILABILITY;
        assert_eq!(bench.device.get_query_pool_results(pool, 0, &mut with, flags), Err(vk::Result::NOT_READY));
        assert_eq!([with[0][1], with[1][1], with[2][1]], [1, 1, 0]);
        bench.device.destroy_query_pool(pool, None);
    }
}

/// VK_QUERY_RESULT_WAIT_BIT waits for a query that another queue writes. [Vulkan: vkCmdCopyQueryPoolResults]
#[test]
fn a_copy_waits_for_the_query_of_another_queue() {
    let bench = Bench::new();
    let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(2);
    let device = &bench.device;
    for family in [0, 1] {
        let copied = bench.words(&[0; 8]);
        // SAFETY: valid information, and objects of this device.
        unsafe {
            let pool = device.create_query_pool(&info, None).expect("a pool");
            device.reset_query_pool(pool, 0, 2);
            let stamp = |family| {
                bench.record_for(family, |device, buffer| {
                    device.cmd_write_timestamp(buffer, vk::PipelineStageFlags::BOTTOM_OF_PIPE, pool, family as u32);
                })
            };
            let copy = bench.record(|device, buffer| {
                let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
                device.cmd_copy_query_pool_results(buffer, pool, family, 1, copied.buffer, 0, 8, flags);
            });
            let buffers = [copy];
            let batch = vk::SubmitInfo::default().command_buffers(&buffers);
            let fence = device.create_fence(&vk::FenceCreateInfo::default(), None).expect("a fence");
            device.queue_submit(bench.queue(0, 1), &[batch], fence).expect("submitted");
            assert_eq!(device.get_fence_status(fence), Ok(false));
            bench.run_on(family, stamp(family as usize));
            device.wait_for_fences(&[fence], true, u64::MAX).expect("done");
            let mut time = [0u64];
            device.get_query_pool_results(pool, family, &mut time, vk::QueryResultFlags::TYPE_64).expect("there");
            let copied = copied.read();
            assert_eq!(u64::from(copied[0]) | u64::from(copied[1]) << 32, time[0]);
            device.destroy_fence(fence, None);
            device.destroy_query_pool(pool, None);
        }
    }
}
