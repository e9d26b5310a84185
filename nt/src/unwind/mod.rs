//! Frames of driver images: their registers, and the way from a frame to its caller by the unwind data of the image.
//!
//! Unwind data is untrusted as all of an image is: what is broken ends the walk. [learn: x64 exception handling]

mod codes;
mod context;

pub(crate) use codes::{Frame, Handler, unwind};
pub(crate) use context::{CallSite, Context, RAX, RSP, go_on, nt_raise, with_call_site};
