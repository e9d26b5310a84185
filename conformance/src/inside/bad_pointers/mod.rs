//! Pointers that user mode should not pass: every pointer of every thunk, from the declarations.

mod pages;
mod rules;
mod structure;
#[rustfmt::skip]
mod structures;
mod table;
mod untyped;
mod user;

use std::sync::Arc;

use dxgkrnl::{Machine, Process};
use wddm_ddi::status::*;
use wddm_ddi::types::LUID;

use crate::rig::Rig;
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure};
use pages::{Bad, Pages};
use structure::{Pointer, Word};
use table::{CALLS, Call, places, pointee, structure_of};
use user::{Spoiled, User};

cases! { inside "BadPointers", needs UserModeSubmission, behind "it counts the handles of a process and the objects of the system";
    "BadPointers.EveryPointerOfEveryThunk" on Boot::Fresh, "d3dkmthk":
        "Whatever pointer of whatever thunk is wild, freed, of the kernel, or reaches into memory that is not there, the answer is STATUS_ACCESS_VIOLATION if the thunk follows it; NULL, unaligned and read-only ones get a status; a refused call changes nothing."
        => every_pointer;
    "BadPointers.EveryCountOfEveryThunk" on Boot::Fresh, "d3dkmthk":
        "Whatever count or size of whatever thunk is larger than memory, and also where its product with the size of an element is small again, the call returns a status, and a refused call changes nothing."
        => every_count;
    "BadPointers.PointersBehindUntypedOnes" on Boot::Fresh, "d3dkmt_query_physical_adapter_pnp_key":
        "The places of the question for a registry key, the name and its text in an OBJECT_ATTRIBUTES, and a command buffer for tests with its private data in an escape, are followed as all other pointers are: a bad one is STATUS_ACCESS_VIOLATION, and nothing is shared then."
        => untyped::behind_untyped;
}

/// As the cases about every pointer and every count, for thunks of which this process makes messages to `machine`, which is its own.
///
/// # Errors
/// A thunk does not what it does without a message in between.
pub fn over_messages(machine: &Machine, luid: LUID) -> Result<(), Failure> {
    every_pointer_of(&mut Calls::new(machine, luid, true)?)?;
    every_count_of(&mut Calls::new(machine, luid, true)?)
}

/// Processes in which thunks are called: one until a call succeeds, which changes it.
struct Calls<'m> {
    machine: &'m Machine,
    luid: LUID,
    /// Thunks are messages of the process that this is for the machine, and there is no other one; a call that succeeds costs it the objects.
    by_message: bool,
    pages: Pages,
    ready: Option<(Option<Arc<Process>>, User)>,
}

impl<'m> Calls<'m> {
    fn new(machine: &'m Machine, luid: LUID, by_message: bool) -> Result<Self, Failure> {
        Ok(Self { machine, luid, by_message, pages: Pages::new()?, ready: None })
    }

    fn process(&mut self) -> Result<(Option<Arc<Process>>, User), Failure> {
        if let Some(ready) = self.ready.take() {
            return Ok(ready);
        }
        let user = || User::new(Rig::open(self.luid)?);
        if self.by_message {
            return Ok((None, user()?));
        }
        let process = Process::new(self.machine, "bad pointers");
        let user = on_thread(&process, user)?;
        Ok((Some(process), user))
    }

    /// Calls a thunk with something spoiled. A failed call must have changed neither handles nor objects, and no call stops the machine.
    fn call(&mut self, call: &Call, spoiled: &Spoiled) -> Result<NTSTATUS, Failure> {
        let (process, user) = self.process()?;
        let machine = self.machine;
        let counts = || {
            let handles = process.as_ref().map(|process| (process.handle_count(), process.kernel_handle_count()));
            (handles, format!("{:?}", machine.holdings(self.luid)))
        };
        self.pages.clear();
        let words = user.arguments(call, &mut self.pages, spoiled)?;
        let attached = process.as_ref().map(Process::attach);
        let before = counts();
        let status = (call.call)(user.rig.kmt, words);
        let after = counts();
        drop(attached);
        ensure!(
            machine.bugcheck().is_none(),
            "{} with {spoiled:?} stopped the machine: {:?}",
            call.name,
            machine.bugcheck()
        );
        ensure!(status != STATUS_INTERNAL_ERROR, "{} with {spoiled:?} failed inside", call.name);
        if !status.is_success() {
            ensure_eq!(after, before, "handles and objects after {} with {spoiled:?} answered {status}", call.name);
            self.ready = Some((process, user));
        } else if let Some(process) = process {
            process.exit();
        } else {
            // The call may have destroyed the device already: then this is refused.
            let _ = user.rig.destroy();
        }
        Ok(status)
    }
}

fn every_pointer(case: &mut Case<'_>) -> Result<(), Failure> {
    every_pointer_of(&mut Calls::new(case.system.machine(), case.luid(), false)?)
}

fn every_pointer_of(calls: &mut Calls<'_>) -> Result<(), Failure> {
    let (mut wrong, mut followed) = (Vec::new(), 0);
    for thunk in CALLS {
        for place in places(thunk) {
            let name = place.name(thunk);
            let excused = rules::not_followed(thunk.name, &name);
            let is_pointer = place.is_pointer(thunk);
            followed += usize::from(is_pointer && excused.is_none());
            for bad in Bad::ALL {
                let status = calls.call(thunk, &Spoiled::Pointer(place, bad))?;
                let violates = status == STATUS_ACCESS_VIOLATION;
                let right = match bad {
                    _ if !is_pointer => true,
                    bad if bad.is_unreadable() => violates == excused.is_none(),
                    // Some thunks only read their argument structure.
                    Bad::ReadOnly if place.is_whole(thunk) => true,
                    Bad::ReadOnly => violates == rules::is_written(thunk.name, &name),
                    _ => true,
                };
                if !right {
                    wrong.push(format!("{} {name} {bad:?}: {status} ({excused:?})", thunk.name));
                }
            }
        }
    }
    ensure!(wrong.is_empty(), "{} of the bad pointers:\n{}", wrong.len(), wrong.join("\n"));
    ensure!(followed > 180, "only {followed} pointers are followed");
    Ok(())
}

fn every_count(case: &mut Case<'_>) -> Result<(), Failure> {
    every_count_of(&mut Calls::new(case.system.machine(), case.luid(), false)?)
}

fn every_count_of(calls: &mut Calls<'_>) -> Result<(), Failure> {
    let mut counted = 0;
    for thunk in CALLS {
        for (name, ty) in thunk.parameters {
            let outer = pointee(ty).and_then(structure_of).map_or(&[][..], |structure| structure.members);
            let inner =
                outer.iter().filter(|member| member.kind == Pointer).filter_map(|member| structure_of(member.ty));
            let words = outer.iter().chain(inner.flat_map(|structure| structure.members));
            let words = words.filter(|member| member.kind == Word).map(|member| member.path);
            for word in words.chain([*name]).filter(|path| rules::is_count(path)) {
                counted += 1;
                // The largest, and numbers whose product with 4, 8 or 16 is 4 modulo 2^32.
                for value in [u64::MAX, 0x4000_0001, 0x2000_0001, 0x1000_0001] {
                    let _ = calls.call(thunk, &Spoiled::Word(word, value))?;
                }
            }
        }
    }
    ensure!(counted > 80, "only {counted} counts");
    Ok(())
}
