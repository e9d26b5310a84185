//! What the objects of devices know of their adapter: the port to its driver, the memory manager, and a place for the scheduler.
//!
//! Every object leads to its scheduler by its adapter, and the scheduler lists the objects. The type of the scheduler stands above the objects, so the adapter
//! keeps a scheduler without knowing its type; [`RenderAdapter::vidsch`], which knows it, stands beside that type in [`scheduler`](crate::vidsch::scheduler).

use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use wddm_ddi::Zeroed;
use wddm_ddi::km::{
    DXGK_TDR_PAYLOAD_ENGINE_TIMEOUT, DXGK_TDR_TYPE, DXGKARG_COLLECTDBGINFO, DXGKARG_COLLECTDBGINFO_EXT,
    DXGKARG_COLLECTDBGINFO2,
};

use crate::ddi_buffer::{DdiBuffer, Lent};
use crate::port::Port;
use crate::refusal::{DriverAnswer, Failure};
use crate::vidmm::VidMm;

/// What a driver is told of a time-out when it collects debug information, and what it answers.
pub(crate) struct Timeout {
    pub(crate) kind: DXGK_TDR_TYPE,
    /// The payload of [`DXGK_TDR_TYPE::DXGK_TDR_TYPE_ENGINE_TIMEOUT`].
    pub(crate) engine: Option<DXGK_TDR_PAYLOAD_ENGINE_TIMEOUT>,
}

/// The part of an adapter that renders, put together by plug and play.
pub(crate) struct RenderAdapter {
    port: Arc<Port>,
    /// An `Arc<VidSch>`, which only [`scheduler`](crate::vidsch::scheduler) puts here and takes out.
    pub(in crate::vidsch) scheduler: OnceLock<Box<dyn Any + Send + Sync>>,
    vidmm: OnceLock<Arc<VidMm>>,
}

impl Deref for RenderAdapter {
    type Target = Port;

    fn deref(&self) -> &Port {
        &self.port
    }
}

impl RenderAdapter {
    /// A port on which there is neither scheduler nor memory manager yet.
    pub(crate) fn new(port: Arc<Port>) -> Arc<Self> {
        Arc::new(Self { port, scheduler: OnceLock::new(), vidmm: OnceLock::new() })
    }

    /// The port through which scheduler and memory manager reach the driver and the device.
    pub(crate) fn port(&self) -> &Arc<Port> {
        &self.port
    }

    /// Start has created the memory manager.
    pub(crate) fn set_memory_manager(&self, vidmm: Arc<VidMm>) {
        let _ = self.vidmm.set(vidmm);
    }

    /// The memory manager. Only valid once it was created during start.
    pub(crate) fn vidmm(&self) -> &Arc<VidMm> {
        self.vidmm.get().expect("the memory manager exists before any process does")
    }

    /// The memory manager, if start has come that far.
    pub(crate) fn memory_manager(&self) -> Option<&Arc<VidMm>> {
        self.vidmm.get()
    }

    /// What the driver knows, as for a live dump, in a buffer of `bytes`: by DxgkDdiCollectDbgInfo2 where it is about a time-out and the driver has it, and else by
    /// DxgkDdiCollectDbgInfo. [d3dkmddi: DXGKDDI_COLLECTDBGINFO, DXGKDDI_COLLECTDBGINFO2]
    ///
    /// # Errors
    /// A failure of the DDI, as it is.
    pub(crate) fn collect_debug_information(
        &self,
        reason: u32,
        bytes: usize,
        timeout: Option<&mut Timeout>,
    ) -> Result<Vec<u8>, Failure> {
        let mut buffer = DdiBuffer::zeroed(bytes);
        let mut extension = DXGKARG_COLLECTDBGINFO_EXT::zeroed();
        let mut place = &mut extension;
        let mut lent = Lent::new(&mut place);
        let args = DXGKARG_COLLECTDBGINFO {
            Reason: reason,
            pBuffer: buffer.address(),
            BufferSize: bytes,
            pExtension: lent.pass(),
        };
        let answer = match timeout.filter(|_| self.miniport.table().DxgkDdiCollectDbgInfo2.is_some()) {
            Some(timeout) => self.collect_of_timeout(&args, timeout),
            None => self.miniport.collect_dbg_info(self.context().raw(), &args),
        };
        let verifier = self.machine.verifier();
        lent.end(verifier, answer.ddi(), "pExtension");
        buffer.check(verifier, answer.ddi(), "pBuffer");
        answer.ok()?;
        Ok(buffer.bytes().to_vec())
    }

    /// DxgkDdiCollectDbgInfo2, whose argument begins as that of DxgkDdiCollectDbgInfo. [d3dkmddi: DXGKARG_COLLECTDBGINFO2]
    fn collect_of_timeout(&self, args: &DXGKARG_COLLECTDBGINFO, timeout: &mut Timeout) -> DriverAnswer {
        let mut payload = timeout.engine.as_mut();
        let mut lent = payload.as_mut().map(Lent::new);
        let mut args = DXGKARG_COLLECTDBGINFO2 {
            Reason: args.Reason,
            pBuffer: args.pBuffer,
            BufferSize: args.BufferSize,
            pExtension: args.pExtension,
            TdrType: timeout.kind,
            TdrPayloadSize: lent.as_ref().map_or(0, |_| size_of::<DXGK_TDR_PAYLOAD_ENGINE_TIMEOUT>() as u32),
            TdrPayload: lent.as_mut().map_or(std::ptr::null_mut(), |lent| lent.pass().cast()),
        };
        let answer = self.miniport.collect_dbg_info2(self.context().raw(), &mut args);
        if let Some(lent) = lent {
            lent.end(self.machine.verifier(), answer.ddi(), "TdrPayload");
        }
        answer
    }
}
