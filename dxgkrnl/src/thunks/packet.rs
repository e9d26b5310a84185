//! Thunks of contexts that are scheduled packet by packet.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

use crate::process::Object;
use crate::vidsch::{PRIVATE_DATA_MAX, PacketCommands};

use super::queue::Private;
use super::{enter, enter_read_only, user};

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

/// Waits for what was submitted. [d3dkmthk: D3DKMTDestroyContext]
pub(super) unsafe extern "win64" fn destroy_context(args: *mut D3DKMT_DESTROYCONTEXT) -> NTSTATUS {
    enter_read_only("D3DKMTDestroyContext", args, |process, args| {
        process.take_if(args.hContext, |object| matches!(object, Object::PacketContext(_)))?.destroy();
        Ok(STATUS_SUCCESS)
    })
}

/// [d3dkmthk: D3DKMTSubmitCommand]
pub(super) unsafe extern "win64" fn submit_command(args: *mut D3DKMT_SUBMITCOMMAND) -> NTSTATUS {
    enter_read_only("D3DKMTSubmitCommand", args, |process, args| {
        // Several contexts would run one buffer on each GPU of a link, which does not exist.
        let [context, ..] = args.BroadcastContext;
        match args.BroadcastContextCount {
            1 => {}
            0 => return Err(STATUS_INVALID_PARAMETER),
            _ => return Err(STATUS_NOT_SUPPORTED),
        }
        let context = process.get_packet_context(context)?;
        context.device().check()?;
        let known = D3DKMT_SUBMITCOMMANDFLAGS::new().with_NullRendering(true);
        // Primaries and presents are for displays, history buffers for engines with contexts of graphics.
        let displays = args.NumPrimaries != 0 || args.PresentHistoryToken != 0 || args.NumHistoryBuffers != 0;
        if displays || args.Flags.into_bits() & !known.into_bits() != 0 {
            return Err(STATUS_INVALID_PARAMETER);
        }
        if args.PrivateDriverDataSize > PRIVATE_DATA_MAX {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let private = user::read_array(args.pPrivateDriverData.cast::<u8>().cast_const(), args.PrivateDriverDataSize)?;
        let null = args.Flags.NullRendering();
        context.submit(PacketCommands { address: args.Commands, size: args.CommandLength, private, null })?;
        Ok(STATUS_SUCCESS)
    })
}
