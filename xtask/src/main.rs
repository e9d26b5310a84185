//! Tasks of this repository. `cargo xtask --help` lists them.

#[cfg(test)]
mod changes;
mod fuzz;
#[cfg(test)]
mod hygiene;
mod layers;
mod layout;
#[cfg(test)]
mod makefile;
mod manual;
mod mutants;
mod package;
mod pe;
mod publish;
mod setup;
mod supply;
mod test;
mod trace_events;
mod vulkan;
#[cfg(test)]
mod wording;
#[cfg(test)]
mod workflows;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of this repository", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Builds campanile_kmd.sys, campanile_umd.dll and campanile_vulkan.dll with their PDBs into target/pe, without a Windows kit
    Pe {
        /// Builds the standard library of the images too, even if the toolchain has it
        #[arg(long)]
        from_source: bool,
        /// Builds driver and DLL in another folder, too, and fails unless they are the same bytes
        #[arg(long)]
        again: bool,
    },
    /// Makes the driver package for Windows in target/package, signed for a test machine, and verifies it
    Package {
        /// Folder of the package; files of an older package in it are replaced
        #[arg(long)]
        out: Option<PathBuf>,
        /// Folder of campanile_test.pem and campanile_test.key, made there if there are none
        #[arg(long)]
        keys: Option<PathBuf>,
        /// Makes nothing; checks the package that is in the folder
        #[arg(long)]
        check: bool,
    },
    /// Builds the Vulkan driver in release mode and puts it with its manifest into target/vulkan
    Vulkan,
    /// Runs every test of the repository; the last line is the sum
    Test {
        /// Leaves out what takes long, and says what
        #[arg(long)]
        quick: bool,
        /// Also runs every conformance case with each GPU in a process of its own; otherwise these are the areas that two processes are about
        #[arg(long, conflicts_with = "quick")]
        two_processes: bool,
    },
    /// Breaks sentences of the pages in driver, device and user-mode driver, one at a time, and says which the conformance cases do not notice
    #[command(
        after_help = "Exit codes: 0 every mutant ended as the catalogue says, 1 one did not, 2 nothing can be said: the catalogue, the build, or a case that fails \
                            without a mutant. docs/mutation.md is about all of it."
    )]
    Mutants(mutants::Options),
    /// Gives a reader of bytes from somewhere else inputs that libFuzzer thinks of, and says whether one of them breaks it
    #[command(
        after_help = "Exit codes: 0 nothing was found, 1 an input does not hold, 2 nothing can be said: no such target, no C++ compiler, or the engine does not \
                            build. docs/fuzzing.md is about all of it."
    )]
    Fuzz(fuzz::Options),
    /// Holds the crates against deny.toml and the list of unsafe code, and has cargo-deny look for advisories
    Deny,
    /// Writes the generated parts of docs/
    Docs {
        /// Writes nothing, fails if a document is stale
        #[arg(long)]
        check: bool,
    },
    /// Fails if a module imports one that stands above it, or a file or function is too long; xtask/layers.toml has the rules
    Layers,
    /// Takes from a full table of layout facts what wddm-ddi declares, and writes ddi/tests/ddi-layout.json
    DdiFacts {
        /// The full table, as JSON
        #[arg(long)]
        from: PathBuf,
    },
    /// Writes ddi/tests/layout/generated.rs, in which the compiler measures every declaration of wddm-ddi, and the members of what thunks are
    /// handed, conformance/src/inside/bad_pointers/structures.rs
    DdiLayout {
        /// Writes nothing, fails if the file is stale
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.task {
        Task::Pe { from_source, again } => {
            let built = pe::build(&root(), from_source);
            built.and_then(|_| if again { pe::again(&root()) } else { Ok(()) })
        }
        Task::Package { out, keys, check } => package::package(&root(), out, keys, check),
        Task::Vulkan => vulkan::build(&root()),
        // The sum stays the last line, so a failure adds no message of its own.
        Task::Test { quick, two_processes } => {
            let passed = test::test(&root(), &test::Extent { quick, two_processes });
            return if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        Task::Deny => supply::deny(&root()),
        Task::Mutants(options) => return ExitCode::from(mutants::mutants(&root(), &options)),
        Task::Fuzz(options) => return ExitCode::from(fuzz::fuzz(&root(), &options)),
        Task::Docs { check } => manual::manual(&root(), check)
            .and_then(|()| trace_events::trace_events(&root(), check))
            .and_then(|()| mutants::document(&root(), check))
            .and_then(|()| manual::printed_by_tests(&root(), check)),
        Task::Layers => layers::layers(&root()),
        Task::DdiFacts { from } => layout::reduce(&root(), &from),
        Task::DdiLayout { check } => layout::generate(&root(), check),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The repository: the one that cargo runs this program for, which may be another checkout than it was built in if they share a target
/// folder.
fn root() -> PathBuf {
    let here = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.parent().unwrap_or(&here).to_path_buf()
}
