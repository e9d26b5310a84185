//! The option `--device-variant`: properties of the GPU, by text.

use std::str::FromStr;

use campanile_device::{PageTableUpdates, Preemption, Variant};

/// A variant of the GPU, parsed from text such as `doorbells=4,vram=64M`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VariantOptions(pub Variant);

/// A variant while its text is read.
#[derive(Default)]
struct Draft {
    variant: Variant,
    window: Option<u64>,
}

/// A key of the text: its one definition, from which it is parsed, and from which `--help` and errors name it.
struct Key {
    name: &'static str,
    /// Form of its value, empty for a word without one.
    value: &'static str,
    meaning: &'static str,
    set: fn(&mut Draft, &str) -> Result<(), String>,
}

impl Key {
    /// As it is written.
    fn form(&self) -> String {
        if self.value.is_empty() { self.name.to_owned() } else { format!("{}={}", self.name, self.value) }
    }
}

/// A key with a value: its name, the form of the value, its meaning, and what it changes.
macro_rules! keys {
    ($( $name:literal $(= $form:literal)?: $meaning:literal, |$draft:ident, $value:pat_param| $change:expr; )*) => {
        const KEYS: &[Key] = &[ $( Key {
            name: $name,
            value: concat!($($form)?),
            meaning: $meaning,
            set: |$draft, $value| {
                $change;
                Ok(())
            },
        }, )* ];
    };
}

keys! {
    "vram" = "SIZE": "size of VRAM; 256M", |draft, value| draft.variant.vram_size = size(value)?;
    "window" = "SIZE": "size of BAR4, by which the processor sees VRAM, a power of two; the largest that fits", |draft, value| draft.window = Some(size(value)?);
    "host-aperture" = "SIZE": "size of the CPU host aperture: the end of the window, each page of which shows any page of VRAM; none",
        |draft, value| draft.variant.host_aperture = size(value)?;
    "doorbells" = "N": "doorbell pages; 64", |draft, value| draft.variant.doorbells = count(value)?;
    "queues" = "N": "queues that the scheduler can hold; 16384", |draft, value| draft.variant.queue_limit = count(value)?;
    "global-doorbell": "one doorbell page for all queues", |draft, _| draft.variant.global_doorbell = true;
    "notify-doorbells": "doorbells are not polled: the kernel must be told of each submission",
        |draft, _| draft.variant.notify_doorbells = true;
    "delayed-log-writes": "fence log entries reach memory only when they are flushed", |draft, _| draft.variant.delayed_log_writes = true;
    "optimised-fence-interrupt": "interrupts name the queue that signalled and not the fence",
        |draft, _| draft.variant.optimised_fence_interrupt = true;
    "one-fence-event": "interrupts of fences name neither the fence nor its kind, native or monitored", |draft, _| draft.variant.one_fence_event = true;
    "fence-stride" = "BYTES": "distance of fence values, a multiple of 8 up to 4096; the system's own, 64",
        |draft, value| draft.variant.fence_stride = stride(value)?;
    "idle" = "TIME": "time after which a node without work reports that it is idle, such as 500ms, or never", |draft, value| draft.variant.idle_ticks = ticks(value)?;
    "no-native-fence": "no native fences: engines cannot wait for each other", |draft, _| draft.variant.native_fence = false;
    "no-64bit-atomics": "fence values are written 32 bits wide, and there are no native fences", |draft, _| draft.variant.atomics64 = false;
    "system-process-fences": "the scheduler reaches fences through the paging process", |draft, _| draft.variant.system_process_fences = true;
    "non-coherent": "DMA does not snoop the caches of the processor", |draft, _| draft.variant.non_coherent = true;
    "cached-host": "the host's caches contain all of its memory and never write it back, so that only DMA that snoops sees it", |draft, _| draft.variant.cached_host = true;
    "vram-in-d3" = "kept|lost": "whether VRAM keeps its contents in D3; lost", |draft, value| draft.variant.vram_kept_in_d3 = kept(value)?;
    "page-tables" = "cpu|gpu-virtual|gpu-physical": "the unit that writes page tables, and the kind of address by which the GPU reaches them; cpu",
        |draft, value| draft.variant.page_table_updates = updates(value)?;
    "posted-writes": "register writes are posted and commands take a while, as on a physical bus", |draft, _| {
        draft.variant.posted_writes = true;
    };
    "interpreter": "programs are interpreted; otherwise those that run long are compiled for the processor", |draft, _| {
        draft.variant.interpreter = true;
    };
    "preemption" = "buffer|dispatch|workgroup|instruction": "where the compute node can leave a DISPATCH that it has begun: at the end of the command buffer, of the DISPATCH, of a workgroup, or anywhere; instruction",
        |draft, value| draft.variant.preemption = preemption(value)?;
    "linked": "two GPUs that form one linked adapter", |draft, _| draft.variant.linked = true;
}

/// What `--help` says of a variant: every key with its meaning.
#[must_use]
pub fn help() -> String {
    let mut text = String::from(
        "Variant of the GPU: `default`, or a list such as `doorbells=4,vram=64M` of these; what the GPU cannot be is refused",
    );
    for key in KEYS {
        text += &format!("\n  {:<40}  {}", key.form(), key.meaning);
    }
    text
}

impl FromStr for VariantOptions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut draft = Draft::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty() && *item != "default") {
            let (name, value) = item.split_once('=').map_or((item, None), |(key, value)| (key, Some(value)));
            let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                let known: Vec<String> = KEYS.iter().map(Key::form).collect();
                return Err(format!("unknown key `{name}`; known are {}", known.join(", ")));
            };
            match value {
                Some(_) if key.value.is_empty() => return Err(format!("`{name}` takes no value")),
                None if !key.value.is_empty() => return Err(format!("`{name}` needs a value")),
                value => (key.set)(&mut draft, value.unwrap_or_default())?,
            }
        }
        let Draft { mut variant, window } = draft;
        if variant.linked && variant.system_process_fences {
            return Err("`linked` and `system-process-fences` exclude each other: leave one of them out".to_owned());
        }
        // The largest window a BAR can have.
        variant.vram_window = window.unwrap_or(1 << variant.vram_size.ilog2());
        if variant.vram_window > variant.vram_size || !variant.vram_window.is_power_of_two() {
            return Err(format!(
                "`window` is {:#x} bytes; it must be a power of two and at most `vram`, which is {:#x}",
                variant.vram_window, variant.vram_size
            ));
        }
        if variant.host_aperture >= variant.vram_window {
            return Err(format!(
                "`host-aperture` is {:#x} bytes; it is the end of the window and must be smaller, and `window` is {:#x}",
                variant.host_aperture, variant.vram_window
            ));
        }
        Ok(Self(variant))
    }
}

/// Idle time of a machine that somebody uses: well below the two seconds after which the operating system would find out itself.
const IDLE: u64 = 500_000_000;

impl VariantOptions {
    /// The variant, with idle engines that say so unless the text decided about that.
    #[must_use]
    pub fn in_use(mut self) -> Self {
        if self.0.idle_ticks == 0 {
            self.0.idle_ticks = IDLE;
        }
        self
    }
}

/// Nanoseconds; `never` is longer than any machine runs.
fn ticks(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is not a time such as 500ms, 20us or 1s, nor `never`");
    if text == "never" {
        return Ok(u64::MAX);
    }
    let unit = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
    let (digits, unit) = text.split_at(unit);
    let scale = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(bad()),
    };
    let number = digits.parse::<u64>().ok().filter(|number| *number != 0);
    number.and_then(|number| number.checked_mul(scale)).ok_or_else(bad)
}

fn kept(text: &str) -> Result<bool, String> {
    match text {
        "kept" => Ok(true),
        "lost" => Ok(false),
        other => Err(format!("`vram-in-d3` is kept or lost, not `{other}`")),
    }
}

fn updates(text: &str) -> Result<PageTableUpdates, String> {
    match text {
        "cpu" => Ok(PageTableUpdates::Cpu),
        "gpu-virtual" => Ok(PageTableUpdates::GpuVirtual),
        "gpu-physical" => Ok(PageTableUpdates::GpuPhysical),
        other => Err(format!("`page-tables` is cpu, gpu-virtual or gpu-physical, not `{other}`")),
    }
}

fn preemption(text: &str) -> Result<Preemption, String> {
    match text {
        "buffer" => Ok(Preemption::Buffer),
        "dispatch" => Ok(Preemption::Dispatch),
        "workgroup" => Ok(Preemption::Workgroup),
        "instruction" => Ok(Preemption::Instruction),
        other => Err(format!("`preemption` is buffer, dispatch, workgroup or instruction, not `{other}`")),
    }
}

fn count(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("`{text}` is not a count of at least 1")),
        Ok(count) => Ok(count),
    }
}

fn stride(text: &str) -> Result<u32, String> {
    let valid = |stride: &u32| *stride != 0 && stride.is_multiple_of(8) && *stride <= 4096;
    text.parse()
        .ok()
        .filter(valid)
        .ok_or_else(|| format!("`{text}` is not a distance that is a multiple of 8 up to 4096"))
}

fn size(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is not a size such as 67108864, 64M or 1G");
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| bad())?;
    match number.checked_mul(1 << shift) {
        None | Some(0) => Err(bad()),
        Some(size) if size % 4096 != 0 => Err(format!("`{text}` is not a multiple of 4096 bytes")),
        Some(size) => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_sets_what_it_names() {
        let VariantOptions(variant) = "doorbells=4, vram=64M, no-native-fence".parse().unwrap();
        assert!(!variant.native_fence);
        assert_eq!(variant.doorbells, 4);
        assert_eq!(variant.vram_size, 64 << 20);
        assert_eq!(variant.vram_window, 64 << 20);
    }

    #[test]
    fn words_without_a_value_turn_something_on() {
        let VariantOptions(variant) = "global-doorbell,delayed-log-writes,no-64bit-atomics".parse().unwrap();
        assert!(!variant.atomics64);
        assert!(variant.global_doorbell && variant.delayed_log_writes && !variant.linked);
        assert!("linked".parse::<VariantOptions>().unwrap().0.linked);
    }

    #[test]
    fn vram_is_lost_in_d3_unless_it_is_kept() {
        let kept = |text: &str| text.parse::<VariantOptions>().unwrap().0.vram_kept_in_d3;
        assert_eq!([kept("default"), kept("vram-in-d3=kept"), kept("vram-in-d3=lost")], [false, true, false]);
    }

    #[test]
    fn page_tables_are_written_by_the_processor_unless_the_gpu_should() {
        let by = |text: &str| text.parse::<VariantOptions>().unwrap().0.page_table_updates;
        assert_eq!([by("default"), by("page-tables=cpu")], [PageTableUpdates::Cpu; 2]);
        assert_eq!(by("page-tables=gpu-virtual"), PageTableUpdates::GpuVirtual);
        assert_eq!(by("page-tables=gpu-physical"), PageTableUpdates::GpuPhysical);
    }

    #[test]
    fn a_dispatch_can_be_left_anywhere_unless_the_gpu_is_coarser() {
        let at = |text: &str| text.parse::<VariantOptions>().unwrap().0.preemption;
        assert_eq!([at("default"), at("preemption=instruction")], [Preemption::Instruction; 2]);
        assert_eq!(at("preemption=workgroup"), Preemption::Workgroup);
        assert_eq!(at("preemption=dispatch"), Preemption::Dispatch);
        assert_eq!(at("preemption=buffer"), Preemption::Buffer);
    }

    #[test]
    fn every_key_changes_something_and_its_form_says_whether_it_takes_a_value() {
        for key in KEYS {
            let value = match key.value {
                "" => "",
                "SIZE" => "=64M",
                "N" => "=3",
                "TIME" => "=3ms",
                "BYTES" => "=128",
                "kept|lost" => "=kept",
                "cpu|gpu-virtual|gpu-physical" => "=gpu-virtual",
                "buffer|dispatch|workgroup|instruction" => "=buffer",
                other => panic!("no example of {other}"),
            };
            let VariantOptions(variant) = format!("{}{value}", key.name).parse().unwrap();
            assert_ne!(variant, Variant::default(), "{}", key.form());
            let other = if value.is_empty() { "=1" } else { "" };
            assert!(format!("{}{other}", key.name).parse::<VariantOptions>().is_err(), "{}", key.form());
            assert_eq!(KEYS.iter().filter(|other| other.name == key.name).count(), 1, "{}", key.form());
        }
    }

    #[test]
    fn default_is_the_default() {
        let VariantOptions(variant) = "default".parse().unwrap();
        assert_eq!(variant.vram_size, Variant::default().vram_size);
        assert!(!variant.global_doorbell && !variant.delayed_log_writes);
    }

    #[test]
    fn idle_times_have_units_and_a_default_where_somebody_uses_the_machine() {
        let idle = |text: &str| text.parse::<VariantOptions>().unwrap().in_use().0.idle_ticks;
        assert_eq!(
            [idle("idle=7ns"), idle("idle=20us"), idle("idle=3ms"), idle("idle=2s")],
            [7, 20_000, 3_000_000, 2_000_000_000]
        );
        assert_eq!([idle("default"), idle("idle=never")], [IDLE, u64::MAX]);
        assert_eq!(Variant::default().idle_ticks, 0);
    }

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        for (text, part) in [
            ("doorbells=0", "count"),
            ("vram=1", "4096"),
            ("vram=99999999999G", "size"),
            ("vram", "needs a value"),
            ("linked=2", "no value"),
            ("linked,system-process-fences", "exclude each other"),
            ("vram=64M,window=128M", "`window` is 0x8000000 bytes"),
            ("window=64M,host-aperture=64M", "`host-aperture` is 0x4000000 bytes"),
            ("speed=9", "unknown key"),
            ("global-doorbell=1", "no value"),
            ("system-process-fences=1", "no value"),
            ("notify-doorbells=1", "no value"),
            ("delayed-log-writes=1", "no value"),
            ("optimised-fence-interrupt=1", "no value"),
            ("one-fence-event=1", "no value"),
            ("fence-stride=0", "distance"),
            ("fence-stride=12", "distance"),
            ("fence-stride=4104", "distance"),
            ("idle=5", "time"),
            ("idle=0ms", "time"),
            ("idle=5 h", "time"),
            ("no-native-fence=1", "no value"),
            ("vram-in-d3", "needs a value"),
            ("vram-in-d3=yes", "kept or lost"),
            ("page-tables", "needs a value"),
            ("page-tables=gpu", "gpu-virtual or gpu-physical"),
            ("no-64bit-atomics=1", "no value"),
            ("preemption=lane", "workgroup or instruction"),
        ] {
            let error = text.parse::<VariantOptions>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
