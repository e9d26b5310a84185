//! What the tests need of the host: disk space, checked before they write, and a processor that has what they test.

use std::fs;
use std::path::Path;
use std::process::Command;

/// MB that a whole run of a fresh checkout writes below `target`.
const WHOLE: u64 = 8_500;
/// MB that a run with `--quick` writes there.
const QUICK: u64 = 5_500;

/// Says so if a checkout in which nothing was built yet has less free disk space than the run takes. The run goes on: less may do, and others may free some.
pub(super) fn warn(root: &Path, quick: bool) {
    let needed = if quick { QUICK } else { WHOLE };
    let free = if is_built(root) { None } else { free(root) };
    if let Some(free) = free.filter(|free| *free < needed) {
        println!(
            "DISK IS SHORT: {free} MB are free for {}, and this run writes about {needed} MB there",
            root.display()
        );
    }
}

/// Says what the tests leave out because the processor lacks it, which no script can install: code of the compute engine for vectors of 512 and 256 bits (`jit/src/wide`).
pub(super) fn warn_of_processor() {
    let has_vectors = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512vpopcntdq");
    if !has_vectors {
        println!(
            "NOT TESTED: PROGRAMS OF THE GPU IN VECTORS OF 512 BITS: this processor has no AVX-512 (F, DQ, CD, VPOPCNTDQ)"
        );
    }
    if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
        println!("NOT TESTED: PROGRAMS OF THE GPU IN VECTORS OF 256 BITS: this processor has no AVX2 and FMA");
    }
}

/// True if an earlier run has built the tests. This program, which cargo built already, has nothing of the operating-system side.
fn is_built(root: &Path) -> bool {
    let built = fs::read_dir(root.join("target/debug/.fingerprint")).into_iter().flatten().flatten();
    built.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("dxgkrnl-"))
}

/// MB that are free on the disk of a folder, if `df` knows.
fn free(folder: &Path) -> Option<u64> {
    let output = Command::new("df").args(["--output=avail", "--block-size=1M"]).arg(folder).output().ok()?;
    free_of(&String::from_utf8_lossy(&output.stdout))
}

/// The number in the second line.
fn free_of(printed: &str) -> Option<u64> {
    printed.lines().nth(1)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkout_is_built_once_the_system_is() {
        let root = std::env::temp_dir().join(format!("campanile-is-built-{}", std::process::id()));
        let built = root.join("target/debug/.fingerprint");
        fs::create_dir_all(built.join("xtask-1abc")).unwrap();
        assert!(!is_built(&root));
        fs::create_dir_all(built.join("dxgkrnl-2def")).unwrap();
        assert!(is_built(&root));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn free_space_is_the_number_below_the_heading() {
        assert_eq!(free_of("  Avail\n  80123\n"), Some(80_123));
        assert_eq!(free_of(""), None);
        assert_eq!(free_of("df: no such file"), None);
        assert!(cfg!(not(target_os = "linux")) || free(Path::new("/")).is_some());
    }
}
