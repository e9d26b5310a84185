//! Timeout detection and recovery.

use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::*;
use wddm_ddi::status::NTSTATUS;
use wddm_ddi::types::HANDLE;

use super::answer::answer;
use super::call::{arguments, inputs, on_adapter, on_gpu};
use crate::adapter::slots;
use crate::debug;
use crate::refusal::Ddi;
use crate::reset;
use crate::reset_hw;

pub(crate) unsafe extern "win64" fn query_dependent_engine_group(
    adapter: HANDLE,
    args: *mut DXGKARG_QUERYDEPENDENTENGINEGROUP,
) -> NTSTATUS {
    on_adapter(Ddi::QueryDependentEngineGroup, adapter, |_, adapter| {
        reset::dependent_engines(adapter, arguments(args)?)
    })
}

pub(crate) unsafe extern "win64" fn query_engine_status(
    adapter: HANDLE,
    args: *mut DXGKARG_QUERYENGINESTATUS,
) -> NTSTATUS {
    on_gpu(Ddi::QueryEngineStatus, adapter, |irql, adapter, _| reset::engine_status(irql, adapter, arguments(args)?))
}

pub(crate) unsafe extern "win64" fn reset_engine(adapter: HANDLE, args: *mut DXGKARG_RESETENGINE) -> NTSTATUS {
    on_gpu(Ddi::ResetEngine, adapter, |irql, adapter, _| reset::reset_engine(irql, adapter, arguments(args)?))
}

pub(crate) unsafe extern "win64" fn reset_hw_engine(adapter: HANDLE, args: *mut DXGKARG_RESETHWENGINE) -> NTSTATUS {
    on_gpu(Ddi::ResetHwEngine, adapter, |irql, adapter, _| reset_hw::reset_hw_engine(irql, adapter, arguments(args)?))
}

pub(crate) unsafe extern "win64" fn resume_hw_engine(adapter: HANDLE, args: *mut DXGKARG_RESUMEHWENGINE) -> NTSTATUS {
    on_gpu(Ddi::ResumeHwEngine, adapter, |irql, adapter, _| reset_hw::resume_hw_engine(irql, adapter, arguments(args)?))
}

/// Any failure ends the machine, so this does what it can and succeeds.
pub(crate) unsafe extern "win64" fn reset_from_timeout(adapter: HANDLE) -> NTSTATUS {
    on_adapter(Ddi::ResetFromTimeout, adapter, |irql, adapter| {
        reset::reset_adapter(irql, adapter);
        Ok(())
    })
}

pub(crate) unsafe extern "win64" fn restart_from_timeout(adapter: HANDLE) -> NTSTATUS {
    on_gpu(Ddi::RestartFromTimeout, adapter, |irql, adapter, _| reset::restart_adapter(irql, adapter))
}

/// Any level: the DDI is also called while the machine stops.
pub(crate) unsafe extern "win64" fn collect_dbg_info(adapter: HANDLE, args: *const DXGKARG_COLLECTDBGINFO) -> NTSTATUS {
    let collect = || {
        let (adapter, args) = (slots::adapter(adapter)?, inputs(args)?);
        let bytes = debug::collect(adapter, args);
        adapter.trace.note(Component::Reset, &Event::InformationCollected { code: args.Reason, bytes });
        Ok(())
    };
    answer(Ddi::CollectDbgInfo, adapter, collect())
}
