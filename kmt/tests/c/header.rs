//! The headers are what the Rust sources say, C accepts them, and what C makes of them is what the table of layout facts says.

use std::{env, fs};

use ddi_layout::{Facts, Source};

use crate::compiler::{Language, Unit, compile, examine, include, passes, root};
use crate::{gpu, kernel, thunks};

pub(crate) fn source() -> Source {
    Source::read(&root().join("ddi/src")).expect("the declarations are readable")
}

pub(crate) fn facts() -> Facts {
    let table = fs::read_to_string(root().join("ddi/tests/ddi-layout.json")).expect("the table is readable");
    Facts::from_text(&table).expect("the table has its form")
}

fn is_current(file: &str, fresh: &str) {
    let path = include().join(file);
    if env::var_os("CAMPANILE_UPDATE").is_some() {
        fs::write(&path, fresh).expect("writable");
    }
    let stored = fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    assert!(
        stored == fresh,
        "kmt/include/{file} is not what the sources say; update it with: CAMPANILE_UPDATE=1 cargo test -p campanile_kmt"
    );
}

#[test]
fn headers_are_up_to_date() {
    is_current("campanile_kmt.h", &thunks::header(&source(), &facts()));
    is_current("campanile_gpu.h", &gpu::header());
    is_current("km/campanile_ddi.h", &kernel::header(&source(), &facts()));
}

#[test]
fn c_lays_every_type_out_as_the_table_says() {
    let text = thunks::layout_program(&source(), &facts());
    assert!(text.matches("_Static_assert").count() > 500 && text.matches("wrong +=").count() > 100);
    passes("layout", &Language::C11, &text);
    passes("layout", &Language::CPP17, &text.replace("_Static_assert(", "static_assert("));
}

#[test]
fn c_lays_every_type_of_the_ddis_out_as_the_table_says() {
    let declared = kernel::declarations(&source(), &facts());
    let text = thunks::layout_of(&source(), &facts(), "km/campanile_ddi.h", &declared);
    assert!(text.matches("_Static_assert").count() > 1000 && text.matches("wrong +=").count() > 200);
    passes("ddi-layout", &Language::C11, &text);
}

#[test]
fn a_wrong_layout_is_seen() {
    let text = "#include <campanile_kmt.h>\n_Static_assert(sizeof(D3DKMT_CREATE_DOORBELL) == 64, \"size\");\nint main(void) { return 0; }\n";
    let outcome = compile("wrong", &Language::C11, text);
    assert!(outcome.is_none_or(|outcome| outcome.is_err_and(|told| told.contains("size"))));
}

#[test]
fn c_lays_records_and_packets_of_the_gpu_out_as_the_manual_says() {
    passes("gpu", &Language::C11, &gpu::layout_program());
}

/// A header that stands for Microsoft's: the same guard, and declarations of its own.
const THEIRS: &str = "
#include <campanile_windows.h>
#define _D3DKMTHK_H_
typedef UINT D3DKMT_HANDLE;
typedef struct _D3DKMT_CLOSEADAPTER { D3DKMT_HANDLE hAdapter; } D3DKMT_CLOSEADAPTER;
EXTERN_C _Check_return_ NTSTATUS APIENTRY D3DKMTCloseAdapter(_In_ CONST D3DKMT_CLOSEADAPTER *);

#include <campanile_kmt.h>
EXTERN_C NTSTATUS D3DKMTCloseAdapter(const D3DKMT_CLOSEADAPTER *close) { return close ? 0 : -1; }
int main(void)
{
    D3DKMT_CLOSEADAPTER close = { 1 };
    return !NT_SUCCESS(D3DKMTCloseAdapter(&close));
}
";

#[test]
fn the_header_gives_way_to_that_of_the_kit() {
    passes("beside", &Language::C11, THEIRS);
    passes("beside", &Language::CPP17, THEIRS);
}

/// Compiles a text that includes headers, with all that a compiler of the standard may say.
fn examined(language: &Language, text: &str) -> Option<Result<String, String>> {
    examine("headers", language, text, &Unit { folders: &[], arguments: &["-pedantic"], strict: true })
}

#[test]
fn each_header_stands_alone_and_is_c11_and_cpp17_without_a_warning() {
    let headers = [
        "campanile_windows.h",
        "winapifamily.h",
        "campanile_kmt.h",
        "campanile_gpu.h",
        "km/ntddk.h",
        "km/campanile_services.h",
        "km/campanile_inline.h",
        "km/campanile_values.h",
        "km/campanile_ddi.h",
        "km/dispmprt.h",
        "km/d3dkmddi.h",
    ];
    for header in headers {
        for language in [&Language::C11, &Language::CPP17] {
            if let Some(told) = examined(language, &format!("#include <{header}>\nint main(void) {{ return 0; }}\n")) {
                told.unwrap_or_else(|told| panic!("{header}, {language:?}: {}", told.get(..2000).unwrap_or(&told)));
            }
        }
    }
}

/// [wdm: PCI_DEVICE_PRESENCE_PARAMETERS; dispmprt: DXGKCB_IS_DEVICE_PRESENT]
#[test]
fn a_driver_in_c_asks_for_a_pci_function_by_the_names_of_wdm_h() {
    let text = "
#include <km/dispmprt.h>
_Static_assert(PCI_USE_SUBSYSTEM_IDS == 0x1 && PCI_USE_REVISION == 0x2 && PCI_USE_VENDEV_IDS == 0x4, \"identity\");
_Static_assert(PCI_USE_CLASS_SUBCLASS == 0x8 && PCI_USE_PROGIF == 0x10, \"class\");
_Static_assert(PCI_USE_LOCAL_BUS == 0x20 && PCI_USE_LOCAL_DEVICE == 0x40, \"place\");
int main(void)
{
    PCI_DEVICE_PRESENCE_PARAMETERS asked = { sizeof asked, PCI_USE_VENDEV_IDS };
    return asked.Flags != 4;
}
";
    passes("presence", &Language::C11, text);
}

#[test]
fn structures_of_the_kernels_services_have_the_sizes_of_windows() {
    let sizes = [
        ("KEVENT", 24),
        ("KSEMAPHORE", 32),
        ("KMUTEX", 56),
        ("KTIMER", 64),
        ("KDPC", 64),
        ("FAST_MUTEX", 56),
        ("ERESOURCE", 104),
        ("EX_RUNDOWN_REF", 8),
        ("KLOCK_QUEUE_HANDLE", 24),
        ("LOOKASIDE_LIST_EX", 96),
        ("NPAGED_LOOKASIDE_LIST", 128),
        ("WORK_QUEUE_ITEM", 32),
        ("OBJECT_ATTRIBUTES", 48),
        ("IO_STATUS_BLOCK", 16),
        ("KBUGCHECK_CALLBACK_RECORD", 64),
        ("RTL_QUERY_REGISTRY_TABLE", 56),
        ("RTL_OSVERSIONINFOEXW", 284),
        ("EVENT_DESCRIPTOR", 16),
        ("MDL", 48),
        ("KEY_VALUE_BASIC_INFORMATION", 16),
        ("KEY_VALUE_FULL_INFORMATION", 24),
        ("KEY_VALUE_PARTIAL_INFORMATION", 16),
    ];
    let checks = sizes.map(|(name, size)| format!("_Static_assert(sizeof({name}) == {size}, \"{name}\");\n"));
    let text = format!("#include <km/ntddk.h>\n{}int main(void) {{ return 0; }}\n", checks.concat());
    if let Some(told) = examined(&Language::C11, &text) {
        told.unwrap_or_else(|told| panic!("{told}"));
    }
}

/// [wdm: RtlQueryRegistryValues, IoOpenDeviceRegistryKey, IoGetDeviceProperty, MDL, MmGetSystemAddressForMdlSafe, READ_REGISTER_BUFFER_UCHAR]
#[test]
fn values_and_inline_functions_of_the_kernels_headers_are_there() {
    let values = [
        ("RTL_REGISTRY_SERVICES", 1_u32),
        ("RTL_REGISTRY_OPTIONAL", 0x8000_0000),
        ("RTL_QUERY_REGISTRY_DIRECT", 0x20),
        ("RTL_QUERY_REGISTRY_TYPECHECK", 0x100),
        ("PLUGPLAY_REGKEY_DRIVER", 2),
        ("MDL_MAPPED_TO_SYSTEM_VA", 1),
        ("MDL_SOURCE_IS_NONPAGED_POOL", 4),
        ("DevicePropertyClassGuid", 6),
        ("DevicePropertyContainerID", 22),
        ("PAGE_READWRITE", 4),
        ("PAGE_WRITECOMBINE", 0x400),
        ("HIGH_LEVEL", 15),
    ];
    let checks = values.map(|(name, value)| format!("C_ASSERT({name} == {value}u);\n"));
    let functions = "PVOID use(_In_ PMDL list, volatile UCHAR *from, PNPAGED_LOOKASIDE_LIST blocks, LARGE_INTEGER *now)
{
    UCHAR bytes[4];
    READ_REGISTER_BUFFER_UCHAR(from, bytes, 4);
    WRITE_REGISTER_UCHAR(from, READ_REGISTER_UCHAR(from));
    KeMemoryBarrier();
    KeQueryTickCount(now);
    ExFreeToNPagedLookasideList(blocks, ExAllocateFromNPagedLookasideList(blocks));
    return MmGetSystemAddressForMdlSafe(list, NormalPagePriority);
}
";
    let main = "int main(void) { return 0; }";
    let text = format!("#include <km/ntddk.h>\n{}{functions}{main}\n", checks.concat());
    if let Some(told) = examined(&Language::C11, &text) {
        told.unwrap_or_else(|told| panic!("{told}"));
    }
}

/// [wdm: InsertTailList, RemoveEntryList, InterlockedIncrement, InterlockedExchangeAdd, InterlockedCompareExchange]
#[test]
fn lists_and_interlocked_operations_do_what_those_of_wdm_do() {
    let text = "#include <km/ntddk.h>
        #define CHECK(what) do { if (!(what)) return __LINE__; } while (0)
        int main(void) {
            LIST_ENTRY head, one, two, three;
            LONG word = 5;
            LONG64 wide = 1ll << 40;
            PVOID pointer = &word;
            PAGED_CODE();
            InitializeListHead(&head);
            CHECK(IsListEmpty(&head) && RemoveHeadList(&head) == &head && RemoveTailList(&head) == &head);
            InsertTailList(&head, &two);
            InsertTailList(&head, &three);
            InsertHeadList(&head, &one);
            CHECK(head.Flink == &one && one.Flink == &two && two.Flink == &three && three.Flink == &head);
            CHECK(head.Blink == &three && three.Blink == &two && two.Blink == &one && one.Blink == &head);
            CHECK(!RemoveEntryList(&two) && one.Flink == &three && three.Blink == &one);
            CHECK(RemoveHeadList(&head) == &one && RemoveTailList(&head) == &three && IsListEmpty(&head));
            InsertHeadList(&head, &one);
            CHECK(RemoveEntryList(&one));
            CHECK(InterlockedIncrement(&word) == 6 && InterlockedDecrement(&word) == 5);
            CHECK(InterlockedExchangeAdd(&word, 3) == 5 && InterlockedExchange(&word, 12) == 8);
            CHECK(InterlockedAnd(&word, 4) == 12 && InterlockedOr(&word, 3) == 4 && InterlockedXor(&word, 1) == 7 && word == 6);
            CHECK(InterlockedCompareExchange(&word, 9, 5) == 6 && word == 6);
            CHECK(InterlockedCompareExchange(&word, 9, 6) == 6 && word == 9);
            CHECK(InterlockedIncrement64(&wide) == (1ll << 40) + 1 && InterlockedExchange64(&wide, 2) == (1ll << 40) + 1);
            CHECK(InterlockedExchangePointer(&pointer, &wide) == &word);
            CHECK(InterlockedCompareExchangePointer(&pointer, NULL, &wide) == &wide && pointer == NULL);
            return 0;
        }";
    passes("inline", &Language::C11, text);
    passes("inline-cpp", &Language::CPP17, text);
}

#[test]
fn an_order_of_headers_that_cannot_be_right_is_named() {
    let kit = "#define _D3DKMTHK_H_\n#include <winapifamily.h>\n";
    let wsl = "#define MIDL_INTERFACE(x) struct\n";
    for (text, word) in [
        (format!("#include <campanile_kmt.h>\n{kit}"), "include d3dkmthk.h first"),
        (format!("#include <campanile_windows.h>\n{wsl}#include <campanile_kmt.h>\n"), "include it first"),
    ] {
        if let Some(told) = examined(&Language::C11, &text) {
            assert!(told.is_err_and(|told| told.contains(word)), "{text}");
        }
    }
    if let Some(told) = examined(&Language::C11, &format!("{kit}UINT word;\n#include <campanile_kmt.h>\n")) {
        told.unwrap_or_else(|told| panic!("{told}"));
    }
}
