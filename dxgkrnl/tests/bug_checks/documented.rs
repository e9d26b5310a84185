//! What the pages list, and why some of it is out of reach.

/// Code, its name, and the values of parameter 1 with their meaning in our own words.
type Documented = (u32, &'static str, &'static [(u64, &'static str)]);

/// Code, values of parameter 1, and why no driver of this kind commits these here.
type OutOfReach = (u32, &'static [u64], &'static str);

/// Stands for a parameter 1 that is no kind of violation but names the thread that commits it.
pub(crate) const THREAD: u64 = u64::MAX;

/// [debugger: 0x119, 0x10e, 0x133, 0xea]
pub(crate) const DOCUMENTED: &[Documented] = &[
    (
        0x119,
        "VIDEO_SCHEDULER_INTERNAL_ERROR",
        &[
            (0x1, "a fence id that cannot be, was reported"),
            (0x2, "a submission or preemption was refused"),
            (0x3, "a command buffer was not patched"),
            (0x4, "the length of the flip queue cannot be"),
            (0x5, "a command of the system faulted"),
            (0x6, "an interrupt of linked adapters names none of them"),
            (0x7, "a vertical sync on an adapter that only renders"),
            (0x8, "the engines that hang together lack the one that is reset"),
            (0x9, "a command was not cancelled"),
            (0xa, "an aborted fence id out of range"),
            (0xb, "addresses of overlays were not set"),
            (0xc, "a page fault means that the hardware is broken"),
            (0xd, "flags of a page fault contradict each other"),
            (0xe, "a vertical sync of a plane that does not exist"),
            (0x10, "an interrupt of an engine between reset and resumption"),
            (0x11, "a suspension was reported that was never asked for"),
            (0x12, "monitored values were not updated"),
            (0x13, "current values were not updated by the CPU"),
            (0x400, "inner state"),
            (0xe00, "no memory for passive flips"),
            (0x1000, "inner state"),
            (0xa000, "inner state"),
            (0x10000, "inner state"),
        ],
    ),
    (
        0x10e,
        "VIDEO_MEMORY_MANAGEMENT_INTERNAL",
        &[
            (0x1, "a range that does not rotate was rotated"),
            (0x2, "a heap was destroyed that is in use"),
            (0x3, "an aperture was not unmapped"),
            (0x4, "a rotation failed that must not"),
            (0x5, "a deferred command failed"),
            (0x6, "resources for what is no longer evicted"),
            (0x7, "use was deferred wrongly"),
            (0x8, "a split buffer has a wrong reference"),
            (0x9, "an allocation was not evicted"),
            (0xa, "wrong use of a pinned allocation"),
            (0xb, "DxgkDdiBuildPagingBuffer answered what it may not"),
            (0xc, "a segment leaks"),
            (0xd, "a segment is used wrongly"),
            (0xe, "an aperture was not mapped"),
            (0xf, "a swizzling range was not acquired"),
            (0x10, "a swizzling range was not released"),
            (0x11, "wrong use of an aperture"),
            (0x12, "a buffer of commands overflowed"),
            (0x13, "private data overflowed"),
            (0x14, "segments were not purged"),
            (0x15, "a rotated address was freed"),
            (0x16, "the model of guaranteed buffers was broken"),
            (0x17, "a command of the system failed"),
            (0x18, "a pinned allocation was not released"),
            (0x19, "a buffer was not patched"),
            (0x1a, "the owner of a shared allocation was freed"),
            (0x1b, "a range of an aperture was released in use"),
            (0x1c, "order of rotations"),
            (0x1d, "order of paging buffers"),
            (0x1e, "order of processes"),
            (0x1f, "order of fences"),
            (0x20, "an allocation is not idle"),
            (0x21, "a paging buffer was flushed out of order"),
            (0x22, "rotation to a range that cannot be"),
            (0x23, "woken too early"),
            (0x24, "backing store still referred to"),
            (0x25, "the GPU wrote to no memory of an aperture"),
            (0x26, "closed by another process"),
            (0x27, "not programmed anew at a split"),
            (0x28, "an exception on a global allocation"),
            (0x29, "a count of references ran over"),
            (0x2a, "a displayed allocation was freed"),
            (0x2b, "pages of the CPU host aperture freed wrongly"),
            (0x2c, "pages of the CPU host aperture mapped twice"),
            (0x2d, "DxgkDdiMapCpuHostAperture failed"),
            (0x2e, "DxgkDdiUnmapCpuHostAperture failed"),
            (0x2f, "sizes of ranges differ"),
            (0x30, "an operation on GPU addresses failed"),
            (0x31, "a paging queue was deleted at work"),
            (0x32, "a paging queue was deleted at work"),
            (0x33, "a device was destroyed with resident allocations"),
            (0x34, "state of a heap"),
            (0x35, "a paging request failed on the default queue"),
            (0x36, "failed again after it could not be recovered from"),
            (0x37, "pages were not locked during a recovery"),
            (0x38, "penalty box or paging queue"),
            (0x39, "penalty box or paging queue"),
            (0x3a, "penalty box or paging queue"),
            (0x3b, "memory rotated at D3"),
            (0x3c, "something in the CPU host aperture at D3"),
            (0x3d, "a group of segments that cannot be"),
            (0x3e, "rundown"),
            (0x3f, "resumptions that conflict"),
            (0x40, "bracket of a preparation"),
            (0x41, "counts across adapters"),
            (0x42, "counts across adapters"),
            (0x43, "the frame buffer was not saved"),
            (0x44, "a budget below zero"),
        ],
    ),
    (
        0x133,
        "DPC_WATCHDOG_VIOLATION",
        &[
            (0x0, "a DPC or an interrupt routine took too long"),
            (0x1, "the system was at DISPATCH_LEVEL or above for too long"),
        ],
    ),
    (0xea, "THREAD_STUCK_IN_DEVICE_DRIVER", &[(THREAD, "a thread does not come back from a driver")]),
];

const NO_DISPLAY: &str = "an adapter that computes only has no display, and registers none of these functions";
const NO_PATCHES: &str = "contexts have GPU virtual addresses: nothing is patched, and DxgkDdiPatch is not called";
const OWN_BOOKS: &str =
    "books of the system itself, which no answer of a driver changes; ours are held by the tests of the memory manager";
const NO_APERTURE: &str = "the GPU reaches system memory by page tables: apertures are not mapped page by page (an error for those is row 0x30, and entries that are not written are 0x113)";

/// Reasons by row.
pub(crate) const OUT_OF_REACH: &[OutOfReach] = &[
    (0x119, &[0x3], NO_PATCHES),
    (0x119, &[0x4, 0xb, 0xe, 0xe00], NO_DISPLAY),
    (0x119, &[0x6], "only vertical syncs carry a mask of adapters, and an adapter that computes only has none"),
    (
        0x119,
        &[0x400, 0x1000, 0xa000, 0x10000],
        "corrupted memory or broken hardware inside the system; no rule for drivers",
    ),
    (0x10e, &[0x3, 0xe, 0x11, 0x1b], NO_APERTURE),
    (0x10e, &[0x1, 0x4, 0x15, 0x1c, 0x22, 0x3b], "what a locked address shows is rotated by the system alone"),
    (0x10e, &[0xf, 0x10], "swizzling ranges do not exist in WDDM 2 and later"),
    (0x10e, &[0x16], "guaranteed buffers belong to DxgkDdiRender, which virtual contexts do without"),
    (0x10e, &[0x19], NO_PATCHES),
    (0x10e, &[0x2a, 0x43], NO_DISPLAY),
    (0x10e, &[0xd], "an answer of DxgkDdiCreateAllocation that names a segment wrongly is refused when it is given"),
    (0x10e, &[0x25], "the GPU writes where page tables point; an entry that points nowhere is a page fault"),
    (
        0x10e,
        &[0x5, 0x35, 0x36],
        "a paging packet that is refused is 0x119 (0x2), one that faults 0x119 (0x5), one that hangs a timeout",
    ),
    (0x10e, &[0x37], "memory of the system is not paged out here, so nothing is locked for a recovery"),
    (0x10e, &[0x3c], "the system closes every window before D3; a driver that fails in that is row 0x2E"),
    (
        0x10e,
        &[
            0x2, 0x6, 0x7, 0x8, 0xa, 0xc, 0x14, 0x18, 0x1a, 0x1d, 0x1e, 0x1f, 0x20, 0x21, 0x23, 0x24, 0x26, 0x27, 0x28,
            0x29, 0x2b, 0x2c, 0x2f, 0x31, 0x32, 0x33, 0x34, 0x38, 0x39, 0x3a, 0x3d, 0x3e, 0x3f, 0x40, 0x41, 0x42, 0x44,
        ],
        OWN_BOOKS,
    ),
];
