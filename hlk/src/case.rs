//! What a case of the thunks is, and what it works with.

use std::any::Any;
use std::sync::Arc;

use wddm_ddi::types::LUID;

use crate::kmt::Kmt;
use crate::rig::Rig;
use crate::{Claim, Failure, Needs};

/// One case that needs nothing but the thunks.
pub struct ThunkCase {
    /// Name that reads as a specification.
    pub name: &'static str,
    /// Area it belongs to.
    pub area: &'static str,
    /// Page that states the requirement.
    pub page: &'static str,
    /// The requirement.
    pub requirement: &'static str,
    /// The system it runs on, where there is a choice.
    pub boot: Boot,
    /// What the adapter must have: for every case of the area, and for this one.
    pub needs: Needs,
    /// Sentences of the specification pages that it holds.
    pub holds: &'static [Claim],
    /// Finds out.
    pub run: fn(&Case) -> Result<(), Failure>,
}

/// The system that a case runs on, where there is a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// One that other cases have used and will use.
    Shared,
    /// One of its own.
    Fresh,
}

/// Declares an area's table: `"Name" on Boot, "page": "requirement" => function;`. What the adapter must have is said after the area, for all of its
/// cases, or after a name: `needs HardwareScheduling`. Behind the requirement stand the sentences of the specification pages that the case holds:
/// `holds [Tdr 1, NativeFence 20]`.
macro_rules! cases {
    ($area:literal $(, needs $all:ident)?; $($name:literal $(needs $($one:ident),+)? on $boot:expr, $page:literal: $requirement:literal $(holds [$($claim:ident $number:literal),* $(,)?])? => $run:expr;)*) => {
        /// The cases of this area.
        pub(super) const CASES: &[$crate::ThunkCase] = {
            const AREA: &[$crate::Need] = &[$($crate::Need::$all)?];
            &[$(
                $crate::ThunkCase {
                    name: concat!("Device.Graphics.WDDM32.", $name),
                    area: $area,
                    page: $page,
                    requirement: $requirement,
                    boot: $boot,
                    needs: [AREA, &[$($($crate::Need::$one),+)?]],
                    holds: &[$($($crate::Claim::$claim($number)),*)?],
                    run: $run,
                },
            )*]
        };
    };
}

/// Makes the calling thread one of the case's process for as long as the answer lives.
type Enter = Arc<dyn Fn() -> Box<dyn Any> + Send + Sync>;

/// A running case: the adapter that it is about, and the process in which it runs.
#[derive(Clone)]
pub struct Case {
    luid: LUID,
    enter: Enter,
}

impl Case {
    /// A case about an adapter; `enter` makes a thread one of its process, where a program's threads are not that anyway.
    pub fn new(luid: LUID, enter: Enter) -> Self {
        Self { luid, enter }
    }

    /// The adapter.
    pub fn luid(&self) -> LUID {
        self.luid
    }

    /// The thunks.
    pub fn kmt(&self) -> Kmt {
        Kmt::new()
    }

    /// A new device with nothing between it and the case.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn rig(&self) -> Result<Rig, Failure> {
        Rig::open(self.luid)
    }

    /// Makes the calling thread one of the case's process until the answer is dropped.
    #[must_use]
    pub fn enter(&self) -> Box<dyn Any> {
        (self.enter)()
    }

    /// Runs `work` on another thread of the process and waits for it.
    ///
    /// # Errors
    /// Those of `work`, and its panic.
    pub fn on_thread<T: Send>(&self, work: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _entered = self.enter();
                work()
            });
            thread.join().unwrap_or_else(|_| Err(Failure::new("the other thread panicked")))
        })
    }
}
