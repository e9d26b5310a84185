//! What the objects of devices know of their adapter: the port to its driver, the memory manager, and a place for the scheduler.
//!
//! Every object leads to its scheduler by its adapter, and the scheduler lists the objects. The type of the scheduler stands above the objects, so the adapter
//! keeps a scheduler without knowing its type; [`RenderAdapter::vidsch`], which knows it, stands beside that type in [`scheduler`](crate::vidsch::scheduler).

use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use wddm_ddi::Zeroed;
use wddm_ddi::km::{DXGKARG_COLLECTDBGINFO, DXGKARG_COLLECTDBGINFO_EXT};

use crate::ddi_buffer::{DdiBuffer, Lent};
use crate::port::Port;
use crate::refusal::Failure;
use crate::vidmm::VidMm;

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

    /// What the driver knows, as for a live dump: DxgkDdiCollectDbgInfo with a buffer of `bytes`. [d3dkmddi: DXGKARG_COLLECTDBGINFO]
    ///
    /// # Errors
    /// A failure of the DDI, as it is.
    pub(crate) fn collect_debug_information(&self, reason: u32, bytes: usize) -> Result<Vec<u8>, Failure> {
        const DDI: &str = "DxgkDdiCollectDbgInfo";
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
        let status = self.miniport.collect_dbg_info(self.context().raw(), &args);
        let verifier = self.machine.verifier();
        lent.end(verifier, DDI, "pExtension");
        buffer.check(verifier, DDI, "pBuffer");
        status.ok()?;
        Ok(buffer.bytes().to_vec())
    }
}
