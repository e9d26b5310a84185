//! `include/campanile.h` is what the C API says, and C accepts it.

use std::{env, fs, path::Path, process::Command};

fn generate() -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/c_api");
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        include_guard: Some("CAMPANILE_H".into()),
        no_includes: true,
        sys_includes: vec!["stdint.h".into()],
        cpp_compat: true,
        documentation: true,
        documentation_style: cbindgen::DocumentationStyle::C99,
        style: cbindgen::Style::Type,
        line_length: 120,
        header: Some(format!("{HEADER}{}", table())),
        ..cbindgen::Config::default()
    };
    config.enumeration.rename_variants = cbindgen::RenameRule::ScreamingSnakeCase;
    config.enumeration.prefix_with_name = true;
    for (rust, c) in NAMES {
        config.export.rename.insert((*rust).into(), (*c).into());
        // Enumerations appear in no signature: C passes plain numbers, which may be anything.
        config.export.include.push((*rust).into());
    }
    let mut text = Vec::new();
    let builder = cbindgen::Builder::new().with_config(config);
    // The modules beside it are found from there.
    builder.with_src(source.join("mod.rs")).generate().expect("the C API parses").write(&mut text);
    let text = String::from_utf8(text).expect("text");
    // What Rust calls Safety, C takes for granted: pointers are good or null.
    let mut lines: Vec<&str> = Vec::new();
    let mut skipping = false;
    for line in text.lines() {
        skipping = line == "// # Safety" || skipping && line.starts_with("//");
        match lines.last() {
            _ if skipping => {}
            Some(&"//") if !line.starts_with("//") => {
                lines.pop();
                lines.push(line);
            }
            _ => lines.push(line),
        }
    }
    // A comment that lost its last paragraph ends in an empty line.
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        let ends_comment = *line == "//" && !lines.get(index + 1).is_some_and(|next| next.starts_with("//"));
        if !ends_comment {
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
    out
}

const HEADER: &str = "\
// C API of the Campanile GPU's user-mode driver.
//
// Every function returns 0 or says what went wrong: a positive number is a campanile_status, a negative one the NTSTATUS with
// which the operating system refused; campanile_status_text explains both. Handles are numbers; stale, foreign and invented
// ones are refused. Results are written only on success. Pointers are good for what they point to, or null.
//
// Generated from the Rust source; do not edit.
";

/// The order of the thunk table.
fn table() -> String {
    let mut text = String::from(
        "//\n// The table of thunks has one pointer for each of these functions, in this order; the last is one of winternl.h, the\n\
         // others of d3dkmthk.h:\n",
    );
    for name in wddm_ddi::kmt::Thunks::NAMES {
        text.push_str(&format!("//   {name}\n"));
    }
    text.trim_end().into()
}

const NAMES: &[(&str, &str)] = &[
    ("Status", "campanile_status"),
    ("BufferPlacement", "campanile_placement"),
    ("QueueNode", "campanile_node"),
    ("QueueModel", "campanile_model"),
    ("Loss", "campanile_loss"),
    ("AdapterHandle", "campanile_adapter"),
    ("DeviceHandle", "campanile_device"),
    ("BufferHandle", "campanile_buffer"),
    ("FenceHandle", "campanile_fence"),
    ("QueueHandle", "campanile_queue"),
    ("DynamicHandle", "campanile_dynamic"),
    ("ContentsHandle", "campanile_contents"),
    ("ProgramHandle", "campanile_program"),
    ("DynamicMode", "campanile_dynamic_mode"),
    ("COfferPriority", "campanile_offer_priority"),
    ("FenceAccess", "campanile_access"),
    ("CFenceKind", "campanile_kind"),
    ("CSharing", "campanile_sharing"),
    ("CFenceOptions", "campanile_fence_options"),
    ("CQueueOptions", "campanile_queue_options"),
    ("CQueueStats", "campanile_queue_stats_t"),
    ("CCopyRows", "campanile_copy_rows"),
    ("CDispatch", "campanile_dispatch"),
    ("CommandKind", "campanile_command_kind"),
    ("CCommand", "campanile_command"),
    ("EventKind", "campanile_event_kind"),
    ("CQueueEvent", "campanile_queue_event"),
    ("TracerFunction", "campanile_tracer"),
];

#[test]
fn header_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/campanile.h");
    let fresh = generate();
    if env::var_os("CAMPANILE_UPDATE").is_some() {
        fs::write(&path, &fresh).expect("writable");
    }
    let stored = fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    assert!(
        stored == fresh,
        "umd/include/campanile.h is not what the C API says; update it with: CAMPANILE_UPDATE=1 cargo test -p campanile_umd"
    );
}

#[test]
fn header_declares_every_function() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/c_api");
    let header = generate();
    let mut functions = 0;
    for file in [
        "mod.rs",
        "batch.rs",
        "dynamic.rs",
        "fence.rs",
        "program.rs",
        "record.rs",
        "recovery.rs",
        "share.rs",
        "trace.rs",
    ] {
        let text = fs::read_to_string(source.join(file)).expect("readable");
        for name in text.split("extern \"C\" fn ").skip(1).filter_map(|rest| rest.split('(').next()) {
            assert_eq!(header.matches(&format!("{name}(")).count(), 1, "{name}");
            functions += 1;
        }
    }
    assert!(functions > 30);
}

/// A program as a C programmer would write it.
const PROGRAM: &str = r#"
#include "campanile.h"
#include <stdio.h>

static int check(int32_t status, const char *what)
{
    if (status != CAMPANILE_STATUS_OK)
        fprintf(stderr, "%s: %s (%d)\n", what, campanile_status_text(status), (int)status);
    return status == CAMPANILE_STATUS_OK;
}

int run(const void *thunks)
{
    campanile_adapter adapter;
    campanile_device device;
    campanile_buffer source, target;
    campanile_fence fence;
    campanile_queue queue;
    campanile_queue_options options = { 0 };
    campanile_queue_stats_t stats;
    uint64_t from, to, progress;
    void *bytes;

    options.ring_entries = 256;
    options.model = CAMPANILE_MODEL_AUTO;
    if (!check(campanile_adapter_open(thunks, &adapter), "adapter"))
        return 1;
    if (!check(campanile_device_create(adapter, &device), "device"))
        return 1;
    campanile_buffer_create(device, 4096, CAMPANILE_PLACEMENT_SYSTEM, &source);
    campanile_buffer_create(device, 4096, CAMPANILE_PLACEMENT_VRAM, &target);
    campanile_buffer_gpu_address(source, &from);
    campanile_buffer_gpu_address(target, &to);
    campanile_buffer_map(source, &bytes);
    *(uint32_t *)bytes = 0x12345678;
    campanile_fence_create(device, 0, &fence);
    campanile_queue_create(device, CAMPANILE_NODE_COPY, &options, &queue);
    campanile_begin(queue);
    campanile_record_copy(queue, to, from, 4096);
    campanile_record_signal(queue, fence, 1);
    if (!check(campanile_submit(queue, &progress), "submit"))
        return 1;
    campanile_fence_wait(fence, 1, UINT64_MAX);
    if (!check(campanile_queue_resize(queue, 1024), "resize"))
        return 1;
    campanile_queue_stats(queue, &stats);
    return stats.submissions == 1 ? 0 : 1;
}
"#;

/// A compiler and the directory of the test's files, or what is missing.
fn compiler() -> Option<(String, std::path::PathBuf)> {
    let name = env::var("CC").unwrap_or_else(|_| "cc".into());
    if Command::new(&name).arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Some((name, env!("CARGO_TARGET_TMPDIR").into()));
    }
    let told = format!("no C compiler ({name}): the header was not compiled; install one or set CC");
    // Where everything must be proved, what was not proved is a failure.
    assert!(env::var_os("CI").is_none_or(|ci| ci.is_empty() || ci == "false"), "{told}");
    eprintln!("{told}");
    None
}

#[test]
fn header_compiles_as_c_and_as_cplusplus() {
    compiles("header", PROGRAM);
}

/// The example of the manual, as it stands there.
#[test]
fn recovery_example_compiles_as_c_and_as_cplusplus() {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/recovery.md");
    let manual = fs::read_to_string(manual).expect("readable").replace("\r\n", "\n");
    let program = manual.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example in C");
    compiles("recovery", program);
}

fn compiles(name: &str, source: &str) {
    let Some((compiler, directory)) = compiler() else { return };
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    for (extension, standard) in [("c", "-std=c99"), ("cpp", "-std=c++11")] {
        let program = directory.join(format!("{name}.{extension}"));
        fs::write(&program, source).expect("writable");
        let language = if extension == "c" { "c" } else { "c++" };
        let mut command = Command::new(&compiler);
        command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", standard]);
        command.args(["-x", language, "-I"]).arg(&include).arg(&program);
        let output = command.output().expect("the compiler runs");
        let told = String::from_utf8_lossy(&output.stderr);
        // A C compiler may come without its C++ half.
        let no_cplusplus = language == "c++" && (told.contains("cc1plus") || told.contains("not recognized"));
        assert!(output.status.success() || no_cplusplus, "{language}: {told}");
    }
}
