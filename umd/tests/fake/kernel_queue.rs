//! The software queues of the fake kernel: for each hardware queue or context that the kernel schedules, the submissions, waits and signals
//! that it was handed and has not carried out. Also the monitored fences that they wait for and signal.

use wddm_ddi::Zeroed;

use super::*;

/// A submission of a queue or context that the kernel schedules.
pub(crate) enum Item {
    /// A command buffer of a hardware queue, with its progress value.
    Buffer(u64, u32, u64),
    /// A command buffer of a context of packets.
    Packet(u64, u32),
    /// Nothing, until a fence has a value.
    Wait(u32, u64),
    /// Signals a fence.
    Signal(u32, u64),
}

impl AnyFence {
    pub(crate) fn new(
        native: bool,
        current: Rc<Pages>,
        address: u64,
        flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    ) -> Self {
        let whole = Rc::new(Cell::new(current.get(0)));
        Self {
            native,
            current,
            whole,
            address,
            shared: flags.Shared() && flags.NtSecuritySharing(),
            may_signal: !flags.NoSignal(),
            may_wait: !flags.NoWait(),
            keeps_value: flags.NoSignalMaxValueOnTdr(),
            purpose: 0,
        }
    }

    /// With what these flags leave of its rights.
    pub(crate) fn limited(&self, flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS) -> Self {
        let may_signal = self.may_signal && !flags.NoSignal();
        Self { may_signal, may_wait: self.may_wait && !flags.NoWait(), ..self.clone() }
    }

    /// The operating system writes the value.
    pub(crate) fn set(&self, value: u64) {
        self.whole.set(value);
        self.current.set(0, value);
    }
}

impl Fake {
    /// The GPU writes 32 bits of a fence at once, and there are no native fences.
    pub(crate) fn make_32_bit(&mut self) {
        self.native = false;
        self.adapter.caps =
            Caps::from_bits(self.adapter.caps).with_atomics64(false).with_native_fence(false).into_bits();
    }

    pub(crate) fn is_32_bit(&self) -> bool {
        !Caps::from_bits(self.adapter.caps).atomics64()
    }

    /// The operating system looks at the values that the GPU may have written.
    pub(crate) fn look(&self) {
        for object in self.objects.values() {
            if let Object::Fence(fence) = object
                && self.is_32_bit()
            {
                let last = fence.whole.get();
                let step = (fence.current.get(0) as u32).wrapping_sub(last as u32) as i32;
                fence.set(last.wrapping_add_signed(i64::from(step)));
            }
        }
    }

    /// Takes something for a queue or context, and does what can be done.
    pub(crate) fn hand_over(&mut self, to: u32, item: Item) -> NTSTATUS {
        let hardware = match self.objects.get(&to) {
            Some(Object::HwQueue(queue)) if !queue.user => true,
            Some(Object::PacketContext) => false,
            _ => return self.violation(format!("something was handed over for {to:#x}")),
        };
        let fits = match item {
            Item::Buffer(..) => hardware,
            Item::Packet(..) => !hardware,
            Item::Wait(fence, _) => {
                matches!(self.objects.get(&fence), Some(Object::Fence(fence)) if fence.may_wait)
            }
            Item::Signal(fence, _) => {
                matches!(self.objects.get(&fence), Some(Object::Fence(fence)) if fence.may_signal)
            }
        };
        if !fits {
            return self.violation(format!("the wrong thing was handed over for {to:#x}"));
        }
        self.kernel_queues.entry(to).or_default().push_back(item);
        self.wake();
        STATUS_SUCCESS
    }

    /// Does what can be done; says whether it was anything.
    pub(crate) fn advance(&mut self) -> bool {
        let mut done = false;
        while let Some((to, item)) = self.next_item() {
            done = true;
            match item {
                Item::Wait(..) => {}
                Item::Signal(fence, value) => {
                    if let Some(Object::Fence(fence)) = self.objects.get(&fence) {
                        fence.set(value);
                    }
                }
                Item::Packet(commands, size) => self.run_buffer(commands, size),
                Item::Buffer(commands, size, value) => {
                    let ran = self.run_commands(to, commands, size, 0);
                    if ran != Ok(value) {
                        self.violations.push(format!("submission {value} ran as {ran:?}"));
                    }
                }
            }
            self.look();
        }
        done
    }

    /// Takes the first item out of a queue, unless it is a wait for a value that its fence does not have yet.
    fn next_item(&mut self) -> Option<(u32, Item)> {
        let ready = |item: &Item| match item {
            Item::Wait(fence, value) => self.value(*fence).is_none_or(|now| now >= *value),
            _ => true,
        };
        let found = self.kernel_queues.iter().find(|(_, queue)| queue.front().is_some_and(ready));
        let to = found.map(|(to, _)| *to)?;
        self.kernel_queues.get_mut(&to)?.pop_front().map(|item| (to, item))
    }
}

pub(crate) fn create_monitored(fake: &mut Fake, args: &mut D3DKMT_CREATESYNCHRONIZATIONOBJECT2) -> NTSTATUS {
    assert_eq!(args.Info.Type, D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_MONITORED_FENCE);
    // SAFETY: the arm of this type.
    let mut made = unsafe { args.Info.u.MonitoredFence };
    assert_eq!(made.EngineAffinity, 1);
    let current = Rc::new(Pages::new(8));
    current.set(0, made.InitialFenceValue);
    let address = fake.reserve(4096);
    (made.FenceValueCPUVirtualAddress, made.FenceValueGPUVirtualAddress) = (current.address(), address);
    args.Info.u.MonitoredFence = made;
    args.hSyncObject = fake.insert(Object::Fence(AnyFence::new(false, current, address, args.Info.Flags)));
    STATUS_SUCCESS
}

pub(crate) fn open_monitored(fake: &mut Fake, args: &mut D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2) -> NTSTATUS {
    if !matches!(fake.objects.get(&args.hDevice), Some(Object::Device)) {
        return fake.violation("a fence opened on no device".into());
    }
    let Some(Object::Kernel(shared)) = fake.objects.get(&(args.hNtHandle.addr() as u32)) else {
        return STATUS_INVALID_HANDLE;
    };
    if shared.native {
        return STATUS_INVALID_PARAMETER;
    }
    let fence = shared.limited(args.Flags);
    let mut opened = D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_MonitoredFence::zeroed();
    (opened.FenceValueCPUVirtualAddress, opened.FenceValueGPUVirtualAddress) = (fence.current.address(), fence.address);
    args.u.MonitoredFence = opened;
    args.hSyncObject = fake.insert(Object::Fence(fence));
    STATUS_SUCCESS
}
