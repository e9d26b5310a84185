//! The GPU of the fake: runs what is in the rings, checking every entry and packet.

use campanile_hw::{
    packet::{DISPATCH_DONE, Packet},
    queue::*,
};

use super::*;

impl Fake {
    /// Runs every queue as far as it gets.
    pub(crate) fn run(&mut self) {
        while self.run_step(usize::MAX) || self.advance() {}
        self.wake();
    }

    /// Runs up to `most` submissions of each queue; says whether anything was done.
    pub(crate) fn run_step(&mut self, most: usize) -> bool {
        let doorbells: Vec<u32> = self
            .objects
            .iter()
            .filter_map(|(handle, object)| matches!(object, Object::Doorbell(_)).then_some(*handle))
            .collect();
        let mut done = false;
        for handle in doorbells {
            for _ in 0..most {
                if !self.run_entry(handle) {
                    break;
                }
                done = true;
            }
        }
        done
    }

    fn doorbell_mut(&mut self, handle: u32) -> &mut Doorbell {
        match self.objects.get_mut(&handle) {
            Some(Object::Doorbell(doorbell)) => doorbell,
            _ => panic!("no doorbell {handle:#x}"),
        }
    }

    /// Runs the next entry of a ring; false if there is none or a WAIT blocks it.
    fn run_entry(&mut self, handle: u32) -> bool {
        let (queue, ring, control, read, at, last_queued) = {
            let doorbell = self.doorbell_mut(handle);
            let last_queued = doorbell.last_queued.get(0);
            (doorbell.queue, doorbell.ring, doorbell.control, doorbell.read, doorbell.at, last_queued)
        };
        let write = self.allocation(control).memory.get(CONTROL_WRITE_POINTER as usize);
        let memory = &self.allocation(ring).memory;
        let geometry = RingGeometry::of_bytes(self.allocation(ring).data.size).expect("a ring's size");
        match geometry.pending(write, read) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(_) => panic!("write pointer {write} with read pointer {read}"),
        }
        let slot = geometry.slot(read) as usize;
        let mut bytes = [0; RingEntry::SIZE];
        for (index, chunk) in bytes.chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&memory.get(slot + index * 8).to_ne_bytes());
        }
        let entry = RingEntry::from_bytes(&bytes);
        assert_eq!((entry.flags, entry.tag, entry.root, entry.size % 16), (0, 0, 0, 0), "entry {read}");
        let value = match self.run_commands(queue, entry.commands, entry.size, at) {
            Ok(value) => value,
            Err(at) => {
                let moved = at != self.doorbell_mut(handle).at;
                self.doorbell_mut(handle).at = at;
                return moved;
            }
        };
        assert!(last_queued >= value, "progress {value} ran before it was announced ({last_queued})");
        let doorbell = self.doorbell_mut(handle);
        doorbell.read += 1;
        doorbell.at = 0;
        true
    }

    /// Runs a command buffer from offset `at`; its progress value, or the offset of the WAIT that blocks it.
    pub(crate) fn run_commands(&mut self, queue: u32, commands: u64, size: u32, mut at: u32) -> Result<u64, u32> {
        let mut progress = None;
        while at < size {
            assert_eq!(progress, None, "PROGRESS is the last packet");
            let bytes = self.bytes(commands + u64::from(at), (size - at).min(64) as usize);
            let packet = Packet::decode(&bytes).expect("a good packet");
            if !self.run_packet(queue, &packet) {
                return Err(at);
            }
            if let Packet::Progress(packet) = packet {
                progress = Some(packet.value);
            }
            at += packet.size() as u32;
        }
        Ok(progress.expect("the last packet is PROGRESS"))
    }

    /// Runs a command buffer of a context of packets, in which nothing may wait.
    pub(crate) fn run_buffer(&mut self, commands: u64, size: u32) {
        let mut at = 0;
        while at < size {
            let bytes = self.bytes(commands + u64::from(at), (size - at).min(64) as usize);
            let packet = Packet::decode(&bytes).expect("a good packet");
            assert!(!matches!(packet, Packet::Progress(_)), "a context of packets has no progress fence of its own");
            assert!(self.run_packet(0, &packet), "a wait that blocks");
            at += packet.size() as u32;
        }
    }

    fn run_packet(&mut self, queue: u32, packet: &Packet) -> bool {
        match packet {
            Packet::Nop(_) => {}
            Packet::Copy(copy) => {
                for row in 0..u64::from(copy.rows) {
                    let source = copy.source + row * u64::from(copy.source_pitch);
                    let bytes = self.bytes(source, copy.row_bytes as usize);
                    self.put(copy.destination + row * u64::from(copy.destination_pitch), &bytes);
                }
            }
            Packet::Fill(fill) => {
                self.put(fill.destination, &fill.pattern.to_le_bytes().repeat(fill.size as usize / 4))
            }
            Packet::Timestamp(stamp) => self.put(stamp.destination, &[0x55; 8]),
            Packet::Log(_) => {}
            // The fake has no lanes: that the packet came as it was recorded is all it can show.
            Packet::Dispatch(dispatch) => self.put(dispatch.report, &DISPATCH_DONE.to_le_bytes()),
            Packet::Write(_) | Packet::WritePhysical(_) | Packet::InvalidateTlb(_) => {
                panic!("{packet:?} is not for this driver to write")
            }
            Packet::Wait(wait) => return self.word(wait.current).load(Ordering::SeqCst) >= wait.value,
            Packet::Signal(signal) => {
                let named = |fence: &AnyFence| match (fence.native, signal.handle) {
                    (true, handle) => {
                        matches!(self.objects.get(&handle), Some(Object::Fence(named)) if named.address == fence.address)
                    }
                    // The GPU knows nothing of a monitored fence but the address of its value.
                    (false, handle) => handle == 0 && signal.monitored == 0,
                };
                let fence = self.objects.values().find_map(|object| match object {
                    Object::Fence(fence) if fence.address == signal.current => Some(fence),
                    _ => None,
                });
                assert!(fence.is_some_and(|fence| fence.may_signal && named(fence)), "a fence that may be signalled");
                let word = self.word(signal.current);
                match self.is_32_bit() {
                    false => word.store(signal.value, Ordering::SeqCst),
                    true => {
                        let high = word.load(Ordering::SeqCst) >> 32 << 32;
                        word.store(high | signal.value & 0xffff_ffff, Ordering::SeqCst);
                    }
                }
            }
            Packet::Progress(progress) => {
                let Some(Object::HwQueue(queue)) = self.objects.get(&queue) else { panic!("no queue") };
                let before = queue.progress.get(0);
                // A queue of the kernel goes on where one with a doorbell could not.
                let goes_on = before == 0 && !queue.user;
                assert!(goes_on || before + 1 == progress.value, "{} after {before}", progress.value);
                queue.progress.set(0, progress.value);
            }
        }
        true
    }

    fn word(&self, address: u64) -> &AtomicU64 {
        let (pages, offset) = self.translate(address).unwrap_or_else(|| panic!("GPU page fault at {address:#x}"));
        pages.word(offset)
    }

    /// Bytes at a GPU address.
    pub(crate) fn bytes(&self, address: u64, len: usize) -> Vec<u8> {
        let (pages, offset) = self.translate(address).unwrap_or_else(|| panic!("GPU page fault at {address:#x}"));
        assert!(offset + len <= pages.bytes(), "GPU page fault past {address:#x}");
        (offset..offset + len).map(|at| pages.get(at & !7).to_le_bytes()[at & 7]).collect()
    }

    fn put(&self, address: u64, bytes: &[u8]) {
        let (pages, offset) = self.translate(address).unwrap_or_else(|| panic!("GPU page fault at {address:#x}"));
        assert!(offset + bytes.len() <= pages.bytes(), "GPU page fault past {address:#x}");
        for (at, byte) in (offset..).zip(bytes) {
            let mut word = pages.get(at & !7).to_le_bytes();
            word[at & 7] = *byte;
            pages.set(at & !7, u64::from_le_bytes(word));
        }
    }
}
