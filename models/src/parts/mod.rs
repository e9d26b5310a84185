// The production files and the surroundings that the models give them. Included by `exhaustive` and by `random`, each of which has
// a module `sync` with the atomics, locks and threads of its checker.

#[path = "../parts/memory.rs"]
mod memory;

#[allow(dead_code, reason = "models use a part of it")]
#[path = "../../../device/src/context/mailbox.rs"]
mod mailbox;

#[allow(dead_code, reason = "models use a part of it")]
#[path = "../../../device/src/context/waits.rs"]
mod waits;

#[allow(dead_code, reason = "models use a part of it")]
#[path = "../../../device/src/context/doorbells.rs"]
mod doorbells;

#[allow(dead_code, reason = "models use a part of it")]
#[path = "../../../dxgkrnl/src/fence/monitored_waits.rs"]
mod watch;

#[allow(dead_code, reason = "models use a part of it")]
#[path = "../../../dxgkrnl/src/vidsch/doorbell_state.rs"]
mod doorbell_state;

#[allow(dead_code, reason = "models use a part of it")]
#[path = "../../../umd/src/ring.rs"]
mod ring;

#[path = "../parts/user.rs"]
mod user;
use user::{buffer, error, shared};

#[path = "../parts/wait.rs"]
mod wait;

#[allow(dead_code, reason = "each checker uses a part of it")]
#[path = "../parts/race.rs"]
mod race;

#[allow(dead_code, reason = "each checker uses a part of it")]
#[path = "../parts/wait_list.rs"]
mod wait_list;

#[path = "../parts/doorbell.rs"]
mod doorbell;

#[allow(dead_code, unreachable_pub, reason = "models use a part of it, and dxgkrnl exports it")]
#[path = "../../../dxgkrnl/src/fence/log_reader.rs"]
mod fence_log_reader;

#[path = "../parts/log.rs"]
mod log;
