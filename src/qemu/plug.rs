//! A GPU that is plugged into a guest that runs, and unplugged under load: in order, and by surprise.
//!
//! Its messages are MSI. QEMU up to 11.1.3 ends with a failed assertion when it lets go of a vfio-user function with MSI-X, whatever the function or the
//! guest does: it takes the region of pending bits out of the BAR when the object that owns both has already given up its parts.

use std::time::{Duration, Instant};

use serde_json::json;

use super::conversation::{Guest, Trouble};
use super::load::{HAPPENED, Then, UNDER_LOAD};
use super::machine;
use super::protocol::Order;
use super::session::{Served, Setting};
use testbed::device::{GpuHeld, Messages};

/// The GPU that comes and goes, beside one that stays.
pub(super) const SPARE: usize = 1;
/// How long QEMU and the guest's kernel may take to unplug a GPU; after the request to do so Linux waits five seconds for somebody to take it back.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The GPU that is plugged in later, like the first one.
pub(super) fn spare(setting: &Setting) -> Option<Served> {
    setting.gpus.first().map(|first| Served { messages: Messages::Msi, ..first.clone() })
}

/// A GPU is plugged into the empty slot.
pub(super) fn plugged(guest: &mut Guest<'_>, _: &GpuHeld) -> Result<(), Trouble> {
    let socket = guest.sockets.get(SPARE).ok_or_else(|| Trouble::Failed("there is no GPU to plug in".to_owned()))?;
    let device = machine::device(SPARE, socket);
    guest.monitor("device_add", device)?;
    Ok(guest.slot(&Order::Plugged { gpu: SPARE })?)
}

/// The GPU is unplugged while a process works with it; then another one is plugged in.
///
/// In order is as somebody wishes who presses the slot's attention button: Linux asks the process to give the function back, waits until it has,
/// switches the slot off, and QEMU takes the card away. By surprise the slot is without power first.
pub(super) fn unplugged(guest: &mut Guest<'_>, then: Then) -> Result<(), Trouble> {
    if !guest.is_plugged_in(SPARE) {
        plugged(guest, &GpuHeld::default())?;
    }
    let step = then.step(SPARE);
    guest.start(&step, UNDER_LOAD)?;
    match then {
        Then::Surprised => guest.slot(&Order::SlotOff { gpu: SPARE })?,
        _ => drop(guest.monitor("device_del", json!({ "id": machine::gpu(SPARE) }))?),
    }
    // The process sees its devices lost, its driver told or stopped as it should be, and takes its machine down.
    let ended = guest.ends_well(&step, HAPPENED)?;
    gone(guest)?;
    plugged(guest, &GpuHeld::default())?;
    ended.map_err(Trouble::Failed)
}

/// Waits until the GPU is gone from guest and QEMU.
fn gone(guest: &mut Guest<'_>) -> Result<(), Trouble> {
    guest.slot(&Order::Unplugged { gpu: SPARE })?;
    let until = Instant::now() + TIMEOUT;
    while guest.is_plugged_in(SPARE) {
        if Instant::now() > until {
            return Err(Trouble::Failed("QEMU does not let go of the GPU".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The function answers nobody any more, of which nobody is told: it does nothing from then on, and nothing blocks its user. Then the slot notices
/// that its card is gone. The user, which never learned of it, can be killed, and the guest lets go of the function and goes on.
///
/// Without the slot's notice Linux would reset the bus when the user has gone, and wait a minute for the function to come back.
pub(super) fn vanishes(guest: &mut Guest<'_>) -> Result<(), Trouble> {
    if !guest.is_plugged_in(SPARE) {
        plugged(guest, &GpuHeld::default())?;
    }
    let step = Then::Gone.step(SPARE);
    guest.start(&step, UNDER_LOAD)?;
    guest.pull_out(SPARE)?;
    guest.says(&step, HAPPENED)?;
    let held = guest.held(SPARE)?;
    guest.slot(&Order::SlotOff { gpu: SPARE })?;
    guest.kill(&step)?;
    gone(guest)?;
    let gpu = &held.gpu;
    if [gpu.running, gpu.messages, gpu.visible, gpu.bus_master].contains(&true) {
        return Err(Trouble::Failed(format!(
            "after it was pulled out, the function runs, answers, sends messages or reaches memory: {held}"
        )));
    }
    Ok(())
}
