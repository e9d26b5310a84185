use super::interrupt::CAPABILITY_MSIX;
use super::*;
use crate::bus::InterruptSink;
use crate::ram::Ram;
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

/// Configuration space with writable bits per word.
struct Config {
    words: Mutex<[u32; 64]>,
    writable: [u32; 64],
    bars: BTreeMap<u8, u64>,
    messages: Option<u32>,
    has_line: bool,
}

impl Config {
    fn new() -> Self {
        let mut words = [0; 64];
        words[0] = 0x0032_ca3e;
        words[1] = STATUS_CAPABILITIES << 16;
        words[2] = 0x1200_0001;
        words[4] = 0b0100;
        words[6] = 0b1100;
        words[8] = 0b0000;
        words[13] = 0x40;
        words[16] = 0x0007 << 16 | CAPABILITY_MSIX;
        let mut writable = [0; 64];
        writable[1] = 0xffff;
        writable[4] = 0xffff_0000;
        writable[5] = u32::MAX;
        writable[7] = u32::MAX - 3;
        writable[8] = 0xffff_f000;
        Self {
            words: Mutex::new(words),
            writable,
            bars: BTreeMap::from([(0, 0x1_0000), (2, 4 << 32), (4, 0x1000)]),
            messages: None,
            has_line: true,
        }
    }
}

impl Bus for Config {
    fn name(&self) -> String {
        "config".into()
    }
    fn config_read(&self, offset: u16, size: u8) -> u32 {
        let words = self.words.lock().unwrap();
        let Some(word) = words.get(usize::from(offset / 4)) else { return u32::MAX };
        let value = word >> (8 * (offset % 4));
        if size == 4 { value } else { value & ((1 << (8 * size)) - 1) }
    }
    fn config_write(&self, offset: u16, _: u8, value: u32) {
        let mut words = self.words.lock().unwrap();
        let index = usize::from(offset / 4);
        words[index] = words[index] & !self.writable[index] | value & self.writable[index];
    }
    fn bar(&self, index: u8) -> Option<Bar> {
        self.bars.get(&index).map(|size| Bar::Trapped { size: *size })
    }
    fn register_read(&self, _: u8, _: u64, _: u8) -> u64 {
        0
    }
    fn register_write(&self, _: u8, _: u64, _: u8, _: u64) {}
    fn connect_interrupts(&self, _: u16, _: Arc<dyn InterruptSink>) -> io::Result<()> {
        Ok(())
    }
    fn messages(&self, _: bool) -> Option<u32> {
        self.messages
    }
    fn has_line(&self) -> bool {
        self.has_line
    }
    fn disconnect_interrupts(&self) {}
    fn map_memory(&self, _: &Arc<Ram>) -> io::Result<()> {
        Ok(())
    }
    fn unmap_memory(&self, _: &Ram) {}
}

#[test]
fn bars_of_all_widths_are_sized_placed_and_described() {
    let config = Arc::new(Config::new());
    let function = Function::enumerate(config.clone(), &mut BusAddresses::default()).unwrap();
    let bars: Vec<_> = function.bars.iter().map(|bar| (bar.index, bar.size)).collect();
    assert_eq!(bars, [(0, 0x1_0000), (2, 4 << 32), (4, 0x1000)]);
    assert!(function.bars.iter().all(|bar| bar.address >= TRANSLATED_BASE && bar.address % bar.size == 0));
    assert_eq!((function.vendor, function.device, function.class), (0xca3e, 0x32, 0x12_0000));
    let interrupt = function.interrupt;
    assert_eq!(interrupt, Interrupt::Messages(5), "eight vectors, but only five descriptors are left");
    let list = function.resources();
    assert_eq!({ list.PartialCount }, 8);
    assert_eq!(list.PartialDescriptors[1].Type, CM_PARTIAL_RESOURCE_DESCRIPTOR::MEMORY_LARGE);
    // SAFETY: a memory descriptor uses the memory arm.
    let length = unsafe { list.PartialDescriptors[1].u.Memory.Length };
    assert_eq!(u64::from(length) << 8, 4 << 32);
    assert_eq!(list.PartialDescriptors[3].Type, CM_PARTIAL_RESOURCE_DESCRIPTOR::INTERRUPT);
    function.enable().unwrap();
    assert_eq!(config.config_read(COMMAND, 2) & 6, 6);
    assert!(!function.was_reset());
    let placed = function.placed();
    (0..6).for_each(|bar| config.config_write(BARS + 4 * bar, 4, 0));
    config.config_write(COMMAND, 2, 0);
    assert!(function.was_reset());
    function.restore();
    assert!(!function.was_reset());
    assert_eq!((function.placed().bars, function.placed().command), (placed.bars, placed.command));
    let (bar, offset) = function.bar_at(function.bars[1].address + 0x1000, 0x1000).unwrap();
    assert_eq!((bar.index, offset), (2, 0x1000));
    assert!(function.bar_at(function.bars[2].address, 0x1001).is_none());
    assert!(function.bar_at(u64::MAX, 1).is_none());
}

#[test]
fn a_function_that_contradicts_itself_is_refused() {
    let enumerate = |change: fn(&mut Config)| {
        let mut config = Config::new();
        change(&mut config);
        Function::enumerate(Arc::new(config), &mut BusAddresses::default()).map(|_| ()).unwrap_err()
    };
    assert_eq!(enumerate(|config| config.words.get_mut().unwrap()[0] = u32::MAX), PciError::Absent);
    assert_eq!(enumerate(|config| config.words.get_mut().unwrap()[3] = 1 << 16), PciError::Header(1));
    let wrong = PciError::BarSize { bar: 4, configured: 0x1000, adaptor: Some(0x2000) };
    assert_eq!(enumerate(|config| _ = config.bars.insert(4, 0x2000)), wrong);
    let missing = PciError::BarSize { bar: 4, configured: 0x1000, adaptor: None };
    assert_eq!(enumerate(|config| _ = config.bars.remove(&4)), missing);
    let holes = enumerate(|config| config.writable[4] = 0xf0ff_0000);
    assert!(matches!(holes, PciError::BarMask { bar: 0, .. }));
}

#[test]
fn messages_that_nobody_can_send_are_refused_with_register_and_value() {
    let told = |change: fn(&mut Config)| {
        let mut config = Config::new();
        change(&mut config);
        let function = Function::enumerate(Arc::new(config), &mut BusAddresses::default());
        function.and_then(|function| function.enable()).map_or_else(|error| error.to_string(), |()| String::new())
    };
    assert_eq!(told(|config| config.messages = Some(8)), "");
    let fewer = [told(|config| config.messages = Some(0)), told(|config| config.messages = Some(7))];
    for (none, count) in fewer.iter().zip([0, 7]) {
        let said = format!(
            "at 0x42 of configuration space reads 0x0007, which is 8 message interrupts, and what serves the function has {count} "
        );
        assert!(none.contains(&said), "{none}");
    }
    let absent = told(|config| config.words.get_mut().unwrap()[17] = 0x2005);
    assert!(absent.contains("at 0x44 of configuration space reads 0x00002005, so that the MSI-X table"), "{absent}");
    assert!(
        absent.contains("of 0x80 bytes lies at 0x2000 of BAR5, which is no memory BAR of the function"),
        "{absent}"
    );
    let long = told(|config| config.words.get_mut().unwrap()[16] = 0x07ff << 16 | CAPABILITY_MSIX);
    assert_eq!(long, "", "2048 entries of 16 bytes just fit into BAR0");
    let beyond = told(|config| {
        let words = config.words.get_mut().unwrap();
        (words[16], words[17]) = (0x07ff << 16 | CAPABILITY_MSIX, 0x8008);
    });
    assert!(beyond.contains("lies at 0x8008 of BAR0, which has 0x10000 bytes"), "{beyond}");
    let bits = told(|config| config.words.get_mut().unwrap()[18] = 0xfff8 + 8);
    assert!(bits.contains("pending bit array of 0x8 bytes lies at 0x10000 of BAR0"), "{bits}");
}

/// The function requests a number, and system software gives it that or less. [PCIe base specification, Multiple Message Enable]
#[test]
fn of_msi_a_function_gets_a_power_of_two_of_messages_and_no_more_than_are_served() {
    let interrupt = |served| {
        let mut config = Config::new();
        config.words.get_mut().unwrap()[16] = 0b0110 << 16 | 0x05;
        config.messages = served;
        Function::enumerate(Arc::new(config), &mut BusAddresses::default()).map(|function| function.interrupt)
    };
    // No more than five fit into a resource list here, beside the BARs.
    for (served, given) in [(None, 4), (Some(8), 4), (Some(3), 2), (Some(1), 1)] {
        assert_eq!(interrupt(served), Ok(Interrupt::Messages(given)), "{served:?}");
    }
    assert!(matches!(interrupt(Some(0)), Err(PciError::MessageCount { capability: "MSI", adaptor: 0, .. })));
}

#[test]
fn command_bits_that_do_not_stick_are_refused_where_the_function_needs_them() {
    let told = |writable: u32, change: fn(&mut Config)| {
        let mut config = Config::new();
        config.writable[1] = writable;
        change(&mut config);
        let function = Function::enumerate(Arc::new(config), &mut BusAddresses::default()).unwrap();
        function.enable().map_or_else(|error| error.to_string(), |()| String::new())
    };
    let no_master = told(COMMAND_MEMORY | COMMAND_NO_INTX, |_| {});
    assert!(no_master.contains("reads 0x0402 after 0x0406 was written: Bus Master Enable (bit 2)"), "{no_master}");
    let no_memory = told(COMMAND_MASTER | COMMAND_NO_INTX, |_| {});
    assert!(no_memory.contains("reads 0x0404 after 0x0406 was written: Memory Space Enable (bit 1)"), "{no_memory}");
    // A function that masters no bus may hardwire the bit.
    let by_line = told(COMMAND_MEMORY, |config| {
        let words = config.words.get_mut().unwrap();
        (words[16], words[15]) = (0x09, 1 << 8);
    });
    assert_eq!(by_line, "");
}

#[test]
fn a_function_without_messages_has_the_interrupt_of_its_pin_and_without_a_pin_none() {
    let served = |pin: u32, has_line| {
        let mut config = Config { has_line, ..Config::new() };
        let words = config.words.get_mut().unwrap();
        (words[16], words[15]) = (0x09, pin << 8);
        Function::enumerate(Arc::new(config), &mut BusAddresses::default()).unwrap()
    };
    let of = |pin| served(pin, true);
    let (unserved, told) = (
        served(2, false),
        "Interrupt Pin at 0x3d of configuration space reads 2 (INTB#), for which what serves the function has no line: expected is count 1",
    );
    assert!(unserved.interrupt == Interrupt::NoLine(2) && unserved.to_string().contains(told), "{unserved}");
    for (pin, interrupt, told) in [
        (0, Interrupt::None, "neither message interrupts nor an interrupt pin"),
        (1, Interrupt::Line(1), "no message interrupts, line-based interrupt INTA#"),
        (4, Interrupt::Line(4), "line-based interrupt INTD#"),
        (
            5,
            Interrupt::NoLine(5),
            "Interrupt Pin at 0x3d of configuration space reads 5: expected is 1 to 4 for INTA# to INTD#, or 0 for none",
        ),
    ] {
        let function = of(pin);
        assert_eq!(function.interrupt, interrupt);
        assert!(function.to_string().contains(told), "{function}");
        let list = function.resources();
        let count = usize::from(interrupt.count() != 0);
        assert_eq!({ list.PartialCount } as usize, 3 + count);
        if count == 1 {
            let descriptor = list.PartialDescriptors[3];
            let seen = (descriptor.Type, descriptor.ShareDisposition, { descriptor.Flags });
            let level_sensitive = CM_PARTIAL_RESOURCE_DESCRIPTOR::FLAG_INTERRUPT_LEVEL_SENSITIVE;
            assert_eq!(seen, (CM_PARTIAL_RESOURCE_DESCRIPTOR::INTERRUPT, 3, level_sensitive));
        }
    }
}

#[test]
fn a_capability_list_that_loops_ends() {
    let mut config = Config::new();
    config.words.get_mut().unwrap()[16] = 0x40 << 8 | 0x09;
    let function = Function::enumerate(Arc::new(config), &mut BusAddresses::default()).unwrap();
    assert_eq!(function.interrupt, Interrupt::None);
}

#[test]
fn a_bar_of_two_sizes_is_told_with_both_and_one_that_the_server_lacks_in_words() {
    let wrong = |adaptor| PciError::BarSize { bar: 4, configured: 0x1000, adaptor }.to_string();
    let told = "BAR4 has 0x1000 bytes in configuration space and 0x2000 bytes in what serves the function";
    assert_eq!(wrong(Some(0x2000)), told);
    assert_eq!(
        wrong(None),
        "BAR4 has 0x1000 bytes in configuration space, and what serves the function has no such BAR"
    );
}
