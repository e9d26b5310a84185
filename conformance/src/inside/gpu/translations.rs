//! Translations: what is forgotten, and that each page is translated by its own entry.

use campanile_device::testing::{Host, Space, TestQueue, encode, ram, vram};
use campanile_hw::packet::{Copy, InvalidateTlb, Packet};
use campanile_hw::page_table::{PAGE_4K, Pte};
use campanile_hw::queue::{QueueFlags, RingEntry, RingFlags};
use campanile_hw::registers::{Command, NODE_COMPUTE, NODE_COPY, NODE_PAGING};

use super::{VA, fill, one_queue};
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Gpu", behind "it works the GPU itself, without a driver";
    "Gpu.FlushPacketsReachEveryNode" on Boot::Shared, "docs/hardware.md":
        "INVALIDATE_TLB of the paging node has every node forget the translations of its range in its address space, and no others."
        => flushes_of_the_paging_node_reach_every_node;
    "Gpu.StoppedNodeForgetsTranslations" on Boot::Shared, "docs/hardware.md":
        "After ResetNode a node translates by the page tables as they are, whatever it knew before."
        => a_node_that_was_reset_translates_anew;
    "Gpu.EachPageIsTranslatedByItsEntry" on Boot::Shared, "docs/hardware.md":
        "A copy over pages of which one lies elsewhere and the others behind one another goes to each of them."
        => a_page_that_lies_elsewhere_among_others_is_found_there;
}

/// Translations in which all lies in one page of system memory.
fn everywhere(host: &mut Host, space: Space, va: u64, page: u64) {
    host.map(space, va, ram(page), 4096);
}

fn flushes_of_the_paging_node_reach_every_node(_: &mut Case<'_>) -> Result<(), Failure> {
    let mut host = Host::new();
    let (space, other, paging_space) = (host.space(), host.space(), host.space());
    let privileged = QueueFlags::new().with_privileged(true).into_bits();
    let mut paging = host.queue_with(0, paging_space, |descriptor| {
        (descriptor.node, descriptor.flags) = (NODE_PAGING, privileged);
    });
    let nodes = [(1, NODE_COMPUTE), (2, NODE_COPY), (3, NODE_PAGING)];
    let mut users = nodes.map(|(number, node)| {
        host.queue_with(number, space, |descriptor| {
            // The paging node runs queues of the kernel alone.
            (descriptor.node, descriptor.flags) = (node, if node == NODE_PAGING { privileged } else { 0 });
        })
    });
    let [old, new] = [0x01d, 0xbeef].map(|word| {
        let page = host.take_ram(4096);
        host.write64(ram(page), word);
        page
    });
    let out = host.map_new_ram(space, VA + (1 << 30), 4096);
    for page in 0..2 {
        everywhere(&mut host, space, VA + page * 4096, old);
    }
    let read = |page: u64| {
        let (source, destination) = (VA + page * 4096, VA + (1 << 30) + page * 8);
        Packet::Copy(Copy { source, destination, row_bytes: 8, rows: 1, source_pitch: 0, destination_pitch: 0 })
    };
    let mut seen = |host: &Host| {
        users.each_mut().map(|user| {
            host.submit(user, &[read(0), read(1)]);
            [0, 8].map(|at| host.read64(ram(out.address() + at)))
        })
    };
    ensure_eq!(seen(&host), [[0x01d; 2]; 3]);
    for page in 0..2 {
        everywhere(&mut host, space, VA + page * 4096, new);
    }
    let mut forget = |host: &Host, space: Space, start, end| {
        let bytes = encode(&[Packet::InvalidateTlb(InvalidateTlb { root: space.root.into_bits(), start, end })]);
        let commands = host.write_commands(&mut paging, &bytes);
        let flags = RingFlags::new().with_privileged(true).into_bits();
        host.write_entry(&mut paging, &RingEntry { commands, size: bytes.len() as u32, flags, tag: 0, root: 0 });
        host.ring(&paging);
        host.run();
    };
    forget(&host, other, 0, 0);
    ensure_eq!(seen(&host), [[0x01d; 2]; 3], "translations of another address space were forgotten");
    forget(&host, space, VA, VA + 4096);
    ensure_eq!(seen(&host), [[0xbeef, 0x01d]; 3], "each node, after the first page was forgotten");
    forget(&host, space, 0, 0);
    ensure_eq!(seen(&host), [[0xbeef; 2]; 3], "each node, after all was forgotten");
    ensure!(host.events().is_empty(), "nothing faults");
    Ok(())
}

fn a_node_that_was_reset_translates_anew(_: &mut Case<'_>) -> Result<(), Failure> {
    let (mut host, space, mut queue) = one_queue();
    let pages = [host.take_ram(4096), host.take_ram(4096)];
    let words = |host: &Host| pages.map(|page| host.read64(ram(page)));
    everywhere(&mut host, space, VA, pages[0]);
    host.submit(&mut queue, &[fill(VA, 1)]);
    everywhere(&mut host, space, VA, pages[1]);
    host.submit(&mut queue, &[fill(VA, 2)]);
    ensure_eq!(words(&host), [2, 0], "nobody has told the node of the new page");
    ensure_eq!(host.command(Command::ResetNode, u64::from(NODE_COMPUTE), 0, 0), u64::MAX, "nothing ran");
    host.submit(&mut queue, &[fill(VA, 3)]);
    ensure_eq!(words(&host), [2, 3]);
    Ok(())
}

/// Copies `pages` pages from `VA` on.
fn copy_out(host: &Host, queue: &mut TestQueue, pages: u64) {
    let (source, destination, row_bytes) = (VA, VA + (1 << 30), (pages * PAGE_4K) as u32);
    let copy = Copy { source, destination, row_bytes, rows: 1, source_pitch: 0, destination_pitch: 0 };
    host.submit(queue, &[Packet::Copy(copy)]);
}

fn a_page_that_lies_elsewhere_among_others_is_found_there(_: &mut Case<'_>) -> Result<(), Failure> {
    const PAGES: u64 = 20;
    for odd in 0..PAGES {
        let (mut host, space, mut queue) = one_queue();
        let pages = host.take_vram(PAGES * PAGE_4K, PAGE_4K);
        let elsewhere = host.take_vram(PAGE_4K, PAGE_4K);
        for page in 0..PAGES {
            host.write64(vram(pages + page * PAGE_4K), page + 1);
        }
        host.write64(vram(elsewhere), 99);
        host.map_pages(space, VA, vram(pages), PAGES * PAGE_4K, PAGE_4K, Pte::new());
        host.map(space, VA + odd * PAGE_4K, vram(elsewhere), PAGE_4K);
        let out = host.map_new_ram(space, VA + (1 << 30), PAGES * PAGE_4K);
        copy_out(&host, &mut queue, PAGES);
        for page in 0..PAGES {
            let word = host.read64(ram(out.address() + page * PAGE_4K));
            ensure_eq!(word, if page == odd { 99 } else { page + 1 }, "page {page}, with page {odd} elsewhere");
        }
    }
    Ok(())
}
