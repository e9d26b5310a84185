//! What a driver wants of user mode that the cases cannot know: private data and commands of a GPU, described by a file of a few lines.
//!
//! A line is a key and fields. A field is a width and a value, `u32:1`, in little-endian order; the value is a number, or the name of something that a
//! case puts there: `size` in bytes, `target`, the GPU virtual address of memory of that size, `source`, another one, `pattern`, a word of 32 bits, `value`, the value of a
//! progress fence, `control`, the GPU virtual address of the pointers of a ring.
//!
//! | key | what the fields are |
//! | --- | --- |
//! | `allocation` | private data of an allocation of `size` bytes in system memory, which the processor can map |
//! | `local` | the same in the GPU's own memory; without the line there is none |
//! | `context` | private data of a context and of a hardware context; without the line none is passed |
//! | `queue` | private data of a hardware queue; likewise |
//! | `submission` | private data of a submission; likewise |
//! | `fill` | commands that fill `size` bytes at `target` with `pattern` |
//! | `copy` | commands that copy `size` bytes from `source` to `target`; without the line no case copies anything |
//! | `hang` | commands that do not end; without the line no case hangs anything |
//! | `progress` | commands that store `value` at `target`, the progress fence of a hardware queue; without the line the driver does that (RingBufferFenceRelease) |
//! | `doorbell` | private data of a doorbell, for a ring of `size` bytes at `target` with its pointers at `control`; without the line none is passed |
//! | `node` | the nodes that take the commands, a field each; the first takes packets, and without the line it is 0 |

use std::path::Path;
use std::sync::OnceLock;

use campanile_hw::packet::{self, Packet};
use campanile_hw::private::{AllocationData, DoorbellData, MAGIC, Placement};
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

use crate::rig::{copy, fill};

/// Environment variable that names the file, for programs that were given none.
pub const VARIABLE: &str = "CAMPANILE_PRIVATE_DATA";
/// Bytes of the longest file that is read.
const FILE_MAX: usize = 1 << 16;

/// Values that a case puts into a description.
#[derive(Clone, Copy, Debug, Default)]
pub struct Values {
    /// Bytes.
    pub size: u64,
    /// GPU virtual address.
    pub target: u64,
    /// GPU virtual address that is copied from.
    pub source: u64,
    /// A word that memory is filled with.
    pub pattern: u32,
    /// Value of a progress fence.
    pub value: u64,
    /// GPU virtual address of the pointers of a ring.
    pub control: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Number(u64),
    Size,
    Target,
    Source,
    Pattern,
    Progress,
    Control,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    bytes: usize,
    value: Value,
}

type Fields = Vec<Field>;

/// A file, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    allocation: Fields,
    local: Option<Fields>,
    context: Fields,
    submission: Fields,
    queue: Fields,
    fill: Fields,
    copy: Option<Fields>,
    hang: Option<Fields>,
    progress: Fields,
    doorbell: Fields,
    nodes: Vec<u32>,
}

/// Private data and commands of a driver.
#[derive(Clone, Debug)]
pub enum Opaque {
    /// This project's.
    Campanile,
    /// Another one's.
    Described(Box<Described>),
}

static FILE: OnceLock<Result<Option<Described>, String>> = OnceLock::new();

/// Reads the file for all cases of this process.
///
/// # Errors
/// A sentence with the line that is wrong, or why the file cannot be read.
pub fn read(path: &Path) -> Result<(), String> {
    let described = parse_file(path)?;
    FILE.get_or_init(|| Ok(Some(described)));
    Ok(())
}

/// What the file says that was read, or that the environment names; `None` without one.
///
/// # Errors
/// As [`read`].
pub fn described() -> Result<Option<Described>, String> {
    let from_environment = || match std::env::var_os(VARIABLE) {
        Some(path) => parse_file(Path::new(&path)).map(Some),
        None => Ok(None),
    };
    FILE.get_or_init(from_environment).clone()
}

fn parse_file(path: &Path) -> Result<Described, String> {
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| said(&error))?;
    if text.len() > FILE_MAX {
        return Err(said(&"longer than 64 KiB"));
    }
    parse(&text).map_err(|error| said(&error))
}

fn parse(text: &str) -> Result<Described, String> {
    let mut described = Described::default();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(key) = words.next() else { continue };
        let fields =
            words.map(field).collect::<Result<Fields, _>>().map_err(|word| format!("line {number}: {word}"))?;
        match key {
            "allocation" => described.allocation = fields,
            "local" => described.local = Some(fields),
            "context" => described.context = fields,
            "submission" => described.submission = fields,
            "fill" => described.fill = fields,
            "copy" => described.copy = Some(fields),
            "hang" => described.hang = Some(fields),
            "queue" => described.queue = fields,
            "progress" => described.progress = fields,
            "doorbell" => described.doorbell = fields,
            "node" => described.nodes = nodes(&fields).map_err(|told| format!("line {number}: {told}"))?,
            _ => return Err(format!("line {number}: there is no key `{key}`")),
        }
    }
    if described.allocation.is_empty() || described.fill.is_empty() {
        return Err("the lines `allocation` and `fill` are needed".to_owned());
    }
    Ok(described)
}

fn nodes(fields: &[Field]) -> Result<Vec<u32>, String> {
    if fields.is_empty() {
        return Err("node takes numbers".to_owned());
    }
    let node = |field: &Field| match field.value {
        Value::Number(node) => u32::try_from(node).map_err(|_| format!("there is no node {node}")),
        _ => Err("node takes numbers".to_owned()),
    };
    fields.iter().map(node).collect()
}

fn field(word: &str) -> Result<Field, String> {
    let wrong = || {
        format!(
            "`{word}` is no field, which is u8, u16, u32 or u64, a colon, and a number, size, target, source, pattern, value or control"
        )
    };
    let (width, value) = word.split_once(':').ok_or_else(wrong)?;
    let bytes = match width {
        "u8" => 1,
        "u16" => 2,
        "u32" => 4,
        "u64" => 8,
        _ => return Err(wrong()),
    };
    let value = match value {
        "size" => Value::Size,
        "target" => Value::Target,
        "source" => Value::Source,
        "pattern" => Value::Pattern,
        "value" => Value::Progress,
        "control" => Value::Control,
        _ => match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => value.parse(),
        }
        .map(Value::Number)
        .map_err(|_| wrong())?,
    };
    match value {
        Value::Number(number) if bytes < 8 && number >> (8 * bytes) != 0 => {
            Err(format!("`{word}`: {number} does not fit into {bytes} bytes"))
        }
        _ => Ok(Field { bytes, value }),
    }
}

fn bytes(fields: &[Field], values: Values) -> Vec<u8> {
    let mut all = Vec::new();
    for field in fields {
        let number = match field.value {
            Value::Number(number) => number,
            Value::Size => values.size,
            Value::Target => values.target,
            Value::Source => values.source,
            Value::Pattern => values.pattern.into(),
            Value::Progress => values.value,
            Value::Control => values.control,
        };
        all.extend(number.to_le_bytes().into_iter().take(field.bytes));
    }
    all
}

impl Opaque {
    /// Private data of an allocation; `None` for one in the memory that the GPU does not have.
    pub fn allocation(&self, size: u64, local: bool) -> Option<Vec<u8>> {
        match self {
            Self::Campanile => {
                let placement = if local { Placement::VramVisible } else { Placement::System } as u32;
                Some(AllocationData { magic: MAGIC, placement, size, adapter: 0, reserved: 0 }.to_bytes().to_vec())
            }
            Self::Described(described) => {
                let fields = if local { described.local.as_ref()? } else { &described.allocation };
                Some(bytes(fields, Values { size, ..Values::default() }))
            }
        }
    }

    /// Private data of a context.
    pub fn context(&self) -> Vec<u8> {
        match self {
            Self::Campanile => Vec::new(),
            Self::Described(described) => bytes(&described.context, Values::default()),
        }
    }

    /// Private data of a submission.
    pub fn submission(&self) -> Vec<u8> {
        match self {
            Self::Campanile => Vec::new(),
            Self::Described(described) => bytes(&described.submission, Values::default()),
        }
    }

    /// Commands that fill memory.
    pub fn fill(&self, values: Values) -> Vec<u8> {
        match self {
            Self::Campanile => {
                let packet = fill(values.target, values.size, values.pattern);
                packet.encode().get(..packet.size()).unwrap_or_default().to_vec()
            }
            Self::Described(described) => bytes(&described.fill, values),
        }
    }

    /// Commands that copy memory, where there are some.
    pub fn copy(&self, values: Values) -> Option<Vec<u8>> {
        match self {
            Self::Campanile => {
                let packet = copy(values.target, values.source, u32::try_from(values.size).ok()?);
                Some(packet.encode().get(..packet.size()).unwrap_or_default().to_vec())
            }
            Self::Described(described) => Some(bytes(described.copy.as_ref()?, values)),
        }
    }

    /// Commands that do not end, where there are some.
    pub fn hang(&self) -> Option<Vec<u8>> {
        match self {
            Self::Campanile => None,
            Self::Described(described) => Some(bytes(described.hang.as_ref()?, Values::default())),
        }
    }

    /// Private data of a hardware queue.
    pub fn queue(&self) -> Vec<u8> {
        match self {
            Self::Campanile => Vec::new(),
            Self::Described(described) => bytes(&described.queue, Values::default()),
        }
    }

    /// Commands that store the value of the progress fence at the end of commands for a hardware queue; none where the driver does that.
    pub fn progress(&self, values: Values) -> Vec<u8> {
        match self {
            Self::Campanile => {
                let packet = Packet::Progress(packet::Progress { handle: 0, value: values.value });
                packet.encode().get(..packet.size()).unwrap_or_default().to_vec()
            }
            Self::Described(described) => bytes(&described.progress, values),
        }
    }

    /// Private data of a doorbell.
    pub fn doorbell(&self, values: Values) -> Vec<u8> {
        match self {
            Self::Campanile => DoorbellData { ring: values.target, control: values.control }.to_bytes().to_vec(),
            Self::Described(described) => bytes(&described.doorbell, values),
        }
    }

    /// The nodes that take the commands.
    pub fn nodes(&self) -> &[u32] {
        match self {
            Self::Campanile => &[NODE_COPY, NODE_COMPUTE],
            Self::Described(described) if described.nodes.is_empty() => &[0],
            Self::Described(described) => &described.nodes,
        }
    }

    /// The node that takes packets.
    pub fn node(&self) -> u32 {
        self.nodes().first().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# a GPU\nallocation u64:size u32:0 u8:0xff\n\nfill u16:1 u32:pattern u64:target # commands\nprogress u16:4 u64:value\nnode u32:2 u32:0\n";

    #[test]
    fn fields_become_bytes_with_what_the_case_puts_there() {
        let opaque = Opaque::Described(Box::new(parse(TEXT).unwrap()));
        let allocation = [0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff];
        assert_eq!(opaque.allocation(4096, false).as_deref(), Some(&allocation[..]));
        assert_eq!((opaque.allocation(4096, true), opaque.hang(), opaque.node()), (None, None, 2));
        assert_eq!(opaque.nodes(), [2, 0]);
        assert_eq!(opaque.progress(Values { value: 0x0506, ..Values::default() }), [4, 0, 6, 5, 0, 0, 0, 0, 0, 0]);
        let fill = opaque.fill(Values { size: 1, target: 0x0102_0304, pattern: 0xaabb_ccdd, ..Values::default() });
        assert_eq!(fill, [1, 0, 0xdd, 0xcc, 0xbb, 0xaa, 4, 3, 2, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, part) in [
            ("", "`allocation` and `fill` are needed"),
            ("allocation u64:size\nfill u24:1", "line 2: `u24:1` is no field"),
            ("colour u8:1", "line 1: there is no key `colour`"),
            ("allocation u8:x", "line 1: `u8:x` is no field"),
            ("node u8:1 u8:size", "line 1: node takes numbers"),
            ("node", "line 1: node takes numbers"),
        ] {
            assert!(parse(text).unwrap_err().contains(part), "{text}");
        }
    }
}
