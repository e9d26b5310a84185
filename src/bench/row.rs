//! A row of the bench: its texts, its peers and aims, and how it is measured.

use std::ops::Deref;

use testbed::setup::System;

use super::error::BenchError;
use super::figures::{Figures, Ratio};
use super::served::Served;
use crate::clock::Latencies;

/// The machines that rows are measured on: one inside this process, which every row may use, and one in another process.
pub struct Place<'a> {
    pub(super) system: &'a System,
    pub(super) served: &'a Served<'a>,
}

impl Deref for Place<'_> {
    type Target = System;

    fn deref(&self) -> &System {
        self.system
    }
}

/// Number of rounds and samples of a row.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds, in each of which every measurement is made once.
    pub rounds: usize,
    /// Samples of one measurement in a round.
    pub samples: usize,
}

impl Effort {
    pub(super) fn of(quick: bool) -> Self {
        if quick { Self { rounds: 5, samples: 400 } } else { Self { rounds: 21, samples: 2_000 } }
    }
}

/// One row of the bench.
pub struct Row {
    /// Short identifier, for example `P1`.
    pub id: &'static str,
    /// Description of the measured operation.
    pub what: &'static str,
    /// Unit of the figures.
    pub unit: &'static str,
    /// What is measured beside it; the ratio refers to the first.
    pub peers: &'static [&'static str],
    /// The aim in words, for the report.
    pub aim: &'static str,
    /// True if the figures meet the aim.
    pub met: fn(&Figures, &Ratio) -> bool,
    /// Aims against other peers, judged each on its own where the host has the peer.
    pub further: &'static [PeerAim],
    /// Prepares the measurement on a freshly booted system.
    pub prepare: Prepare,
}

/// What is aimed at beside one peer of a row, whichever the row's ratio refers to.
pub struct PeerAim {
    /// Index of the peer.
    pub peer: usize,
    /// The aim in words, for the report.
    pub aim: &'static str,
    /// True if our median over the peer's meets the aim.
    pub met: fn(&Ratio) -> bool,
}

/// Prepares a row's measurement on a system.
pub type Prepare = fn(&Place<'_>, Effort) -> Result<Box<dyn Measurement>, BenchError>;

/// A prepared row.
pub trait Measurement {
    /// Measures our side once: a round's samples.
    ///
    /// # Errors
    /// The GPU or the host failed.
    fn ours(&mut self) -> Result<Latencies, BenchError>;

    /// Measures peer `index` of the row once. No samples: the host has no such peer.
    ///
    /// # Errors
    /// The GPU or the host failed.
    fn peer(&mut self, index: usize) -> Result<Latencies, BenchError>;

    /// What the host did not allow of what the row says; its aim is not judged then.
    fn shortfall(&self) -> Option<String> {
        None
    }
}
