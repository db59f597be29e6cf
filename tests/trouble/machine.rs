//! A machine for the box: systemd as PID 1 in systemd-nspawn, on this host's network, with our unit as it is shipped.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::story::program;

/// A machine that is up. Its power is cut when dropped.
pub struct Machine {
    nspawn: Child,
    /// Its PID 1, as the host counts.
    leader: u32,
}

impl Machine {
    /// Unpacks a root file system (see `./dev reboot-test`) and puts the box on it: program and unit, enabled.
    pub fn install(root: &Path, archive: &Path) {
        std::fs::create_dir_all(root).expect("a folder");
        succeeds(Command::new("tar").arg("-C").arg(root).arg("-xf").arg(archive));
        let units = root.join("etc/systemd/system");
        std::fs::create_dir_all(units.join("multi-user.target.wants")).expect("a folder");
        std::fs::create_dir_all(root.join("etc/recado")).expect("a folder");
        std::fs::copy(program(), root.join("usr/bin/recado")).expect("copied");
        std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/recado.service"), units.join("recado.service")).expect("copied");
        std::os::unix::fs::symlink("../recado.service", units.join("multi-user.target.wants/recado.service")).expect("linked");
    }

    /// Boots what is installed in `root`.
    pub fn boot(root: &Path) -> Self {
        let mut command = Command::new("systemd-nspawn");
        command.args(["--quiet", "--register=no", "--console=pipe", "--resolv-conf=off", "--timezone=off", "-D"]).arg(root);
        // Where no systemd runs there is nobody to ask for a scope.
        if !Path::new("/run/systemd/system").exists() {
            command.arg("--keep-unit");
        }
        let log = std::fs::File::create(root.with_extension("console")).expect("a file");
        let errors = log.try_clone().expect("a file");
        command.arg("/lib/systemd/systemd").stdin(Stdio::null()).stdout(log).stderr(errors);
        let mut nspawn = command.spawn().expect("systemd-nspawn starts");
        let leader = patiently("the machine's PID 1", || {
            let ended = nspawn.try_wait().expect("a child");
            assert!(ended.is_none(), "systemd-nspawn ended: see {}", root.with_extension("console").display());
            let pid = nspawn.id();
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?.split_whitespace().next()?.parse().ok()
        });
        Self { nspawn, leader }
    }

    /// Runs a command inside.
    pub fn runs(&self, words: &[&str]) -> Output {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.leader.to_string(), "-a", "--"]).args(words).stdin(Stdio::null());
        command.output().expect("nsenter (Debian: util-linux) runs")
    }

    /// A property of the box's unit.
    pub fn unit(&self, property: &str) -> Option<String> {
        let output = self.runs(&["systemctl", "show", "recado.service", "--value", "-p", property]);
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Waits until the box has said READY=1 after `since_us`; when (both by CLOCK_MONOTONIC, µs).
    pub fn is_ready_after(&self, since_us: u64) -> u64 {
        patiently("the unit to be ready", || {
            let is_active = self.unit("ActiveState")? == "active";
            let at_us: u64 = self.unit("ActiveEnterTimestampMonotonic")?.parse().ok()?;
            (is_active && at_us > since_us).then_some(at_us)
        })
    }

    /// The box's process, as the host counts.
    pub fn box_process(&self) -> u32 {
        let inside = self.unit("MainPID").expect("a unit");
        let is_it = |pid: &u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
            let numbers: Vec<&str> = numbers.split_whitespace().collect();
            status.starts_with("Name:\trecado\n") && numbers.len() > 1 && numbers.last() == Some(&inside.as_str())
        };
        let mut processes =
            std::fs::read_dir("/proc").expect("processes").flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        processes.find(is_it).expect("the box's process")
    }

    /// What the box and systemd logged, the last lines.
    pub fn journal(&self) -> String {
        let output = self.runs(&["journalctl", "-u", "recado.service", "--no-pager", "-o", "cat", "-n", "40"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The power goes: every process of the machine is killed at once.
    pub fn loses_power(self) {
        drop(self);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.journal());
        }
        // nspawn ends with its PID 1, and the kernel ends whatever that had started.
        let _ = Command::new("kill").args(["-9", &self.leader.to_string()]).status();
        let _ = self.nspawn.wait();
        remove_empty_groups();
    }
}

/// Control groups that nspawn leaves behind where no systemd tidies up.
fn remove_empty_groups() {
    if Path::new("/run/systemd/system").exists() {
        return;
    }
    for hierarchy in ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"] {
        for group in ["payload", "supervisor"] {
            let _ = Command::new("find")
                .arg(Path::new(hierarchy).join(group))
                .args(["-depth", "-type", "d", "-exec", "rmdir", "{}", ";"])
                .output();
        }
    }
}

/// Waits until something is there.
pub fn patiently<T>(what: &str, mut there: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = there() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn succeeds(command: &mut Command) {
    let status = command.status().expect("it runs");
    assert!(status.success(), "{command:?}: {status}");
}
