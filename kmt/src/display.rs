//! Thunks about what no adapter of this machine has: displays, protected sessions, and what came with later kits or belongs to other hosts.
//!
//! They are there so that programs link, and answer as for an adapter without such things. Their structures are not declared here: a
//! program that calls them has Microsoft's header, and nothing of an argument is read.

use core::ffi::c_void;

use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED};

use crate::machine;

macro_rules! display {
    ($($status:ident { $($name:ident)* })*) => {
        /// The names, and what each answers.
        pub const NAMES: &[(&str, NTSTATUS)] = &[$($((stringify!($name), $status)),*),*];

        $($(
            #[doc = concat!("Answers ", stringify!($status), ". [d3dkmthk: ", stringify!($name), "]")]
            #[allow(non_snake_case)]
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(_args: *const c_void) -> NTSTATUS {
                machine::call(stringify!($name), || $status)
            }
        )*)*
    };
}

display! {
    STATUS_NOT_SUPPORTED {
        D3DKMTAdjustFullscreenGamma
        D3DKMTCancelPresents
        D3DKMTChangeSurfacePointer
        D3DKMTCheckMonitorPowerState
        D3DKMTCheckMultiPlaneOverlaySupport
        D3DKMTCheckMultiPlaneOverlaySupport2
        D3DKMTCheckMultiPlaneOverlaySupport3
        D3DKMTCheckOcclusion
        D3DKMTCheckVidPnExclusiveOwnership
        D3DKMTCreateDCFromMemory
        D3DKMTCreateOutputDupl
        D3DKMTCreateOverlay
        D3DKMTDestroyDCFromMemory
        D3DKMTDestroyOutputDupl
        D3DKMTDestroyOverlay
        D3DKMTFlipOverlay
        D3DKMTGetDWMVerticalBlankEvent
        D3DKMTGetDisplayModeList
        D3DKMTGetMultiPlaneOverlayCaps
        D3DKMTGetMultisampleMethodList
        D3DKMTGetOverlayState
        D3DKMTGetPostCompositionCaps
        D3DKMTGetPresentHistory
        D3DKMTGetScanLine
        D3DKMTGetSharedPrimaryHandle
        D3DKMTInvalidateActiveVidPn
        D3DKMTOutputDuplGetFrameInfo
        D3DKMTOutputDuplGetMetaData
        D3DKMTOutputDuplGetPointerShapeData
        D3DKMTOutputDuplPresent
        D3DKMTOutputDuplPresentToHwQueue
        D3DKMTOutputDuplReleaseFrame
        D3DKMTPollDisplayChildren
        D3DKMTPresent
        D3DKMTPresentMultiPlaneOverlay
        D3DKMTPresentMultiPlaneOverlay2
        D3DKMTPresentMultiPlaneOverlay3
        D3DKMTPresentRedirected
        D3DKMTQueryFSEBlock
        D3DKMTQueryRemoteVidPnSourceFromGdiDisplayName
        D3DKMTQueryVidPnExclusiveOwnership
        D3DKMTReleaseProcessVidPnSourceOwners
        D3DKMTSetDisplayMode
        D3DKMTSetDisplayPrivateDriverFormat
        D3DKMTSetFSEBlock
        D3DKMTSetGammaRamp
        D3DKMTSetMonitorColorSpaceTransform
        D3DKMTSetVidPnSourceHwProtection
        D3DKMTSetVidPnSourceOwner
        D3DKMTSetVidPnSourceOwner1
        D3DKMTSetVidPnSourceOwner2
        D3DKMTSharedPrimaryLockNotification
        D3DKMTSharedPrimaryUnLockNotification
        D3DKMTSubmitPresentBltToHwQueue
        D3DKMTSubmitPresentToHwQueue
        D3DKMTUpdateOverlay
        D3DKMTWaitForVerticalBlankEvent
        D3DKMTWaitForVerticalBlankEvent2
        // Protected sessions and hardware protection.
        D3DKMTCreateProtectedSession
        D3DKMTDestroyProtectedSession
        D3DKMTOpenProtectedSessionFromNtHandle
        D3DKMTQueryProtectedSessionInfoFromNtHandle
        D3DKMTQueryProtectedSessionStatus
        D3DKMTSetHwProtectionTeardownRecovery
        // Presents.
        D3DKMTGetPresentQueueEvent
        D3DKMTGetResourcePresentPrivateDriverData
        D3DKMTPinDirectFlipResources
        D3DKMTSetSyncRefreshCountWaitTarget
        D3DKMTUnpinDirectFlipResources
        // Guests of a host.
        D3DKMTRegisterVailProcess
        D3DKMTShareObjectWithHost
        // Later kits.
        D3DKMTCreateHwQueueForUserModeSubmission
        D3DKMTQueryFeatureInterface
        D3DKMTResizeRingBuffer
    }
    // No display has this device context or this name.
    STATUS_INVALID_PARAMETER {
        D3DKMTOpenAdapterFromGdiDisplayName
        D3DKMTOpenAdapterFromHdc
    }
}

/// True if somebody owns a display alone: nobody does. [d3dkmthk: D3DKMTCheckExclusiveOwnership]
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
pub extern "C" fn D3DKMTCheckExclusiveOwnership() -> u8 {
    0
}
