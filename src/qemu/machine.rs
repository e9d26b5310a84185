//! The command line of QEMU.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

/// Accelerator by which QEMU executes the guest's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Accelerator {
    /// The processor where it can, else QEMU.
    #[default]
    Auto,
    /// QEMU translates them.
    Tcg,
    /// The processor itself.
    Kvm,
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Tcg => "tcg",
            Self::Kvm => "kvm",
        })
    }
}

/// Who executes the guest's instructions here, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) accelerator: Accelerator,
    pub(super) why: String,
}

impl Accelerator {
    /// The accelerator that this host can use, and why another was not chosen.
    pub(super) fn settled(self, probe: impl FnOnce() -> Result<(), String>) -> Chosen {
        let (accelerator, why) = match self {
            Self::Auto => match probe() {
                Ok(()) => (Self::Kvm, "the processor runs a guest's kernel itself".to_owned()),
                Err(reason) => (Self::Tcg, format!("KVM is of no use here: {reason}")),
            },
            chosen => (chosen, "it was asked for".to_owned()),
        };
        Chosen { accelerator, why }
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "accelerator: {} ({})", self.accelerator, self.why)
    }
}

/// GPU number `index` of a machine, in its slot, as an option and as QEMU's monitor takes it.
pub(super) fn device(index: usize, socket: &Path) -> Value {
    json!({
        "driver": "vfio-user-pci",
        "id": gpu(index),
        "socket": { "type": "unix", "path": socket.to_string_lossy() },
        "bus": format!("slot{}", index + 1),
        "x-msg-timeout": TIMEOUT,
    })
}

/// QEMU's id of the device that is GPU number `index`.
pub(super) fn gpu(index: usize) -> String {
    format!("gpu{index}")
}

/// A machine with GPUs. Memory is shared with the servers, which reach it directly.
pub(super) struct Machine<'a> {
    /// Settled, not [`Accelerator::Auto`].
    pub(super) accelerator: Accelerator,
    pub(super) memory_mib: u64,
    pub(super) processors: u32,
    /// Tell the guest that it is one, in the way that Windows understands.
    pub(super) windows: bool,
    /// A socket for each GPU.
    pub(super) sockets: &'a [PathBuf],
    /// One more slot, in which nothing is, with bus addresses for a GPU whose prefetchable BAR has so many bytes.
    pub(super) empty_slot: Option<u64>,
}

/// How long QEMU waits for an answer of a server before it gives the device up, in milliseconds.
const TIMEOUT: u32 = 60_000;

/// Words of a command line.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandLine(pub(super) Vec<OsString>);

impl CommandLine {
    /// Adds an option with its value.
    pub(super) fn option(&mut self, option: &str, value: impl Into<OsString>) {
        self.0.push(option.into());
        self.0.push(value.into());
    }

    /// The line for a shell, with an option on each line.
    pub(super) fn to_shell(&self, program: &Path) -> String {
        let mut text = quoted(&program.to_string_lossy());
        for word in &self.0 {
            let word = word.to_string_lossy();
            text.push_str(if word.starts_with('-') { " \\\n  " } else { " " });
            text.push_str(&quoted(&word));
        }
        text
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A file name in an option of QEMU, where a comma ends a value.
pub(super) fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

impl Machine<'_> {
    /// Processor, memory and GPUs: each GPU behind a root port of its own, as a card in a slot.
    pub(super) fn line(&self) -> CommandLine {
        let Self { accelerator, memory_mib, processors, windows, sockets, .. } = self;
        let mut line = CommandLine::default();
        let split = if *accelerator == Accelerator::Kvm { ",kernel-irqchip=split" } else { "" };
        line.option("-machine", format!("q35,memory-backend=ram{split}"));
        line.option("-accel", accelerator.to_string());
        // Kernels that see fast string instructions clear and copy memory byte by byte, each of which QEMU carries out on its own.
        line.option(
            "-cpu",
            match (accelerator, windows) {
                (Accelerator::Kvm, true) => "max,hv-relaxed,hv-vapic,hv-time,hv-spinlocks=0x1fff",
                (Accelerator::Kvm, false) => "max",
                _ => "max,-erms,-fsrm",
            },
        );
        line.option("-smp", processors.to_string());
        line.option("-m", format!("{memory_mib}M"));
        line.option("-object", format!("memory-backend-memfd,id=ram,size={memory_mib}M,share=on"));
        line.0.push("-nodefaults".into());
        for (index, socket) in sockets.iter().enumerate() {
            let slot = index + 1;
            // QEMU up to 11.1.3 does not survive that it unplugs a function with MSI-X, so these slots keep their GPUs.
            line.option("-device", format!("pcie-root-port,id=slot{slot},bus=pcie.0,chassis={slot},hotplug=off"));
            line.option("-device", device(index, socket).to_string());
        }
        if let Some(bytes) = self.empty_slot {
            let slot = sockets.len() + 1;
            // As much again, so that it can be aligned.
            let reserved = format!("mem-reserve=4M,pref64-reserve={}M", bytes.max(1 << 20) >> 19);
            line.option("-device", format!("pcie-root-port,id=slot{slot},bus=pcie.0,chassis={slot},{reserved}"));
            // The slot's own registers, not firmware, say what is in it.
            line.option("-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off");
        }
        line
    }
}

/// Files of a Linux guest.
pub(super) struct Files<'a> {
    pub(super) kernel: &'a Path,
    /// The initial file system (initramfs).
    pub(super) archive: &'a Path,
    /// File of the guest's console output.
    pub(super) console: &'a Path,
    /// The socket of QEMU's monitor.
    pub(super) monitor: &'a Path,
}

/// The command line for a Linux guest that has no disk; its second serial port is standard input and output.
pub(super) fn linux(machine: &Machine<'_>, files: &Files<'_>) -> CommandLine {
    let mut line = machine.line();
    // Behind it, the guest's programs reach only what they have mapped for the GPU. Caching mode has QEMU hear of each new mapping.
    line.option("-device", "intel-iommu,intremap=on,caching-mode=on");
    line.option("-display", "none");
    line.0.push("-no-reboot".into());
    line.option("-qmp", format!("unix:{},server=on,wait=off", escaped(files.monitor)));
    line.option("-serial", format!("file:{}", escaped(files.console)));
    line.option("-serial", "stdio");
    line.option("-kernel", files.kernel);
    line.option("-initrd", files.archive);
    // The kernel's test of its timer counts ticks within a stretch of the host's clock, and panics where a busy host has given QEMU no turn.
    let parameters = "console=ttyS0 panic=-1 loglevel=4 no_timer_check intel_iommu=on rdinit=/campanile -- guest";
    line.option("-append", parameters);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(sockets: &[PathBuf]) -> Machine<'_> {
        Machine {
            accelerator: Accelerator::Tcg,
            memory_mib: 1024,
            processors: 1,
            windows: false,
            sockets,
            empty_slot: None,
        }
    }

    #[test]
    fn kvm_is_taken_where_it_works_and_what_was_asked_for_is_not_probed() {
        let works = Accelerator::Auto.settled(|| Ok(()));
        assert_eq!(works.accelerator, Accelerator::Kvm);
        let not = Accelerator::Auto.settled(|| Err("no /dev/kvm".to_owned()));
        assert_eq!(not.to_string(), "accelerator: tcg (KVM is of no use here: no /dev/kvm)");
        for asked in [Accelerator::Tcg, Accelerator::Kvm] {
            let chosen = asked.settled(|| panic!("probed"));
            assert_eq!((chosen.accelerator, chosen.why.as_str()), (asked, "it was asked for"));
        }
    }

    #[test]
    fn every_gpu_has_a_slot_and_shared_memory_is_sealed() {
        let sockets = ["/tmp/a", "/tmp/b"].map(PathBuf::from);
        let line = machine(&sockets).line().to_shell(Path::new("qemu"));
        assert_eq!(line.matches("pcie-root-port").count(), 2);
        assert!(line.contains(r#""path":"/tmp/b""#) && line.contains(r#""bus":"slot2""#), "{line}");
        assert!(line.contains("memory-backend-memfd,id=ram,size=1024M,share=on"), "{line}");
        assert!(!line.contains("seal=off"), "{line}");
    }

    #[test]
    fn a_linux_guest_has_an_iommu_and_starts_this_program() {
        let sockets = [PathBuf::from("/tmp/a")];
        let [kernel, archive, console, monitor] = ["k", "i", "c,d", "m,n"].map(Path::new);
        let line = linux(&machine(&sockets), &Files { kernel, archive, console, monitor });
        let words: Vec<_> = line.0.iter().map(|word| word.to_str().unwrap()).collect();
        assert!(words.contains(&"intel-iommu,intremap=on,caching-mode=on"));
        assert!(words.contains(&"file:c,,d") && words.contains(&"unix:m,,n,server=on,wait=off"));
        let parameters: Vec<_> = words.last().unwrap().split(' ').collect();
        assert!(parameters.ends_with(&["intel_iommu=on", "rdinit=/campanile", "--", "guest"]), "{parameters:?}");
        assert!(parameters.contains(&"no_timer_check"), "{parameters:?}");
    }

    #[test]
    fn words_with_spaces_and_quotes_survive_a_shell() {
        let line = CommandLine(vec!["-a".into(), "b c".into(), "d'e".into(), "".into()]);
        assert_eq!(line.to_shell(Path::new("q")), "q \\\n  -a 'b c' 'd'\\''e' ''");
    }
}
