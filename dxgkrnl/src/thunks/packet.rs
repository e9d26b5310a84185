//! Thunks of contexts that are scheduled packet by packet.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

use crate::process::Object;
use crate::refusal::refused;
use crate::rundown::Destroyed;
use crate::vidsch::{PRIVATE_DATA_MAX, PacketCommands};

use super::call::{enter, enter_read_only};
use super::control::finish_work;
use super::queue::{Private, too_much_private_data};
use super::user;

/// [d3dkmthk: D3DKMTCreateContextVirtual]
pub(super) unsafe extern "win64" fn create_context_virtual(args: *mut D3DKMT_CREATECONTEXTVIRTUAL) -> NTSTATUS {
    enter("D3DKMTCreateContextVirtual", args, |process, args| {
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        let mut private = Private::read(args.pPrivateDriverData, args.PrivateDriverDataSize, PRIVATE_DATA_MAX)?;
        let sch = device.adapter.vidsch();
        let (node, affinity) = (args.NodeOrdinal, args.EngineAffinity);
        let context = sch.create_packet_context(&device, node, affinity, args.Flags, &mut private.data)?;
        let given = private.give_back();
        match given.and_then(|()| process.insert_on(&device, Object::PacketContext(Arc::clone(&context)))) {
            Ok(handle) => {
                args.hContext = handle;
                context.user_handle().store(handle, Ordering::Relaxed);
                Ok(STATUS_SUCCESS)
            }
            Err(status) => {
                context.destroy();
                Err(status)
            }
        }
    })
}

/// Takes no more submissions, and waits for those that there are, however long it takes. Errors: STATUS_INVALID_PARAMETER while the context owns a mutex, and it stays, unless its device
/// is lost. [d3dumddi: pfnDestroyContextCb, the page of the older callback for the same service; d3dkmthk: D3DKMTDestroyContext]
pub(super) unsafe extern "win64" fn destroy_context(args: *mut D3DKMT_DESTROYCONTEXT) -> NTSTATUS {
    enter_read_only("D3DKMTDestroyContext", args, |process, args| {
        let context = process.find_packet_context(args.hContext)?;
        context.rundown().close();
        let _powered = finish_work(process, context.device(), || context.is_done())?;
        if context.device().error().is_none() && context.owns_mutex() {
            context.reopen();
            return Err(refused(STATUS_INVALID_PARAMETER, "the context of hContext owns a keyed mutex"));
        }
        process.take_if(args.hContext, |object| matches!(object, Object::PacketContext(_)))?.destroy();
        Ok(STATUS_SUCCESS)
    })
}

/// Submits commands to one context, or the same commands to each of several of one device, in their order. Errors: STATUS_INVALID_PARAMETER for none or
/// more than 64 contexts, those of several devices, and what is for displays; STATUS_INVALID_HANDLE; why the device is in error. Nothing is submitted
/// then; a refusal by the scheduler of a later context (STATUS_INSUFFICIENT_RESOURCES) leaves what the contexts before it were given.
/// [d3dkmthk: D3DKMTSubmitCommand]
pub(super) unsafe extern "win64" fn submit_command(args: *mut D3DKMT_SUBMITCOMMAND) -> NTSTATUS {
    enter_read_only("D3DKMTSubmitCommand", args, |process, args| {
        let contexts = args.BroadcastContext.get(..args.BroadcastContextCount as usize);
        let count = || {
            let why = format!(
                "BroadcastContextCount is {}, and expected are 1 to {}",
                args.BroadcastContextCount,
                args.BroadcastContext.len()
            );
            refused(STATUS_INVALID_PARAMETER, why)
        };
        let contexts = contexts.ok_or_else(count)?.iter();
        let contexts: Vec<_> =
            contexts.map(|context| process.get_packet_context(*context)).collect::<Result<_, _>>()?;
        let device = contexts.first().ok_or_else(count)?.device();
        device.check()?;
        if contexts.iter().any(|context| !Arc::ptr_eq(context.device(), device)) {
            return Err(refused(STATUS_INVALID_PARAMETER, "BroadcastContext has contexts of several devices"));
        }
        let known = D3DKMT_SUBMITCOMMANDFLAGS::new().with_NullRendering(true);
        // Primaries and presents are for displays, history buffers for engines with contexts of graphics.
        let displays = args.NumPrimaries != 0 || args.PresentHistoryToken != 0 || args.NumHistoryBuffers != 0;
        if displays || args.Flags.into_bits() & !known.into_bits() != 0 {
            let why =
                "NumPrimaries, PresentHistoryToken or NumHistoryBuffers is not 0, or Flags has more than NullRendering";
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        if args.PrivateDriverDataSize > PRIVATE_DATA_MAX {
            return Err(too_much_private_data(args.PrivateDriverDataSize, PRIVATE_DATA_MAX));
        }
        let private = user::read_array(args.pPrivateDriverData.cast::<u8>().cast_const(), args.PrivateDriverDataSize)?;
        let null = args.Flags.NullRendering();
        for context in &contexts {
            let private = private.clone();
            context.submit(PacketCommands { address: args.Commands, size: args.CommandLength, private, null })?;
        }
        Ok(STATUS_SUCCESS)
    })
}
