//! What the kernel-mode driver tells for a report of a timeout, in words.

use std::fmt;
use std::path::Path;

use campanile_hw::debug::{HEADER_WORDS, MAGIC, WORDS_AT};

use crate::cli::{EXIT_INPUT, EXIT_OK, print};

/// A node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebugNode {
    /// Last packet submitted.
    pub submitted: u32,
    /// Last packet complete.
    pub completed: u32,
    /// It says nothing until it is resumed.
    pub silent: bool,
}

/// A hardware queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebugQueue {
    /// Its number on the hardware.
    pub number: u32,
    /// Its node.
    pub node: u32,
    /// User mode writes its ring.
    pub user_mode: bool,
    /// The operating system's handle.
    pub handle: u64,
}

/// Decoded debug information. The layout is that of [`campanile_hw::debug`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugInformation {
    /// Bug-check code for which it was collected.
    pub reason: u32,
    /// The device ran.
    pub running: bool,
    /// The nodes.
    pub nodes: Vec<DebugNode>,
    /// How often each kind of refusal happened.
    pub refusals: Vec<u64>,
    /// Hardware queues, as many as there was room for.
    pub queues: Vec<DebugQueue>,
}

/// Why bytes are no debug information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadDebugInformation {
    /// The first word is not that of this version.
    Magic(u64),
    /// So many bytes end within what they announce.
    Truncated(usize),
}

impl fmt::Display for BadDebugInformation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic(word) => write!(
                f,
                "this is no debug information of version 2: the first 8 bytes are \"{}\"",
                word.to_le_bytes().escape_ascii()
            ),
            Self::Truncated(bytes) => write!(f, "the information was cut off after {bytes} bytes"),
        }
    }
}

impl std::error::Error for BadDebugInformation {}

impl DebugInformation {
    /// Reads what DxgkDdiCollectDbgInfo wrote; what follows the words that it counts is not looked at.
    ///
    /// # Errors
    /// [`BadDebugInformation`].
    pub fn decode(bytes: &[u8]) -> Result<Self, BadDebugInformation> {
        let cut = BadDebugInformation::Truncated(bytes.len());
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let magic = *words.first().ok_or(cut)?;
        if magic != MAGIC {
            return Err(BadDebugInformation::Magic(magic));
        }
        let count = words.get(WORDS_AT).and_then(|count| usize::try_from(*count).ok()).ok_or(cut)?;
        let words = words.get(..count).ok_or(cut)?;
        let header = words.get(..HEADER_WORDS).ok_or(cut)?;
        let (reason, shape) = (header[2], header[3]);
        let rest = &words[HEADER_WORDS..];
        let (nodes, rest) = rest.split_at_checked(2 * (shape as u32 as usize)).ok_or(cut)?;
        let (refusals, queues) = rest.split_at_checked((shape >> 32) as usize).ok_or(cut)?;
        Ok(Self {
            reason: reason as u32,
            running: reason >> 32 & 1 != 0,
            nodes: nodes.as_chunks().0.iter().map(node).collect(),
            refusals: refusals.to_vec(),
            queues: queues.as_chunks().0.iter().map(queue).collect(),
        })
    }
}

fn node([fences, flags]: &[u64; 2]) -> DebugNode {
    DebugNode { submitted: *fences as u32, completed: (fences >> 32) as u32, silent: flags & 1 != 0 }
}

fn queue([about, handle]: &[u64; 2]) -> DebugQueue {
    DebugQueue {
        number: *about as u32,
        node: (about >> 32) as u32 & 0xff,
        user_mode: about >> 40 & 1 != 0,
        handle: *handle,
    }
}

impl fmt::Display for DebugInformation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.running { "runs" } else { "stands still" };
        writeln!(f, "Debug information for {:#x}: the device {state}", self.reason)?;
        for (number, node) in self.nodes.iter().enumerate() {
            let silent = if node.silent { ", silent until it is resumed" } else { "" };
            writeln!(f, "  engine {number}: packet {} of {} complete{silent}", node.completed, node.submitted)?;
        }
        let refusals: u64 = self.refusals.iter().fold(0, |sum, count| sum.saturating_add(*count));
        writeln!(f, "  {refusals} requests that named nothing or made no sense")?;
        for queue in &self.queues {
            let kind = if queue.user_mode { "user-mode" } else { "kernel-mode" };
            writeln!(
                f,
                "  queue {} on engine {}: {kind}, system handle {:#x}",
                queue.number, queue.node, queue.handle
            )?;
        }
        Ok(())
    }
}

/// Reads a file, prints what it says, and returns the exit code.
pub fn decode_file(path: &Path) -> u8 {
    let decoded = std::fs::read(path)
        .map_err(|error| error.to_string())
        .and_then(|bytes| DebugInformation::decode(&bytes).map_err(|error| error.to_string()));
    match decoded {
        Ok(information) => {
            print(information.to_string().trim_end());
            EXIT_OK
        }
        Err(error) => {
            eprintln!("campanile: {}: {error}", path.display());
            EXIT_INPUT
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn words_are_read_by_their_layout() {
        let bytes = words(&[MAGIC, 9, 0x141 | 1 << 32, 1 | 2 << 32, 7 | 5 << 32, 1, 3, 4, 0]);
        assert!(DebugInformation::decode(&bytes).unwrap().queues.is_empty(), "half a queue is none");
        let bytes =
            words(&[MAGIC, 10, 0x141 | 1 << 32, 1 | 2 << 32, 7 | 5 << 32, 1, 3, 4, 8 | 1 << 32 | 1 << 40, 0xabc, 0]);
        let decoded = DebugInformation::decode(&bytes).unwrap();
        assert_eq!(decoded.nodes, [DebugNode { submitted: 7, completed: 5, silent: true }]);
        assert_eq!(decoded.queues, [DebugQueue { number: 8, node: 1, user_mode: true, handle: 0xabc }]);
        assert_eq!(decoded.refusals, [3, 4]);
        let text = decoded.to_string();
        assert!(
            text.contains("engine 0: packet 5 of 7 complete, silent") && text.contains("queue 8 on engine 1"),
            "{text}"
        );
    }

    #[test]
    fn any_bytes_are_read_or_refused_by_name() {
        let good = words(&[MAGIC, 10, 0x141, 1 | 2 << 32, 0, 0, 0, 0, 1, 2]);
        for len in 0..good.len() {
            assert!(matches!(DebugInformation::decode(&good[..len]), Err(BadDebugInformation::Truncated(_))), "{len}");
        }
        for (at, value) in [(1, u64::MAX), (3, u64::MAX), (3, 1 << 32 | 0xffff), (1, 3), (1, 0)] {
            let mut bytes = good.clone();
            bytes[8 * at..8 * at + 8].copy_from_slice(&u64::to_le_bytes(value));
            assert!(DebugInformation::decode(&bytes).is_err(), "word {at} is {value:#x}");
        }
        assert!(matches!(DebugInformation::decode(&[b'x'; 80]), Err(BadDebugInformation::Magic(_))));
    }
}
