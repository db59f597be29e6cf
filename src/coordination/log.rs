//! The write-ahead log, read without the engine: that one drops the log of an empty file, and in silence all that follows a damaged frame
//! (SQLite's file format, section 4).

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::connection;
use super::error::{OpenError, from_io};
use super::files::sibling;
use super::header::LOG;
use crate::config::open_file;

/// How a log is that nobody has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Condition {
    /// Why the engine would drop commits that were flushed. A last commit that a power cut has torn is no damage.
    pub damage: Option<&'static str>,
    /// Whether the last commit was torn, and its end is there: behind commits that come it would pass for damage.
    pub is_torn: bool,
}

/// Refuses a store at `path` whose log is damaged. Says how it is otherwise.
pub(super) fn refuse_damaged(path: &Path) -> Result<Condition, OpenError> {
    let condition = condition(path).map_err(|error| from_io(&error, &sibling(path, LOG)))?;
    match condition.damage {
        Some(what) => Err(OpenError::Corrupt { path: path.to_owned(), what: what.to_owned() }),
        None => Ok(condition),
    }
}

/// How the log of the store at `path` is.
fn condition(path: &Path) -> io::Result<Condition> {
    let mut log = match open_file(&sibling(path, LOG)) {
        Ok(log) => log,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Condition::default()),
        Err(error) => return Err(error),
    };
    let found = committed(&mut log)?;
    let damage = match found {
        Committed { has_header: false, commits: 1.., .. } => Some("its log has no beginning"),
        // Each commit is flushed before the next is written: behind one that was cut there is none.
        Committed { commits_behind_damage: 2.., .. } => Some("a part of its log is damaged, and commits follow it"),
        _ => None,
    };
    Ok(Condition { damage, is_torn: found.commits_behind_damage > 0 })
}

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
    Ok((found.has_header || found.commits == 0) && found.commits_behind_damage == 0)
}

/// What the commits of a log leave.
struct Committed {
    /// Where in the log the last version of each page stands, by the page's number.
    pages: BTreeMap<u32, u64>,
    /// The length of the file after the last commit (pages).
    length: u32,
    /// Whether it begins as a log does.
    has_header: bool,
    commits: u32,
    /// How many of them a damaged frame comes before.
    commits_behind_damage: u32,
}

fn committed(log: &mut File) -> io::Result<Committed> {
    let mut found = Committed { pages: BTreeMap::new(), length: 0, has_header: true, commits: 0, commits_behind_damage: 0 };
    let bytes = log.metadata()?.len();
    if bytes < (HEADER_BYTES + FRAME_BYTES) as u64 {
        // Begun, and nothing in it was durable.
        return Ok(found);
    }
    let mut log = BufReader::with_capacity(16 * FRAME_BYTES, log);
    let mut header = [0; HEADER_BYTES];
    log.read_exact(&mut header)?;
    let (begins, sum) = header.split_at(HEADER_BYTES - SUM_BYTES);
    let magic = word(begins, 0);
    let is_magic = magic & !1 == MAGIC;
    let big_endian = if is_magic { magic & 1 == 1 } else { cfg!(target_endian = "big") };
    let mut before = sum_of(sum);
    found.has_header = is_magic && checksum((0, 0), begins, big_endian) == before;
    if found.has_header && word(begins, PAGE_BYTES_AT) as usize != PAGE_BYTES {
        // Another program's.
        return Ok(found);
    }
    // Each frame repeats what the header says; those of an older log may follow.
    let mut salts = begins.get(SALTS_AT..).filter(|_| found.has_header).map(<[u8]>::to_vec);
    let (mut pending, mut damaged) = (Vec::new(), false);
    let mut frame = vec![0; FRAME_BYTES];
    for at in (HEADER_BYTES as u64..).step_by(FRAME_BYTES).take_while(|at| at + FRAME_BYTES as u64 <= bytes) {
        log.read_exact(&mut frame)?;
        let (head, page) = frame.split_at(FRAME_HEAD_BYTES);
        let (begins, rest) = head.split_at(8);
        let (salt, sum) = rest.split_at(8);
        let is_good = salts.as_ref().is_none_or(|salts| salts == salt)
            && checksum(checksum(before, begins, big_endian), page, big_endian) == sum_of(sum);
        // A frame is good by what the one before it says, be that one good or not.
        before = sum_of(sum);
        if !is_good {
            damaged = true;
            continue;
        }
        salts.get_or_insert_with(|| salt.to_vec());
        let (number, length) = (word(begins, 0), word(begins, 4));
        pending.push((number, at));
        if length != 0 {
            found.pages.extend(pending.drain(..));
            found.length = length;
            found.commits += 1;
            found.commits_behind_damage += u32::from(damaged);
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
const PAGE_BYTES_AT: usize = 8;
const SALTS_AT: usize = 16;
const SUM_BYTES: usize = 8;
const PAGE_BYTES: usize = connection::PAGE_BYTES as usize;
const FRAME_HEAD_BYTES: usize = 24;
const FRAME_BYTES: usize = FRAME_HEAD_BYTES + PAGE_BYTES;
