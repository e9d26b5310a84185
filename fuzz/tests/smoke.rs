//! Every committed file through its target, and changes of them that are the same on every run. A fuzzer finds more; this is what holds without one.

use std::fs;
use std::path::{Path, PathBuf};

use campanile_fuzz::{TARGETS, Target};
use fastrand::Rng;

/// Largest committed file.
const FILE_MAX: usize = 4 << 10;
/// Integers at the edges of what readers check.
const EDGES: [u64; 10] = [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 32, u64::MAX];

/// The files of a target in a folder, in the order of their names.
fn files(folder: &str, target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(target.name);
    let entries = fs::read_dir(folder).map(|entries| entries.map(|entry| entry.expect("an entry").path()).collect());
    let mut paths: Vec<PathBuf> = entries.unwrap_or_default();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).expect("a file"))).collect()
}

/// One change of `bytes`: bits, a shorter input, a part of another input, or an integer.
fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Rng) {
    let at = random.usize(..=bytes.len());
    match random.u8(..5) {
        0 => bytes.truncate(at),
        1 => {
            let from = random.usize(..=other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        2 => {
            let width = 1 << random.u8(..4);
            let edge = EDGES[random.usize(..EDGES.len())].to_le_bytes();
            let end = bytes.len().min(at + width);
            bytes[at..end].copy_from_slice(&edge[..end - at]);
        }
        3 => bytes.insert(at, random.u8(..)),
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.u8(..8);
            }
        }
    }
}

#[test]
fn every_target_has_a_small_corpus_and_holds_for_each_file_and_regression() {
    for target in TARGETS {
        let corpus = files("corpus", target);
        assert!((1..=20).contains(&corpus.len()), "{}: {} files in its corpus", target.name, corpus.len());
        for (path, bytes) in corpus.iter().chain(&files("regressions", target)) {
            assert!(bytes.len() <= FILE_MAX, "{}: {} bytes", path.display(), bytes.len());
            println!("{}", path.display());
            (target.run)(bytes);
        }
    }
}

#[test]
fn every_target_holds_for_changes_of_its_corpus() {
    for target in TARGETS {
        let corpus = files("corpus", target);
        for seed in 0..target.changes {
            let mut random = Rng::with_seed(seed);
            let (path, mut bytes) = corpus[random.usize(..corpus.len())].clone();
            let other = &corpus[random.usize(..corpus.len())].1;
            for _ in 0..random.u8(1..6) {
                change(&mut bytes, other, &mut random);
            }
            println!("{}: seed {seed}, from {}", target.name, path.display());
            (target.run)(&bytes);
        }
    }
}

#[test]
fn folders_of_files_are_those_of_targets() {
    for folder in ["corpus", "regressions"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
            assert!(campanile_fuzz::target(&name).is_some(), "no target is called {name}");
        }
    }
}

#[test]
fn the_table_of_names_that_the_command_reads_has_each_target_and_no_other() {
    let table: toml::Table = include_str!("../targets.toml").parse().expect("a table");
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    let listed = ["alone", "machine"].iter().flat_map(|kind| table[*kind].as_table().expect("names").keys());
    let mut listed: Vec<&str> = listed.map(String::as_str).collect();
    listed.sort_unstable();
    assert_eq!(listed, names);
}
