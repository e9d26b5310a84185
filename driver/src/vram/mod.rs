//! Memory that the driver sets up once for a device: what lies where in VRAM, the aperture, and the CPU host aperture.

pub(crate) mod aperture;
pub(crate) mod host_aperture;
pub(crate) mod segments;
