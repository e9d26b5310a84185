//! Members in a tree again: records within records, unions where members overlap, words where there are bit fields.

use std::fmt::Write as _;

use ddi_layout::Facts;
use ddi_layout::facts::{Row, TypeFacts};

/// A structure with its members in order.
pub(super) struct Record {
    groups: Vec<Group>,
    size: usize,
    /// Alignment in bytes by the rules of C, before any packing.
    pub(super) align: usize,
}

/// Members that share memory; one alone is no union.
struct Group {
    start: usize,
    end: usize,
    members: Vec<Member>,
}

/// Something with a place.
pub(super) struct Member {
    start: usize,
    end: usize,
    align: usize,
    what: What,
}

enum What {
    Field {
        name: String,
        ty: String,
    },
    /// Bit fields of one word from its lowest bit on: name, type, first bit, number of bits.
    Bits(Vec<(String, String, u32, u32)>),
    Inline {
        name: String,
        record: Record,
    },
}

/// The scalar with this size.
pub(super) fn scalar(size: usize) -> Option<&'static str> {
    match size {
        1 => Some("UCHAR"),
        2 => Some("USHORT"),
        4 => Some("UINT"),
        8 => Some("ULONGLONG"),
        _ => None,
    }
}

/// The type of an element, and how many there are.
pub(super) fn element(ty: &str) -> (&str, usize) {
    let array = ty.strip_suffix(']').and_then(|rest| rest.rsplit_once('['));
    match array.and_then(|(element, length)| Some((element, length.parse().ok()?))) {
        Some((element, length)) => (element, length),
        None => (ty, 1),
    }
}

impl Record {
    pub(super) fn new(facts: &Facts, of: &TypeFacts) -> Self {
        Self::build(facts, &of.rows, "", 0, of.size)
    }

    fn build(facts: &Facts, rows: &[Row], prefix: &str, base: usize, size: usize) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        for member in members(facts, rows, prefix, base) {
            let mut group = Group { start: member.start, end: member.end, members: Vec::new() };
            let mut before = Vec::new();
            while groups.last().is_some_and(|last| last.end > member.start) {
                before.push(groups.pop().expect("there is a last one"));
            }
            for earlier in before.into_iter().rev() {
                group.start = group.start.min(earlier.start);
                group.end = group.end.max(earlier.end);
                group.members.extend(earlier.members);
            }
            group.members.push(member);
            groups.push(group);
        }
        let align = groups.iter().flat_map(|group| &group.members).map(|member| member.align).max().unwrap_or(1);
        Self { groups, size, align }
    }

    /// The members as C.
    pub(super) fn body(&self, packed: bool) -> String {
        let mut text = String::new();
        let mut at = 0;
        for group in &self.groups {
            let align = group.members.iter().map(|member| member.align).max().unwrap_or(1);
            let align = if packed { 1 } else { align };
            pad(&mut text, &mut at, group.start, align);
            group.write(&mut text, packed);
            at = group.end;
        }
        let align = if packed { 1 } else { self.align };
        if at.next_multiple_of(align) < self.size {
            pad(&mut text, &mut at, self.size, 1);
        }
        text
    }
}

/// Unnamed bytes up to `to`, unless the alignment of what follows makes them anyway.
fn pad(text: &mut String, at: &mut usize, to: usize, align: usize) {
    assert!(at.next_multiple_of(align) <= to, "a member lies at {to}, which is before {at} aligned to {align}");
    if at.next_multiple_of(align) < to {
        for _ in *at..to {
            text.push_str("UCHAR :8;\n");
        }
    }
    *at = to;
}

impl Group {
    fn write(&self, text: &mut String, packed: bool) {
        if let [member] = self.members.as_slice() {
            return member.write(text, packed);
        }
        text.push_str("union {\n");
        let mut arms: Vec<Vec<&Member>> = Vec::new();
        for member in &self.members {
            match arms.last_mut() {
                Some(arm) if arm.last().is_some_and(|last| last.end <= member.start) => arm.push(member),
                _ => arms.push(vec![member]),
            }
        }
        for arm in arms {
            match arm.as_slice() {
                [member] if member.start == self.start => member.write(text, packed),
                members => {
                    text.push_str("struct {\n");
                    let mut at = 0;
                    for member in members {
                        let align = if packed { 1 } else { member.align };
                        pad(text, &mut at, member.start - self.start, align);
                        member.write(text, packed);
                        at = member.end - self.start;
                    }
                    text.push_str("};\n");
                }
            }
        }
        text.push_str("};\n");
    }
}

impl Member {
    fn write(&self, text: &mut String, packed: bool) {
        let _ = match &self.what {
            What::Field { name, ty } => {
                let (element, length) = element(ty);
                let array = if ty.ends_with(']') { format!("[{length}]") } else { String::new() };
                match element {
                    "fn" => writeln!(text, "void (*{name}{array})(void);"),
                    _ => writeln!(text, "{} {name}{array};", pointer(element)),
                }
            }
            What::Inline { name, record } => writeln!(text, "struct {{\n{}}} {name};", record.body(packed)),
            What::Bits(bits) => {
                text.push_str("struct {\n");
                let mut at = 0;
                for (name, ty, first, count) in bits {
                    if at < *first {
                        let _ = writeln!(text, "{ty} :{};", first - at);
                    }
                    let _ = writeln!(text, "{ty} {name} :{count};");
                    at = first + count;
                }
                writeln!(text, "}};")
            }
        };
    }
}

/// A pointer to whatever it is: only pointers to itself matter to C.
fn pointer(element: &str) -> &str {
    if element.ends_with('*') { "void *" } else { element }
}

/// Direct members below `prefix`, offsets counted from `base`.
fn members(facts: &Facts, rows: &[Row], prefix: &str, base: usize) -> Vec<Member> {
    let mut all: Vec<Member> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let Some(name) = row.name.strip_prefix(prefix).filter(|name| !name.contains('.')) else { continue };
        let (start, end) = (row.offset - base, row.offset - base + row.size);
        let align = align_of(facts, &row.ty, row.size);
        let what = match (row.bits, row.ty.as_str()) {
            (Some((first, count)), ty) => {
                let bit = (name.to_owned(), ty.to_owned(), first, count);
                if let Some(Member { start: word, end: word_end, what: What::Bits(bits), .. }) = all.last_mut()
                    && (*word, *word_end) == (start, end)
                    && bits.last().is_some_and(|(_, _, last, width)| last + width <= first)
                {
                    bits.push(bit);
                    continue;
                }
                What::Bits(vec![bit])
            }
            (None, "struct" | "union") => {
                let rows = &rows[index + 1..];
                let record = Record::build(facts, rows, &format!("{prefix}{name}."), row.offset, row.size);
                let align = record.align;
                all.push(Member { start, end, align, what: What::Inline { name: name.to_owned(), record } });
                continue;
            }
            (None, ty) => What::Field { name: name.to_owned(), ty: ty.to_owned() },
        };
        all.push(Member { start, end, align, what });
    }
    all
}

fn align_of(facts: &Facts, ty: &str, size: usize) -> usize {
    let (element, length) = element(ty);
    if element.ends_with('*') || element == "fn" {
        return 8;
    }
    if let Some(of) = facts.types.get(element) {
        return of.align;
    }
    match size / length.max(1) {
        size @ (1 | 2 | 4 | 8) => size,
        // As the preamble declares what the table does not have.
        size if size.is_multiple_of(8) => 8,
        _ => 4,
    }
}
