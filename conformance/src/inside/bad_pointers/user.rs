//! Arguments that are good: a process with one object of each kind, and the words by which thunks are told of them.

use campanile_hw::private::{AllocationData, DoorbellData, MAGIC, Placement};
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::pages::{Bad, Pages};
use super::rules::{self, WORDS};
use super::structure::{Member, Pointer, Structure, Word};
use super::table::{Call, PARAMETERS, Place, pointee, structure_of};
use crate::rig::{Rig, shared_flags, user_mode_flags};
use crate::{Failure, granted};

/// The one thing that is wrong with a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Spoiled {
    Pointer(Place, Bad),
    /// A word, in whatever structure.
    Word(&'static str, u64),
}

/// Which members are bad: one of the structure, or one of the structure that this one points to.
type BadAt = (Option<&'static Member>, Option<&'static Member>);

/// A process with one object of each kind.
pub(super) struct User {
    pub(super) rig: Rig,
    doorbell: DoorbellData,
    words: Vec<(&'static str, u64)>,
}

fn made<T>(result: Result<T, wddm_ddi::types::NTSTATUS>, what: &str) -> Result<T, Failure> {
    result.map_err(|status| Failure::new(format!("{what}: {status}")))
}

/// A resource of one allocation: handle of the allocation, of the resource, and the one that every process knows.
fn resource(rig: &Rig, flags: D3DKMT_CREATEALLOCATIONFLAGS) -> Result<[D3DKMT_HANDLE; 3], Failure> {
    let (mut data, mut runtime, mut whole) = (data().to_bytes(), [7u8; 64], [5u8; 64]);
    let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
    (info.pPrivateDriverData, info.PrivateDriverDataSize) = (data.as_mut_ptr().cast(), data.len() as u32);
    let mut create = D3DKMT_CREATEALLOCATION::zeroed();
    (create.hDevice, create.NumAllocations) = (rig.device, 1);
    (create.pPrivateRuntimeData, create.PrivateRuntimeDataSize) = (runtime.as_mut_ptr().cast(), 64);
    create.u = D3DKMT_CREATEALLOCATION_Union { pPrivateDriverData: whole.as_mut_ptr().cast() };
    create.PrivateDriverDataSize = 64;
    create.Flags = flags.with_CreateResource(true);
    create.u1 = D3DKMT_CREATEALLOCATION_Union1 { pAllocationInfo2: &mut info };
    granted(rig.kmt.call(rig.kmt.table().D3DKMTCreateAllocation2, &mut create), "D3DKMTCreateAllocation2")?;
    Ok([info.hAllocation, create.hResource, create.hGlobalShare])
}

/// A keyed mutex with data of the runtime.
fn keyed_mutex(rig: &Rig, flags: D3DKMT_CREATEKEYEDMUTEX2_FLAGS) -> Result<D3DKMT_CREATEKEYEDMUTEX2, Failure> {
    let mut runtime = [7u8; 64];
    let mut create = D3DKMT_CREATEKEYEDMUTEX2::zeroed();
    (create.pPrivateRuntimeData, create.PrivateRuntimeDataSize) = (runtime.as_mut_ptr().cast(), 64);
    create.Flags = flags;
    granted(rig.kmt.call(rig.kmt.further().D3DKMTCreateKeyedMutex2, &mut create), "D3DKMTCreateKeyedMutex2")?;
    Ok(create)
}

fn offer(rig: &Rig, mut allocation: D3DKMT_HANDLE) -> wddm_ddi::types::NTSTATUS {
    let mut arguments = D3DKMT_OFFERALLOCATIONS::zeroed();
    (arguments.hDevice, arguments.NumAllocations, arguments.HandleList) = (rig.device, 1, &raw mut allocation);
    arguments.Priority = D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_LOW;
    rig.kmt.call(rig.kmt.table().D3DKMTOfferAllocations, &mut arguments)
}

fn data() -> AllocationData {
    AllocationData { magic: MAGIC, placement: Placement::System as u32, size: 65536, adapter: 0, reserved: 0 }
}

impl User {
    /// The objects, made by the process of the calling thread.
    pub(super) fn new(rig: Rig) -> Result<Self, Failure> {
        let unshared = D3DKMT_CREATEALLOCATIONFLAGS::new();
        let [allocation, unshared_resource, _] = resource(&rig, unshared)?;
        let [_, _, global] = resource(&rig, unshared.with_CreateShared(true))?;
        let by_handle = unshared.with_CreateShared(true).with_NtSecuritySharing(true);
        let [_, shareable_resource, _] = resource(&rig, by_handle)?;
        let shared_resource = made(rig.share(&[shareable_resource]), "D3DKMTShareObjects")?;
        let [offered, ..] = resource(&rig, unshared)?;
        granted(offer(&rig, offered), "D3DKMTOfferAllocations")?;
        let queue = rig.kernel_queue(NODE_COMPUTE)?;
        let bare = made(rig.hw_queue(queue.context, user_mode_flags()), "D3DKMTCreateHwQueue")?;
        let ringing = rig.queue(NODE_COPY)?;
        let context = made(rig.packet_context(NODE_COPY), "D3DKMTCreateContextVirtual")?;
        let fence = rig.monitored_fence(0, shared_flags())?;
        let mutex = keyed_mutex(&rig, D3DKMT_CREATEKEYEDMUTEX2_FLAGS::new())?;
        let flags = D3DKMT_CREATEKEYEDMUTEX2_FLAGS::new().with_NtSecuritySharing(true);
        let shareable = keyed_mutex(&rig, flags)?;
        let together = [shareable_resource, shareable.hKeyedMutex, fence.handle];
        let shared_mutex = made(rig.share(&together), "D3DKMTShareObjects")?;
        let words = vec![
            ("adapter", rig.adapter.into()),
            ("device", rig.device.into()),
            ("paging queue", rig.paging_queue.into()),
            ("allocation", allocation.into()),
            ("resource", unshared_resource.into()),
            ("offered", offered.into()),
            ("global resource", global.into()),
            ("shared resource", shared_resource.0 as u64),
            ("bare queue", bare.hHwQueue.into()),
            ("shared keyed mutex", shared_mutex.0 as u64),
            ("queue", queue.queue.into()),
            ("ring", ringing.ring.handle.into()),
            ("ring control", ringing.control.handle.into()),
            ("hardware context", queue.context.into()),
            ("context", context.into()),
            ("fence", fence.handle.into()),
            ("keyed mutex", mutex.hKeyedMutex.into()),
            ("global keyed mutex", mutex.hSharedHandle.into()),
        ];
        let doorbell = DoorbellData { ring: ringing.ring.address, control: ringing.control.address };
        Ok(Self { rig, doorbell, words })
    }

    /// The number that a value of [`WORDS`] stands for.
    fn word(&self, value: rules::Value) -> u64 {
        match value {
            rules::Value::Number(number) => number,
            rules::Value::Object(name) => {
                let found = self.words.iter().find(|(known, _)| *known == name);
                found.unwrap_or_else(|| panic!("the case has no {name}")).1
            }
            rules::Value::AllocationData => AllocationData::SIZE as u64,
            rules::Value::DoorbellData => DoorbellData::SIZE as u64,
        }
    }

    /// The value of a member of the structure that is handed to a thunk; `None` for zero.
    fn value(&self, thunk: &str, structure: &str, path: &str) -> Option<u64> {
        let of = |(owner, name, value): &(&str, &str, rules::Value)| {
            let mine = [thunk, structure, "*"].contains(owner) && *name == path;
            mine.then(|| self.word(*value))
        };
        WORDS.iter().find_map(of)
    }

    /// Words of the thunk's parameters, with a bad pointer at one place and good ones elsewhere.
    pub(super) fn arguments(
        &self,
        call: &Call,
        pages: &mut Pages,
        spoiled: &Spoiled,
    ) -> Result<[usize; PARAMETERS], Failure> {
        let mut words = [0; PARAMETERS];
        for (index, ((name, ty), word)) in call.parameters.iter().zip(&mut words).enumerate() {
            let (here, path, bad) = match *spoiled {
                Spoiled::Pointer(place, bad) if place.parameter == index => (true, place.path, bad),
                _ => (false, [None, None], Bad::Null),
            };
            *word = match pointee(ty) {
                None => self.value(call.name, "*", name).unwrap_or_default() as usize,
                Some(_) if !here && !rules::is_given(name, None) => 0,
                Some(to) => self.target(call, pages, (to, name), (path[0], path[1]), bad)?,
            };
            if let Spoiled::Word(spoiled, value) = *spoiled {
                match pointee(ty).and_then(structure_of) {
                    None if spoiled == *name => *word = value as usize,
                    Some(structure) => Self::spoil_words(pages, structure, *word, (spoiled, value)),
                    None => {}
                }
            }
            if here && path[0].is_none() {
                *word = pages.spoil(*word, bad);
            }
        }
        Ok(words)
    }

    /// Overwrites the words of a name in a structure, and in those that it points to.
    fn spoil_words(pages: &Pages, structure: &Structure, at: usize, (name, value): (&str, u64)) {
        for member in structure.members {
            match member.kind {
                Word if member.path == name => {
                    let bytes = value.to_le_bytes();
                    pages.write(at + member.offset, bytes.get(..member.size.min(8)).unwrap_or_default());
                }
                Pointer => {
                    let inner = pages.word(at + member.offset);
                    if let Some(structure) = structure_of(member.ty).filter(|_| inner != 0) {
                        Self::spoil_words(pages, structure, inner, (name, value));
                    }
                }
                _ => {}
            }
        }
    }

    /// A good block for a pointer to `to`, in which the members of `bad_at` are bad.
    fn target(
        &self,
        call: &Call,
        pages: &mut Pages,
        (to, name): (&str, &str),
        bad_at: BadAt,
        bad: Bad,
    ) -> Result<usize, Failure> {
        let Some(structure) = structure_of(to) else { return self.block(pages, (call.name, to, name)) };
        // Twice as much, for the unaligned pointer.
        let at = pages.block(structure.size + 16)?;
        for member in structure.members.iter().filter(|member| member.kind == Word) {
            if let Some(value) = self.value(call.name, structure.name, member.path) {
                pages.write(at + member.offset, value.to_le_bytes().get(..member.size.min(8)).unwrap_or_default());
            }
        }
        let is_bad = |member: &Member| bad_at.0.is_some_and(|bad| std::ptr::eq(bad, member));
        // The bad one last: in a union it is the arm that counts.
        let others = structure.members.iter().filter(|member| member.kind != Word && !is_bad(member));
        for member in others.chain(bad_at.0) {
            let word = self.pointer(call, pages, (structure, member), bad_at, bad)?;
            if word != 0 || is_bad(member) {
                pages.write(at + member.offset, &word.to_le_bytes());
            }
        }
        Ok(at)
    }

    /// The word for a pointer or a handle in a structure.
    fn pointer(
        &self,
        call: &Call,
        pages: &mut Pages,
        (structure, member): (&Structure, &'static Member),
        bad_at: BadAt,
        bad: Bad,
    ) -> Result<usize, Failure> {
        let is_bad = bad_at.0.is_some_and(|bad| std::ptr::eq(bad, member));
        if !is_bad && !rules::is_given(member.path, bad_at.0) {
            return Ok(0);
        }
        let good = match member.kind {
            Pointer => {
                let inner = if is_bad { bad_at.1 } else { None };
                self.target(call, pages, (member.ty, member.path), (inner, None), bad)?
            }
            _ => self.value(call.name, structure.name, member.path).unwrap_or_default() as usize,
        };
        Ok(if is_bad && bad_at.1.is_none() { pages.spoil(good, bad) } else { good })
    }

    /// A good block for a pointer to what is no structure.
    fn block(&self, pages: &mut Pages, (thunk, to, name): (&str, &str, &str)) -> Result<usize, Failure> {
        let at = pages.block(1024)?;
        let mut content = [0; 64];
        if let Some(value) = self.value(thunk, to, &format!("*{name}")) {
            content[..8].copy_from_slice(&value.to_le_bytes());
        }
        let data = match (thunk, name) {
            ("D3DKMTCreateDoorbell", "PrivateDriverData") => self.doorbell.to_bytes().to_vec(),
            (_, "pPrivateDriverData") if rules::takes_allocation_data(thunk) => data().to_bytes().to_vec(),
            _ => Vec::new(),
        };
        content[..data.len()].copy_from_slice(&data);
        pages.write(at, &content);
        Ok(at)
    }
}
