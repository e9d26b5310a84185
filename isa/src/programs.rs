//! Programs that come with the project, as text for [`assemble`](crate::assemble).

/// ChaCha20 of RFC 8439, a block of 64 bytes a lane, combined with data in place. Its arguments are 60 bytes: address of the data (8), counter of the first block,
/// number of blocks, key (8 words), nonce (3 words); lanes behind the last block do nothing. Workgroups have 64 lanes.
pub const CHACHA20: &str = include_str!("../programs/chacha20.asm");
