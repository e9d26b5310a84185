//! What the nodes of a device run: packet queues, rings, the numbers of hardware queues, and what priorities are to the hardware.

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
