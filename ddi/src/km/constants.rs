//! Version numbers and limits of the interface.

/// Interface version of WDDM 2.0. [d3dukmdt: DXGKDDI_INTERFACE_VERSION_WDDM2_0]
pub const DXGKDDI_INTERFACE_VERSION_WDDM2_0: u32 = 0x5023;
/// Interface version of WDDM 2.1. [d3dukmdt: DXGKDDI_INTERFACE_VERSION_WDDM2_1]
pub const DXGKDDI_INTERFACE_VERSION_WDDM2_1: u32 = 0x6003;
/// Interface version of WDDM 2.1.5. [d3dukmdt: DXGKDDI_INTERFACE_VERSION_WDDM2_1_5]
pub const DXGKDDI_INTERFACE_VERSION_WDDM2_1_5: u32 = 0x6010;
/// Interface version of WDDM 2.1.6. [d3dukmdt: DXGKDDI_INTERFACE_VERSION_WDDM2_1_6]
pub const DXGKDDI_INTERFACE_VERSION_WDDM2_1_6: u32 = 0x6011;
/// Interface version of WDDM 2.2. [d3dukmdt: DXGKDDI_INTERFACE_VERSION_WDDM2_2]
pub const DXGKDDI_INTERFACE_VERSION_WDDM2_2: u32 = 0x700a;
/// Interface version of WDDM 2.3. [d3dukmdt: DXGKDDI_INTERFACE_VERSION_WDDM2_3]
pub const DXGKDDI_INTERFACE_VERSION_WDDM2_3: u32 = 0x8001;
/// Interface version of WDDM 2.4. [d3dukmdt: DXGKDDI_INTERFACE_VERSION_WDDM2_4]
pub const DXGKDDI_INTERFACE_VERSION_WDDM2_4: u32 = 0x9006;
/// Interface version of WDDM 2.5. [d3dukmdt: DXGKDDI_INTERFACE_VERSION_WDDM2_5]
pub const DXGKDDI_INTERFACE_VERSION_WDDM2_5: u32 = 0xa00b;
/// Interface version of WDDM 2.6. [d3dukmdt: DXGKDDI_INTERFACE_VERSION_WDDM2_6]
pub const DXGKDDI_INTERFACE_VERSION_WDDM2_6: u32 = 0xb004;
/// Interface version of WDDM 2.7. [d3dukmdt: DXGKDDI_INTERFACE_VERSION_WDDM2_7]
pub const DXGKDDI_INTERFACE_VERSION_WDDM2_7: u32 = 0xc004;
/// Interface version of WDDM 2.8. [d3dukmdt: DXGKDDI_INTERFACE_VERSION_WDDM2_8]
pub const DXGKDDI_INTERFACE_VERSION_WDDM2_8: u32 = 0xd001;
/// Interface version of WDDM 2.9. [d3dukmdt: DXGKDDI_INTERFACE_VERSION_WDDM2_9]
pub const DXGKDDI_INTERFACE_VERSION_WDDM2_9: u32 = 0xe003;
/// Interface version of WDDM 3.0. [d3dukmdt: DXGKDDI_INTERFACE_VERSION_WDDM3_0]
pub const DXGKDDI_INTERFACE_VERSION_WDDM3_0: u32 = 0xf003;
/// Interface version of WDDM 3.1. [d3dukmdt: DXGKDDI_INTERFACE_VERSION_WDDM3_1]
pub const DXGKDDI_INTERFACE_VERSION_WDDM3_1: u32 = 0x10004;
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
