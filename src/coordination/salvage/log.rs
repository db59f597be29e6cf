//! The log of a damaged store, put into the file that it belongs to, without the engine: that one drops the log of an empty file, and all
//! that follows a damaged frame (SQLite's file format, section 4).

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::PAGE_BYTES;
use crate::coordination::files::sibling;
use crate::coordination::header::LOG;

/// Writes the pages of all commits in the log into the file at `copy`, and removes the log. A frame that is damaged is passed over. Says
/// whether all of the log could be read, as far as can be told.
pub(super) fn apply(copy: &Path) -> io::Result<bool> {
    let log = sibling(copy, LOG);
    let found = match File::open(&log) {
        Ok(mut file) => {
            let found = committed(&mut file)?;
            write(&found, &mut file, copy)?;
            found
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    fs::remove_file(log)?;
    Ok(found.is_whole)
}

/// What the commits of a log leave.
struct Committed {
    /// Where in the log the last version of each page stands, by the page's number.
    pages: BTreeMap<u32, u64>,
    /// The length of the file after the last commit (pages).
    length: u32,
    /// Whether no frame before the last commit was damaged.
    is_whole: bool,
}

fn committed(log: &mut File) -> io::Result<Committed> {
    let mut found = Committed { pages: BTreeMap::new(), length: 0, is_whole: true };
    let bytes = log.metadata()?.len();
    let mut log = BufReader::with_capacity(16 * FRAME_BYTES, log);
    let mut header = [0; HEADER_BYTES];
    if bytes < (HEADER_BYTES + FRAME_BYTES) as u64 {
        // Begun, and nothing in it was durable.
        return Ok(found);
    }
    log.read_exact(&mut header)?;
    let (begins, sum) = header.split_at(HEADER_BYTES - SUM_BYTES);
    let magic = word(begins, 0);
    let big_endian = if magic & !1 == MAGIC { magic & 1 == 1 } else { cfg!(target_endian = "big") };
    let mut before = sum_of(sum);
    found.is_whole = checksum((0, 0), begins, big_endian) == before;
    // What each frame of this log repeats; frames of an older one may follow.
    let mut salts = found.is_whole.then(|| begins[SALTS_AT..].to_vec());
    let (mut pending, mut damaged) = (Vec::new(), false);
    let mut frame = vec![0; FRAME_BYTES];
    for at in (HEADER_BYTES as u64..).step_by(FRAME_BYTES).take_while(|at| at + FRAME_BYTES as u64 <= bytes) {
        log.read_exact(&mut frame)?;
        let (head, page) = frame.split_at(FRAME_HEAD_BYTES);
        let (begins, rest) = head.split_at(8);
        let (salt, sum) = rest.split_at(8);
        let salts = salts.get_or_insert_with(|| salt.to_vec());
        let of_this_log = *salts == salt;
        let is_good = of_this_log && checksum(checksum(before, begins, big_endian), page, big_endian) == sum_of(sum);
        before = sum_of(sum);
        if !is_good {
            damaged = true;
            continue;
        }
        let (number, length) = (word(begins, 0), word(begins, 4));
        pending.push((number, at));
        if length != 0 {
            found.pages.extend(pending.drain(..));
            found.length = length;
            // What follows the last commit may never have been whole.
            found.is_whole &= !damaged;
        }
    }
    Ok(found)
}

fn write(found: &Committed, log: &mut File, copy: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(copy)?;
    let there = file.metadata()?.len();
    // No page is beyond what the file had and the log adds.
    let most = there.div_ceil(PAGE_BYTES as u64) + found.pages.len() as u64;
    let mut page = vec![0; PAGE_BYTES];
    for (&number, &at) in found.pages.range(1..) {
        if u64::from(number) > most {
            break;
        }
        log.seek(SeekFrom::Start(at + FRAME_HEAD_BYTES as u64))?;
        log.read_exact(&mut page)?;
        file.seek(SeekFrom::Start(u64::from(number - 1) * PAGE_BYTES as u64))?;
        file.write_all(&page)?;
    }
    let length = u64::from(found.length).min(most) * PAGE_BYTES as u64;
    if length > file.metadata()?.len() { file.set_len(length) } else { Ok(()) }
}

/// Goes on with a checksum over more bytes (section 4.2).
fn checksum((mut first, mut second): (u32, u32), bytes: &[u8], big_endian: bool) -> (u32, u32) {
    let number = |bytes: [u8; 4]| if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
    for &[a, b, c, d, e, f, g, h] in bytes.as_chunks::<8>().0 {
        first = first.wrapping_add(number([a, b, c, d])).wrapping_add(second);
        second = second.wrapping_add(number([e, f, g, h])).wrapping_add(first);
    }
    (first, second)
}

fn sum_of(bytes: &[u8]) -> (u32, u32) {
    (word(bytes, 0), word(bytes, 4))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// How a log begins; the last bit says in which order of bytes its checksums are made.
const MAGIC: u32 = 0x377f_0682;
const HEADER_BYTES: usize = 32;
const SALTS_AT: usize = 16;
const SUM_BYTES: usize = 8;
const FRAME_HEAD_BYTES: usize = 24;
const FRAME_BYTES: usize = FRAME_HEAD_BYTES + PAGE_BYTES;
