//! Variants of the GPU by text.

use std::str::FromStr;

use campanile_device::{PageTableUpdates, Variant};

/// A variant of the GPU, parsed from text such as `doorbells=4,vram=64M`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VariantOptions(pub Variant);

/// Keys that [`VariantOptions`] understands.
const KEYS: &str = "vram=SIZE, window=SIZE, host-aperture=SIZE, doorbells=N, queues=N, global-doorbell, delayed-log-writes, \
                    optimised-fence-interrupt, idle=TIME, no-native-fence, no-64bit-atomics, system-process-fences, non-coherent, \
                    vram-in-d3=kept|lost, page-tables=cpu|gpu-virtual|gpu-physical, linked";

impl FromStr for VariantOptions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut variant = Variant::default();
        let mut window = None;
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty() && *item != "default") {
            let (key, value) = item.split_once('=').map_or((item, None), |(key, value)| (key, Some(value)));
            match (key, value) {
                ("vram", Some(value)) => variant.vram_size = size(value)?,
                ("window", Some(value)) => window = Some(size(value)?),
                ("host-aperture", Some(value)) => variant.host_aperture = size(value)?,
                ("doorbells", Some(value)) => variant.doorbells = count(value)?,
                ("queues", Some(value)) => variant.queue_limit = count(value)?,
                ("vram-in-d3", Some("kept")) => variant.vram_kept_in_d3 = true,
                ("vram-in-d3", Some("lost")) => variant.vram_kept_in_d3 = false,
                ("vram-in-d3", Some(other)) => return Err(format!("`vram-in-d3` is kept or lost, not `{other}`")),
                ("page-tables", Some(value)) => variant.page_table_updates = updates(value)?,
                ("idle", Some(value)) => variant.idle_ticks = ticks(value)?,
                ("global-doorbell", None) => variant.global_doorbell = true,
                ("delayed-log-writes", None) => variant.delayed_log_writes = true,
                ("optimised-fence-interrupt", None) => variant.optimised_fence_interrupt = true,
                ("no-native-fence", None) => variant.native_fence = false,
                ("no-64bit-atomics", None) => variant.atomics64 = false,
                ("system-process-fences", None) => variant.system_process_fences = true,
                ("non-coherent", None) => variant.non_coherent = true,
                ("linked", None) => variant.linked = true,
                (
                    "vram" | "window" | "host-aperture" | "doorbells" | "queues" | "idle" | "vram-in-d3"
                    | "page-tables",
                    None,
                ) => {
                    return Err(format!("`{key}` needs a value"));
                }
                (
                    "global-doorbell"
                    | "delayed-log-writes"
                    | "optimised-fence-interrupt"
                    | "no-native-fence"
                    | "no-64bit-atomics"
                    | "system-process-fences"
                    | "non-coherent"
                    | "linked",
                    Some(_),
                ) => {
                    return Err(format!("`{key}` takes no value"));
                }
                _ => return Err(format!("unknown key `{key}`; known are {KEYS}")),
            }
        }
        if variant.linked && variant.system_process_fences {
            return Err("linked GPUs have no fences of the system process".to_owned());
        }
        // The largest window a BAR can have.
        variant.vram_window = window.unwrap_or(1 << variant.vram_size.ilog2());
        if variant.vram_window > variant.vram_size || !variant.vram_window.is_power_of_two() {
            return Err("the window must be a power of two and cannot be larger than VRAM".to_owned());
        }
        if variant.host_aperture >= variant.vram_window {
            return Err("the host aperture is the end of the window and must be smaller than it".to_owned());
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

fn updates(text: &str) -> Result<PageTableUpdates, String> {
    match text {
        "cpu" => Ok(PageTableUpdates::Cpu),
        "gpu-virtual" => Ok(PageTableUpdates::GpuVirtual),
        "gpu-physical" => Ok(PageTableUpdates::GpuPhysical),
        other => Err(format!("`page-tables` is cpu, gpu-virtual or gpu-physical, not `{other}`")),
    }
}

fn count(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("`{text}` is not a count of at least 1")),
        Ok(count) => Ok(count),
    }
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
            ("linked,system-process-fences", "system process"),
            ("vram=64M,window=128M", "window"),
            ("window=64M,host-aperture=64M", "host aperture"),
            ("speed=9", "unknown key"),
            ("global-doorbell=1", "no value"),
            ("system-process-fences=1", "no value"),
            ("delayed-log-writes=1", "no value"),
            ("optimised-fence-interrupt=1", "no value"),
            ("idle=5", "time"),
            ("idle=0ms", "time"),
            ("idle=5 h", "time"),
            ("no-native-fence=1", "no value"),
            ("vram-in-d3", "needs a value"),
            ("vram-in-d3=yes", "kept or lost"),
            ("page-tables", "needs a value"),
            ("page-tables=gpu", "gpu-virtual or gpu-physical"),
            ("no-64bit-atomics=1", "no value"),
        ] {
            let error = text.parse::<VariantOptions>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
