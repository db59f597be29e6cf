//! The clock of all that is measured, and a processor's time.

use std::fs;

/// Now, on the clock that every process of the machine shares (µs).
#[allow(unsafe_code)]
pub fn now_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a clock that there always is, and a place that is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// How long the threads of a process have run (s).
pub fn cpu_s(process: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("a process that runs");
    let ran = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("schedstat")).ok());
    let ns = ran.filter_map(|ran| ran.split(' ').next()?.parse::<u64>().ok());
    ns.sum::<u64>() as f64 / 1e9
}
