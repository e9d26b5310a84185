//! Frames of driver images: their registers, and the way from a frame to its caller by the unwind data of the image.
//!
//! Unwind data is untrusted as all of an image is: what is broken ends the walk. [learn: x64 exception handling]

mod codes;
mod context;

pub(crate) use codes::{Frame, Handler, unwind};
pub(crate) use context::{CallSite, Context, RAX, RSP, go_on, nt_raise, with_call_site};

use crate::image::Image;

/// Addresses inside the instruction that called a service, that which called its function, and so on; 0 where that is not known.
pub(crate) type Frames = [usize; 3];

/// The frames of an image from which it called a service.
pub(crate) fn frames(image: &Image, site: &CallSite) -> Frames {
    let (mut frames, mut context) = ([site.call().0, 0, 0], site.context());
    for index in 1..frames.len() {
        context.instruction = frames[index - 1] as u64;
        if unwind(image, &mut context).is_err() {
            break;
        }
        let Some(caller) = usize::try_from(context.instruction).ok().and_then(|address| address.checked_sub(1)) else {
            break;
        };
        if image.rva_of(caller).is_none() {
            break;
        }
        frames[index] = caller;
    }
    frames
}
