//! Buffers that the CPU rewrites while the GPU is at work on them: renaming, and maps that wait or do not.
//!
//! The operating system does not track which queued work uses an allocation, so the caller declares it by [`DynamicMapping::use_until`]. The mode
//! of a map decides which contents it returns [allocation-usage-tracking: Lock2]:
//!
//! - [`MapMode::Discard`] gives contents that no queued work uses, another allocation of a bounded pool if the present one is in use;
//! - [`MapMode::NoOverwrite`] gives the present contents at once; the caller leaves alone what queued work uses;
//! - [`MapMode::Plain`] gives the present contents once no queued work uses them.
//!
//! Waiting is a wait for a fence in the operating system; nothing polls. Every contents stays mapped for as long as it exists.

use alloc::{sync::Arc, vec::Vec};

use spin::Mutex;

use crate::{
    buffer::{Buffer, Mapping, Placement},
    device::Device,
    error::{Error, Result},
    fence::Fence,
};

/// Most contents that a pool may have.
pub const CONTENTS_MAX: usize = 64;

/// Promise of the application about the accesses to a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapMode {
    /// To read or change the present contents.
    Plain,
    /// To write what no queued work uses; all other bytes stay as they are.
    NoOverwrite,
    /// To write everything anew; what was there is forgotten.
    Discard,
}

/// A buffer with contents that can be renamed. Clones share it. Any number of threads may map it.
#[derive(Clone)]
pub struct DynamicBuffer {
    inner: Arc<Inner>,
}

struct Inner {
    device: Device,
    size: u64,
    placement: Placement,
    most: usize,
    /// Taken for a few instructions, never while waiting or calling the operating system.
    pool: Mutex<Pool>,
}

struct Pool {
    /// The present contents first, then the others, longest unused first.
    contents: Vec<Arc<Contents>>,
    /// Contents that exist or are being made.
    made: usize,
}

struct Contents {
    mapping: Mapping,
    uses: Mutex<Vec<Use>>,
}

/// Queued work uses the contents until `fence` reaches `value`.
#[derive(Clone)]
struct Use {
    fence: Fence,
    value: u64,
}

impl Contents {
    fn new(device: &Device, size: u64, placement: Placement) -> Result<Arc<Self>> {
        let mapping = device.create_buffer(size, placement)?.map()?;
        Ok(Arc::new(Self { mapping, uses: Mutex::new(Vec::new()) }))
    }

    /// A use that is not over, if there is one; removes those that are over.
    fn pending(&self) -> Option<Use> {
        let mut uses = self.uses.lock();
        uses.retain(|use_| use_.fence.value() < use_.value);
        uses.first().cloned()
    }

    fn buffer(&self) -> &Buffer {
        self.mapping.buffer()
    }
}

/// Result of the search for contents that can be mapped.
enum Found {
    Ready(Arc<Contents>),
    /// Contents can be made; they are counted already.
    Space,
    /// All contents are in use; this use ends first.
    Busy(Use),
    /// All contents are mapped.
    Mapped,
}

impl Device {
    /// Creates a buffer of `size` bytes with up to `most` contents, of which the first is made now. Its bytes are zero.
    ///
    /// # Errors
    /// [`Error::BadArgument`] unless `most` is 1 to [`CONTENTS_MAX`]; as [`Device::create_buffer`] and [`Buffer::map`].
    pub fn create_dynamic_buffer(&self, size: u64, placement: Placement, most: usize) -> Result<DynamicBuffer> {
        if most == 0 || most > CONTENTS_MAX {
            return Err(Error::BadArgument("a dynamic buffer has 1 to 64 contents"));
        }
        if placement == Placement::Vram {
            return Err(Error::NotMappable);
        }
        let first = Contents::new(self, size, placement)?;
        let pool = Mutex::new(Pool { contents: Vec::from([first]), made: 1 });
        Ok(DynamicBuffer { inner: Arc::new(Inner { device: self.clone(), size, placement, most, pool }) })
    }
}

impl DynamicBuffer {
    /// Maps the buffer.
    ///
    /// With `wait` false the answer comes at once: [`Error::WasStillDrawing`] if queued work is in the way
    /// (D3D11_MAP_FLAG_DO_NOT_WAIT). Otherwise the call returns when it is done.
    ///
    /// # Errors
    /// [`Error::WasStillDrawing`]; [`Error::AllMapped`] for a discard while all contents are mapped; as [`Fence::wait`]; as
    /// [`Device::create_buffer`].
    pub fn map(&self, mode: MapMode, wait: bool) -> Result<DynamicMapping> {
        loop {
            let found = match mode {
                MapMode::NoOverwrite => self.present().map(Found::Ready),
                MapMode::Plain => self.present().map(|contents| match contents.pending() {
                    None => Found::Ready(contents),
                    Some(use_) => Found::Busy(use_),
                }),
                MapMode::Discard => Some(self.rename()),
            };
            match found.ok_or(Error::BadAnswer("a dynamic buffer without contents"))? {
                Found::Ready(contents) => return Ok(DynamicMapping { contents }),
                Found::Space => return self.make(),
                Found::Busy(use_) if wait => use_.fence.wait(use_.value, None)?,
                Found::Busy(_) => return Err(Error::WasStillDrawing),
                Found::Mapped => return Err(Error::AllMapped),
            }
        }
    }

    fn present(&self) -> Option<Arc<Contents>> {
        self.inner.pool.lock().contents.first().cloned()
    }

    /// Makes contents the present ones that no work uses and no mapping has.
    fn rename(&self) -> Found {
        let mut pool = self.inner.pool.lock();
        let (mut oldest, mut newest) = (None, None);
        for place in 0..pool.contents.len() {
            let Some(contents) = pool.contents.get(place) else { break };
            // Only the pool refers to it: no mapping does, and none can be made without the pool.
            if Arc::strong_count(contents) > 1 {
                continue;
            }
            match contents.pending() {
                None if place == 0 => return Found::Ready(Arc::clone(contents)),
                None => {
                    let contents = pool.contents.remove(place);
                    pool.make_present(Arc::clone(&contents));
                    return Found::Ready(contents);
                }
                // The present contents were submitted last; those behind them come in the order in which they were present.
                Some(use_) if place == 0 => newest = Some(use_),
                Some(use_) => oldest = oldest.or(Some(use_)),
            }
        }
        if pool.made < self.inner.most {
            pool.made += 1;
            return Found::Space;
        }
        oldest.or(newest).map_or(Found::Mapped, Found::Busy)
    }

    /// Makes contents for a place that was counted.
    fn make(&self) -> Result<DynamicMapping> {
        let made = Contents::new(&self.inner.device, self.inner.size, self.inner.placement);
        let mut pool = self.inner.pool.lock();
        match made {
            Ok(contents) => {
                pool.make_present(Arc::clone(&contents));
                Ok(DynamicMapping { contents })
            }
            Err(error) => {
                pool.made -= 1;
                Err(error)
            }
        }
    }

    /// Contents that exist.
    pub fn contents(&self) -> usize {
        self.inner.pool.lock().contents.len()
    }

    /// Bytes asked for.
    pub fn size(&self) -> u64 {
        self.inner.size
    }

    /// Memory that the buffer is in.
    pub fn placement(&self) -> Placement {
        self.inner.placement
    }
}

impl Pool {
    fn make_present(&mut self, contents: Arc<Contents>) {
        // What was present becomes the one used most recently.
        if !self.contents.is_empty() {
            self.contents.rotate_left(1);
        }
        self.contents.insert(0, contents);
    }
}

/// Contents of a [`DynamicBuffer`] as the CPU sees them, until dropped. Clones share it. They are not renamed while it exists, so that its
/// addresses are good for recording work too.
#[derive(Clone)]
pub struct DynamicMapping {
    contents: Arc<Contents>,
}

impl DynamicMapping {
    /// First GPU virtual address of these contents.
    pub fn gpu_address(&self) -> u64 {
        self.contents.buffer().gpu_address()
    }

    /// The bytes.
    pub fn bytes(&self) -> &Mapping {
        &self.contents.mapping
    }

    /// Says that queued work uses these contents until `fence` reaches `value`. Say it before the work is submitted, or before the
    /// mapping is dropped.
    pub fn use_until(&self, fence: &Fence, value: u64) {
        let mut uses = self.contents.uses.lock();
        match uses.iter_mut().find(|use_| use_.fence.handle() == fence.handle()) {
            Some(use_) => use_.value = use_.value.max(value),
            None => uses.push(Use { fence: fence.clone(), value }),
        }
    }
}
