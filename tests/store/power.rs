//! Power cuts: what the disk holds at an instant, without anything that was still on its way to it.
//!
//! The store lies on a file system in an image. What has not been flushed is in that file system's memory and not in the image,
//! so a copy of the image is the disk after a cut. It needs the right to mount; where that is missing, it says so and is skipped.

use std::fs;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::faults::{again, run};
use crate::fixtures::{open, path_in};

#[test]
fn every_acknowledged_commit_survives_a_power_cut() {
    let images = tempfile::tempdir().expect("a directory");
    let disk = images.path().join("disk");
    fs::File::create(&disk).and_then(|file| file.set_len(IMAGE_BYTES)).expect("an image");
    if !run("mkfs.ext4", &["-q", &disk.to_string_lossy()]) {
        eprintln!("skipped: there is no mkfs.ext4 here");
        return;
    }
    let Some(mounted) = Image::mount(&disk) else {
        eprintln!("skipped: mounting an image is not permitted here");
        return;
    };
    let path = path_in(&mounted.0);
    drop(open(&path, 1));
    let mut least = 0;
    for round in 0..4u64 {
        let (mut child, lines) = again("faults::as_a_child_commit_until_killed", &path, &(10 + round).to_string(), &[]);
        let mut acknowledged = 0;
        for line in lines.lines().map_while(Result::ok) {
            acknowledged =
                line.strip_prefix("durable ").and_then(|number| number.parse().ok()).map_or(acknowledged, |number: u64| number + 1);
            if acknowledged >= least + 25 + 40 * round {
                break;
            }
        }
        // Stopped, so that the copy is of one instant.
        assert!(run("kill", &["-STOP", &child.id().to_string()]));
        let cut = images.path().join(format!("cut-{round}"));
        fs::copy(&disk, &cut).expect("a copy");
        child.kill().expect("it is there");
        child.wait().expect("it is over");

        let after = Image::mount(&cut).expect("what could be mounted before");
        let (store, recovered) = open(&path_in(&after.0), 1_000);
        let found: Vec<u128> = recovered.operations.iter().map(|record| record.id.0).collect();
        assert_eq!(found, (0..found.len() as u128).collect::<Vec<u128>>());
        assert!(found.len() as u64 >= acknowledged, "{acknowledged} were acknowledged, {} are on the disk", found.len());
        assert!(acknowledged > least, "nothing was acknowledged before the cut");
        least = acknowledged;
        drop(store);
        drop(after);
        fs::remove_file(&cut).expect("ours");
    }
}

/// A mounted image.
struct Image(PathBuf);

impl Image {
    fn mount(image: &Path) -> Option<Self> {
        let at = tempfile::tempdir().expect("a directory").keep();
        let mounted = Command::new("mount").args(["-o", "loop,noatime"]).arg(image).arg(&at).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(at));
        }
        fs::remove_dir(&at).expect("ours");
        None
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if run("umount", &["-l", &self.0.to_string_lossy()]) {
            drop(fs::remove_dir(&self.0));
        }
    }
}

/// Room for the store with its reserve and for the file system's own journal.
const IMAGE_BYTES: u64 = 48 << 20;
