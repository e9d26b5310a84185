//! The C text that bindgen reads, and what bindgen cannot tell of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::declared::Declared;

/// Start of the names by which [`probes`] gives constants away.
pub(crate) const PROBE: &str = "wddm_ddi_value_of_";

/// The headers, in an order in which they compile for the kernel.
///
/// `FIELD_OFFSET` of `ntdef.h` dereferences a null pointer, which clang does not accept where `dispmprt.h` asserts an offset at
/// compile time. `PALETTEENTRY` belongs to `wingdi.h`, which does not exist for the kernel; `d3dkmthk.h` only points to it.
pub const INCLUDES: &str = "\
#include <ntddk.h>
#include <windef.h>
#undef FIELD_OFFSET
#define FIELD_OFFSET(type, field) ((LONG)__builtin_offsetof(type, field))
typedef struct tagPALETTEENTRY PALETTEENTRY;
#include <dispmprt.h>
#include <d3dkmddi.h>
#include <d3dkmthk.h>
";

/// Definitions from which bindgen learns the value of each constant that a header defines as a macro.
///
/// bindgen does not evaluate macros with casts, as most status codes are. A macro that no header defines leaves no definition,
/// so it is found missing instead of breaking the text.
pub fn probes(declared: &Declared) -> String {
    let mut text = String::new();
    for name in declared.constant_names() {
        let _ = writeln!(text, "#ifdef {name}\nstatic const long long {PROBE}{name} = (long long)({name});\n#endif");
    }
    text
}

/// GUIDs that the text of a header defines by `DEFINE_GUID`, in their usual spelling: bindgen sees only that they exist.
pub fn guids(text: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (at, word) in text.match_indices("DEFINE_GUID") {
        let arguments = text[at + word.len()..].trim_start().strip_prefix('(').and_then(|rest| rest.split(')').next());
        if let Some((name, guid)) = arguments.and_then(guid) {
            all.insert(name, guid);
        }
    }
    all
}

fn guid(arguments: &str) -> Option<(String, String)> {
    let mut parts = arguments.split(',').map(str::trim);
    let name = parts.next()?.to_owned();
    let numbers: Vec<u64> = parts.map(hexadecimal).collect::<Option<_>>()?;
    let [a, b, c, rest @ ..] = numbers.as_slice() else { return None };
    let [d, e, node @ ..] = rest else { return None };
    if node.len() != 6 || rest.iter().any(|byte| *byte > 0xff) {
        return None;
    }
    let node: String = node.iter().map(|byte| format!("{byte:02x}")).collect();
    Some((name, format!("{a:08x}-{b:04x}-{c:04x}-{d:02x}{e:02x}-{node}")))
}

fn hexadecimal(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['L', 'l', 'U', 'u']);
    let digits = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"))?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_is_read_from_its_definition() {
        let text =
            "DEFINE_GUID( GUID_A,\n  0x94bb3993, 0xC6c3, 0x4da7, 0x89, 0x49, 0xa1, 0x13, 0x82, 0x32, 0xe7, 0x59 );";
        let all = guids(text);
        assert_eq!(all.get("GUID_A").map(String::as_str), Some("94bb3993-c6c3-4da7-8949-a1138232e759"));
    }

    #[test]
    fn what_only_resembles_a_definition_is_none() {
        assert!(guids("#define DEFINE_GUID(name, l, w1) EXTERN_C const GUID name").is_empty());
        assert!(guids("DEFINE_GUID(GUID_A, 0x1, 0x2, 0x3, 4, 5);").is_empty());
        assert!(guids("DEFINE_GUID(GUID_A, 1, 2, 3, 0x100, 1, 1, 1, 1, 1, 1, 1);").is_empty());
        assert!(guids("DEFINE_GUID").is_empty());
    }
}
