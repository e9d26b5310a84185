// UNSAFETY: functions with variable arguments, whose registers are stored by hand.
//! Debug output of drivers (`DbgPrint` and similar functions), and assertions.

use super::memory::units;
use super::printf::{Arguments, format};
use crate::bugcheck::Bugcheck;
use crate::driver::Export;
use crate::driver_call::{self, on_host_stack, stop};
use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER, STATUS_SUCCESS};

/// Bytes of one message. [wdm: DbgPrint]
const MESSAGE_LENGTH: usize = 512;

pub(super) const EXPORTS: &[Export] = &[
    ("DbgPrint", || dbg_print as *const () as usize),
    ("vDbgPrintEx", || vdbg_print_ex as *const () as usize),
    ("vDbgPrintExWithPrefix", || vdbg_print_ex_with_prefix as *const () as usize),
    ("DbgQueryDebugFilterState", || dbg_query_debug_filter_state as *const () as usize),
    ("DbgSetDebugFilterState", || dbg_set_debug_filter_state as *const () as usize),
    ("DbgPrompt", || dbg_prompt as *const () as usize),
    ("DbgBreakPoint", || dbg_break_point as *const () as usize),
    ("DbgBreakPointWithStatus", || dbg_break_point as *const () as usize),
    ("KdRefreshDebuggerNotPresent", || kd_refresh_debugger_not_present as *const () as usize),
    ("RtlAssert", || rtl_assert as *const () as usize),
    ("KeBugCheck", || ke_bug_check as *const () as usize),
];

/// Every message is kept, whatever component and level it has: nobody filters here. Behind three named arguments the others lie one behind
/// the other on the stack of the caller, once the fourth register is there too.
///
/// # Safety
/// As for any function of its prototype in C.
#[unsafe(naked)]
pub(super) unsafe extern "win64" fn dbg_print_ex(_: u32, _: u32, _: *const u8, _: *const u8) -> u32 {
    core::arch::naked_asm!("mov [rsp + 32], r9", "lea r9, [rsp + 32]", "jmp {}", sym say_ex)
}

/// # Safety
/// As for any function of its prototype in C.
#[unsafe(naked)]
unsafe extern "win64" fn dbg_print(_: *const u8) -> u32 {
    core::arch::naked_asm!(
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], r8",
        "mov [rsp + 32], r9",
        "lea rdx, [rsp + 16]",
        "jmp {}",
        sym say,
    )
}

extern "win64" fn say(text: *const u8, arguments: *const u64) -> u32 {
    hear("DbgPrint", std::ptr::null(), text, arguments)
}

extern "win64" fn say_ex(_component: u32, _level: u32, text: *const u8, arguments: *const u64) -> u32 {
    hear("DbgPrintEx", std::ptr::null(), text, arguments)
}

extern "win64" fn vdbg_print_ex(_component: u32, _level: u32, text: *const u8, arguments: *const u64) -> u32 {
    hear("vDbgPrintEx", std::ptr::null(), text, arguments)
}

extern "win64" fn vdbg_print_ex_with_prefix(
    prefix: *const u8,
    _component: u32,
    _level: u32,
    text: *const u8,
    arguments: *const u64,
) -> u32 {
    hear("vDbgPrintExWithPrefix", prefix, text, arguments)
}

/// Formats a message of the calling driver and appends it to the debug log.
fn hear(service: &'static str, prefix: *const u8, text: *const u8, arguments: *const u64) -> u32 {
    let Some(driver) = driver_call::current() else { return 0 };
    if text.is_null() {
        return STATUS_INVALID_PARAMETER.0 as u32;
    }
    let mut message = if prefix.is_null() { Vec::new() } else { units(service, prefix, MESSAGE_LENGTH) };
    let text = units(service, text, MESSAGE_LENGTH);
    message.extend(format(service, &text, Arguments::new(service, arguments)));
    message.truncate(MESSAGE_LENGTH);
    on_host_stack(|| driver.verifier().said(driver.name(), &String::from_utf8_lossy(&message)));
    STATUS_SUCCESS.0 as u32
}

/// Shows the question, to which nobody answers: no characters. [ntddk: DbgPrompt]
extern "win64" fn dbg_prompt(prompt: *const u8, _response: *mut u8, _length: u32) -> u32 {
    if let Some(driver) = driver_call::current() {
        let prompt = units("DbgPrompt", prompt, MESSAGE_LENGTH);
        on_host_stack(|| driver.verifier().said(driver.name(), &String::from_utf8_lossy(&prompt)));
    }
    0
}

/// TRUE: everything is shown.
extern "win64" fn dbg_query_debug_filter_state(_component: u32, _level: u32) -> u32 {
    1
}

extern "win64" fn dbg_set_debug_filter_state(_component: u32, _level: u32, _state: u8) -> NTSTATUS {
    STATUS_SUCCESS
}

/// TRUE: no debugger.
extern "win64" fn kd_refresh_debugger_not_present() -> u8 {
    1
}

/// Without a debugger, as here, a breakpoint in the kernel stops the machine.
extern "win64" fn dbg_break_point() {
    const STATUS_BREAKPOINT: u64 = 0x8000_0003;
    let reason = "DbgBreakPoint without a debugger";
    stop(Bugcheck::new(Bugcheck::KMODE_EXCEPTION_NOT_HANDLED, [STATUS_BREAKPOINT, 0, 0, 0], reason))
}

extern "win64" fn rtl_assert(what: *const u8, file: *const u8, line: u32, message: *const u8) {
    const NAME: &str = "RtlAssert";
    let text = |at: *const u8| if at.is_null() { Vec::new() } else { units(NAME, at, MESSAGE_LENGTH) };
    let [what, file, message] = [what, file, message].map(|at| String::from_utf8_lossy(&text(at)).into_owned());
    let reason = format!("assertion failed: {what} ({file}:{line}) {message}");
    stop(Bugcheck::new(Bugcheck::KMODE_EXCEPTION_NOT_HANDLED, [0xc000_0420, 0, 0, 0], reason.trim_end()))
}

extern "win64" fn ke_bug_check(code: u32) {
    let name = driver_call::current().map_or_else(String::new, |driver| driver.name().to_owned());
    stop(Bugcheck::new(code, [0; 4], format!("KeBugCheck called by driver {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;

    #[test]
    fn messages_are_formatted_and_reach_the_debug_log() {
        type Variadic = unsafe extern "win64" fn(*const u8, u64, u64, u64, u64, u64) -> u32;
        let driver = Driver::for_tests("talker");
        driver_call::run(&driver, "a function", || {
            let print = dbg_print as *const ();
            // SAFETY: a function with variable arguments takes these, too.
            let print = unsafe { std::mem::transmute::<*const (), Variadic>(print) };
            // SAFETY: the format names numbers.
            unsafe { print(c"%d %d %d %d %I64x\n".as_ptr().cast(), 1, 2, 3, 4, 1 << 40) };
            // SAFETY: both strings are NUL-terminated.
            unsafe { dbg_print_ex(77, 0, c"<%s>\n".as_ptr().cast(), c"hello".as_ptr().cast()) };
            // SAFETY: as above.
            unsafe { dbg_print_ex(77, 0, c"unfinished ".as_ptr().cast(), std::ptr::null()) };
            // SAFETY: as above.
            unsafe { dbg_print_ex(77, 0, c"line\n".as_ptr().cast(), std::ptr::null()) };
        });
        assert_eq!(
            driver.verifier().log_lines(),
            ["talker: 1 2 3 4 10000000000", "talker: <hello>", "talker: unfinished line"]
        );
        assert_eq!(driver.verifier().bugcheck(), None);
    }

    #[test]
    fn a_question_is_shown_as_it_is_and_not_answered() {
        let driver = Driver::for_tests("asker");
        let mut response = [7_u8; 4];
        let asked = || dbg_prompt(c"100% sure?\n".as_ptr().cast(), response.as_mut_ptr(), 4);
        assert_eq!(driver_call::run(&driver, "a function", asked).0, Some(0));
        assert_eq!((driver.verifier().log_lines(), response), (vec!["asker: 100% sure?".to_owned()], [7; 4]));
    }

    #[test]
    fn wide_texts_are_for_passive_level() {
        let driver = Driver::for_tests("raised");
        let (result, _) = driver_call::run(&driver, "a function", || {
            crate::irql::set(2);
            // SAFETY: the text is NUL-terminated.
            unsafe { dbg_print_ex(77, 0, c"%ws".as_ptr().cast(), [0_u16].as_ptr().cast()) }
        });
        assert_eq!(result, None);
        let bugcheck = driver.verifier().bugcheck().unwrap();
        assert_eq!(bugcheck.code, Bugcheck::IRQL_NOT_LESS_OR_EQUAL);
        let told =
            "DbgPrintEx at IRQL 2, PASSIVE_LEVEL is required for the conversions of 16-bit characters in its format";
        assert!(bugcheck.reason.starts_with(told), "{bugcheck}");
    }
}
