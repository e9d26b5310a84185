// UNSAFETY: memory that a virtual machine is given.
//! Finds out whether KVM works here. That /dev/kvm exists does not show it: on a machine that is virtual itself, KVM may have to emulate a guest's
//! kernel, and fails at instructions that every current kernel has. So it is given a few instructions to run.

use std::ffi::CStr;

use kvm_bindings::{KVM_API_VERSION, KVM_MAX_CPUID_ENTRIES, kvm_regs, kvm_segment, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};

/// Path of KVM's device file.
pub(super) const DEVICE: &CStr = c"/dev/kvm";

/// A word goes to a vector register and comes back, in the most privileged ring: mov eax, WORD; movd xmm0, eax; movd ebx, xmm0; hlt.
const CODE: [u8; 14] = [0xb8, 0x78, 0x56, 0x34, 0x12, 0x66, 0x0f, 0x6e, 0xc0, 0x66, 0x0f, 0x7e, 0xc3, 0xf4];
const WORD: u64 = 0x1234_5678;
/// Protected mode; vector instructions are allowed. [Intel SDM, volume 3, 2.5]
const CR0_PROTECTED: u64 = 1;
const CR4_VECTORS: u64 = 1 << 9 | 1 << 10;
/// A page that a virtual machine sees.
const PAGE: usize = 4096;

#[repr(C, align(4096))]
struct Page([u8; PAGE]);

/// Outcome of the few instructions that a virtual machine executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// It halted with this in its register.
    Halted(u64),
    /// KVM gave up.
    GaveUp,
}

/// Lets KVM run a few instructions of a guest's kernel.
///
/// # Errors
/// It cannot be used; says why.
pub(super) fn probe(device: &CStr) -> Result<(), String> {
    let name = device.to_string_lossy();
    let kvm = Kvm::new_with_path(device).map_err(|error| format!("{name} cannot be opened: {error}"))?;
    if u32::try_from(kvm.get_api_version()) != Ok(KVM_API_VERSION) {
        return Err(format!("{name} is not KVM, or another version of it"));
    }
    judge(run(&kvm).map_err(|error| format!("KVM refuses a virtual machine: {error}"))?)
}

fn judge(left: Left) -> Result<(), String> {
    match left {
        Left::Halted(WORD) => Ok(()),
        Left::Halted(other) => Err(format!("a guest computed {other:#x} in place of {WORD:#x}")),
        Left::GaveUp => Err(
            "it gives up at a vector instruction of a guest's kernel; it has no virtualisation of the processor's own"
                .to_owned(),
        ),
    }
}

fn run(kvm: &Kvm) -> Result<Left, kvm_ioctls::Error> {
    let machine = kvm.create_vm()?;
    let mut page = Box::new(Page([0; PAGE]));
    for (to, from) in page.0.iter_mut().zip(CODE) {
        *to = from;
    }
    let mut processor = prepare(kvm, &machine, &page)?;
    let left = match processor.run()? {
        VcpuExit::Hlt => Left::Halted(processor.get_regs()?.rbx & u64::from(u32::MAX)),
        _ => Left::GaveUp,
    };
    // The machine sees the page until then.
    drop((processor, machine));
    drop(page);
    Ok(left)
}

/// A processor that stands before the code, at address 0, in flat protected mode.
fn prepare(kvm: &Kvm, machine: &VmFd, page: &Page) -> Result<VcpuFd, kvm_ioctls::Error> {
    let region = kvm_userspace_memory_region {
        slot: 0,
        flags: 0,
        guest_phys_addr: 0,
        memory_size: PAGE as u64,
        userspace_addr: page.0.as_ptr().expose_provenance() as u64,
    };
    // SAFETY: the page outlives the machine, see `run`, and nobody here accesses it meanwhile.
    unsafe { machine.set_user_memory_region(region)? };
    let processor = machine.create_vcpu(0)?;
    processor.set_cpuid2(&kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)?)?;
    let mut special = processor.get_sregs()?;
    special.cr0 |= CR0_PROTECTED;
    special.cr4 |= CR4_VECTORS;
    let flat = |selector, kind| kvm_segment {
        base: 0,
        limit: u32::MAX,
        selector,
        type_: kind,
        present: 1,
        s: 1,
        db: 1,
        g: 1,
        ..kvm_segment::default()
    };
    // Code that can be executed and read, data that can be read and written, both accessed.
    special.cs = flat(8, 11);
    [special.ds, special.es, special.ss, special.fs, special.gs] = [flat(16, 3); 5];
    processor.set_sregs(&special)?;
    processor.set_regs(&kvm_regs { rip: 0, rflags: 2, ..kvm_regs::default() })?;
    Ok(processor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_kvm_is_named() {
        let error = probe(c"/nonexistent/kvm").unwrap_err();
        assert!(error.contains("/nonexistent/kvm cannot be opened"), "{error}");
        let error = probe(c"/dev/null").unwrap_err();
        assert_eq!(error, "/dev/null is not KVM, or another version of it");
    }

    #[test]
    fn only_the_right_answer_counts() {
        assert_eq!(judge(Left::Halted(WORD)), Ok(()));
        assert!(judge(Left::Halted(0)).unwrap_err().contains("computed 0x0 in place of"));
        assert!(judge(Left::GaveUp).unwrap_err().contains("vector instruction"));
    }
}
