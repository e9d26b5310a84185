//! Headers written from the table of layout facts: what a kit's headers would say if the table were all there is.
//!
//! The table lists members flat, with their offsets. [`header`] puts them into C again: overlapping members become unions,
//! runs of bit fields unnamed structures, gaps unnamed bit fields. The text is no kit's, but it has the constructs of the
//! real one, and clang lays it out.

mod tree;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ddi_layout::Facts;
use ddi_layout::facts::TypeFacts;
use wddm_ddi::status;

use tree::Record;

/// Types of the base headers that the table does not have, and names that every header takes for granted.
const BASE: &str = "\
typedef unsigned char UCHAR, BOOLEAN, BYTE, UINT8;
typedef unsigned short USHORT, UINT16, WORD, WCHAR;
typedef int INT, BOOL;
typedef long LONG, NTSTATUS;
typedef unsigned int UINT, UINT32;
typedef unsigned long ULONG, DWORD;
typedef unsigned long long ULONGLONG, UINT64, SIZE_T, ULONG_PTR, KAFFINITY;
typedef long long LONGLONG;
typedef void VOID, *PVOID, *HANDLE;
typedef WCHAR *PWSTR;
typedef struct _MDL MDL, *PMDL;
typedef enum _DPFLTR_TYPE { DPFLTR_SYSTEM_ID = 0, DPFLTR_VIDEO_ID = 27, DPFLTR_ACPI_ID = 24 } DPFLTR_TYPE;
#define DPFLTR_ERROR_LEVEL 0
#define DPFLTR_INFO_LEVEL 3
#define DISPLAY_ADAPTER_HW_ID 0xFFFFFFFF
#define POOL_FLAG_NON_PAGED 0x0000000000000040ull
#define POOL_FLAG_UNINITIALIZED 0x0000000000000002ull
#define PASSIVE_LEVEL 0
#define APC_LEVEL 1
#define DISPATCH_LEVEL 2
";

/// The rest of the base headers, which needs types of the table.
const RESOURCES: &str = "\
struct _MDL {
  struct _MDL *Next; short Size; short MdlFlags; struct _EPROCESS *Process;
  PVOID MappedSystemVa; PVOID StartVa; ULONG ByteCount; ULONG ByteOffset;
};
#pragma pack(push, 4)
typedef struct _CM_PARTIAL_RESOURCE_DESCRIPTOR {
  UCHAR Type; UCHAR ShareDisposition; USHORT Flags;
  union {
    struct { LARGE_INTEGER Start; ULONG Length; } Memory;
    struct {
      union {
        struct { USHORT Reserved; USHORT MessageCount; ULONG Vector; KAFFINITY Affinity; } Raw;
        struct { ULONG Level; ULONG Vector; KAFFINITY Affinity; } Translated;
      };
    } MessageInterrupt;
  } u;
} CM_PARTIAL_RESOURCE_DESCRIPTOR;
#pragma pack(pop)
typedef struct _CM_PARTIAL_RESOURCE_LIST {
  USHORT Version; USHORT Revision; ULONG Count; CM_PARTIAL_RESOURCE_DESCRIPTOR PartialDescriptors[1];
} CM_PARTIAL_RESOURCE_LIST;
typedef struct _CM_FULL_RESOURCE_DESCRIPTOR {
  int InterfaceType; ULONG BusNumber; CM_PARTIAL_RESOURCE_LIST PartialResourceList;
} CM_FULL_RESOURCE_DESCRIPTOR;
typedef struct _CM_RESOURCE_LIST { ULONG Count; CM_FULL_RESOURCE_DESCRIPTOR List[1]; } CM_RESOURCE_LIST;
typedef struct _QUERY_INTERFACE {
  GUID *InterfaceType; USHORT Size; USHORT Version; INTERFACE *Interface; PVOID InterfaceSpecificData; ULONG DeviceUid;
} QUERY_INTERFACE;
typedef struct _PCI_DEVICE_PRESENCE_PARAMETERS {
  ULONG Size; ULONG Flags; USHORT VendorID; USHORT DeviceID; UCHAR RevisionID; USHORT SubVendorID; USHORT SubSystemID;
  UCHAR BaseClass; UCHAR SubClass; UCHAR ProgIf;
} PCI_DEVICE_PRESENCE_PARAMETERS;
";

/// The facts as C, in an order in which it compiles.
pub(crate) fn header(facts: &Facts) -> String {
    let mut writer = Writer { facts, done: BTreeSet::new(), text: BASE.to_owned() };
    for (name, size) in &facts.typedefs {
        let scalar = tree::scalar(*size).expect("the table has scalar names only of scalar sizes");
        let _ = writeln!(writer.text, "typedef {scalar} {name};");
        writer.done.insert(name.clone());
    }
    for name in facts.types.keys() {
        writer.define(name);
    }
    writer.text.push_str(RESOURCES);
    writer.values();
    writer.text
}

struct Writer<'a> {
    facts: &'a Facts,
    done: BTreeSet<String>,
    text: String,
}

impl Writer<'_> {
    fn define(&mut self, name: &str) {
        if !self.done.insert(name.to_owned()) {
            return;
        }
        let facts = self.facts;
        match (facts.enums.get(name), facts.types.get(name)) {
            (Some(values), _) => {
                let values: Vec<String> = values.iter().map(|(value, n)| format!("{value} = {}", *n as i32)).collect();
                // An enumeration without values is not C.
                let values = if values.is_empty() { format!("{name}_NONE = 0") } else { values.join(", ") };
                let _ = writeln!(self.text, "typedef enum _{name} {{ {values} }} {name};");
            }
            (None, Some(of)) => self.record(name, of),
            (None, None) => {}
        }
    }

    fn record(&mut self, name: &str, of: &TypeFacts) {
        for row in &of.rows {
            self.mention(&row.ty, row.size, of.align);
        }
        let packed = of.align == 1 && of.size > 1;
        let record = Record::new(self.facts, of);
        let body = record.body(packed);
        let (before, after) = if packed { ("#pragma pack(push, 1)\n", "#pragma pack(pop)\n") } else { ("", "") };
        let align = if record.align < of.align { format!("__declspec(align({})) ", of.align) } else { String::new() };
        let _ = write!(self.text, "{before}typedef struct {align}_{name} {{\n{body}}} {name};\n{after}");
    }

    /// Sees that the type of a member is known where it is used.
    fn mention(&mut self, ty: &str, size: usize, align: usize) {
        let (element, length) = tree::element(ty);
        if element.ends_with('*') || matches!(element, "struct" | "union" | "fn") || is_base(element) {
            return;
        }
        if self.facts.types.contains_key(element) {
            return self.define(element);
        }
        if self.done.insert(element.to_owned()) {
            // Types beyond the table matter by their size alone.
            let size = size / length.max(1);
            let text = match tree::scalar(size) {
                Some(scalar) => format!("typedef {scalar} {element};"),
                None => {
                    let word = if align >= 8 && size.is_multiple_of(8) { 8 } else { 4 };
                    let scalar = tree::scalar(word).expect("words are scalars");
                    format!("typedef struct {{ {scalar} opaque[{}]; }} {element};", size / word)
                }
            };
            self.text.push_str(&text);
            self.text.push('\n');
        }
    }

    fn values(&mut self) {
        for (name, value) in &self.facts.constants {
            // With a cast, as many headers write it and bindgen by itself does not read it.
            let _ = writeln!(self.text, "#define {name} ((UINT){value:#x})");
        }
        for (status, name) in status::NAMES {
            let _ = writeln!(self.text, "#define {name} ((NTSTATUS){:#010X}L)", status.0);
        }
        for (name, guid) in &self.facts.guids {
            let digits: String = guid.chars().filter(|c| *c != '-').collect();
            let bytes: Vec<String> = (0..8).map(|at| format!("0x{}", &digits[16 + 2 * at..18 + 2 * at])).collect();
            let (a, b, c) = (&digits[..8], &digits[8..12], &digits[12..16]);
            let _ = writeln!(
                self.text,
                "#define DEFINE_GUID(name, ...) extern const GUID name\nDEFINE_GUID({name},\n  0x{a}, 0x{b}, 0x{c}, {});",
                bytes.join(", ")
            );
        }
    }
}

/// True if the preamble declares the type.
fn is_base(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "UCHAR",
        "BOOLEAN",
        "BYTE",
        "UINT8",
        "USHORT",
        "UINT16",
        "WORD",
        "WCHAR",
        "INT",
        "BOOL",
        "LONG",
        "NTSTATUS",
        "UINT",
        "UINT32",
        "ULONG",
        "DWORD",
        "ULONGLONG",
        "UINT64",
        "SIZE_T",
        "ULONG_PTR",
        "KAFFINITY",
        "LONGLONG",
        "VOID",
        "PVOID",
        "HANDLE",
        "PWSTR",
        "MDL",
        "PMDL",
        "void",
        "char",
    ];
    NAMES.contains(&name)
}
