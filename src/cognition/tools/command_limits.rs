//! What a program that is a tool may take of the machine: set in the new process before it becomes the program, so that it never runs without.

use std::io;

use tokio::process::Command;

use crate::config::ToolCommand;

/// The bounds of one process of a tool, and of each that it starts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    memory_bytes: u64,
    cpu_seconds: u64,
    open_files: u64,
    rank: Rank,
}

/// What every program of a tool has of the machine: what anybody has, and nothing of what the box has for the sake of its audio.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rank {
    /// Whether the box is less likely than others to be ended where memory runs out, which is not its programs' due.
    spared: bool,
}

impl Limits {
    pub fn of(command: &ToolCommand) -> Self {
        Self {
            memory_bytes: command.memory_bytes_max,
            cpu_seconds: command.cpu_seconds_max,
            open_files: command.open_files_max,
            rank: Rank::of_anybody(),
        }
    }

    /// Has these set before `command`'s program begins.
    #[allow(unsafe_code)]
    pub fn confine(self, command: &mut Command) {
        // SAFETY: what runs between fork and exec makes system calls only: it allocates nothing, takes no lock and reads numbers that it owns.
        unsafe {
            command.pre_exec(move || self.set());
        }
    }

    /// In the new process. A bound that can't be set keeps the program from running.
    fn set(self) -> io::Result<()> {
        limit(libc::RLIMIT_AS, self.memory_bytes, 0)?;
        // SIGXCPU first, and SIGKILL for who ignores it.
        limit(libc::RLIMIT_CPU, self.cpu_seconds, CPU_GRACE_SECONDS)?;
        limit(libc::RLIMIT_NOFILE, self.open_files, 0)?;
        self.rank.set()
    }
}

impl Rank {
    /// That of anybody on this machine.
    pub fn of_anybody() -> Self {
        // As systemd or whoever starts the box has said; read once, and where it can't be read it is not changed.
        let own = std::fs::read_to_string("/proc/self/oom_score_adj").ok().and_then(|text| text.trim().parse::<i32>().ok());
        Self { spared: own.is_some_and(|own| own < 0) }
    }

    /// Gives it to `command`'s program before that begins.
    #[allow(unsafe_code)]
    pub fn confine(self, command: &mut Command) {
        // SAFETY: what runs between fork and exec makes system calls only: it allocates nothing, takes no lock and reads numbers that it owns.
        unsafe {
            command.pre_exec(move || self.set());
        }
    }

    /// In the new process.
    #[allow(unsafe_code)]
    fn set(self) -> io::Result<()> {
        limit(libc::RLIMIT_CORE, 0, 0)?;
        // A program must not compete with the box's audio, nor ask for what it has for that.
        limit(libc::RLIMIT_RTPRIO, 0, 0)?;
        // SAFETY: calls with numbers, and with structures and texts that outlive them. Where one fails the process stays as it is: it has no such
        // priority, or the kernel does not know the call and every descriptor of the box is closed on exec anyway.
        unsafe {
            // Priority 0, and nothing else where a platform has more there.
            let ordinary: libc::sched_param = std::mem::zeroed();
            libc::sched_setscheduler(0, libc::SCHED_OTHER, &ordinary);
            if libc::getpriority(libc::PRIO_PROCESS, 0) < 0 {
                libc::setpriority(libc::PRIO_PROCESS, 0, 0);
            }
            if self.spared {
                let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                if file >= 0 {
                    libc::write(file, c"0".as_ptr().cast(), 1);
                    libc::close(file);
                }
            }
            libc::syscall(libc::SYS_close_range, FIRST_INHERITED, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
        }
        Ok(())
    }
}

/// Bounds one thing, in the new process. The hard limit may be lower already, and can't be raised.
#[allow(unsafe_code)]
fn limit(which: Resource, most: u64, grace: u64) -> io::Result<()> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `now` outlives both calls, which read and write it alone.
    let done = unsafe {
        libc::getrlimit(which, &mut now) == 0 && {
            let hard = now.rlim_max.min((most + grace) as libc::rlim_t);
            let bound = libc::rlimit { rlim_cur: hard.min(most as libc::rlim_t), rlim_max: hard };
            libc::setrlimit(which, &bound) == 0
        }
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What a limit is of, as the C library has it.
#[cfg(target_env = "musl")]
type Resource = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Resource = libc::__rlimit_resource_t;

/// After SIGXCPU (s).
const CPU_GRACE_SECONDS: u64 = 2;

/// Behind input, output and error.
const FIRST_INHERITED: libc::c_uint = 3;
