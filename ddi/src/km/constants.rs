//! Version numbers and limits of the interface.

/// Interface version of WDDM 3.2: `DRIVER_INITIALIZATION_DATA::Version`. [d3dukmdt: DXGKDDI_INTERFACE_VERSION_WDDM3_2]
pub const DXGKDDI_INTERFACE_VERSION_WDDM3_2: u32 = 0x11007;
/// Largest doorbell. [d3dkmddi: DXGK_MAX_DOORBELL_SIZE_BYTES]
pub const DXGK_MAX_DOORBELL_SIZE_BYTES: u32 = 16384;
/// Most bytes of private data of a doorbell. [d3dukmdt: D3DDDI_DOORBELL_PRIVATEDATA_MAX_BYTES_WDDM3_1]
pub const D3DDDI_DOORBELL_PRIVATEDATA_MAX_BYTES_WDDM3_1: u32 = 16;
/// Bytes of private data of a native fence. [d3dukmdt: D3DDDI_NATIVE_FENCE_PDD_SIZE]
pub const D3DDDI_NATIVE_FENCE_PDD_SIZE: usize = 64;
/// `DXGK_FEATURE_INTERFACE` version 1. [d3dkmddi: DXGK_FEATURE_INTERFACE_VERSION_1]
pub const DXGK_FEATURE_INTERFACE_VERSION_1: u16 = 1;
/// `DXGKDDI_FEATURE_INTERFACE` version 1. [d3dkmddi: DXGKDDI_FEATURE_INTERFACE_VERSION_1]
pub const DXGKDDI_FEATURE_INTERFACE_VERSION_1: u16 = 1;
/// Device identifier of the adapter itself in power and interface calls. [dispmprt: DISPLAY_ADAPTER_HW_ID]
pub const DISPLAY_ADAPTER_HW_ID: u32 = 0xffff_ffff;
