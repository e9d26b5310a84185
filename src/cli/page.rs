//! Command line of `campanile timeline`.

use std::path::PathBuf;

use clap::Args;

use crate::timeline;

#[derive(Args, Debug)]
pub(super) struct TimelineArguments {
    /// Trace to draw.
    #[arg(required_unless_present_any = ["synthetic", "live"], conflicts_with_all = ["synthetic", "live"])]
    trace: Option<PathBuf>,
    /// Draws the last seconds of a machine that `campanile machine` serves. One with `--record` has them; another one is recorded for so long first.
    #[arg(long, conflicts_with = "synthetic")]
    pub(super) live: bool,
    /// Socket of that machine [default: the one of CAMPANILE_MACHINE].
    #[arg(long, value_name = "PATH", conflicts_with_all = ["trace", "synthetic"])]
    machine: Option<PathBuf>,
    /// Seconds to draw, 1 to 60.
    #[arg(long, value_name = "N", conflicts_with_all = ["trace", "synthetic"], default_value_t = 5)]
    seconds: u32,
    /// Writes the trace itself, too, in Perfetto's format.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trace", "synthetic"])]
    save: Option<PathBuf>,
    /// Page to write.
    #[arg(long, value_name = "FILE", default_value = "timeline.html")]
    out: PathBuf,
    /// Draws a made-up trace of this many events instead of a file.
    #[arg(long, value_name = "EVENTS", hide = true)]
    synthetic: Option<usize>,
}

impl From<TimelineArguments> for timeline::Options {
    fn from(arguments: TimelineArguments) -> Self {
        Self {
            source: match (arguments.trace, arguments.synthetic) {
                _ if arguments.live => {
                    timeline::Source::Live { machine: arguments.machine, seconds: arguments.seconds }
                }
                (Some(path), _) => timeline::Source::File(path),
                (None, count) => timeline::Source::Synthetic(count.unwrap_or(0)),
            },
            out: arguments.out,
            trace: arguments.save,
        }
    }
}
