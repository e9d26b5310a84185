//! The submission model of a queue, and the reason why it has no faster one.

use core::fmt;

use super::Queue;
use crate::error::Error;

/// The way in which a queue hands its submissions to the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmissionModel {
    /// By ring and doorbell; the kernel is not involved.
    User,
    /// By a call for every submission to a hardware queue. [d3dkmthk: D3DKMTSubmitCommandToHwQueue]
    Kernel,
    /// By a call for every submission to a context that the operating system schedules packet by packet, with hardware scheduling
    /// or without. [d3dkmthk: D3DKMTSubmitCommand]
    Packet,
}

/// Why a queue submits as it does; its text is a sentence without a full stop.
#[derive(Clone, Copy, Debug)]
pub struct ModelReason {
    model: SubmissionModel,
    /// Why the queue could not choose a faster model; `None` if it did, or was created for this one by name.
    fallback: Option<Error>,
    /// The feature that user-mode submission lacks on this adapter.
    lacks: Option<&'static str>,
}

impl Queue {
    /// The submission model that the queue has now.
    pub fn model(&self) -> SubmissionModel {
        match self.path {
            super::Path::User(..) => SubmissionModel::User,
            super::Path::Kernel => SubmissionModel::Kernel,
            super::Path::Packet => SubmissionModel::Packet,
        }
    }

    /// Why a queue that could choose its model submits through the kernel, or is about to.
    pub fn fallback_reason(&self) -> Option<Error> {
        self.fallback
    }

    /// How this queue submits and why, as text: which feature the operating system or the driver withholds, or which call failed.
    pub fn model_reason(&self) -> ModelReason {
        let lacks = self.device().adapter().missing_for_user_mode_submission();
        ModelReason { model: self.model(), fallback: self.fallback, lacks }
    }
}

impl fmt::Display for ModelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.model {
            SubmissionModel::User => "user mode writes the ring and rings the doorbell",
            SubmissionModel::Kernel => {
                "each submission is a call that the GPU schedules (D3DKMTSubmitCommandToHwQueue)"
            }
            SubmissionModel::Packet => {
                "each submission is a call that the operating system schedules (D3DKMTSubmitCommand)"
            }
        })?;
        match (self.model, self.fallback, self.lacks) {
            (SubmissionModel::User, None, _) => {
                f.write_str(": hardware scheduling, native fences and user-mode submission are enabled")
            }
            // The ring has work that is not done yet; what comes after it goes through the kernel.
            (SubmissionModel::User, Some(error), _) => write!(f, " for the last time, because {error}"),
            (_, None, _) => f.write_str(", which the program asked for"),
            (_, Some(Error::UserSubmissionDisabled), Some(lacks)) => write!(f, ", because {lacks}"),
            (_, Some(error), _) => write!(f, ", because {error}"),
        }
    }
}
