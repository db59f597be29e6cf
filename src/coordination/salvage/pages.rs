//! The pages of a damaged file, without the engine: which of them are roots of tables that nothing names any more, what is below each, and
//! which are free (SQLite's file format, sections 1.5 and 1.6).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::PAGE_BYTES;

/// The pages that are not free.
pub(super) struct Pages {
    /// Those of tables that no other page refers to: the roots of tables, and what a damaged page above has cut off.
    pub loose: Vec<u32>,
    /// What each page of a table refers to.
    below: BTreeMap<u32, Vec<u32>>,
}

impl Pages {
    /// The first page says which are free. Where it does not, those pages are taken to say so that look like it.
    pub(super) fn read(file: &mut File) -> io::Result<Self> {
        let pages = u32::try_from(file.metadata()?.len() / PAGE_BYTES as u64).unwrap_or(u32::MAX);
        let free = match listed_free(file, pages)? {
            Some(free) => free,
            None => likely_free(file, pages)?,
        };
        let (mut loose, mut below, mut referred_to) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        each(file, |number, page| {
            let kind = page.first().copied().filter(|_| !free.contains(&number));
            if matches!(kind, Some(TABLE_LEAF | TABLE_INTERIOR)) {
                loose.push(number);
            }
            if matches!(kind, Some(TABLE_INTERIOR | INDEX_INTERIOR)) {
                let children: Vec<u32> = children(page).filter(|child| (2..=pages).contains(child)).collect();
                referred_to.extend(children.iter().copied());
                if kind == Some(TABLE_INTERIOR) {
                    below.insert(number, children);
                }
            }
        })?;
        loose.retain(|number| !referred_to.contains(number));
        Ok(Self { loose, below })
    }

    /// The pages of rows in the tree of a table, in order, each once.
    pub(super) fn leaves(&self, root: u32) -> Vec<u32> {
        let (mut leaves, mut seen, mut to_see) = (Vec::new(), BTreeSet::new(), vec![root]);
        while let Some(page) = to_see.pop() {
            if !seen.insert(page) {
                continue;
            }
            match self.below.get(&page) {
                Some(children) => to_see.extend(children.iter().rev()),
                None => leaves.push(page),
            }
        }
        leaves
    }
}

/// The free pages, as the first page lists them; none where that list does not hold together.
fn listed_free(file: &mut File, pages: u32) -> io::Result<Option<BTreeSet<u32>>> {
    let mut page = vec![0; PAGE_BYTES];
    file.rewind()?;
    file.read_exact(&mut page)?;
    let (mut next, number) = (word(&page, FREE_FIRST_AT), word(&page, FREE_NUMBER_AT));
    let mut free = BTreeSet::new();
    while next != 0 {
        if next > pages || !free.insert(next) {
            return Ok(None);
        }
        file.seek(SeekFrom::Start(u64::from(next - 1) * PAGE_BYTES as u64))?;
        file.read_exact(&mut page)?;
        let Some(trunk) = Trunk::read(&page, pages) else { return Ok(None) };
        free.extend(trunk.leaves);
        next = trunk.next;
    }
    Ok((free.len() == number as usize).then_some(free))
}

/// The free pages, as far as there are pages that look like a part of their list.
fn likely_free(file: &mut File, pages: u32) -> io::Result<BTreeSet<u32>> {
    let mut free = BTreeSet::new();
    each(file, |number, page| {
        if let Some(trunk) = Trunk::read(page, pages) {
            free.insert(number);
            free.extend(trunk.leaves);
        }
    })?;
    Ok(free)
}

/// A part of the list of free pages.
struct Trunk {
    next: u32,
    leaves: Vec<u32>,
}

impl Trunk {
    /// Reads it, if it is one: no page of a tree and none of text has these bytes.
    fn read(page: &[u8], pages: u32) -> Option<Self> {
        let (next, number) = (word(page, 0), word(page, 4));
        let is_page = |number: &u32| (2..=pages).contains(number);
        let leaves: Vec<u32> = page.get(8..8 + 4 * number as usize)?.as_chunks::<4>().0.iter().copied().map(u32::from_be_bytes).collect();
        ((next == 0 || is_page(&next)) && leaves.iter().all(is_page)).then_some(Self { next, leaves })
    }
}

/// The pages below one of a tree.
fn children(page: &[u8]) -> impl Iterator<Item = u32> {
    let cells = usize::from(u16::from_be_bytes([page[3], page[4]]));
    let pointers = page.get(12..12 + 2 * cells).unwrap_or_default().as_chunks::<2>().0;
    let left = pointers.iter().map(|&pointer| word(page, usize::from(u16::from_be_bytes(pointer))));
    left.chain([word(page, 8)])
}

/// Reads each page but the first.
fn each(file: &mut File, mut read: impl FnMut(u32, &[u8])) -> io::Result<()> {
    file.rewind()?;
    let mut file = BufReader::with_capacity(16 * PAGE_BYTES, file);
    let mut page = vec![0; PAGE_BYTES];
    for number in 1.. {
        match file.read_exact(&mut page) {
            Ok(()) if number > 1 => read(number, &page),
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

const FREE_FIRST_AT: usize = 32;
const FREE_NUMBER_AT: usize = 36;

const INDEX_INTERIOR: u8 = 0x02;
const TABLE_INTERIOR: u8 = 0x05;
const TABLE_LEAF: u8 = 0x0d;
