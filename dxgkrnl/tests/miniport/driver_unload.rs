//! How a driver is unloaded: by the routine in its driver object, where DxgkInitialize has stored its own.
//! [wdm: DRIVER_UNLOAD, ZwUnloadDriver; dispmprt: DXGKDDI_UNLOAD]

use std::cell::{Cell, RefCell};

use crate::minimal::{Mutant, SOUND, driver};
use dxgkrnl::{DriverId, DriverImage, Machine, MachineConfig, PnpError};
use wddm_ddi::types::{NTSTATUS, PDRIVER_OBJECT, UNICODE_STRING};

type Unload = unsafe extern "win64" fn(PDRIVER_OBJECT);

thread_local! {
    /// Routines that were called, in order. Drivers are loaded and unloaded on the thread of their test.
    static CALLED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    /// What the driver stores before DxgkInitialize, and after it.
    static STORED: Cell<[Option<Option<Unload>>; 2]> = const { Cell::new([None; 2]) };
    /// The routine of DxgkInitialize.
    static FOUND: Cell<Option<Unload>> = const { Cell::new(None) };
}

fn note(name: &'static str) {
    CALLED.with_borrow_mut(|called| called.push(name));
}

unsafe extern "win64" fn ddi() {
    note("DxgkDdiUnload");
}

unsafe extern "win64" fn alone(_: PDRIVER_OBJECT) {
    note("own");
}

/// Calls the routine that it has displaced, as a driver should.
unsafe extern "win64" fn then_the_other(object: PDRIVER_OBJECT) {
    note("own");
    let other = FOUND.get().expect("DxgkInitialize has stored one");
    // SAFETY: a DRIVER_UNLOAD, with its own driver object. Once is enough, and twice does nothing more.
    unsafe { other(object) };
    // SAFETY: as above.
    unsafe { other(object) };
}

/// DriverUnload in the driver object.
fn place(object: PDRIVER_OBJECT) -> *mut Option<Unload> {
    object.cast::<u8>().wrapping_add(0x68).cast()
}

unsafe extern "win64" fn entry(object: PDRIVER_OBJECT, path: *mut UNICODE_STRING) -> NTSTATUS {
    let [before, after] = STORED.get();
    if let Some(before) = before {
        // SAFETY: the object has this member.
        unsafe { place(object).write(before) };
    }
    // SAFETY: the arguments are the system's.
    let status = unsafe { driver::driver_entry(object, path) };
    // SAFETY: as above.
    FOUND.set(unsafe { place(object).read() });
    if let Some(after) = after {
        // SAFETY: as above.
        unsafe { place(object).write(after) };
    }
    status
}

/// A loaded driver that stores these.
fn loaded(before: Option<Option<Unload>>, after: Option<Option<Unload>>) -> (Machine, DriverId) {
    CALLED.take();
    STORED.set([before, after]);
    driver::MUTANT.set(Mutant { table: |table| table.DxgkDdiUnload = Some(ddi), ..SOUND });
    let machine = Machine::new(MachineConfig { ram: 64 << 20, ..MachineConfig::default() }).unwrap();
    let image = DriverImage::Linked { name: "minimal".into(), bind: driver::bind, entry };
    let driver = machine.load_driver(image).unwrap();
    (machine, driver)
}

#[test]
fn a_driver_that_stores_nothing_or_stores_before_dxgkinitialize_is_unloaded_by_its_ddi() {
    for before in [None, Some(Some(alone as Unload)), Some(None)] {
        let (machine, driver) = loaded(before, None);
        assert!(
            FOUND.get().is_some_and(|found| !std::ptr::fn_addr_eq(found, alone as Unload)),
            "DxgkInitialize stores its own"
        );
        assert_eq!(machine.unload(driver), Ok(()));
        assert_eq!((CALLED.take(), machine.bugcheck()), (vec!["DxgkDdiUnload"], None));
        assert_eq!(machine.unload(driver), Err(PnpError::NoSuchDriver));
    }
}

#[test]
fn a_routine_that_is_stored_after_it_is_called_instead_and_may_call_the_one_that_it_has_displaced() {
    let (machine, driver) = loaded(None, Some(Some(then_the_other)));
    assert_eq!(machine.unload(driver), Ok(()));
    assert_eq!((CALLED.take(), machine.bugcheck()), (vec!["own", "DxgkDdiUnload"], None));
    assert!(machine.debug_log().is_empty());
    let (machine, driver) = loaded(None, Some(Some(alone)));
    assert_eq!(machine.unload(driver), Ok(()));
    assert_eq!((CALLED.take(), machine.bugcheck()), (vec!["own"], None));
    let told = machine.debug_log().iter().any(|line| line.to_string().contains("DxgkDdiUnload was not called"));
    assert!(told, "{:?}", machine.debug_log());
}

#[test]
fn a_driver_that_has_taken_the_routine_away_stays_loaded_and_says_so() {
    let (machine, driver) = loaded(None, Some(None));
    for _ in 0..2 {
        let refused = machine.unload(driver).unwrap_err();
        assert_eq!(refused, PnpError::NotUnloadable);
        assert!(refused.to_string().contains("DriverUnload"), "{refused}");
    }
    assert_eq!((CALLED.take(), machine.bugcheck()), (vec![], None));
}
