//! DISPATCH: programs run on memory of their process, share the node with other queues, and are stopped by what they may not do.

use crate::host::{Host, Space, TestQueue, small_variant};
use campanile_device::{Runner, Variant};
use campanile_hw::event::FaultKind;
use campanile_hw::isa::ProgramRule;
use campanile_hw::packet::{BadPacket, Copy, DISPATCH_DONE, DISPATCH_FAULTED, Dispatch, DispatchReport, Packet};
use campanile_hw::page_table::{PAGE_4K, Pte};
use campanile_hw::queue::Location;
use campanile_hw::registers::{Command, NODE_COMPUTE, NODE_COPY};
use campanile_isa::assemble;

const PROGRAM: u64 = 0x10_0000;
pub(crate) const DATA: u64 = 0x20_0000;
pub(crate) const REPORT: u64 = DATA + 0x8000;

pub(crate) struct Fixture {
    pub(crate) host: Host,
    pub(crate) space: Space,
    pub(crate) queue: TestQueue,
    pub(crate) program: Location,
    data: Location,
}

impl Fixture {
    fn new() -> Self {
        Self::with(&small_variant())
    }

    pub(crate) fn with(variant: &Variant) -> Self {
        let mut host = Host::with(variant);
        let space = host.space();
        let queue = host.queue(0, space, NODE_COMPUTE);
        let program = host.map_new_ram(space, PROGRAM, 0x10000);
        let data = host.map_new_ram(space, DATA, 0x10000);
        Self { host, space, queue, program, data }
    }

    /// A dispatch of `groups` workgroups of a program that was put into memory.
    pub(crate) fn dispatch(&self, text: &str, groups: u32) -> Dispatch {
        let bytes = assemble(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        self.host.write(self.program, &bytes);
        Dispatch {
            program_size: bytes.len() as u32,
            program: PROGRAM,
            arguments: DATA,
            indirect: 0,
            grid_x: groups,
            grid_y: 1,
            grid_z: 1,
            report: REPORT,
        }
    }

    fn submit(&mut self, dispatch: Dispatch) {
        self.host.submit(&mut self.queue, &[Packet::Dispatch(dispatch)]);
    }

    /// The place of a byte of the data.
    pub(crate) fn data(&self, offset: u64) -> Location {
        self.data.with_address(self.data.address() + offset)
    }

    pub(crate) fn word(&self, place: u64) -> u32 {
        let bytes = self.host.read(self.data.with_address(self.data.address() + place * 4), 4);
        u32::from_le_bytes(bytes.try_into().expect("a word"))
    }

    pub(crate) fn report(&self) -> DispatchReport {
        let at = self.data.with_address(self.data.address() + REPORT - DATA);
        DispatchReport::from_bytes(&self.host.read(at, DispatchReport::SIZE).try_into().expect("a report"))
    }

    /// Kind, rule and address of the fault that the dispatch of a program ends in.
    fn fault(&mut self, dispatch: Dispatch) -> (Option<FaultKind>, u8, u64) {
        self.submit(dispatch);
        let (address, info) = self.host.fault_of(&self.queue);
        (FaultKind::from_number(info.kind()), info.rule(), address)
    }
}

const SQUARES: &str = ".workgroup 64, 1, 1
    arguments d0
    system.global_id_x w0
    mul.i32 w1, w0, w0
    index d0, d0, w0, 4
    store.w1 [d0], w1
    exit";

pub(crate) const ENDLESS: &str = ".workgroup 32, 1, 1
    arguments d0
    mov.i32 w2, 1
    loop
        atomic.i32.add.device.relaxed w1, [d0], w2
        load.w1 w1, [d0 + 4]
        cmp.i32.ne p0, w1, 0
        break_if p0
    end_loop
    exit";

#[test]
fn a_program_runs_in_every_lane_and_what_follows_sees_it() {
    let mut fixture = Fixture::new();
    let dispatch = fixture.dispatch(SQUARES, 10);
    let copy = Copy {
        source: DATA + 639 * 4,
        destination: DATA + 0x4000,
        row_bytes: 4,
        rows: 1,
        source_pitch: 0,
        destination_pitch: 0,
    };
    fixture.host.submit(&mut fixture.queue, &[Packet::Dispatch(dispatch), Packet::Copy(copy)]);
    assert!((0..640).all(|place| fixture.word(place) == (place * place) as u32));
    assert_eq!(fixture.word(0x1000), 639 * 639, "the copy behind the dispatch");
    let report = fixture.report();
    assert_eq!((report.state, report.fault, report.lanes, report.stores), (DISPATCH_DONE, 0, 640, 640));
    assert_eq!(report.instructions, 10 * 2 * 6);
    assert!(report.begun <= report.ended);
}

#[test]
fn the_grid_may_lie_in_memory_and_none_runs_without_workgroups() {
    let mut fixture = Fixture::new();
    let indirect =
        Dispatch { grid_x: 0, grid_y: 0, grid_z: 0, indirect: DATA + 0x7000, ..fixture.dispatch(SQUARES, 0) };
    let at = fixture.data.with_address(fixture.data.address() + 0x7000);
    fixture.host.write(at, &[3u32, 1, 1].map(u32::to_le_bytes).concat());
    fixture.submit(indirect);
    assert_eq!((fixture.word(191), fixture.word(192), fixture.report().lanes), (191 * 191, 0, 192));
    fixture.host.write(at, &[3u32, 0, 1].map(u32::to_le_bytes).concat());
    fixture.submit(indirect);
    assert_eq!((fixture.report().state, fixture.report().lanes), (DISPATCH_DONE, 0));
    fixture.host.write(at, &[3u32, 65536, 1].map(u32::to_le_bytes).concat());
    assert_eq!(fixture.fault(indirect), (Some(FaultKind::BadGrid), 0, DATA + 0x7000));
}

#[test]
fn a_packet_that_breaks_a_rule_starts_nothing() {
    let plain = Fixture::new().dispatch(SQUARES, 1);
    let table = [
        (Dispatch { program: PROGRAM + 8, ..plain }, BadPacket::Alignment),
        (Dispatch { report: REPORT + 4, ..plain }, BadPacket::Alignment),
        (Dispatch { indirect: DATA + 2, grid_x: 0, grid_y: 0, grid_z: 0, ..plain }, BadPacket::Alignment),
        (Dispatch { indirect: DATA, ..plain }, BadPacket::Reserved),
        (Dispatch { grid_z: 65536, ..plain }, BadPacket::Range),
        (Dispatch { program_size: 63, ..plain }, BadPacket::Range),
        (Dispatch { program_size: u32::MAX, ..plain }, BadPacket::Range),
        (Dispatch { program: (1 << 48) - 16, ..plain }, BadPacket::Range),
        (Dispatch { report: 1 << 60, ..plain }, BadPacket::Range),
    ];
    for (packet, rule) in table {
        let mut fixture = Fixture::new();
        fixture.dispatch(SQUARES, 1);
        assert_eq!(fixture.fault(packet).1, rule as u8, "{packet:?}");
        assert_eq!(fixture.word(1), 0);
    }
    let mut fixture = Fixture::new();
    let mut copies = fixture.host.queue(1, fixture.space, NODE_COPY);
    let dispatch = fixture.dispatch(SQUARES, 1);
    fixture.host.submit(&mut copies, &[Packet::Dispatch(dispatch)]);
    assert_eq!(fixture.host.fault_of(&copies).1.rule(), BadPacket::Privilege as u8, "only one node computes");
}

#[test]
fn a_program_that_breaks_a_rule_is_named_with_the_instruction() {
    let mut fixture = Fixture::new();
    let dispatch = fixture.dispatch(SQUARES, 1);
    // The third instruction gets an operation that there is not.
    let code = 64 + 16;
    fixture.host.write(fixture.program.with_address(fixture.program.address() + code + 32), &[0xff]);
    let fault = fixture.fault(dispatch);
    assert_eq!(fault, (Some(FaultKind::BadProgram), ProgramRule::Operation as u8, PROGRAM + code + 32));
    let mut fixture = Fixture::new();
    let dispatch = fixture.dispatch(SQUARES, 1);
    let short = Dispatch { program_size: dispatch.program_size - 16, ..dispatch };
    assert_eq!(fixture.fault(short), (Some(FaultKind::BadProgram), ProgramRule::Length as u8, PROGRAM));
    assert_eq!(fixture.word(1), 0, "no lane ran");
}

#[test]
fn a_page_that_forbids_execution_holds_no_program() {
    let mut fixture = Fixture::new();
    let dispatch = fixture.dispatch(SQUARES, 1);
    let flags = Pte::new().with_no_execute(true);
    fixture.host.map_pages(fixture.space, PROGRAM + 0x10_0000, fixture.program, PAGE_4K, PAGE_4K, flags);
    let forbidden = Dispatch { program: PROGRAM + 0x10_0000, ..dispatch };
    assert_eq!(fixture.fault(forbidden), (Some(FaultKind::NoExecute), 0, PROGRAM + 0x10_0000));
    let mut fixture = Fixture::new();
    let nowhere = Dispatch { program: 1 << 40, ..dispatch };
    assert_eq!(fixture.fault(nowhere), (Some(FaultKind::PageFault), 0, 1 << 40));
}

#[test]
fn what_a_lane_may_not_do_is_reported_with_instruction_line_and_lane() {
    let table = [
        ("load.w1 w1, [d0 + 2]", FaultKind::Misaligned, DATA + 2, false),
        ("store.w1 [d0 + 2], w1", FaultKind::Misaligned, DATA + 2, true),
        ("load.w1 w1, [d0 + 65536]", FaultKind::PageFault, DATA + 65536, false),
        ("store.w1 [d0 + 65536], w1", FaultKind::PageFault, DATA + 65536, true),
        ("atomic.i64.add.device.relaxed d1, [d0 + 4], d1", FaultKind::Misaligned, DATA + 4, true),
        ("atomic_shared.i64.add.workgroup.relaxed d1, [w0 + 4], d1", FaultKind::Misaligned, 4 + 4 * 38, true),
        ("load_shared.w1 w1, [w0 + 64]", FaultKind::WorkgroupMemory, 64 + 4 * 38, false),
        ("store_shared.w1 [w0 + 64], w1", FaultKind::WorkgroupMemory, 64 + 4 * 38, true),
        ("load_scratch.w1 w1, [w0 + 8]", FaultKind::ScratchMemory, 8 + 4 * 38, false),
        ("store_scratch.w1 [w0 + 8], w1", FaultKind::ScratchMemory, 8 + 4 * 38, true),
    ];
    for (instruction, kind, address, write) in table {
        let mut fixture = Fixture::new();
        let text = format!(
            ".workgroup 64, 1, 1\n.shared 64\n.scratch 8\narguments d0\nsystem.local_index w0\ncmp.i32.eq p0, w0, 38
            mul.i32 w0, w0, 4\nif p0\n.line 77\n{instruction}\nend_if\nexit"
        );
        let dispatch = fixture.dispatch(&text, 1);
        fixture.submit(dispatch);
        let (at, info) = fixture.host.fault_of(&fixture.queue);
        assert_eq!((FaultKind::from_number(info.kind()), at), (Some(kind), address), "{instruction}");
        assert_eq!(info.write(), write, "{instruction}");
        let report = fixture.report();
        assert_eq!((report.state, report.fault, report.address), (DISPATCH_FAULTED, kind as u16, address));
        assert_eq!((report.instruction, report.line, report.lane), (5, 77, 38), "{instruction}");
        assert_eq!(report.write, write.into(), "{instruction}");
    }
}

#[test]
fn a_write_to_a_read_only_page_is_a_fault() {
    let mut fixture = Fixture::new();
    let flags = Pte::new().with_read_only(true);
    fixture.host.map_pages(fixture.space, 0x30_0000, fixture.data, PAGE_4K, PAGE_4K, flags);
    let dispatch = Dispatch { arguments: 0x30_0000, ..fixture.dispatch(SQUARES, 1) };
    assert_eq!(fixture.fault(dispatch), (Some(FaultKind::ReadOnly), 0, 0x30_0000));
    assert_eq!(fixture.word(1), 0);
}

/// However many instructions of it are executed at once: a slice that ends with some to spare is over all the same.
#[test]
fn a_long_compiled_program_leaves_the_node_after_its_time_slice() {
    for adds in [1, 20, 100, 127] {
        let mut fixture = Fixture::new();
        let text = format!(
            "mov.i32 w0, 1\nloop\n{}cmp.i32.eq p0, w0, 0\nbreak_if p0\nend_loop\nexit",
            "add.i32 w1, w1, w0\n".repeat(adds)
        );
        let endless = fixture.dispatch(&text, 1);
        fixture.host.write_packets(&mut fixture.queue, &[Packet::Dispatch(endless)]);
        fixture.host.ring(&fixture.queue);
        // Long enough to be compiled.
        (0..200).for_each(|_| assert!(fixture.host.gpu.step(), "it runs"));
        let space = fixture.host.space();
        let other = fixture.host.map_new_ram(space, DATA, 4096);
        let mut neighbour = fixture.host.queue(1, space, NODE_COMPUTE);
        let fill = campanile_hw::packet::Fill { destination: DATA, size: 4, pattern: 5 };
        fixture.host.write_packets(&mut neighbour, &[Packet::Fill(fill)]);
        fixture.host.ring(&neighbour);
        let steps = (0..1000).take_while(|_| fixture.host.gpu.step() && fixture.host.read64(other) as u32 != 5).count();
        assert!(steps < 200, "{adds} additions: the neighbour waited {steps} steps");
    }
}

/// A dispatch takes its part of a slice, by the instructions that it executes, as a copy does by its bytes.
#[test]
fn short_dispatches_share_a_slice_and_long_ones_do_not() {
    let steps = |text: &str, groups: u32| {
        let mut fixture = Fixture::new();
        let dispatch = Dispatch { report: 0, ..fixture.dispatch(text, groups) };
        fixture.host.write_packets(&mut fixture.queue, &[Packet::Dispatch(dispatch); 16]);
        fixture.host.ring(&fixture.queue);
        let mut steps = 0;
        while fixture.host.read_pointer(&fixture.queue) == 0 {
            assert!(fixture.host.gpu.step(), "there is work");
            steps += 1;
        }
        steps
    };
    let short = steps("exit", 1);
    assert!(short <= 2, "sixteen of an instruction took {short} steps");
    let long = steps(SQUARES, 40);
    assert!(long >= 16, "sixteen of 480 instructions took {long} steps");
}

#[test]
fn an_endless_program_shares_the_node_and_can_be_stopped() {
    let mut fixture = Fixture::new();
    let endless = fixture.dispatch(ENDLESS, 1);
    fixture.host.write_packets(&mut fixture.queue, &[Packet::Dispatch(endless)]);
    fixture.host.ring(&fixture.queue);
    for _ in 0..50 {
        assert!(fixture.host.gpu.step());
    }
    let before = fixture.word(0);
    assert!(before > 0, "it runs");
    let space = fixture.host.space();
    let other = fixture.host.map_new_ram(space, DATA, 4096);
    let mut neighbour = fixture.host.queue(1, space, NODE_COMPUTE);
    let fill = campanile_hw::packet::Fill { destination: DATA, size: 4, pattern: 5 };
    fixture.host.write_packets(&mut neighbour, &[Packet::Fill(fill)]);
    fixture.host.ring(&neighbour);
    for _ in 0..5000 {
        fixture.host.gpu.step();
    }
    assert_eq!(fixture.host.read64(other) as u32, 5, "the neighbour got the node");
    assert!(fixture.word(0) > before, "and gave it back");
    // A word of memory stops it.
    fixture.host.write(fixture.data.with_address(fixture.data.address() + 4), &[1]);
    fixture.host.run();
    assert_eq!(fixture.report().state, DISPATCH_DONE);
}

#[test]
fn memory_that_is_unmapped_under_a_running_program_is_a_fault_when_the_order_is_done() {
    let mut fixture = Fixture::new();
    let endless = fixture.dispatch(ENDLESS, 1);
    fixture.host.write_packets(&mut fixture.queue, &[Packet::Dispatch(Dispatch { report: 0, ..endless })]);
    fixture.host.ring(&fixture.queue);
    for _ in 0..20 {
        fixture.host.gpu.step();
    }
    let leaf = fixture.host.leaf(fixture.space, DATA, PAGE_4K);
    fixture.host.write64(leaf, 0);
    let root = fixture.space.root.into_bits();
    fixture.host.command(Command::InvalidateTlb, root, DATA, DATA + PAGE_4K);
    let last = fixture.word(0);
    fixture.host.run();
    let (address, info) = fixture.host.fault_of(&fixture.queue);
    assert_eq!((FaultKind::from_number(info.kind()), address), (Some(FaultKind::PageFault), DATA));
    assert_eq!(fixture.word(0), last, "nothing was written after the order was done");
}

/// 256 blocks of the key stream with the key, nonce and counter of RFC 8439, 2.3.2, rung but not begun, and where they go.
fn rung_key_stream(variant: &Variant) -> (Fixture, Location) {
    let mut fixture = Fixture::with(variant);
    let at = |offset: u64| fixture.data.with_address(fixture.data.address() + offset);
    let stream = at(0x1000);
    let nonce = [0x0900_0000u32, 0x4a00_0000, 0];
    let words = [1, 256].into_iter();
    let key = (0..8).map(|word| u32::from_le_bytes([0, 1, 2, 3].map(|byte| word * 4 + byte)));
    let words: Vec<u8> = words.chain(key).chain(nonce).flat_map(u32::to_le_bytes).collect();
    fixture.host.write(at(0), &(DATA + 0x1000).to_le_bytes());
    fixture.host.write(at(8), &words);
    let dispatch = fixture.dispatch(campanile_isa::programs::CHACHA20, 4);
    fixture.host.write_packets(&mut fixture.queue, &[Packet::Dispatch(dispatch)]);
    fixture.host.ring(&fixture.queue);
    (fixture, stream)
}

/// The memory and report that the key stream leaves, and the steps of the function that it takes.
fn key_stream(variant: &Variant) -> (Vec<u8>, DispatchReport, usize) {
    let (fixture, stream) = rung_key_stream(variant);
    let mut steps = 0;
    while fixture.report().state == 0 {
        fixture.host.gpu.step();
        steps += 1;
        assert!(steps < 10_000, "the program does not end");
    }
    fixture.host.run();
    (fixture.host.read(stream, 256 * 64), fixture.report(), steps)
}

#[test]
fn a_program_that_runs_long_is_compiled_and_means_the_same() {
    let (interpreted, slow, interpreted_steps) = key_stream(&Variant { interpreter: true, ..small_variant() });
    let (compiled, fast, steps) = key_stream(&small_variant());
    let first: Vec<u8> =
        [0xe4e7_f110u32, 0x1559_3bd1, 0x1fdd_0f50, 0xc471_20a3].iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(interpreted[..16], first, "block of RFC 8439, 2.3.2");
    assert!(interpreted == compiled, "the executors differ");
    let counts = |report: DispatchReport| {
        [report.state.into(), report.instructions, report.lanes, report.loads, report.stores, report.atomics]
    };
    assert_eq!(counts(slow), counts(fast));
    assert!(slow.instructions > 8192, "long enough to be compiled: {} instructions", slow.instructions);
    // A slice of compiled code is longer.
    assert!(steps < interpreted_steps, "{steps} steps compiled, {interpreted_steps} interpreted");
}

#[test]
fn a_program_means_the_same_while_a_thread_of_its_own_compiles_it() {
    let (expected, slow, _) = key_stream(&Variant { interpreter: true, ..small_variant() });
    let (fixture, stream) = rung_key_stream(&small_variant());
    let runner = Runner::start(fixture.host.gpu.clone());
    while fixture.report().state == 0 {
        std::thread::yield_now();
    }
    drop(runner);
    assert!(fixture.host.read(stream, 256 * 64) == expected, "the executors differ");
    let counts = |report: DispatchReport| [report.instructions, report.lanes, report.loads, report.stores];
    assert_eq!(counts(fixture.report()), counts(slow));
}
