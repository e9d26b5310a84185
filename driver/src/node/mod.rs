//! The nodes of a device: their packet queues, rings that the kernel writes, numbers of hardware queues, and priorities in the hardware's units.

pub(crate) mod flight;
pub(crate) mod numbers;
pub(crate) mod packet;
pub(crate) mod priority;
pub(crate) mod ring;

/// Takes the first element out; the others move up and the last place becomes free.
pub(crate) fn shift<T: Copy>(places: &mut [Option<T>]) {
    let mut free = None;
    for place in places.iter_mut().rev() {
        core::mem::swap(place, &mut free);
    }
}
