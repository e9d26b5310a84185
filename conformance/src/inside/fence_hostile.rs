//! Native fences against user mode that does not keep to the rules.

use crate::kmt::WRONG_KIND;
use crate::rig::Rig;
use crate::simulated::Case;
use crate::{Boot, Failure, refused};

cases! { inside "NativeFenceRules", behind "it is several processes at a time, or dies on purpose";
    "NativeFenceRules.WriteToCurrentValueKillsTheWriter" needs NativeFence on Boot::Shared, "native-gpu-fence-objects":
        "A process that stores to a fence's current value dies of an access violation; the fence keeps its value."
        holds [NativeFence 12]
        => write_kills_writer;
    "NativeFenceRules.FenceOfAnotherProcessIsRefused" needs NativeFence on Boot::Shared, "native-gpu-fence-objects":
        "The handle of a fence that is not shared means nothing in another process."
        holds [NativeFence 18]
        => foreign_fence;
}

fn write_kills_writer(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.fence(77)?;
    let target = fence.value.address();
    // SAFETY: the child only closes a descriptor, stores once and leaves, all of which are allowed after a fork of a process with threads.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // The line that the signal handler writes about this expected fault would read like a failure of the run.
        // SAFETY: the descriptor is the child's own, and nothing of Rust's owns it.
        unsafe { libc::close(libc::STDERR_FILENO) };
        // SAFETY: the address is mapped; whether the store is allowed is what the parent finds out from how the child ends.
        unsafe { target.write_volatile(78) };
        // SAFETY: leaves without running anything else of this program.
        unsafe { libc::_exit(0) };
    }
    if child < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    let mut status = 0;
    // SAFETY: the child exists and the status has a place.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    ensure_eq!(waited, child, "waitpid");
    ensure!(
        libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV,
        "the writer ended with status {status:#x} instead of an access violation"
    );
    ensure_eq!(fence.value.load(), 77, "value after the store of the child");
    Ok(())
}

fn foreign_fence(case: &mut Case<'_>) -> Result<(), Failure> {
    let mine = case.rig()?.fence(3)?;
    case.in_other_process(|system| {
        let rig = Rig::open(system.luid())?;
        refused(rig.signal(&[mine.handle], &[9]), WRONG_KIND, "signalling a foreign fence")?;
        refused(rig.destroy_fence(mine.handle), WRONG_KIND, "destroying a foreign fence")
    })?;
    ensure_eq!(mine.value.load(), 3, "value after the other process tried");
    Ok(())
}
