//! Root page tables that go and come back elsewhere: what the hardware is told, and that no context runs meanwhile.

use campanile_hw::queue::Location;
use campanile_hw::registers::{self, Command, CommandStatus, NODE_COMPUTE};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use super::paging::map_aperture;
use super::rig::{Rig, VA};
use super::system::{ALL, ddi};
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.RootComesBackElsewhere" on Boot::Shared, "dxgkddi_setrootpagetable":
        "Nothing of the hardware names the root page table of a suspended context after it was evicted, and its queues use the one that it was given last."
        => the_root_of_a_suspended_context_goes_and_comes_back_elsewhere;
    "Miniport.QueueWithoutARootWaits" on Boot::Shared, "dxgkddi_setrootpagetable":
        "A queue that is created while its process has no root page table is put on the hardware when it has one."
        => a_queue_made_without_a_root_waits_for_one;
    "Miniport.RootOfARunningContextStays" on Boot::Shared, "dxgkddi_setrootpagetable":
        "The root page table of a context that may run is not changed, unless it leaves memory: then the context has none."
        => a_root_that_goes_detaches_a_context_that_runs_and_another_root_is_refused;
    "Miniport.PacketsWithoutARootAreRefused" on Boot::Shared, "dxgkddi_setrootpagetable":
        "A packet of a context whose root page table was evicted is refused until it has one again."
        => a_root_that_goes_leaves_no_address_space_for_packets_that_are_submitted_later;
    "Miniport.QueueThatDidNotStopIsTakenAway" on Boot::Shared, "dxgkddi_setrootpagetable":
        "A queue that does not give its root page table up is taken off the hardware, and its doorbell connects no more."
        => a_queue_that_did_not_stop_is_taken_away_rather_than_left_with_its_root;
    "Miniport.NotifiedWorkFindsTheDeviceLost" on Boot::Shared, "user-mode-work-submission":
        "DxgkDdiNotifyWorkSubmission has the hardware look at the queue, and answers STATUS_DEVICE_REMOVED if the queue has faulted."
        holds [UserModeSubmission 16]
        => work_that_is_notified_to_a_queue_which_has_faulted_finds_the_device_lost;
    "Miniport.UnknownProcessesAndContextsChangeNothing" on Boot::Shared, "dxgkddi_setrootpagetable":
        "An eviction that names no process of the driver, and a root for no context, change nothing on the hardware."
        => processes_and_contexts_that_there_are_not_change_nothing;
    "Miniport.RootIsAtAPageOfItsSegment" on Boot::Shared, "dxgkddi_setrootpagetable":
        "A root page table in the aperture segment is where its page is mapped; an address within a page, or of a page that is not mapped, is no root page table and changes nothing."
        => a_root_is_at_a_page_of_its_segment;
}

/// DxgkDdiSetRootPageTable with a table in system memory; the commands that the hardware got show what came of it.
fn move_root(rig: &Rig, context: HANDLE, offset: u64) {
    let mut root = DXGKARG_SETROOTPAGETABLE::zeroed();
    root.hContext = context;
    root.Address = D3DGPU_PHYSICAL_ADDRESS { SegmentId: 0, Padding: 0, SegmentOffset: offset };
    ddi!(rig.system, DxgkDdiSetRootPageTable, rig.system.adapter, &raw const root);
}

/// The root of a process leaves memory.
pub(super) fn evict_root(rig: &Rig, process: HANDLE) -> NTSTATUS {
    let (mut table, mut entry) = (vec![u64::MAX; 512], DXGK_PTE::zeroed());
    let mut update = DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE::zeroed();
    update.PageTableLevel = campanile_hw::page_table::ROOT_LEVEL;
    update.PageTableAddress = DXGK_PAGETABLEUPDATEADDRESS { CpuVirtual: table.as_mut_ptr().cast() };
    update.UpdateMode = DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_CPU_VIRTUAL;
    update.Flags = DXGK_UPDATEPAGETABLEFLAGS::new().with_Repeat(true).with_NotifyEviction(true);
    (update.NumPageTableEntries, update.pPageTableEntries) = (512, &raw mut entry);
    update.hProcess = process;
    let mut args = DXGKARG_BUILDPAGINGBUFFER::zeroed();
    args.Operation = DXGK_BUILDPAGINGBUFFER_OPERATION::DXGK_OPERATION_UPDATE_PAGE_TABLE;
    args.u = DXGKARG_BUILDPAGINGBUFFER_Union { UpdatePageTable: update };
    ddi!(rig.system, DxgkDdiBuildPagingBuffer, rig.system.adapter, &raw mut args)
}

/// The last command, with its first two arguments; forgotten by the look.
fn command(rig: &mut Rig) -> Option<(Command, u64, u64)> {
    let number = rig.system.get(registers::CMP_COMMAND) as u32;
    let (first, second) = (rig.system.get(registers::CMP_ARG0), rig.system.get(registers::CMP_ARG1));
    rig.system.set(registers::CMP_COMMAND, (CommandStatus::Done as u64) << 32);
    Command::from_number(number).map(|command| (command, first, second))
}

fn location(offset: u64) -> u64 {
    Location::new().with_system(true).with_address(offset).into_bits()
}

fn the_root_of_a_suspended_context_goes_and_comes_back_elsewhere(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x100, NODE_COMPUTE);
    rig.user_queue(context, 1);
    let (named, number, _) = command(&mut rig).unwrap();
    ensure_eq!(named, Command::MapQueue);
    ensure!(rig.suspend(context, 1) == STATUS_PENDING && command(&mut rig).is_some());
    let process = rig.process;
    ensure_eq!(evict_root(&rig, process), STATUS_SUCCESS);
    ensure_eq!(command(&mut rig), Some((Command::SetQueueRoot, number, 0)), "nothing names the root any more");
    move_root(&rig, context, 0x7000);
    ensure_eq!(command(&mut rig), Some((Command::SetQueueRoot, number, location(0x7000))));
    // The table was moved without being evicted.
    move_root(&rig, context, 0x9000);
    ensure_eq!(command(&mut rig), Some((Command::SetQueueRoot, number, location(0x9000))));
    rig.system.remove();
    Ok(())
}

fn a_queue_made_without_a_root_waits_for_one(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x100, NODE_COMPUTE);
    let process = rig.process;
    ensure_eq!(evict_root(&rig, process), STATUS_SUCCESS);
    command(&mut rig);
    rig.user_queue(context, 1);
    ensure_eq!(command(&mut rig), None, "mapped without a root");
    move_root(&rig, context, 0x7000);
    ensure!(matches!(command(&mut rig), Some((Command::MapQueue, ..))));
    rig.system.remove();
    Ok(())
}

fn a_root_that_goes_detaches_a_context_that_runs_and_another_root_is_refused(
    case: &mut Case<'_>,
) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x100, NODE_COMPUTE);
    rig.user_queue(context, 1);
    command(&mut rig);
    let process = rig.process;
    move_root(&rig, context, 0x7000);
    ensure_eq!(command(&mut rig), None, "the root of a queue that may run was changed");
    rig.root(context);
    ensure_eq!(command(&mut rig), None, "the same root changes nothing");
    ensure_eq!(evict_root(&rig, process), STATUS_SUCCESS, "updates of page tables do not fail");
    ensure_eq!(command(&mut rig).map(|(command, ..)| command), Some(Command::SetQueueRoot));
    rig.system.remove();
    root_of_a_context_with_packets_in_progress(case)
}

fn root_of_a_context_with_packets_in_progress(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let context = rig.context(NODE_COMPUTE);
    // The word of an entry that names the root, for each packet; the first two run when another root is given.
    for (fence, moved) in [(1, false), (2, false), (3, true)] {
        ensure_eq!(rig.submit(context, fence, 64), STATUS_SUCCESS);
        let root = rig.system.entry_words(NODE_COMPUTE, fence as usize - 1)[3];
        ensure_eq!(root == location(0x7000), moved, "packet {fence} runs in the new address space");
        if fence == 2 {
            for done in 1..=2 {
                rig.system.retire(NODE_COMPUTE, done, 1);
            }
            rig.system.interrupt();
        }
        move_root(&rig, context, 0x7000);
    }
    rig.system.remove();
    Ok(())
}

fn a_root_that_goes_leaves_no_address_space_for_packets_that_are_submitted_later(
    case: &mut Case<'_>,
) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let context = rig.context(NODE_COMPUTE);
    ensure_eq!(rig.submit(context, 1, 64), STATUS_SUCCESS);
    let process = rig.process;
    ensure_eq!(evict_root(&rig, process), STATUS_SUCCESS, "updates of page tables do not fail");
    rig.system.retire(NODE_COMPUTE, 1, 1);
    rig.system.interrupt();
    ensure_eq!(rig.submit(context, 2, 64), STATUS_INVALID_PARAMETER, "there is no address space");
    rig.root(context);
    ensure_eq!(rig.submit(context, 3, 64), STATUS_SUCCESS);
    rig.system.remove();
    Ok(())
}

fn a_queue_that_did_not_stop_is_taken_away_rather_than_left_with_its_root(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x100, NODE_COMPUTE);
    let (_, doorbell) = rig.user_queue(context, 1);
    let (_, number, _) = command(&mut rig).unwrap();
    ensure_eq!(rig.suspend(context, 1), STATUS_PENDING);
    // The word of the status lies behind that of the command.
    rig.system.set(registers::CMP_COMMAND, (CommandStatus::BadState as u64) << 32);
    let process = rig.process;
    ensure_eq!(evict_root(&rig, process), STATUS_SUCCESS);
    ensure_eq!(command(&mut rig).map(|(command, queue, _)| (command, queue)), Some((Command::UnmapQueue, number)));
    move_root(&rig, context, 0x7000);
    ensure_eq!(command(&mut rig), None);
    ensure_eq!(rig.connect(doorbell).0, STATUS_DEVICE_REMOVED);
    rig.system.remove();
    Ok(())
}

fn work_that_is_notified_to_a_queue_which_has_faulted_finds_the_device_lost(
    case: &mut Case<'_>,
) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x100, NODE_COMPUTE);
    let (queue, _) = rig.user_queue(context, 1);
    let notify = DXGKARG_NOTIFYWORKSUBMISSION { hHwQueue: queue, ..DXGKARG_NOTIFYWORKSUBMISSION::zeroed() };
    let outcome = [CommandStatus::Done, CommandStatus::BadState, CommandStatus::PageFault].map(|status| {
        rig.system.set(registers::CMP_COMMAND, (status as u64) << 32);
        ddi!(rig.system, DxgkDdiNotifyWorkSubmission, &raw const notify)
    });
    ensure_eq!(command(&mut rig).map(|(command, ..)| command), Some(Command::KickQueue));
    // The last is no answer that the command has.
    ensure_eq!(outcome, [STATUS_SUCCESS, STATUS_DEVICE_REMOVED, STATUS_DEVICE_REMOVED]);
    rig.system.remove();
    Ok(())
}

fn processes_and_contexts_that_there_are_not_change_nothing(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x100, NODE_COMPUTE);
    let (status, _) = rig.hw_queue(context, 0x200, VA, false);
    ensure!(!status.is_success(), "a progress fence that is not open");
    command(&mut rig);
    for process in [std::ptr::null_mut(), context] {
        ensure_eq!(evict_root(&rig, process), STATUS_SUCCESS);
    }
    for context in [std::ptr::null_mut(), rig.process] {
        move_root(&rig, context, 0x7000);
    }
    ensure_eq!(command(&mut rig), None);
    rig.system.remove();
    Ok(())
}

fn a_root_is_at_a_page_of_its_segment(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 1);
    let context = rig.context(0);
    ensure_eq!(map_aperture(&rig.system, 7, [0x20, 0x30]), STATUS_SUCCESS);
    let mut fences = 1..;
    let mut root = |offset: u64| {
        rig.root_at(context, 1, offset);
        let fence = fences.next().unwrap_or_default();
        assert_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
        let [.., root] = rig.system.entry_words(0, fence as usize - 1);
        rig.system.retire(0, fence, 1);
        rig.system.interrupt();
        root
    };
    let system = |page: u64| Location::new().with_address(page << 12).with_system(true).into_bits();
    ensure_eq!(root(8 << 12), system(0x30));
    ensure_eq!(root((7 << 12) + 8), system(0x30), "within a page");
    ensure_eq!(root(9 << 12), system(0x30), "not mapped");
    ensure_eq!(root(7 << 12), system(0x20));
    Ok(())
}
