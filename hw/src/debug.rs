//! Debug information of the kernel-mode driver (DxgkDdiCollectDbgInfo): 64-bit words.
//!
//! 0: [`MAGIC`], which ends in the version. 1: number of words that follow from word 0 on, less if the buffer was too small.
//! 2: low half the reason (a bug-check code), bit 32 the device runs. 3: low half the number of nodes, high half that of refusal
//! counters. Then two words a node: packets submitted (low half) and completed (high half), and bit 0 set while the node is silent
//! between reset and resumption; the refusal counters; and two words for each hardware queue up to the end: bits 0 to 31 its number,
//! 32 to 39 its node, 40 set if user mode writes it, and the operating system's handle. Behind them [`END`].

/// First word.
pub const MAGIC: u64 = u64::from_le_bytes(*b"CPDBG002");

/// Word behind the last, if there was room for it.
pub const END: u64 = u64::from_le_bytes(*b"CPDBGEND");

/// Index of the word that counts the words.
pub const WORDS_AT: usize = 1;

/// Words before those of the nodes.
pub const HEADER_WORDS: usize = 4;
