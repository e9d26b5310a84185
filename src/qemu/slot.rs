//! The slot of a GPU, as the guest reaches it: what a card that is pulled out does to its port.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The folder of the guest with a link for each function.
pub(super) const DEVICES: &str = "/sys/bus/pci/devices";

/// The time that Linux may take to unplug a GPU or to set one up.
const TIMEOUT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// Capabilities of a port's configuration space, and the control word of its slot. [PCIe base specification, 7.5.3.10]
const CAPABILITIES: u64 = 0x34;
const CAPABILITIES_MAX: usize = 48;
const EXPRESS: u8 = 0x10;
const SLOT_CONTROL: u64 = 0x18;
const INTERRUPT: u16 = 1 << 5;
/// Power indicator and power, both off.
const OFF: u16 = 3 << 8 | 1 << 10;

/// The slot of a function.
pub(super) struct Slot {
    /// Configuration space of its port.
    config: File,
    /// Offset of the Slot Control register in configuration space.
    control: u64,
}

impl Slot {
    /// The slot that a function is in.
    ///
    /// # Errors
    /// It is in none.
    pub(super) fn of(function: &str) -> io::Result<Self> {
        let place = Path::new(DEVICES).join(function).canonicalize()?;
        let port = place.parent().ok_or_else(|| io::Error::other(format!("{function} is in no slot")))?;
        let config = OpenOptions::new().read(true).write(true).open(port.join("config"))?;
        let byte = |at: u64| {
            let mut byte = [0];
            config.read_exact_at(&mut byte, at).map(|()| byte[0])
        };
        let mut at = u64::from(byte(CAPABILITIES)?);
        for _ in 0..CAPABILITIES_MAX {
            if at != 0 && byte(at)? == EXPRESS {
                return Ok(Self { config, control: at + SLOT_CONTROL });
            }
            at = u64::from(byte(at + 1)?);
        }
        Err(io::Error::other(format!("the port of {function} has no slot")))
    }

    fn control(&self) -> io::Result<u16> {
        let mut control = [0; 2];
        self.config.read_exact_at(&mut control, self.control)?;
        Ok(u16::from_le_bytes(control))
    }

    fn set_control(&self, control: u16) -> io::Result<()> {
        self.config.write_all_at(&control.to_le_bytes(), self.control)
    }

    /// Takes the power away, which makes QEMU take the card away, and gives it back at once. Linux learns of it by what the slot says then: that its
    /// link is down and nothing is in it any more. (In a slot whose power it finds switched off it looks for nothing to remove.)
    ///
    /// # Errors
    /// Configuration space of the port cannot be read or written.
    pub(super) fn pull_out(&self) -> io::Result<()> {
        let control = self.control()?;
        self.set_control(control & !INTERRUPT | OFF)?;
        self.set_control(control)
    }

    /// True if Linux has switched the slot off, with which it ends a removal. QEMU would take away what is plugged in before.
    ///
    /// # Errors
    /// Configuration space of the port cannot be read.
    pub(super) fn is_off(&self) -> io::Result<bool> {
        Ok(self.control()? & OFF == OFF)
    }
}

/// Looks again and again until there is what is looked for.
///
/// # Errors
/// It never comes.
pub(super) fn wait_for<T>(what: &str, look: impl Fn() -> io::Result<Option<T>>) -> io::Result<T> {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() > until {
            return Err(io::Error::other(format!("the GPU is not {what} after {} s", TIMEOUT.as_secs())));
        }
        thread::sleep(LOOK);
    }
}
