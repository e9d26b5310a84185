//! What a server gives up before it listens to anybody: privileges that a program could get by starting another one, calls of the kernel that it never
//! makes, and, where it needs none, files. And it lets no other process of its user look into it: the kernel takes whoever has the same user for a debugger
//! otherwise, who may write its memory and take copies of its descriptors.
//!
//! A GPU's process executes programs and packets of whoever is at the other end of its socket. Should one of them find a way to make it do what it
//! likes, then it cannot start programs, reach the network, look into other processes or write files.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, path_beneath_rules,
};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

/// The task of a server's process, which decides what its sandbox allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Execute a GPU for the other end of a socket. Sockets in these folders are removed at the end.
    Gpu { folders: Vec<PathBuf> },
    /// Serve a machine to programs, whose memory it reads and writes, which it may kill, and whose descriptors it takes.
    /// `starts_gpus`: each GPU has a process of its own, also one that is plugged in later.
    Machine { starts_gpus: bool },
}

/// What has been given up. It is printed as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Other processes of the user may not reach its memory and descriptors.
    is_closed: bool,
    files: Files,
    calls: Result<usize, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Files {
    /// By Landlock: none can be written, and few read.
    Refused,
    /// By a Landlock that knows less than what was asked of it.
    Partly,
    /// The kernel has no Landlock, or it is switched off.
    NoLandlock,
    /// Landlock forbids to look into other processes, which is how a machine reads arguments.
    Needed,
    Failed(String),
}

impl State {
    /// True if everything was given up that the role can do without.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_closed && matches!(self.files, Files::Refused | Files::Needed) && self.calls.is_ok()
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.calls {
            Ok(count) => write!(f, "sandbox: no new privileges, {count} system calls refused by seccomp")?,
            Err(error) => write!(f, "sandbox: NO SYSTEM CALL IS REFUSED, seccomp cannot be used: {error}")?,
        }
        f.write_str(match &self.files {
            Files::Refused => ", files and network refused by Landlock",
            Files::Partly => ", FILES AND NETWORK REFUSED IN PART, this kernel's Landlock is an older one",
            Files::NoLandlock => ", FILES ARE NOT REFUSED, this kernel has no Landlock",
            Files::Needed => ", files as the user has them, because Landlock would keep it from the memory of programs",
            Files::Failed(_) => ", FILES ARE NOT REFUSED, Landlock failed: ",
        })?;
        if let Files::Failed(error) = &self.files {
            f.write_str(error)?;
        }
        f.write_str(match self.is_closed {
            true => ", its memory and descriptors out of reach of other processes",
            false => ", ITS MEMORY IS IN REACH OF OTHER PROCESSES of its user",
        })
    }
}

/// The state of this process, once it has entered.
static STATE: OnceLock<State> = OnceLock::new();

/// What the process has given up; `None` if nothing, because nobody asked for it.
#[must_use]
pub fn state() -> Option<&'static State> {
    STATE.get()
}

/// Gives up what the role does not need, for the calling thread and those that it starts from now on. It cannot be undone, and does as much as the host's kernel
/// can; the caller says what is missing.
pub fn enter(role: &Role) -> &'static State {
    // Files first: afterwards the calls for that are refused, too.
    let files = match role {
        Role::Gpu { folders } => refuse_files(folders),
        Role::Machine { .. } => Files::Needed,
    };
    let is_closed = set_dumpable_behavior(DumpableBehavior::NotDumpable).is_ok();
    STATE.get_or_init(|| State { is_closed, files, calls: refuse_calls(role).map_err(|error| error.to_string()) })
}

/// What is read by the standard library for a trace of calls after a panic, and to count processors.
const READ: [&str; 5] = ["/proc", "/sys", "/usr", "/lib", "/lib64"];

fn refuse_files(folders: &[PathBuf]) -> Files {
    match restrict(folders) {
        Ok(RulesetStatus::FullyEnforced) => Files::Refused,
        Ok(RulesetStatus::PartiallyEnforced) => Files::Partly,
        Ok(RulesetStatus::NotEnforced) => Files::NoLandlock,
        Err(error) => Files::Failed(error.to_string()),
    }
}

fn restrict(folders: &[PathBuf]) -> Result<RulesetStatus, RulesetError> {
    const KNOWN: ABI = ABI::V5;
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    let program = std::env::current_exe().ok();
    let readable = READ.iter().map(Path::new).chain(program.as_deref());
    // A path without a folder is in the current one.
    let ends = folders.iter().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(readable, read))?
        .add_rules(path_beneath_rules(ends, AccessFs::RemoveFile))?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// Calls that no server makes: other privileges, other programs' insides, the machine's administration, and what has been a way into the kernel often.
const NEVER: [i64; 45] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_settimeofday,
    libc::SYS_setuid,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// What a machine does with its programs, and a GPU has nobody to do with.
const OTHER_PROCESSES: [i64; 8] = [
    libc::SYS_kill,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_connect,
    libc::SYS_tkill,
];

const PROGRAMS: [i64; 4] = [libc::SYS_execve, libc::SYS_execveat, libc::SYS_fork, libc::SYS_vfork];

/// A number with this bit is the same call by the interface for short pointers.
const X32: i64 = 0x4000_0000;

/// The calls that a role refuses, and with what arguments; none means with any.
fn refused(role: &Role) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let any = |calls: &[i64]| calls.iter().map(|&call| (call, Vec::new())).collect::<Vec<_>>();
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = any(&NEVER).into_iter().collect();
    // Sockets of the network, and of the kernel's own subsystems.
    let other_family = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, libc::AF_UNIX as u64)?;
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(vec![other_family])?]);
    if matches!(role, Role::Gpu { .. }) {
        rules.extend(any(&OTHER_PROCESSES));
    }
    if !matches!(role, Role::Machine { starts_gpus: true }) {
        rules.extend(any(&PROGRAMS));
        // A new process, in contrast to a thread.
        let thread = libc::CLONE_THREAD as u64;
        let process = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(thread), 0)?;
        rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![process])?]);
    }
    let short: Vec<_> = rules.iter().map(|(call, rules)| (call | X32, rules.clone())).collect();
    rules.extend(short);
    Ok(rules)
}

fn filter(rules: BTreeMap<i64, Vec<SeccompRule>>, error: i32) -> Result<BpfProgram, seccompiler::BackendError> {
    let refuse = SeccompAction::Errno(error.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, TargetArch::x86_64)?.try_into()
}

/// Makes the kernel answer EPERM to calls that a role does not need; how many those are. It takes new privileges away, too.
fn refuse_calls(role: &Role) -> Result<usize, seccompiler::Error> {
    let rules = refused(role)?;
    let count = rules.len() / 2;
    let refused = filter(rules, libc::EPERM)?;
    if !matches!(role, Role::Machine { starts_gpus: true }) {
        // Its arguments are in memory, which a filter cannot read. A caller that hears that there is no such call takes the older one.
        apply_filter(&filter(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)?)?;
    }
    apply_filter(&refused)?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io;
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;

    /// The error number of a system call with zeroes as arguments on a thread that has taken a role; `None` if it succeeds.
    fn call(number: i64) -> Option<i32> {
        // SAFETY: all pointers are null, which the kernel checks, and no call that is tried here does anything to the process with zeroes.
        let result = unsafe { libc::syscall(number, 0, 0, 0, 0, 0, 0) };
        (result == -1).then(|| io::Error::last_os_error().raw_os_error()).flatten()
    }

    /// Runs a function on a thread that has taken a role; the others of this process keep what they have.
    fn within<T: Send + 'static>(role: Role, work: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = std::thread::spawn(move || {
            let files = match &role {
                Role::Gpu { folders } => refuse_files(folders),
                Role::Machine { .. } => Files::Needed,
            };
            let calls = refuse_calls(&role).map_err(|error| error.to_string());
            // What concerns the whole process is tried with one that is a server: tests/machine/hostile.rs.
            let state = State { is_closed: true, files, calls };
            assert!(state.is_whole(), "the host of these tests has seccomp and Landlock: {state}");
            work()
        });
        thread.join().expect("the work is done")
    }

    fn gpu() -> Role {
        Role::Gpu { folders: Vec::new() }
    }

    #[test]
    fn calls_that_no_server_makes_are_refused_to_both_and_threads_are_not() {
        for role in [gpu(), Role::Machine { starts_gpus: false }, Role::Machine { starts_gpus: true }] {
            let found = within(role.clone(), || {
                // Those that take no arguments, or would do something, are only looked up in the table.
                let refused = [libc::SYS_ptrace, libc::SYS_bpf, libc::SYS_setns, libc::SYS_mount, libc::SYS_keyctl];
                let answers = refused.map(call);
                let thread = std::thread::spawn(|| call(libc::SYS_bpf)).join().expect("a thread is no process");
                (answers, thread, call(libc::SYS_getppid))
            });
            assert_eq!(found, ([Some(libc::EPERM); 5], Some(libc::EPERM), None), "{role:?}");
        }
    }

    #[test]
    fn a_gpu_can_start_no_program_and_look_into_no_process() {
        let (program, signal, memory) = within(gpu(), || {
            let program = std::process::Command::new("/bin/true").status().map_err(|error| error.raw_os_error());
            (program.err(), call(libc::SYS_kill), call(libc::SYS_process_vm_readv))
        });
        assert_eq!(program, Some(Some(libc::EPERM)));
        assert_eq!((signal, memory), (Some(libc::EPERM), Some(libc::EPERM)));
    }

    #[test]
    fn a_machine_looks_into_its_programs_and_starts_only_gpus() {
        let of = |starts_gpus| {
            within(Role::Machine { starts_gpus }, || {
                let program = std::process::Command::new("/bin/true").status().map_err(|error| error.raw_os_error());
                // Nothing is read from this process itself, and that is no error.
                (program.is_ok(), call(libc::SYS_process_vm_readv))
            })
        };
        let (starts, memory) = of(false);
        assert!(!starts && memory != Some(libc::EPERM));
        assert!(of(true).0, "its GPUs are programs");
    }

    #[test]
    fn sockets_of_the_host_are_there_and_those_of_the_network_are_not() {
        let (network, host) = within(gpu(), || {
            let network = TcpListener::bind("127.0.0.1:0").err().and_then(|error| error.raw_os_error());
            (network, UnixStream::pair().is_ok())
        });
        assert_eq!((network, host), (Some(libc::EPERM), true));
    }

    #[test]
    fn a_gpu_writes_no_file_and_removes_those_of_its_sockets_folder_alone() {
        let folder = std::env::temp_dir().join(format!("campanile-sandbox-{}", std::process::id()));
        let (own, other) = (folder.join("own"), folder.join("other"));
        for folder in [&own, &other] {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join("file"), "text").unwrap();
        }
        let role = Role::Gpu { folders: vec![own.clone()] };
        let refused = Some(libc::EACCES);
        let found = within(role, move || {
            let error = |outcome: io::Result<()>| outcome.err().and_then(|error| error.raw_os_error());
            let read = fs::read(other.join("file")).map(drop);
            let outcomes = [read, fs::write(own.join("new"), "text"), fs::write(other.join("file"), "text")];
            let removed = [fs::remove_file(own.join("file")), fs::remove_file(other.join("file"))];
            (outcomes.map(error), removed.map(error), fs::read("/proc/self/status").is_ok())
        });
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, ([refused; 3], [None, refused], true));
    }

    #[test]
    fn what_is_missing_stands_out() {
        let state = State { is_closed: false, files: Files::NoLandlock, calls: Err("no such call".to_owned()) };
        let text = state.to_string();
        for missing in ["NO SYSTEM CALL IS REFUSED", "FILES ARE NOT REFUSED", "ITS MEMORY IS IN REACH"] {
            assert!(!state.is_whole() && text.contains(missing), "{text}");
        }
        let whole = State { is_closed: true, files: Files::Needed, calls: Ok(40) };
        assert!(whole.is_whole());
        assert!(!State { is_closed: false, ..whole }.is_whole());
    }
}
