//! What every thunk refuses: a thread without a process, and pointers that lead nowhere.

use super::*;

type Anonymous = unsafe extern "win64" fn(*mut c_void) -> NTSTATUS;

/// Thunks of another shape than one argument structure.
const PLAIN: [&str; 2] = ["D3DKMTShareObjects", "NtClose"];

/// Every thunk with one pointer, untyped: that of its argument structure or, to share, that of the object.
fn all_thunks() -> Vec<(&'static str, Anonymous)> {
    const { assert!(size_of::<Thunks>().is_multiple_of(size_of::<Anonymous>())) };
    let table = (&raw const *thunks()).cast::<Anonymous>();
    let places = Thunks::NAMES.iter().enumerate().filter(|(_, name)| !PLAIN.contains(name));
    let structures = places.map(|(place, name)| {
        // SAFETY: the table is `repr(C)` and holds one function pointer for each name, these of this shape.
        (*name, unsafe { table.wrapping_add(place).read() })
    });
    structures.chain([("D3DKMTShareObjects", share_at as Anonymous)]).collect()
}

/// Shares the object whose handle lies at `object`.
unsafe extern "win64" fn share_at(object: *mut c_void) -> NTSTATUS {
    let mut handle = std::ptr::null_mut();
    // SAFETY: the thunk checks its pointers.
    unsafe { (thunks().D3DKMTShareObjects)(1, object.cast(), std::ptr::null(), 0x1000_0000, &mut handle) }
}

/// Closes what may be a kernel handle.
fn close(handle: HANDLE) -> NTSTATUS {
    // SAFETY: takes any handle.
    unsafe { (thunks().NtClose)(handle) }
}

#[test]
fn a_thread_without_process_is_denied_every_thunk() {
    for (name, thunk) in all_thunks() {
        // SAFETY: the thunk refuses before it looks at its arguments.
        assert_eq!(unsafe { thunk(std::ptr::null_mut()) }, STATUS_ACCESS_DENIED, "{name}");
    }
    assert_eq!(close(std::ptr::null_mut()), STATUS_ACCESS_DENIED);
}

#[test]
fn bad_argument_pointers_are_refused_by_every_thunk_without_a_trace() {
    let (bench, luid) = start(SOUND);
    let user = User::new(&bench, luid);
    let before = user.process.handle_count();
    // SAFETY: a new anonymous mapping touches no existing memory.
    let read_only = unsafe {
        libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    };
    for (name, thunk) in all_thunks() {
        for (pointer, expected) in [
            (std::ptr::null_mut(), STATUS_INVALID_PARAMETER),
            (nowhere(), STATUS_ACCESS_VIOLATION),
            (std::ptr::without_provenance_mut(usize::MAX - 7), STATUS_ACCESS_VIOLATION),
        ] {
            // SAFETY: the thunk checks its pointer.
            assert_eq!(unsafe { thunk(pointer) }, expected, "{name} at {pointer:?}");
        }
        // SAFETY: the thunk checks its pointer.
        let status = unsafe { thunk(read_only) };
        assert!(
            !status.is_success() || name == "D3DKMTEnumAdapters3",
            "{name} took zeros that it cannot answer: {status}"
        );
        assert_ne!(status, STATUS_INTERNAL_ERROR, "{name}");
    }
    for number in [0, 1, 4, 0x4000, usize::MAX - 7, usize::MAX] {
        assert_eq!(close(std::ptr::without_provenance_mut(number)), STATUS_INVALID_HANDLE, "{number:#x}");
    }
    assert_eq!(user.process.handle_count(), before);
    user.process.exit();
    for (name, thunk) in all_thunks() {
        // SAFETY: the thunk refuses before it looks at its arguments.
        assert_eq!(unsafe { thunk(read_only) }, STATUS_ACCESS_DENIED, "{name} after exit");
    }
    assert_eq!(close(std::ptr::null_mut()), STATUS_ACCESS_DENIED, "NtClose after exit");
    drop(user);
    end(bench, luid);
}
