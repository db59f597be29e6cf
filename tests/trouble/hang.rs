//! One thread of another process hangs while the rest goes on: it is stopped by ptrace, as a debugger would.

use std::sync::mpsc;
use std::thread::JoinHandle;

/// Stops the thread `name` of a process, until that process ends; none where ptrace is not permitted. Join what is given to be
/// rid of what is left of the thread.
pub fn hangs(process: u32, name: &str) -> Option<JoinHandle<()>> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("a process").flatten();
    let is_it = |path: &std::path::Path| std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
    let thread = threads.map(|entry| entry.path()).find(|path| is_it(path)).expect("its thread");
    let thread: libc::pid_t = thread.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number");
    let (stopped_tx, stopped) = mpsc::channel();
    // A tracer is a thread, not a process: this one stays until the traced thread is gone.
    let tracer = std::thread::spawn(move || {
        let seized = seize(thread) && wait(thread);
        stopped_tx.send(seized).expect("waited for");
        // Whoever traces a thread has to take its end, or its process can't end either.
        while seized && wait(thread) {}
    });
    if !stopped.recv().expect("it is tried") {
        println!("skipped: ptrace is not permitted here");
        return None;
    }
    Some(tracer)
}

#[allow(unsafe_code)]
fn seize(thread: libc::pid_t) -> bool {
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: neither request reads or writes memory of ours.
    unsafe {
        libc::ptrace(libc::PTRACE_SEIZE, thread, nothing, nothing) == 0
            && libc::ptrace(libc::PTRACE_INTERRUPT, thread, nothing, nothing) == 0
    }
}

/// Waits for what happens to the thread next; false when there is nothing left to wait for.
#[allow(unsafe_code)]
fn wait(thread: libc::pid_t) -> bool {
    let mut status = 0;
    // SAFETY: the pointer is to a c_int that lives through the call.
    let waited = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) };
    waited == thread && !libc::WIFEXITED(status) && !libc::WIFSIGNALED(status)
}
