//! Programs: what the GPU may do with their memory, and those that are refused.

mod fake;

use std::ffi::c_void;

use campanile_hw::isa::{BadProgram, NO_INSTRUCTION, ProgramHeader, ProgramRule};
use campanile_hw::packet::Dispatch;
use campanile_umd::c_api::*;
use campanile_umd::*;
use fake::*;
use wddm_ddi::status::STATUS_NO_MEMORY;

fn device() -> Device {
    Device::new(&Adapter::open(&THUNKS).unwrap()).unwrap()
}

fn assembled() -> Vec<u8> {
    campanile_isa::assemble(".workgroup 32, 2, 1\narguments d0\nmov.i32 w0, 7\nstore.w1 [d0], w0\nexit").unwrap()
}

/// The result of `find` for the allocation that is mapped to an address.
fn mapped_to<R>(address: u64, find: impl Fn(&Allocation) -> R) -> R {
    os(|fake| {
        let at = |object: &Object| match object {
            Object::Allocation(allocation) if allocation.address == address => Some(find(allocation)),
            _ => None,
        };
        fake.objects.values().find_map(at).expect("a mapping")
    })
}

/// The rights of the GPU in the memory at an address: to write, to execute.
fn rights(address: u64) -> (bool, bool) {
    mapped_to(address, |allocation| (allocation.protection.Write(), allocation.protection.Execute()))
}

/// [d3dukmdt: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE]
#[test]
fn the_gpu_executes_programs_and_does_not_write_them_and_executes_no_buffer() {
    let (device, bytes) = (device(), assembled());
    let program = device.create_program(&bytes).unwrap();
    let buffer = device.create_buffer(4096, Placement::System).unwrap();
    assert_eq!(rights(program.gpu_address()), (false, true));
    assert_eq!(rights(buffer.gpu_address()), (true, false));
    let word = |offset| mapped_to(program.gpu_address(), |allocation| allocation.memory.get(offset).to_le_bytes());
    let found: Vec<u8> = (0..bytes.len()).step_by(8).flat_map(word).collect();
    assert_eq!(found, bytes);
    assert_eq!((program.size(), program.workgroup()), (bytes.len() as u64, [32, 2, 1]));
    let expected = Dispatch {
        program_size: bytes.len() as u32,
        program: program.gpu_address(),
        arguments: buffer.gpu_address(),
        indirect: 0,
        grid_x: 3,
        grid_y: 2,
        grid_z: 1,
        report: 0,
    };
    assert_eq!(program.dispatch([3, 2, 1], buffer.gpu_address()), expected);
    drop((program, buffer, device));
    os(|fake| fake.assert_clean());
}

#[test]
fn a_program_that_the_gpu_would_refuse_is_refused_before_anything_is_made() {
    let (device, bytes) = (device(), assembled());
    let objects = os(|fake| fake.objects.len());
    let refusal = |bytes: &[u8]| device.create_program(bytes).map(|_| ()).unwrap_err();
    let bad = |rule, instruction| Error::BadProgram(BadProgram { rule, instruction });
    assert_eq!(refusal(&[]), bad(ProgramRule::Length, NO_INSTRUCTION));
    assert_eq!(refusal(&bytes[..bytes.len() - 16]), bad(ProgramRule::Length, NO_INSTRUCTION));
    let mut other = bytes.clone();
    other[0] ^= 1;
    assert_eq!(refusal(&other), bad(ProgramRule::Magic, NO_INSTRUCTION));
    let mut wrong = bytes.clone();
    let last = wrong.len() - 16;
    wrong[last] = 0xff;
    assert_eq!(refusal(&wrong), bad(ProgramRule::Operation, 3));
    assert_eq!(
        refusal(&wrong).to_string(),
        "the program breaks the rule Operation of the instruction set at instruction 3"
    );
    assert_eq!(os(|fake| fake.objects.len()), objects);
    for thunk in ["D3DKMTCreateAllocation2", "D3DKMTMakeResident", "D3DKMTMapGpuVirtualAddress", "D3DKMTLock2"] {
        os(|fake| fake.fail_names = vec![(thunk, STATUS_NO_MEMORY)]);
        assert_eq!(refusal(&bytes), Error::Status(STATUS_NO_MEMORY, thunk));
        os(|fake| fake.fail_names.clear());
        assert_eq!(os(|fake| fake.objects.len()), objects, "{thunk}");
    }
    drop(device);
    os(|fake| fake.assert_clean());
}

#[test]
fn programs_of_the_interface_for_c() {
    let mut adapter = AdapterHandle { id: 0 };
    // SAFETY: a table and a variable.
    assert_eq!(unsafe { campanile_adapter_open((&raw const THUNKS).cast(), &mut adapter) }, 0);
    let mut device = DeviceHandle { id: 0 };
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_device_create(adapter, &mut device) }, 0);
    let bytes = assembled();
    let start: *const c_void = bytes.as_ptr().cast();
    let (mut program, mut address) = (ProgramHandle { id: 0 }, 0);
    // SAFETY: a slice and a variable; the null pointer is refused.
    let create =
        |start, size, program: &mut ProgramHandle| unsafe { campanile_program_create(device, start, size, program) };
    assert_eq!(create(std::ptr::null(), 1, &mut program), Status::BadPointer as i32);
    assert_eq!(create(start, bytes.len() as u64 - 1, &mut program), Status::BadProgram as i32);
    assert_eq!(create(start, u64::MAX, &mut program), Status::BadProgram as i32);
    assert_eq!(program.id, 0, "nothing is written on failure");
    assert_eq!(create(start, bytes.len() as u64, &mut program), 0);
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_program_address(program, &mut address) }, 0);
    assert_eq!(rights(address), (false, true));
    // SAFETY: null is refused.
    assert_eq!(unsafe { campanile_program_address(program, std::ptr::null_mut()) }, Status::BadPointer as i32);
    let mut save_bytes = 0;
    // SAFETY: a variable; null is refused.
    assert_eq!(unsafe { campanile_program_save_bytes(program, &mut save_bytes) }, 0);
    let header = ProgramHeader::from_bytes(bytes.first_chunk().expect("a header"));
    assert_eq!(save_bytes, header.save_size());
    // SAFETY: null is refused.
    assert_eq!(unsafe { campanile_program_save_bytes(program, std::ptr::null_mut()) }, Status::BadPointer as i32);
    assert_eq!(campanile_buffer_destroy(BufferHandle { id: program.id }), Status::BadHandle as i32);
    assert_eq!(campanile_program_destroy(program), 0);
    assert_eq!(campanile_program_destroy(program), Status::BadHandle as i32);
    assert_eq!(campanile_device_destroy(device), 0);
    assert_eq!(campanile_adapter_close(adapter), 0);
    os(|fake| fake.assert_clean());
}
