//! Only in the DLL: its allocator, its panic handler, and the symbols that compiled code expects.
//!
//! A program that links the crate brings all of this with its standard library.

use core::{
    alloc::{GlobalAlloc, Layout},
    ffi::c_void,
    panic::PanicInfo,
    ptr::null_mut,
};

use wddm_ddi::nt::{EXCEPTION_NONCONTINUABLE, EXCEPTION_RECORD};
use wddm_ddi::types::HANDLE;

#[link(name = "kernel32", kind = "raw-dylib")]
unsafe extern "system" {
    fn GetProcessHeap() -> HANDLE;
    fn HeapAlloc(heap: HANDLE, flags: u32, bytes: usize) -> *mut c_void;
    fn HeapFree(heap: HANDLE, flags: u32, memory: *mut c_void) -> i32;
    fn RaiseFailFastException(record: *const EXCEPTION_RECORD, context: *const c_void, flags: u32);
}

#[link(name = "ntdll", kind = "raw-dylib")]
unsafe extern "win64" {
    // The compiler calls these by name.
    fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
    fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
    fn memset(to: *mut u8, value: i32, bytes: usize) -> *mut u8;
    fn memcmp(a: *const u8, b: *const u8, bytes: usize) -> i32;
    fn strlen(text: *const u8) -> usize;
}

type Move = unsafe extern "win64" fn(*mut u8, *const u8, usize) -> *mut u8;
type Set = unsafe extern "win64" fn(*mut u8, i32, usize) -> *mut u8;
type Compare = unsafe extern "win64" fn(*const u8, *const u8, usize) -> i32;
type Measure = unsafe extern "win64" fn(*const u8) -> usize;

/// Gives the linker the imports that only compiled code names; those that nothing calls do not reach the image.
#[used]
static COMPILER_CALLS: (Move, Move, Set, Compare, Measure) = (memcpy, memmove, memset, memcmp, strlen);

/// HEAP_ZERO_MEMORY. [heapapi: HeapAlloc]
const ZEROED: u32 = 8;
/// What the heap aligns every block to. [winnt: MEMORY_ALLOCATION_ALIGNMENT]
const HEAP_ALIGNMENT: usize = 16;

/// The heap of the process.
struct ProcessHeap;

#[global_allocator]
static HEAP: ProcessHeap = ProcessHeap;

impl ProcessHeap {
    /// A block for `layout`. One whose alignment the heap does not give lies in a larger block, whose address is stored before it.
    fn take(layout: Layout, flags: u32) -> *mut u8 {
        let (align, size) = (layout.align(), layout.size());
        let capacity = if align <= HEAP_ALIGNMENT { Some(size) } else { size.checked_add(align) };
        let Some(capacity) = capacity else { return null_mut() };
        // SAFETY: takes no arguments; every process has a heap.
        let heap = unsafe { GetProcessHeap() };
        // SAFETY: the heap is the process's own, and lives as long as it.
        let block = unsafe { HeapAlloc(heap, flags, capacity) }.cast::<u8>();
        if align <= HEAP_ALIGNMENT || block.is_null() {
            return block;
        }
        // At least HEAP_ALIGNMENT bytes lie before the next multiple of a larger alignment, counted from one past the block's start.
        let shift = align - (block.addr() & (align - 1));
        // SAFETY: `shift` is at most `align`, by which the block is larger than asked for.
        let aligned = unsafe { block.add(shift) };
        // SAFETY: `shift` is at least HEAP_ALIGNMENT, so that a pointer fits before `aligned`, and both are aligned for one.
        let owner = unsafe { aligned.cast::<*mut u8>().sub(1) };
        // SAFETY: inside the block, aligned.
        unsafe { owner.write(block) };
        aligned
    }
}

// SAFETY: blocks come from the process heap, which serialises itself, with the size and alignment asked for; nothing unwinds.
unsafe impl GlobalAlloc for ProcessHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::take(layout, 0)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::take(layout, ZEROED)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let block = if layout.align() <= HEAP_ALIGNMENT {
            memory
        } else {
            // SAFETY: `take` stored the block's address there.
            let owner = unsafe { memory.cast::<*mut u8>().sub(1) };
            // SAFETY: as above.
            unsafe { owner.read() }
        };
        // SAFETY: takes no arguments.
        let heap = unsafe { GetProcessHeap() };
        // SAFETY: the block came from this heap and is not used again.
        unsafe { HeapFree(heap, 0, block.cast()) };
    }
}

/// Exception code of a panic in this DLL: severity error, customer code, "AMP".
const PANIC: u32 = 0xe000_0000 | (u32::from_be_bytes(*b"\0AMP"));

/// A panic is a defect of this DLL. The process ends at once, for its state cannot be trusted; the report has the place: file name, its
/// length, line number.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let (file, length, line) = info
        .location()
        .map_or((0, 0, 0), |place| (place.file().as_ptr().addr(), place.file().len(), place.line() as usize));
    let mut information = [0; 15];
    information[..3].copy_from_slice(&[file, length, line]);
    let record = EXCEPTION_RECORD {
        ExceptionCode: PANIC,
        ExceptionFlags: EXCEPTION_NONCONTINUABLE,
        ExceptionRecord: null_mut(),
        ExceptionAddress: panic as fn(&PanicInfo<'_>) -> ! as *mut c_void,
        NumberParameters: 3,
        ExceptionInformation: information,
    };
    loop {
        // SAFETY: a whole record of this frame; no context means the caller's. It does not return.
        unsafe { RaiseFailFastException(&raw const record, core::ptr::null(), 0) };
    }
}

// Defined here and not as items of Rust, which would become exports.
//
// The precompiled core library names the C++ frame handler in its unwind tables. Nothing here unwinds; when an exception passes
// these frames, the handler lets the search go on (ExceptionContinueSearch). `_fltused` is named wherever floating-point types
// occur. There is no `__chkstk` on purpose: a frame of a page or more does not link.
core::arch::global_asm!(
    ".globl __CxxFrameHandler3",
    "__CxxFrameHandler3:",
    "mov eax, 1",
    "ret",
    ".section .rdata,\"dr\"",
    ".globl _fltused",
    "_fltused: .long 0x9875",
    ".text",
);
