//! A small disk, which can be full or read-only.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A small disk of its own; none where mounting is not permitted.
pub struct Disk(PathBuf);

impl Disk {
    pub fn mount(at: &Path, size: &str) -> Option<Self> {
        std::fs::create_dir_all(at).expect("made");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(at).output();
        let mounted = mounted.is_ok_and(|output| output.status.success());
        if !mounted {
            println!("skipped: mounting a tmpfs is not permitted here");
        }
        mounted.then(|| Self(at.to_owned()))
    }

    /// Takes all the space that is left.
    pub fn fill(&self) {
        use std::io::Write;
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(self.0.join("ballast")).expect("opened");
        while file.write_all(&[0; 4_096]).is_ok() {}
    }

    pub fn empty(&self) {
        std::fs::remove_file(self.0.join("ballast")).expect("removed");
    }

    /// Makes it one that can't be written, or one that can.
    pub fn remount(&self, how: &str) {
        assert!(Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(&self.0).status().is_ok_and(|status| status.success()));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
