//! The kinds of vectors that code is made for, and which registers of the processor serve for what in each.
//!
//! All code names instructions by their encoding for AVX-512; [`Bytes`](super::bytes::Bytes) encodes for AVX2 what that has as one instruction, too. What takes other
//! instructions there asks for the form, most of it in [`masks`](super::masks) and [`composed`](super::composed).

use campanile_hw::isa::LANES;

/// A kind of vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// 512 bits: 32 vectors, and masks in registers of their own.
    #[default]
    Avx512,
    /// 256 bits: 16 vectors. A mask is a vector whose elements are all ones where it is set, and zero elsewhere.
    Avx2,
}

impl Form {
    /// True if the processor has the instructions.
    pub(crate) fn is_there(self) -> bool {
        match self {
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512cd")
                    && is_x86_feature_detected!("avx512vpopcntdq")
            }
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
        }
    }

    /// Bytes of a vector.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Avx512 => 64,
            Self::Avx2 => 32,
        }
    }

    /// Lanes whose words are in one vector.
    pub(crate) const fn lanes(self) -> usize {
        self.bytes() / 4
    }

    /// Vectors with the words of all lanes.
    pub(crate) const fn groups(self) -> usize {
        LANES / self.lanes()
    }

    /// Vectors that an instruction may use for what is in between.
    pub(crate) const fn free(self) -> [u8; 3] {
        match self {
            Self::Avx512 => [29, 30, 31],
            Self::Avx2 => [13, 12, 14],
        }
    }

    /// Masks that an instruction may use for what is in between.
    pub(crate) const fn free_masks(self) -> [u8; 2] {
        match self {
            Self::Avx512 => [6, 7],
            Self::Avx2 => [11, 15],
        }
    }

    /// The mask of the lanes that are active, where not all are.
    pub(crate) const fn active(self) -> u8 {
        match self {
            Self::Avx512 => 1,
            Self::Avx2 => 10,
        }
    }

    /// Vectors that hold registers of the GPU, from the first on. A `simple` stretch, all of whose lanes are active, uses the last of what is free alone.
    pub(crate) const fn held(self, simple: bool) -> usize {
        match self {
            Self::Avx512 => self.free()[0] as usize,
            Self::Avx2 if simple => self.free()[2] as usize,
            Self::Avx2 => self.active() as usize,
        }
    }
}
