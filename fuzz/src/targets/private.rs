//! Private data of our driver, through the thunks that pass them on.

use campanile_conformance::rig::{Memory, Rig, user_mode_flags};
use campanile_hw::isa::SAVE_SIZE_MAX;
use campanile_hw::private::{AdapterData, AllocationData, DoorbellData, FenceData, HwQueueData, MAGIC, Placement};
use wddm_ddi::Zeroed;
use wddm_ddi::km::{
    D3DDDI_DRIVERESCAPE_BUILDTESTCOMMANDBUFFER, D3DDDI_DRIVERESCAPETYPE, D3DDDI_ESCAPEFLAGS, D3DDDI_NATIVEFENCE_TYPE,
};
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

use super::machine::User;
use crate::input::Input;

/// Thunks of an input, at most.
const CALLS: usize = 24;
/// Largest allocation that always finds memory.
const CAPACITY: u64 = 1 << 20;

/// A device with all that private data are given for.
struct Arena {
    user: User,
    rig: Rig,
    context: D3DKMT_HANDLE,
    rings: [Memory; 2],
}

/// The bytes of a record as the input changes them: some bytes, and the length.
fn changed(input: &mut Input<'_>, record: &[u8]) -> Vec<u8> {
    let mut bytes = record.to_vec();
    for _ in 0..input.u8() % 4 {
        let (at, value) = (usize::from(input.u8()), input.u8());
        if let Some(byte) = bytes.get_mut(at % record.len()) {
            *byte = value;
        }
    }
    match input.u8() {
        len @ 192..248 => bytes.resize(usize::from(len - 192), 7),
        248.. => bytes.resize(usize::from(input.u16() % 5000), 7),
        _ => {}
    }
    bytes
}

/// The first bytes as a record, if there are exactly so many.
fn exactly<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

/// Success where the data are what the interface says, or else STATUS_INVALID_PARAMETER. True if it was success.
#[track_caller]
fn hold(status: NTSTATUS, is_record: bool, bytes: &[u8]) -> bool {
    let expected = if is_record { STATUS_SUCCESS } else { STATUS_INVALID_PARAMETER };
    assert_eq!(status, expected, "private data {bytes:x?}");
    is_record
}

impl Arena {
    fn new() -> Self {
        let user = User::new();
        let rig = Rig::open(user.luid()).expect("a device");
        let context = rig.context(0).expect("a context");
        let rings = [(); 2].map(|()| rig.memory(4096, Placement::SystemUncached).expect("memory"));
        Self { user, rig, context, rings }
    }

    /// D3DKMTCreateAllocation2.
    fn allocation(&self, input: &mut Input<'_>) {
        let size = u64::from(input.u16()) + 1;
        let placement = u32::from(input.u8() % 6);
        let data = AllocationData { magic: MAGIC, placement, size, adapter: 0, reserved: 0 };
        let bytes = changed(input, &data.to_bytes());
        let data = exactly(&bytes).map(|bytes| AllocationData::from_bytes(&bytes)).filter(|data| {
            data.magic == MAGIC && data.placement <= 4 && data.reserved == 0 && data.adapter == 0 && data.size != 0
        });
        // Whether more can be made is the memory manager's.
        if data.is_some_and(|data| data.size > CAPACITY) {
            return;
        }
        let created = self.rig.create_raw(&mut bytes.clone());
        if hold(created.err().unwrap_or(STATUS_SUCCESS), data.is_some(), &bytes) {
            let destroyed = self.rig.destroy_allocation(created.expect("an allocation"));
            assert_eq!(destroyed, STATUS_SUCCESS, "D3DKMTDestroyAllocation2");
        }
    }

    /// D3DKMTCreateHwQueue.
    fn queue(&self, input: &mut Input<'_>) {
        let data = HwQueueData { magic: MAGIC, save_size: u32::from(input.u16()) << 4 };
        let bytes = changed(input, &data.to_bytes());
        let data = exactly(&bytes).map(|bytes| HwQueueData::from_bytes(&bytes));
        let is_record = data.is_some_and(|data| data.magic == MAGIC && data.save_size <= SAVE_SIZE_MAX);
        let created = self.rig.hw_queue_of(self.context, user_mode_flags(), &mut bytes.clone());
        let status = created.as_ref().err().copied().unwrap_or(STATUS_SUCCESS);
        if hold(status, is_record || bytes.is_empty(), &bytes) {
            self.destroy_queue(created.expect("a queue").hHwQueue);
        }
    }

    fn destroy_queue(&self, queue: D3DKMT_HANDLE) {
        let mut arguments = D3DKMT_DESTROYHWQUEUE { hHwQueue: queue };
        let status = self.user.call(self.rig.kmt.table().D3DKMTDestroyHwQueue, &mut arguments);
        assert_eq!(status, STATUS_SUCCESS, "D3DKMTDestroyHwQueue");
    }

    /// D3DKMTCreateDoorbell: the addresses of ring and ring control.
    fn doorbell(&self, input: &mut Input<'_>) {
        let [ring, control] = self.rings;
        let data = DoorbellData { ring: ring.address, control: control.address };
        let bytes = changed(input, &data.to_bytes());
        let is_record = bytes == data.to_bytes();
        let queue = self.rig.hw_queue(self.context, user_mode_flags()).expect("a queue").hHwQueue;
        let mut given = bytes.clone();
        let mut arguments = D3DKMT_CREATE_DOORBELL::zeroed();
        (arguments.hHwQueue, arguments.hRingBuffer, arguments.hRingBufferControl) =
            (queue, ring.handle, control.handle);
        arguments.PrivateDriverData = given.as_mut_ptr().cast();
        arguments.PrivateDriverDataSize = given.len() as u32;
        let status = self.user.call(self.rig.kmt.table().D3DKMTCreateDoorbell, &mut arguments);
        if hold(status, is_record, &bytes) {
            let mut arguments = D3DKMT_DESTROY_DOORBELL { hDoorbell: arguments.hDoorbell };
            let status = self.user.call(self.rig.kmt.table().D3DKMTDestroyDoorbell, &mut arguments);
            assert_eq!(status, STATUS_SUCCESS, "D3DKMTDestroyDoorbell");
        }
        self.destroy_queue(queue);
    }

    /// D3DKMTCreateNativeFence: any data, which stay as they are.
    fn fence(&self, input: &mut Input<'_>) {
        let data = FenceData { magic: MAGIC, purpose: input.u64() as u32 };
        let mut bytes = changed(input, &data.to_bytes());
        bytes.resize(FenceData::SIZE, 0);
        let mut arguments = D3DKMT_CREATENATIVEFENCE::zeroed();
        arguments.hDevice = self.rig.device;
        arguments.Info.EngineAffinity = 1;
        arguments.Info.Type = D3DDDI_NATIVEFENCE_TYPE::D3DDDI_NATIVEFENCE_TYPE_DEFAULT;
        arguments.PrivateDriverData.copy_from_slice(&bytes);
        let status = self.user.call(self.rig.kmt.table().D3DKMTCreateNativeFence, &mut arguments);
        hold(status, true, &bytes);
        assert_eq!(arguments.PrivateDriverData, *bytes, "private data of a fence");
        assert_eq!(self.rig.destroy_fence(arguments.hSyncObject), STATUS_SUCCESS, "the end of the fence");
    }

    /// D3DKMTCreateHwContext and D3DKMTCreateContextVirtual: the driver has no data for them, and leaves what it is given.
    fn contexts(&self, input: &mut Input<'_>) {
        let bytes = changed(input, &[1; 16]);
        let (mut given, table) = (bytes.clone(), self.rig.kmt.table());
        let (data, size) = (given.as_mut_ptr().cast(), given.len() as u32);
        let mut made = D3DKMT_CREATEHWCONTEXT::zeroed();
        (made.hDevice, made.EngineAffinity) = (self.rig.device, 1);
        (made.pPrivateDriverData, made.PrivateDriverDataSize) = (data, size);
        hold(self.user.call(table.D3DKMTCreateHwContext, &mut made), true, &bytes);
        let mut end = D3DKMT_DESTROYHWCONTEXT { hHwContext: made.hHwContext };
        hold(self.user.call(table.D3DKMTDestroyHwContext, &mut end), true, &bytes);
        let mut made = D3DKMT_CREATECONTEXTVIRTUAL::zeroed();
        (made.hDevice, made.EngineAffinity) = (self.rig.device, 1);
        (made.pPrivateDriverData, made.PrivateDriverDataSize) = (data, size);
        hold(self.user.call(table.D3DKMTCreateContextVirtual, &mut made), true, &bytes);
        let mut end = D3DKMT_DESTROYCONTEXT { hContext: made.hContext };
        hold(self.user.call(table.D3DKMTDestroyContext, &mut end), true, &bytes);
        assert_eq!(given, bytes, "private data of contexts");
    }

    /// D3DKMTQueryAdapterInfo with KMTQAITYPE_UMDRIVERPRIVATE: the record, and zeros behind it.
    fn query(&self, input: &mut Input<'_>) {
        let mut answer = vec![0xa5; usize::from(input.u8())];
        let kind = KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_UMDRIVERPRIVATE;
        let status = self.rig.kmt.query(self.rig.adapter, kind, &mut answer);
        match answer.split_first_chunk::<{ AdapterData::SIZE }>() {
            Some((record, rest)) => {
                assert_eq!(status, STATUS_SUCCESS, "a query of {} bytes", answer.len());
                assert_eq!(AdapterData::from_bytes(record).magic, MAGIC);
                assert!(rest.iter().all(|byte| *byte == 0), "bytes behind the record: {rest:x?}");
            }
            None => {
                assert!(!status.is_success(), "a query of {} bytes", answer.len());
                assert!(answer.iter().all(|byte| *byte == 0xa5), "bytes of a query that was refused: {answer:x?}");
            }
        }
    }

    /// D3DKMTEscape: this device has no test queue, so that each escape is refused by the name that the interface has for it.
    fn escape(&self, input: &mut Input<'_>) {
        let mut bytes = changed(input, &[0; size_of::<D3DDDI_DRIVERESCAPE_BUILDTESTCOMMANDBUFFER>()]);
        let known = input.u8() % 8 != 7;
        let mut arguments = D3DKMT_ESCAPE::zeroed();
        arguments.hAdapter = self.rig.adapter;
        arguments.hDevice = self.rig.device;
        arguments.Type = D3DKMT_ESCAPETYPE::D3DKMT_ESCAPE_DRIVERPRIVATE;
        arguments.Flags = D3DDDI_ESCAPEFLAGS::new().with_DriverKnownEscape(known);
        arguments.pPrivateDriverData = bytes.as_mut_ptr().cast();
        arguments.PrivateDriverDataSize = bytes.len() as u32;
        let before = bytes.clone();
        let status = self.rig.kmt.call_read_only(self.rig.kmt.further().D3DKMTEscape, &arguments);
        let kind = before.first_chunk().map(|kind| D3DDDI_DRIVERESCAPETYPE(i32::from_le_bytes(*kind)));
        let build = D3DDDI_DRIVERESCAPETYPE::D3DDDI_DRIVERESCAPETYPE_BUILDTESTCOMMANDBUFFER;
        let expected: &[NTSTATUS] = match kind {
            _ if !known => &[STATUS_NOT_SUPPORTED],
            None => &[STATUS_INVALID_PARAMETER],
            Some(kind) if kind != build => &[STATUS_NOT_SUPPORTED],
            Some(_) => &[STATUS_INVALID_PARAMETER, STATUS_INVALID_HANDLE],
        };
        assert!(expected.contains(&status), "{status}, not one of {expected:?}, of the escape {before:x?}");
        assert_eq!(bytes, before, "data of an escape that was refused");
    }
}

/// Private data are taken if they are the record that the interface describes, and refused by the named status otherwise; what is refused makes nothing and writes nothing back.
pub(crate) fn private(data: &[u8]) {
    let mut input = Input::new(data);
    let arena = Arena::new();
    let handles = arena.user.process.handle_count();
    for _ in 0..CALLS {
        if input.is_empty() {
            break;
        }
        match input.u8() % 7 {
            0 => arena.allocation(&mut input),
            1 => arena.queue(&mut input),
            2 => arena.doorbell(&mut input),
            3 => arena.fence(&mut input),
            4 => arena.contexts(&mut input),
            5 => arena.query(&mut input),
            _ => arena.escape(&mut input),
        }
        assert_eq!(arena.user.process.handle_count(), handles, "handles of the process");
    }
    arena.user.leave();
}
