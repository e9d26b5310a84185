//! Programs of the compute node.

use core::ffi::c_void;

use super::handles::Object;
use super::{DeviceHandle, Out, Status, finish, handles};
use crate::{Device, Program};

/// A program in memory that the GPU executes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProgramHandle {
    /// The handle; 0 is none.
    pub id: u64,
}

/// Largest program that is looked at; the limits of the instruction set leave less.
const SIZE_MAX: u64 = 1 << 30;

/// Copies a program of `size` bytes to memory that the GPU executes. Programs are what `campanile asm` writes, and what the crate campanile-compiler makes of SPIR-V.
/// CAMPANILE_STATUS_BAD_PROGRAM for one that breaks a rule of the instruction set.
///
/// # Safety
/// `bytes` is readable for `size` bytes or null; `program` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_program_create(
    device: DeviceHandle,
    bytes: *const c_void,
    size: u64,
    program: *mut ProgramHandle,
) -> i32 {
    finish((|| {
        let out = Out::new(program)?;
        if bytes.is_null() {
            return Err(Status::BadPointer.into());
        }
        let size = if size <= SIZE_MAX { size as usize } else { return Err(Status::BadProgram.into()) };
        // SAFETY: not null, and readable for so many bytes as the caller promises.
        let bytes = unsafe { core::slice::from_raw_parts(bytes.cast::<u8>(), size) };
        let created = handles::with(device.id, |device: &Device| Ok(device.create_program(bytes)?))?;
        let id = handles::insert(Object::Program(created))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(ProgramHandle { id }) };
        Ok(())
    })())
}

/// Destroys a program. Work that runs it must be done.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_program_destroy(program: ProgramHandle) -> i32 {
    finish(handles::remove::<Program>(program.id))
}

/// First GPU address of a program, for campanile_record_dispatch.
///
/// # Safety
/// `address` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_program_address(program: ProgramHandle, address: *mut u64) -> i32 {
    finish((|| {
        let out = Out::new(address)?;
        let value = handles::with(program.id, |program: &Program| Ok(program.gpu_address()))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(value) };
        Ok(())
    })())
}

/// Bytes that the state of a dispatch of a program takes at most while its queue is off the compute node: what save_bytes of campanile_queue_options has to be at least.
///
/// # Safety
/// `bytes` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_program_save_bytes(program: ProgramHandle, bytes: *mut u32) -> i32 {
    finish((|| {
        let out = Out::new(bytes)?;
        let value = handles::with(program.id, |program: &Program| Ok(program.save_bytes()))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(value) };
        Ok(())
    })())
}
