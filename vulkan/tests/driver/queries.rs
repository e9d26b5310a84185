//! Results of queries that are not there.

use ash::vk;

use crate::kit::Bench;

type Flags = vk::QueryResultFlags;

/// Copies the results of a hundred queries, of which a few have one, in so many words each.
fn copy(flags: Flags, words: u64) {
    let bench = Bench::new();
    let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(100);
    // SAFETY: valid information, and objects of this device.
    unsafe {
        let pool = bench.device.create_query_pool(&info, None).expect("a pool");
        let copied = bench.words(&[7; 100 * 6]);
        let buffer = bench.record(|device, buffer| {
            device.cmd_reset_query_pool(buffer, pool, 0, 100);
            for query in [0, 1, 64, 98] {
                device.cmd_write_timestamp(buffer, vk::PipelineStageFlags::BOTTOM_OF_PIPE, pool, query);
            }
            // From the second one on, with two words between them that nobody touches.
            device.cmd_copy_query_pool_results(buffer, pool, 1, 99, copied.buffer, 8, words * 4 + 8, flags);
        });
        bench.run_on(0, buffer);
        bench.device.destroy_query_pool(pool, None);
        let copied = copied.read();
        let words = words as usize;
        assert_eq!(copied[..2], [7; 2]);
        for query in 1..100 {
            let at = 2 + (query - 1) * (words + 2);
            let (result, behind) = (&copied[at..at + words], &copied[at + words..at + words + 2]);
            let there = [1, 64, 98].contains(&query);
            let value = words / if flags.contains(Flags::WITH_AVAILABILITY) { 2 } else { 1 };
            assert_eq!(result[..value].iter().all(|word| *word == 7), !there, "{flags:?} {query} {result:?}");
            if flags.contains(Flags::WITH_AVAILABILITY) {
                assert_eq!((result[value], result[value + 1..].iter().sum()), (there.into(), 0u32), "{query}");
            }
            assert!(query == 99 || behind == [7; 2], "{flags:?} {query}");
        }
    }
}

/// "If a query is unavailable, its value is left as it was"; its availability is written as zero. [Vulkan: vkCmdCopyQueryPoolResults]
#[test]
fn results_that_are_not_there_are_not_copied() {
    copy(Flags::WITH_AVAILABILITY, 2);
    copy(Flags::TYPE_64 | Flags::WITH_AVAILABILITY, 4);
}

/// Likewise where nothing tells which are there.
#[test]
fn results_that_are_not_there_are_not_copied_without_availability() {
    copy(Flags::empty(), 1);
    copy(Flags::TYPE_64, 2);
}
