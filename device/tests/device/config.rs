//! Config space, capabilities, MSI-X, resets.

use crate::host::{Host, small_variant};
use campanile_device::Variant;
use campanile_hw::packet::{Fill, Packet, Signal};
use campanile_hw::pci;
use campanile_hw::registers::{self as reg, Command, CommandStatus, NODE_COMPUTE};

fn capability(host: &Host, id: u32) -> u16 {
    let mut at = host.gpu.config_read(0x34, 1) as u16;
    while at != 0 {
        if host.gpu.config_read(at, 1) == id {
            return at;
        }
        at = host.gpu.config_read(at + 1, 1) as u16;
    }
    panic!("no capability {id:#x}");
}

#[test]
fn header_identifies_a_processing_accelerator() {
    let host = Host::powered_off(&small_variant());
    let read = |offset, size| host.gpu.config_read(offset, size);
    assert_eq!(read(0x00, 4), u32::from(pci::DEVICE_ID) << 16 | u32::from(pci::VENDOR_ID));
    assert_eq!(read(0x08, 4), 0x1200_0000 | u32::from(pci::REVISION_ID));
    assert_eq!(read(0x0e, 1), 0, "header type 0, one function");
    assert_eq!(read(0x2c, 2), u32::from(pci::SUBSYSTEM_VENDOR_ID));
    assert_eq!(read(0x2e, 2), u32::from(pci::SUBSYSTEM_ID));
    assert_eq!(read(0x06, 2) & 0x10, 0x10, "capability list");
    assert_eq!(read(0x3d, 1), 0, "no interrupt pin");
}

#[test]
fn identity_is_read_only() {
    let host = Host::powered_off(&small_variant());
    for offset in [0x00, 0x08, 0x2c, 0x30, 0x34] {
        let before = host.gpu.config_read(offset, 4);
        host.gpu.config_write(offset, 4, !before);
        if offset != 0x0c {
            assert_eq!(host.gpu.config_read(offset, 4), before, "offset {offset:#x}");
        }
    }
}

#[test]
fn bars_answer_sizing_with_their_size_and_kind() {
    let variant = Variant { doorbells: 5, ..small_variant() };
    let host = Host::powered_off(&variant);
    assert_eq!(host.gpu.bar_size(0), Some(0x1_0000));
    assert_eq!(host.gpu.bar_size(2), Some(8 * 4096), "a power of two that holds five pages");
    assert_eq!(host.gpu.bar_size(4), Some(variant.vram_window));
    assert!([1, 3, 5, 6, 255].iter().all(|bar| host.gpu.bar_size(*bar).is_none()));
    assert!(host.gpu.bar_file(0).is_none());
    for (bar, kind) in [(0u16, 0x4u64), (2, 0x4), (4, 0xc)] {
        let at = 0x10 + bar * 4;
        host.gpu.config_write(at, 4, u32::MAX);
        host.gpu.config_write(at + 4, 4, u32::MAX);
        let value = u64::from(host.gpu.config_read(at + 4, 4)) << 32 | u64::from(host.gpu.config_read(at, 4));
        assert_eq!(value & 0xf, kind);
        assert_eq!((!(value & !0xf)).wrapping_add(1), host.gpu.bar_size(bar as u8).unwrap());
        host.gpu.config_write(at, 4, 0x1000_0000);
        host.gpu.config_write(at + 4, 4, 0x7);
        assert_eq!(host.gpu.config_read(at, 4), 0x1000_0000 | kind as u32);
        assert_eq!(host.gpu.config_read(at + 4, 4), 7);
    }
}

#[test]
fn capabilities_form_a_list_of_three() {
    let host = Host::powered_off(&small_variant());
    let (power, msix, express) = (capability(&host, 0x01), capability(&host, 0x11), capability(&host, 0x10));
    assert_eq!(host.gpu.config_read(power + 4, 2) & 3, 0, "D0");
    assert_eq!(host.gpu.config_read(power + 4, 2) & 8, 0, "state is lost in D3hot");
    assert_eq!(host.gpu.config_read(msix + 2, 2) & 0x7ff, u32::from(pci::MSIX_VECTORS) - 1);
    assert_eq!(host.gpu.config_read(msix + 4, 4), pci::MSIX_TABLE_OFFSET as u32);
    assert_eq!(host.gpu.config_read(msix + 8, 4), pci::MSIX_PBA_OFFSET as u32);
    assert_eq!(host.gpu.config_read(express + 2, 2) & 0xff, 2, "version 2, endpoint");
    assert_ne!(host.gpu.config_read(express + 4, 4) & 1 << 28, 0, "function-level reset");
    assert_eq!(host.gpu.config_read(0x100, 4), 0, "no extended capabilities");
}

#[test]
fn illegal_config_accesses_read_as_ones_and_write_nothing() {
    let host = Host::powered_off(&small_variant());
    for (offset, size) in [(0, 0), (0, 3), (0, 8), (0, 255), (4096, 4), (4093, 4), (u16::MAX, 4)] {
        assert_eq!(host.gpu.config_read(offset, size), u32::MAX, "{offset:#x} {size}");
        host.gpu.config_write(offset, size, u32::MAX);
    }
    assert_eq!(host.gpu.config_read(0x04, 2), 0);
}

#[test]
fn registers_answer_only_while_memory_decoding_is_on() {
    let host = Host::powered_off(&small_variant());
    assert_eq!(host.get(reg::ID, 4), 0xffff_ffff);
    host.gpu.config_write(0x04, 2, 2);
    assert_eq!(host.get(reg::ID, 4), u64::from(reg::ID_VALUE));
    host.gpu.config_write(0x04, 2, 0);
    assert_eq!(host.get(reg::ID, 4), 0xffff_ffff);
}

#[test]
fn without_bus_master_there_is_no_dma() {
    let mut host = Host::new();
    let space = host.space();
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    let target = host.map_new_ram(space, 0x1000, 4096);
    host.connect(&mut queue, 0);
    host.write_packets(&mut queue, &[Packet::Fill(Fill { destination: 0x1000, size: 4, pattern: 7 })]);
    host.gpu.config_write(0x04, 2, 2);
    host.ring(&queue);
    host.run();
    assert_eq!(host.read64(target), 0);
    host.command(Command::KickQueue, 0, 0, 0);
    assert_eq!(host.try_command(Command::ConnectDoorbell, 1, 0, 0).0, CommandStatus::BadDoorbell);
    host.command(Command::SuspendQueue, 0, 0, 0);
    host.command(Command::ResumeQueue, 0, 0, 0);
    assert_eq!((host.state(&queue), host.read64(target)), (0, 0), "nothing of the queue can be read");
    host.gpu.config_write(0x04, 2, 6);
    host.run();
    assert_eq!(host.read64(target), 7);
}

/// A queue whose SIGNALs are always announced.
fn signaller(host: &mut Host) -> impl FnMut(&Host) + use<> {
    let space = host.space();
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    host.map_new_ram(space, 0x1000, 4096);
    let mut value = 0;
    move |host| {
        value += 1;
        let signal = Signal { handle: 0, current: 0x1000, monitored: 0x1008, value };
        host.submit(&mut queue, &[Packet::Signal(signal)]);
    }
}

#[test]
fn masked_messages_are_pending_and_sent_at_unmask() {
    let mut host = Host::new();
    let mut signal = signaller(&mut host);
    signal(&host);
    assert_eq!(host.interrupts(), 1);
    host.set(pci::MSIX_TABLE_OFFSET + 12, 4, 1);
    signal(&host);
    signal(&host);
    assert_eq!(host.interrupts(), 1);
    assert_eq!(host.get(pci::MSIX_PBA_OFFSET, 8), 1);
    assert_eq!(host.get(pci::MSIX_PBA_OFFSET, 4), 1);
    assert_eq!(host.get(pci::MSIX_PBA_OFFSET + 4, 4), 0);
    host.set(pci::MSIX_PBA_OFFSET, 8, 0);
    assert_eq!(host.get(pci::MSIX_PBA_OFFSET, 8), 1, "pending bits are read-only");
    host.set(pci::MSIX_TABLE_OFFSET + 12, 4, 0);
    assert_eq!(host.interrupts(), 2, "two events, one pending message");
    assert_eq!(host.get(pci::MSIX_PBA_OFFSET, 8), 0);
    assert_eq!(host.get(reg::COUNT_INTERRUPTS, 8), 2);
}

#[test]
fn function_mask_and_bus_master_hold_messages_back_too() {
    let mut host = Host::new();
    let mut signal = signaller(&mut host);
    host.gpu.config_write(0x4a, 2, 0xc000);
    signal(&host);
    assert_eq!((host.interrupts(), host.get(pci::MSIX_PBA_OFFSET, 8)), (0, 1));
    host.gpu.config_write(0x04, 2, 2);
    host.gpu.config_write(0x4a, 2, 0x8000);
    assert_eq!((host.interrupts(), host.get(pci::MSIX_PBA_OFFSET, 8)), (0, 1));
    host.gpu.config_write(0x04, 2, 6);
    assert_eq!((host.interrupts(), host.get(pci::MSIX_PBA_OFFSET, 8)), (1, 0));
}

#[test]
fn messages_are_dropped_while_msix_is_off() {
    let mut host = Host::new();
    let mut signal = signaller(&mut host);
    host.gpu.config_write(0x4a, 2, 0);
    signal(&host);
    assert_eq!(host.get(pci::MSIX_PBA_OFFSET, 8), 0);
    host.gpu.config_write(0x4a, 2, 0x8000);
    assert_eq!(host.interrupts(), 0);
    signal(&host);
    assert_eq!(host.interrupts(), 1);
}

#[test]
fn the_msix_table_keeps_address_and_data() {
    let host = Host::new();
    host.set(pci::MSIX_TABLE_OFFSET, 8, 0x0000_0001_fee0_0ff3);
    host.set(pci::MSIX_TABLE_OFFSET + 8, 8, 0xffff_fffe_0000_4041);
    assert_eq!(host.get(pci::MSIX_TABLE_OFFSET, 8), 0x0000_0001_fee0_0ff0);
    assert_eq!(host.get(pci::MSIX_TABLE_OFFSET + 8, 4), 0x4041);
    assert_eq!(host.get(pci::MSIX_TABLE_OFFSET + 12, 4), 0, "only the mask bit is kept");
    assert_eq!(host.get(pci::MSIX_TABLE_OFFSET + 16, 4), 0xffff_ffff, "one vector");
}

/// State that every reset must forget: a mapped queue with a doorbell, a register value, counters.
fn occupied() -> Host {
    occupied_of(&small_variant())
}

fn occupied_of(variant: &Variant) -> Host {
    let mut host = Host::with(variant);
    let space = host.space();
    let mut queue = host.queue(3, space, NODE_COMPUTE);
    host.connect(&mut queue, 1);
    host.submit(&mut queue, &[Packet::Nop(campanile_hw::packet::Nop {})]);
    assert_eq!(host.get(reg::COUNT_RETIRED, 8), 1);
    host.write64(crate::host::vram(0x80_0000), 0x1234);
    host
}

fn assert_forgotten(host: &mut Host) {
    assert_eq!(host.get(reg::CONTROL, 4), 0);
    assert_eq!(host.get(reg::COUNT_RETIRED, 8), 0);
    assert_eq!(host.get(reg::COUNT_DOORBELLS, 8), 0);
    assert_eq!(host.get(reg::QUEUE_TABLE_COUNT, 4), 0);
    assert_eq!(host.load_doorbell(1), 0);
    assert_eq!(host.read64(crate::host::vram(0x80_0000)), 0x1234, "VRAM keeps its contents");
    assert_eq!(host.try_command(Command::QueryQueue, 3, 0, 0).0, CommandStatus::NotRunning);
    host.start();
    assert_eq!(host.try_command(Command::QueryQueue, 3, 0, 0).0, CommandStatus::BadQueue);
    host.store_doorbell(1, 5);
    host.run();
    assert_eq!(host.get(reg::COUNT_DOORBELLS, 8), 0);
}

#[test]
fn control_reset_forgets_everything_but_vram_and_config() {
    let mut host = occupied();
    host.set(reg::CONTROL, 4, 2);
    assert_eq!(host.gpu.config_read(0x04, 2), 6);
    assert_forgotten(&mut host);
}

#[test]
fn function_level_reset_forgets_everything_but_vram() {
    let mut host = occupied();
    let express = capability(&host, 0x10);
    host.gpu.config_write(express + 8, 2, 0x8000);
    assert_eq!(host.gpu.config_read(express + 8, 2) & 0x8000, 0, "reads as zero");
    assert_eq!(host.gpu.config_read(0x04, 2), 0);
    assert_eq!(host.get(reg::ID, 4), 0xffff_ffff);
    host.enable();
    assert_forgotten(&mut host);
}

#[test]
fn waking_from_d3hot_forgets_everything_but_vram_that_is_kept() {
    let mut host = occupied_of(&Variant { vram_kept_in_d3: true, ..small_variant() });
    let power = capability(&host, 0x01);
    host.gpu.config_write(power + 4, 2, 1);
    assert_eq!(host.gpu.config_read(power + 4, 2) & 3, 0, "D1 does not exist");
    host.gpu.config_write(power + 4, 2, 3);
    assert_eq!(host.gpu.config_read(power + 4, 2) & 3, 3);
    assert_eq!(host.get(reg::ID, 4), 0xffff_ffff, "registers are out of reach in D3hot");
    assert!(!host.gpu.step());
    host.gpu.config_write(power + 4, 2, 0);
    host.enable();
    assert_forgotten(&mut host);
}

#[test]
fn conventional_reset_forgets_everything_but_vram() {
    let mut host = occupied();
    host.gpu.reset();
    assert_eq!(host.gpu.config_read(0x04, 2), 0);
    host.enable();
    assert_forgotten(&mut host);
}

#[test]
fn impossible_variants_are_refused_by_name() {
    for (variant, word) in [
        (Variant { vram_size: 0, ..small_variant() }, "vram_size"),
        (Variant { vram_size: 4097, ..small_variant() }, "vram_size"),
        (Variant { vram_window: 12288, ..small_variant() }, "vram_window"),
        (Variant { vram_window: 1 << 30, ..small_variant() }, "vram_window"),
        (Variant { host_aperture: 100, ..small_variant() }, "host_aperture"),
        (Variant { host_aperture: small_variant().vram_window, ..small_variant() }, "host_aperture"),
        (Variant { doorbells: 0, ..small_variant() }, "doorbells"),
        (Variant { queue_limit: 0, ..small_variant() }, "queue_limit"),
    ] {
        let error = campanile_device::Gpu::new(&variant).expect_err("refused");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn system_memory_ranges_are_checked() {
    let host = Host::powered_off(&small_variant());
    let base = crate::host::RAM_BASE;
    let far = 0x8_0000_0000;
    let map = |iova, offset, len| host.gpu.map_dma(iova, &host.ram, offset, len, true).map_err(|error| error.kind());
    assert_eq!(map(far, 0, 0), Err(std::io::ErrorKind::InvalidInput));
    assert_eq!(map(far + 1, 0, 4096), Err(std::io::ErrorKind::InvalidInput));
    assert_eq!(map(far, 0, 100), Err(std::io::ErrorKind::InvalidInput));
    assert_eq!(map(far, crate::host::RAM_SIZE, 4096), Err(std::io::ErrorKind::InvalidInput));
    assert_eq!(map(far, u64::MAX - 4095, 4096), Err(std::io::ErrorKind::InvalidInput));
    assert_eq!(map(u64::MAX - 4095, 0, 4096), Err(std::io::ErrorKind::InvalidInput));
    assert_eq!(map(base, 0, 4096), Err(std::io::ErrorKind::AlreadyExists));
    host.gpu.unmap_dma(base + 4096, 4096);
    assert_eq!(map(base + 4096, 0, 4096), Ok(()));
    assert_eq!(map(base + 8192, 0, 4096), Err(std::io::ErrorKind::AlreadyExists));
    host.gpu.unmap_dma(0, u64::MAX);
    assert_eq!(map(base + 8192, 0, 4096), Ok(()));
}

#[test]
fn atomic_requests_are_enabled_in_device_control_2_unless_there_are_none() {
    let bits = |atomics64: bool| {
        let host = Host::powered_off(&Variant { atomics64, ..small_variant() });
        let at = capability(&host, 0x10) + 0x28;
        let before = host.gpu.config_read(at, 2);
        host.gpu.config_write(at, 2, 0xffff);
        let set = host.gpu.config_read(at, 2);
        host.gpu.config_write(capability(&host, 0x10) + 0x09, 1, 0x80);
        [before, set, host.gpu.config_read(at, 2)]
    };
    assert_eq!(bits(true), [0, 1 << 6, 0]);
    assert_eq!(bits(false), [0; 3]);
}
