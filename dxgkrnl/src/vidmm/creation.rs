//! Creation of allocations with the driver, and their end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nt::lock::{Mutex, lock};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::ddi_buffer::{DdiArray, DdiBuffer, LentBytes};
use crate::kmd_handle::KmdHandle;
use crate::refusal::Failure;
use crate::vidmm::allocation::{Allocation, DriverResource, Request};
use crate::vidmm::answer::{Answer, check};
use crate::vidmm::ids::{AllocationId, NOBODY};
use crate::vidmm::manager::{Global, VidMm};
use crate::vidmm::memory::{AllocationState, PRIORITY_NORMAL};
use crate::vidmm::placement;
use crate::vidmm::scheduler::{IdlePoint, MemoryOwner};
use crate::vidmm::shared_resource::Resource;
use crate::vidmm::sharing::Sharing;

/// What came of it: the allocations in order, and the resource if one was asked for.
pub(crate) type Created = (Vec<Arc<Allocation>>, Option<Arc<Resource>>);

impl VidMm {
    /// Creates allocations on a device and opens them there. [d3dkmddi: DXGKARG_CREATEALLOCATION, DXGKARG_OPENALLOCATION]
    ///
    /// # Errors
    /// What the driver answered; STATUS_INVALID_PARAMETER when its answer breaks a rule, which the machine's log names; no memory.
    /// Nothing exists then.
    pub(crate) fn create_allocations(
        self: &Arc<Self>,
        device: &dyn MemoryOwner,
        request: Request<'_>,
    ) -> Result<Created, Failure> {
        let Request { allocations, private, resource, read_only, shared, backing } = request;
        let flags = DXGK_OPENALLOCATIONFLAGS::new().with_Create(true).with_ReadOnly(read_only);
        let _running = self.enter()?;
        let (infos, kmd_resource) = self.create_on_driver(allocations, private, resource)?;
        let handles: Vec<KmdHandle> = infos.iter().map(|info| KmdHandle::new(info.hAllocation)).collect();
        let answers: Result<Vec<Answer>, String> = {
            let segments = &lock(&self.memory).segments;
            let told = |(place, info)| {
                check(info, segments, self.driver.map_aperture2, backing)
                    .map_err(|rule| placement::told(place, rule, info, segments))
            };
            infos.iter().enumerate().map(told).collect()
        };
        let answers = match answers {
            Ok(answers) => answers,
            Err(rule) => {
                self.driver.verifier.log(rule);
                self.destroy_on_driver(&handles, kmd_resource);
                return Err(STATUS_INVALID_PARAMETER.into());
            }
        };
        let made = self.new_globals(&answers).and_then(|globals| {
            let rest = match resource {
                true => self.new_resource(kmd_resource, &globals).map(Some),
                false => Ok(None),
            };
            let opened = rest.and_then(|resource| match self.open(device, &globals, allocations, private, flags) {
                Ok(opened) => Ok((opened, resource)),
                Err(status) => {
                    self.forget_globals(resource.as_deref().map(|resource| resource.global).as_slice());
                    Err(status)
                }
            });
            match opened {
                Ok((opened, resource)) => Ok((globals, opened, resource)),
                Err(status) => {
                    self.forget_globals(&globals);
                    Err(status)
                }
            }
        });
        let (globals, opened, resource) = match made {
            Ok(made) => made,
            Err(failure) => {
                self.destroy_on_driver(&handles, kmd_resource);
                return Err(failure);
            }
        };
        let parts = answers.into_iter().zip(globals).zip(opened);
        let made = parts
            .map(|((answer, global), open)| self.register(device, answer, (global, open), (resource.clone(), shared)));
        Ok((made.collect(), resource.map(|_| Resource::new(device))))
    }

    /// DxgkDdiCreateAllocation; the answer is what the driver says of each allocation, and its handle of the resource.
    fn create_on_driver(
        &self,
        allocations: &mut [Vec<u8>],
        private: &mut [u8],
        resource: bool,
    ) -> Result<(Vec<DXGK_ALLOCATIONINFO>, KmdHandle), Failure> {
        const DDI: &str = "DxgkDdiCreateAllocation";
        let count = u32::try_from(allocations.len()).map_err(|_| STATUS_INVALID_PARAMETER)?;
        let mut lent: Vec<LentBytes> = allocations.iter_mut().map(|data| LentBytes::new(data)).collect();
        let mut whole = LentBytes::new(private);
        let mut infos = DdiArray::new(lent.iter_mut().map(info).collect());
        let mut args = DXGKARG_CREATEALLOCATION::zeroed();
        (args.pPrivateDriverData, args.PrivateDriverDataSize) = whole.place();
        args.NumAllocations = count;
        args.pAllocationInfo = infos.address();
        args.Flags.set_Resource(resource);
        let status = self.driver.miniport.create_allocation(self.driver.context.raw(), &mut args);
        let verifier = &self.driver.verifier;
        // SAFETY: the structure holds integers and pointers only.
        let infos = unsafe { infos.take(verifier, DDI, "pAllocationInfo") };
        for data in lent {
            data.end(verifier, DDI, "pPrivateDriverData of DXGK_ALLOCATIONINFO");
        }
        whole.end(verifier, DDI, "pPrivateDriverData");
        status.ok()?;
        Ok((infos, if resource { KmdHandle::new(args.hResource) } else { KmdHandle::NULL }))
    }

    fn new_globals(&self, answers: &[Answer]) -> Result<Vec<u32>, Failure> {
        let mut globals = lock(&self.globals);
        let mut made = Vec::with_capacity(answers.len());
        for answer in answers {
            let entry = Global::new(false, answer.kmd);
            match globals.insert(entry, 0) {
                Some(handle) => made.push(handle),
                None => {
                    for handle in made {
                        globals.remove(handle);
                    }
                    return Err(STATUS_INSUFFICIENT_RESOURCES.into());
                }
            }
        }
        Ok(made)
    }

    fn forget_globals(&self, handles: &[u32]) {
        let mut globals = lock(&self.globals);
        for handle in handles {
            let parent = globals.remove(*handle).map_or(0, |entry| entry.parent);
            if let Some(resource) = globals.get_mut(parent) {
                resource.children.retain(|child| child != handle);
            }
        }
    }

    /// DxgkDdiOpenAllocation; the answer is the driver's handle on the device for each. [d3dkmddi: DXGKARG_OPENALLOCATION]
    pub(super) fn open(
        &self,
        device: &dyn MemoryOwner,
        globals: &[u32],
        private: &mut [Vec<u8>],
        whole: &mut [u8],
        flags: DXGK_OPENALLOCATIONFLAGS,
    ) -> Result<Vec<KmdHandle>, Failure> {
        const DDI: &str = "DxgkDdiOpenAllocation";
        let mut infos: Vec<DXGK_OPENALLOCATIONINFO> = Vec::with_capacity(globals.len());
        // The driver only reads at open; it gets copies so that it cannot change what user mode gets back.
        let mut copies: Vec<DdiBuffer> = private.iter().map(|data| DdiBuffer::of(data)).collect();
        for (global, data) in globals.iter().zip(&mut copies) {
            let mut info = DXGK_OPENALLOCATIONINFO::zeroed();
            info.hAllocation = *global;
            (info.pPrivateDriverData, info.PrivateDriverDataSize) = (data.address(), data.len() as u32);
            infos.push(info);
        }
        let (mut infos, mut whole) = (DdiArray::new(infos), LentBytes::new(whole));
        let mut args = DXGKARG_OPENALLOCATION::zeroed();
        args.NumAllocations = copies.len() as u32;
        args.pOpenAllocation = infos.address();
        (args.pPrivateDriverData, args.PrivateDriverSize) = whole.place();
        args.Flags = flags;
        let status = self.driver.miniport.open_allocation(device.kmd().raw(), &args);
        let verifier = &self.driver.verifier;
        // SAFETY: the structure holds integers and pointers only.
        let infos = unsafe { infos.take(verifier, DDI, "pOpenAllocation") };
        for data in copies {
            data.check(verifier, DDI, "pPrivateDriverData of DXGK_OPENALLOCATIONINFO");
        }
        whole.end(verifier, DDI, "pPrivateDriverData");
        status.ok()?;
        Ok(infos.iter().map(|info| KmdHandle::new(info.hDeviceSpecificAllocation)).collect())
    }

    /// A resource of these allocations.
    fn new_resource(&self, kmd: KmdHandle, allocations: &[u32]) -> Result<Arc<DriverResource>, Failure> {
        let entry = Global { children: allocations.to_vec(), ..Global::new(true, kmd) };
        let mut globals = lock(&self.globals);
        let global = globals.insert(entry, 0).ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        for allocation in allocations {
            if let Some(entry) = globals.get_mut(*allocation) {
                entry.parent = global;
            }
        }
        Ok(Arc::new(DriverResource { kmd, global, live: AtomicU32::new(allocations.len() as u32) }))
    }

    fn register(
        self: &Arc<Self>,
        device: &dyn MemoryOwner,
        answer: Answer,
        (global, open): (u32, KmdHandle),
        (resource, shared): (Option<Arc<DriverResource>>, bool),
    ) -> Arc<Allocation> {
        if let Some(entry) = lock(&self.globals).get_mut(global) {
            entry.device_specific = open;
        }
        let mut memory = lock(&self.memory);
        let id = AllocationId(memory.tick());
        let mut allocation = Allocation {
            id,
            kmd: answer.kmd,
            open,
            global,
            device: device.id(),
            kmd_device: device.kmd(),
            owner: device.space().id(),
            size: answer.size,
            alignment: answer.alignment,
            allowed: answer.placements,
            placements: Arc::new(Mutex::new(answer.placements)),
            cpu_access: answer.cpu_access,
            resource,
            kept: Arc::clone(device.kept()),
            sharing: None,
        };
        if shared {
            (allocation.device, allocation.owner, allocation.kept) = (0, NOBODY, Arc::default());
            (allocation.kmd_device, allocation.open) = (KmdHandle::NULL, KmdHandle::NULL);
            allocation.sharing = Some((Sharing::new(), 0));
        }
        let allocation = Arc::new(allocation);
        let mut state = AllocationState::new(Arc::clone(&allocation), id.0);
        state.priority = answer.priority;
        memory.totals.created.add(allocation.size);
        memory.allocations.insert(id, state);
        allocation.opened_by(device, open).unwrap_or(allocation)
    }

    /// Tells the driver that a device has closed an allocation.
    pub(super) fn close_on_driver(&self, device: KmdHandle, open: KmdHandle) {
        if open.is_null() {
            return;
        }
        let mut list = [open.raw()];
        let args = DXGKARG_CLOSEALLOCATION { NumAllocations: 1, pOpenHandleList: list.as_mut_ptr() };
        self.must_succeed(self.driver.miniport.close_allocation(device.raw(), &args));
    }

    fn destroy_on_driver(&self, handles: &[KmdHandle], resource: KmdHandle) {
        let mut list: Vec<_> = handles.iter().filter(|handle| !handle.is_null()).map(|handle| handle.raw()).collect();
        if list.is_empty() && resource.is_null() {
            return;
        }
        let mut args = DXGKARG_DESTROYALLOCATION::zeroed();
        args.NumAllocations = list.len() as u32;
        args.pAllocationList = list.as_mut_ptr();
        args.hResource = resource.raw();
        args.Flags.set_DestroyResource(!resource.is_null());
        self.must_succeed(self.driver.miniport.destroy_allocation(self.driver.context.raw(), &args));
    }

    /// Tells the driver of allocations that are gone, and processes of budgets that have changed. Called without the memory lock.
    pub(crate) fn report_freed(&self) {
        self.give_addresses_back(None);
        if let Ok(_running) = self.enter() {
            self.report_freed_now();
        }
        self.tell_budgets();
    }

    /// As [`VidMm::report_freed`], for whoever keeps the adapter from stopping or stops it.
    pub(super) fn report_freed_now(&self) {
        let _alone = lock(&self.reporting_freed);
        let gone = std::mem::take(&mut lock(&self.memory).gone);
        for allocation in gone {
            self.close_on_driver(allocation.kmd_device, allocation.open);
            let users = allocation.sharing.iter().flat_map(|(sharing, _)| sharing.take_all());
            users.for_each(|(device, open)| self.close_on_driver(device, open));
            let last =
                allocation.resource.as_ref().filter(|resource| resource.live.fetch_sub(1, Ordering::AcqRel) == 1);
            self.destroy_on_driver(&[allocation.kmd], last.map_or(KmdHandle::NULL, |resource| resource.kmd));
            self.forget_globals(&[allocation.global]);
            self.forget_globals(last.map(|resource| resource.global).as_slice());
        }
    }

    /// Ends an allocation for its owner. It is freed once no doorbell refers to it and `idle` has passed (at once for `None`).
    /// A shared one is closed, and ends with the last device that has it open.
    pub(crate) fn destroy_allocation(&self, allocation: &Allocation, idle: Option<IdlePoint>) {
        if let Some((sharing, user)) = &allocation.sharing {
            return self.close_shared(allocation, sharing, *user, idle);
        }
        let mut memory = lock(&self.memory);
        memory.end_lock(allocation.id);
        memory.destroy_when_idle(allocation.id, idle);
        let freed = memory.free_destroyed().and_then(|_| memory.submit());
        drop(memory);
        self.note_failure("freeing an allocation", freed);
        self.give_addresses_back(Some(&allocation.kept));
        allocation.kept.end(allocation.locked_by());
        self.report_freed();
    }

    /// True if a destroyed allocation still holds memory.
    pub(crate) fn still_exists(&self, allocation: &Allocation) -> bool {
        if allocation.sharing.is_some() {
            // Nobody waits until others have closed it too.
            return false;
        }
        let mut memory = lock(&self.memory);
        let freed = memory.free_destroyed().and_then(|_| memory.submit());
        let exists = memory.allocations.contains_key(&allocation.id);
        drop(memory);
        self.note_failure("freeing an allocation", freed);
        self.report_freed();
        exists
    }
}

fn info(data: &mut LentBytes<'_>) -> DXGK_ALLOCATIONINFO {
    let mut info = DXGK_ALLOCATIONINFO::zeroed();
    (info.pPrivateDriverData, info.PrivateDriverDataSize) = data.place();
    info.AllocationPriority = PRIORITY_NORMAL;
    info
}
