//! An SQLite VFS in front of the real one: what happens to files in the directory of a [`Disk`] is told to it first, and is
//! done only when it allows it. All other files are the real VFS's alone.
//!
//! It becomes the default of this process, so that the store under test opens its files as it always does. `unsafe` is SQLite's
//! interface: every function hands its arguments on to the function of the real VFS that it stands before.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, PoisonError};

use rusqlite::ffi;

use super::disk::{Disk, FileId};

/// Tells `disk` what happens in `directory` from now on.
pub fn watch(directory: &Path, disk: &Arc<Disk>) {
    register();
    DISKS.lock().unwrap_or_else(PoisonError::into_inner).push((directory.to_owned(), Arc::clone(disk)));
}

/// Tells nobody any more what happens in `directory`. Files that are open go on.
pub fn forget(directory: &Path) {
    DISKS.lock().unwrap_or_else(PoisonError::into_inner).retain(|(watched, _)| watched != directory);
}

static DISKS: Mutex<Vec<(PathBuf, Arc<Disk>)>> = Mutex::new(Vec::new());

/// An open file of a disk. The real VFS's own file follows it in memory, where SQLite made room for both.
#[repr(C)]
struct Tapped {
    base: ffi::sqlite3_file,
    of: Option<(Arc<Disk>, FileId)>,
}

fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the real VFS lives as long as the process, and so does ours, which is leaked; SQLite copies neither.
        unsafe {
            let real = ffi::sqlite3_vfs_find(std::ptr::null());
            let ours = Box::leak(Box::new(*real));
            ours.szOsFile += size_of::<Tapped>() as c_int;
            ours.zName = c"recado-test".as_ptr();
            ours.pNext = std::ptr::null_mut();
            ours.pAppData = real.cast();
            ours.xOpen = Some(open);
            ours.xDelete = Some(delete);
            assert_eq!(ffi::sqlite3_vfs_register(ours, 1), ffi::SQLITE_OK);
        }
    });
}

fn watched(path: &Path) -> Option<(Arc<Disk>, String)> {
    let disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, disk) = disks.iter().find(|(directory, _)| path.parent() == Some(directory))?;
    Some((Arc::clone(disk), path.file_name()?.to_string_lossy().into_owned()))
}

unsafe fn path_of<'a>(name: *const c_char) -> Option<&'a Path> {
    if name.is_null() {
        return None;
    }
    // SAFETY: SQLite's file names end in NUL and outlive the call.
    unsafe { CStr::from_ptr(name) }.to_str().ok().map(Path::new)
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    unsafe {
        let real_vfs: *mut ffi::sqlite3_vfs = (*vfs).pAppData.cast();
        let Some(real_open) = (*real_vfs).xOpen else { return ffi::SQLITE_CANTOPEN };
        let tapped = path_of(name).and_then(|path| Some((path, watched(path)?)));
        let Some((path, (disk, short))) = tapped else {
            return real_open(real_vfs, name, file, flags, out);
        };
        (*file).pMethods = std::ptr::null();
        let id = match disk.open(&short, || std::fs::read(path).ok()) {
            Ok(id) => id,
            Err(code) => return code,
        };
        let code = real_open(real_vfs, name, real(file), flags, out);
        if code == ffi::SQLITE_OK {
            file.cast::<Tapped>().write(Tapped { base: ffi::sqlite3_file { pMethods: &METHODS }, of: Some((disk, id)) });
        }
        code
    }
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync_directory: c_int) -> c_int {
    unsafe {
        let real_vfs: *mut ffi::sqlite3_vfs = (*vfs).pAppData.cast();
        if let Some((disk, short)) = path_of(name).and_then(watched)
            && let Err(code) = disk.delete(&short, sync_directory != 0)
        {
            return code;
        }
        (*real_vfs).xDelete.map_or(ffi::SQLITE_IOERR_DELETE, |delete| delete(real_vfs, name, sync_directory))
    }
}

/// The real VFS's file behind ours.
unsafe fn real(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    unsafe { file.cast::<u8>().add(size_of::<Tapped>()).cast() }
}

unsafe fn tapped<'a>(file: *mut ffi::sqlite3_file) -> Option<(&'a Disk, FileId)> {
    unsafe { (*file.cast::<Tapped>()).of.as_ref().map(|(disk, id)| (&**disk, *id)) }
}

/// A method that asks the disk first, where there is something to ask, and then is the real one.
macro_rules! method {
    ($name:ident => $real:ident($($argument:ident: $kind:ty),*) $(, $disk:ident, $id:ident: $ask:expr)?) => {
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file, $($argument: $kind),*) -> c_int {
            unsafe {
                $(if let Some(($disk, $id)) = tapped(file)
                    && let Err(code) = $ask
                {
                    return code;
                })?
                let real = real(file);
                (*(*real).pMethods).$real.map_or(ffi::SQLITE_IOERR, |method| method(real, $($argument),*))
            }
        }
    };
}

method!(read => xRead(to: *mut c_void, length: c_int, at: i64), disk, _id: disk.read());
method!(write => xWrite(from: *const c_void, length: c_int, at: i64), disk, id:
    disk.write(id, at as usize, std::slice::from_raw_parts(from.cast::<u8>(), length as usize)));
method!(truncate => xTruncate(size: i64), disk, id: disk.truncate(id, size as usize));
method!(sync => xSync(flags: c_int), disk, id: disk.sync(id));
method!(file_size => xFileSize(size: *mut i64));
method!(lock => xLock(level: c_int));
method!(unlock => xUnlock(level: c_int));
method!(check_reserved => xCheckReservedLock(out: *mut c_int));
method!(control => xFileControl(what: c_int, argument: *mut c_void));
method!(sector_size => xSectorSize());
method!(characteristics => xDeviceCharacteristics());
method!(shm_map => xShmMap(page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void));
method!(shm_lock => xShmLock(offset: c_int, number: c_int, flags: c_int));
method!(shm_unmap => xShmUnmap(delete: c_int));
method!(fetch => xFetch(at: i64, length: c_int, out: *mut *mut c_void));
method!(unfetch => xUnfetch(at: i64, page: *mut c_void));

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    unsafe {
        drop((*file.cast::<Tapped>()).of.take());
        let real = real(file);
        (*(*real).pMethods).xClose.map_or(ffi::SQLITE_IOERR, |close| close(real))
    }
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    unsafe {
        let real = real(file);
        if let Some(barrier) = (*(*real).pMethods).xShmBarrier {
            barrier(real);
        }
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};
