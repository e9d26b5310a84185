//! Pixel formats, and surfaces that the operating system creates.

use bitfield_struct::bitfield;

/// Pixel format of a surface; buffers are unknown. [d3dukmdt: D3DDDIFORMAT]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDIFORMAT(pub i32);

impl D3DDDIFORMAT {
    pub const D3DDDIFMT_UNKNOWN: Self = Self(0);
    pub const D3DDDIFMT_R8G8B8: Self = Self(20);
    pub const D3DDDIFMT_A8R8G8B8: Self = Self(21);
    pub const D3DDDIFMT_X8R8G8B8: Self = Self(22);
    pub const D3DDDIFMT_R5G6B5: Self = Self(23);
    pub const D3DDDIFMT_X1R5G5B5: Self = Self(24);
    pub const D3DDDIFMT_A1R5G5B5: Self = Self(25);
    pub const D3DDDIFMT_A4R4G4B4: Self = Self(26);
    pub const D3DDDIFMT_R3G3B2: Self = Self(27);
    pub const D3DDDIFMT_A8: Self = Self(28);
    pub const D3DDDIFMT_A8R3G3B2: Self = Self(29);
    pub const D3DDDIFMT_X4R4G4B4: Self = Self(30);
    pub const D3DDDIFMT_A2B10G10R10: Self = Self(31);
    pub const D3DDDIFMT_A8B8G8R8: Self = Self(32);
    pub const D3DDDIFMT_X8B8G8R8: Self = Self(33);
    pub const D3DDDIFMT_G16R16: Self = Self(34);
    pub const D3DDDIFMT_A2R10G10B10: Self = Self(35);
    pub const D3DDDIFMT_A16B16G16R16: Self = Self(36);
    pub const D3DDDIFMT_A8P8: Self = Self(40);
    pub const D3DDDIFMT_P8: Self = Self(41);
    pub const D3DDDIFMT_L8: Self = Self(50);
    pub const D3DDDIFMT_A8L8: Self = Self(51);
    pub const D3DDDIFMT_A4L4: Self = Self(52);
    pub const D3DDDIFMT_V8U8: Self = Self(60);
    pub const D3DDDIFMT_L6V5U5: Self = Self(61);
    pub const D3DDDIFMT_X8L8V8U8: Self = Self(62);
    pub const D3DDDIFMT_Q8W8V8U8: Self = Self(63);
    pub const D3DDDIFMT_V16U16: Self = Self(64);
    pub const D3DDDIFMT_W11V11U10: Self = Self(65);
    pub const D3DDDIFMT_A2W10V10U10: Self = Self(67);
    pub const D3DDDIFMT_UYVY: Self = Self(1498831189);
    pub const D3DDDIFMT_R8G8_B8G8: Self = Self(1195525970);
    pub const D3DDDIFMT_YUY2: Self = Self(844715353);
    pub const D3DDDIFMT_G8R8_G8B8: Self = Self(1111970375);
    pub const D3DDDIFMT_DXT1: Self = Self(827611204);
    pub const D3DDDIFMT_DXT2: Self = Self(844388420);
    pub const D3DDDIFMT_DXT3: Self = Self(861165636);
    pub const D3DDDIFMT_DXT4: Self = Self(877942852);
    pub const D3DDDIFMT_DXT5: Self = Self(894720068);
    pub const D3DDDIFMT_D16_LOCKABLE: Self = Self(70);
    pub const D3DDDIFMT_D32: Self = Self(71);
    pub const D3DDDIFMT_D15S1: Self = Self(73);
    pub const D3DDDIFMT_D24S8: Self = Self(75);
    pub const D3DDDIFMT_D24X8: Self = Self(77);
    pub const D3DDDIFMT_D24X4S4: Self = Self(79);
    pub const D3DDDIFMT_D16: Self = Self(80);
    pub const D3DDDIFMT_D32F_LOCKABLE: Self = Self(82);
    pub const D3DDDIFMT_D24FS8: Self = Self(83);
    pub const D3DDDIFMT_D32_LOCKABLE: Self = Self(84);
    pub const D3DDDIFMT_S8_LOCKABLE: Self = Self(85);
    pub const D3DDDIFMT_S1D15: Self = Self(72);
    pub const D3DDDIFMT_S8D24: Self = Self(74);
    pub const D3DDDIFMT_X8D24: Self = Self(76);
    pub const D3DDDIFMT_X4S4D24: Self = Self(78);
    pub const D3DDDIFMT_L16: Self = Self(81);
    pub const D3DDDIFMT_G8R8: Self = Self(91);
    pub const D3DDDIFMT_R8: Self = Self(92);
    pub const D3DDDIFMT_VERTEXDATA: Self = Self(100);
    pub const D3DDDIFMT_INDEX16: Self = Self(101);
    pub const D3DDDIFMT_INDEX32: Self = Self(102);
    pub const D3DDDIFMT_Q16W16V16U16: Self = Self(110);
    pub const D3DDDIFMT_MULTI2_ARGB8: Self = Self(827606349);
    pub const D3DDDIFMT_R16F: Self = Self(111);
    pub const D3DDDIFMT_G16R16F: Self = Self(112);
    pub const D3DDDIFMT_A16B16G16R16F: Self = Self(113);
    pub const D3DDDIFMT_R32F: Self = Self(114);
    pub const D3DDDIFMT_G32R32F: Self = Self(115);
    pub const D3DDDIFMT_A32B32G32R32F: Self = Self(116);
    pub const D3DDDIFMT_CxV8U8: Self = Self(117);
    pub const D3DDDIFMT_A1: Self = Self(118);
    pub const D3DDDIFMT_A2B10G10R10_XR_BIAS: Self = Self(119);
    pub const D3DDDIFMT_DXVACOMPBUFFER_BASE: Self = Self(150);
    pub const D3DDDIFMT_PICTUREPARAMSDATA: Self = Self(150);
    pub const D3DDDIFMT_MACROBLOCKDATA: Self = Self(151);
    pub const D3DDDIFMT_RESIDUALDIFFERENCEDATA: Self = Self(152);
    pub const D3DDDIFMT_DEBLOCKINGDATA: Self = Self(153);
    pub const D3DDDIFMT_INVERSEQUANTIZATIONDATA: Self = Self(154);
    pub const D3DDDIFMT_SLICECONTROLDATA: Self = Self(155);
    pub const D3DDDIFMT_BITSTREAMDATA: Self = Self(156);
    pub const D3DDDIFMT_MOTIONVECTORBUFFER: Self = Self(157);
    pub const D3DDDIFMT_FILMGRAINBUFFER: Self = Self(158);
    pub const D3DDDIFMT_DXVA_RESERVED9: Self = Self(159);
    pub const D3DDDIFMT_DXVA_RESERVED10: Self = Self(160);
    pub const D3DDDIFMT_DXVA_RESERVED11: Self = Self(161);
    pub const D3DDDIFMT_DXVA_RESERVED12: Self = Self(162);
    pub const D3DDDIFMT_DXVA_RESERVED13: Self = Self(163);
    pub const D3DDDIFMT_DXVA_RESERVED14: Self = Self(164);
    pub const D3DDDIFMT_DXVA_RESERVED15: Self = Self(165);
    pub const D3DDDIFMT_DXVA_RESERVED16: Self = Self(166);
    pub const D3DDDIFMT_DXVA_RESERVED17: Self = Self(167);
    pub const D3DDDIFMT_DXVA_RESERVED18: Self = Self(168);
    pub const D3DDDIFMT_DXVA_RESERVED19: Self = Self(169);
    pub const D3DDDIFMT_DXVA_RESERVED20: Self = Self(170);
    pub const D3DDDIFMT_DXVA_RESERVED21: Self = Self(171);
    pub const D3DDDIFMT_DXVA_RESERVED22: Self = Self(172);
    pub const D3DDDIFMT_DXVA_RESERVED23: Self = Self(173);
    pub const D3DDDIFMT_DXVA_RESERVED24: Self = Self(174);
    pub const D3DDDIFMT_DXVA_RESERVED25: Self = Self(175);
    pub const D3DDDIFMT_DXVA_RESERVED26: Self = Self(176);
    pub const D3DDDIFMT_DXVA_RESERVED27: Self = Self(177);
    pub const D3DDDIFMT_DXVA_RESERVED28: Self = Self(178);
    pub const D3DDDIFMT_DXVA_RESERVED29: Self = Self(179);
    pub const D3DDDIFMT_DXVA_RESERVED30: Self = Self(180);
    pub const D3DDDIFMT_DXVA_RESERVED31: Self = Self(181);
    pub const D3DDDIFMT_BINARYBUFFER: Self = Self(199);
}

/// What a surface is for. [d3dkmdt: D3DKMDT_GDISURFACETYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMDT_GDISURFACETYPE(pub i32);

impl D3DKMDT_GDISURFACETYPE {
    pub const D3DKMDT_GDISURFACE_INVALID: Self = Self(0);
    pub const D3DKMDT_GDISURFACE_TEXTURE: Self = Self(1);
    pub const D3DKMDT_GDISURFACE_STAGING_CPUVISIBLE: Self = Self(2);
    pub const D3DKMDT_GDISURFACE_STAGING: Self = Self(3);
    pub const D3DKMDT_GDISURFACE_LOOKUPTABLE: Self = Self(4);
    pub const D3DKMDT_GDISURFACE_EXISTINGSYSMEM: Self = Self(5);
    pub const D3DKMDT_GDISURFACE_TEXTURE_CPUVISIBLE: Self = Self(6);
    /// Linear, in system memory, for several adapters.
    pub const D3DKMDT_GDISURFACE_TEXTURE_CROSSADAPTER: Self = Self(7);
    pub const D3DKMDT_GDISURFACE_TEXTURE_CPUVISIBLE_CROSSADAPTER: Self = Self(8);
}

/// No flags are defined: reserved, zero. [d3dkmdt: D3DKMDT_GDISURFACEFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMDT_GDISURFACEFLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Shape of a surface that the operating system creates. [d3dkmdt: D3DKMDT_GDISURFACEDATA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMDT_GDISURFACEDATA {
    pub Width: u32,
    pub Height: u32,
    pub Format: D3DDDIFORMAT,
    pub Type: D3DKMDT_GDISURFACETYPE,
    pub Flags: D3DKMDT_GDISURFACEFLAGS,
    /// Out: bytes of a row, where the CPU sees it.
    pub Pitch: u32,
}

zeroed! {
    D3DDDIFORMAT,
    D3DKMDT_GDISURFACETYPE,
    D3DKMDT_GDISURFACEFLAGS,
    D3DKMDT_GDISURFACEDATA,
}
