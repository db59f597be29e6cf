//! Files that people name: opened only where they are files.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a file that was named by somebody, to be read. It never waits, as opening a named pipe would, and touches no device.
///
/// # Errors
/// There is none, it can't be read, or it is no regular file, and what it is instead.
pub fn open_file(path: &Path) -> Result<File> {
    regular(&path.metadata()?)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    // What was a file a moment ago may be something else by now.
    regular(&file.metadata()?)?;
    Ok(file)
}

/// Reads a text file that was named by somebody, as [`open_file`] opens it.
///
/// # Errors
/// It can't be opened or read, is larger than that, or is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String> {
    let mut text = String::new();
    let bytes = open_file(path)?.take(bytes_max + 1).read_to_string(&mut text)?;
    if bytes as u64 > bytes_max {
        return Err(Error::new(ErrorKind::InvalidData, format!("it is larger than {bytes_max} bytes")));
    }
    Ok(text)
}

/// What stands at a path, in a word.
pub(super) fn kind(of: FileType) -> &'static str {
    match of {
        of if of.is_dir() => "a directory",
        of if of.is_fifo() => "a named pipe",
        of if of.is_socket() => "a socket",
        of if of.is_char_device() || of.is_block_device() => "a device",
        _ => "a file",
    }
}

fn regular(metadata: &Metadata) -> Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let kind_of_error = if metadata.is_dir() { ErrorKind::IsADirectory } else { ErrorKind::InvalidInput };
    Err(Error::new(kind_of_error, format!("it is {}, not a file", kind(metadata.file_type()))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_is_no_file_is_not_opened_and_nothing_waits_for_it() {
        let directory = tempfile::tempdir().unwrap();
        let (pipe, socket, file) = (directory.path().join("pipe"), directory.path().join("socket"), directory.path().join("file"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let _listening = UnixListener::bind(&socket).unwrap();
        std::fs::write(&file, "words").unwrap();
        let said = |path: &Path| open_file(path).unwrap_err().to_string();
        assert_eq!(said(&pipe), "it is a named pipe, not a file");
        assert_eq!(said(&socket), "it is a socket, not a file");
        assert_eq!(said(directory.path()), "it is a directory, not a file");
        assert_eq!(said(Path::new("/dev/null")), "it is a device, not a file");
        assert_eq!(read_text(&file, 5).unwrap(), "words");
        assert_eq!(read_text(&file, 4).unwrap_err().to_string(), "it is larger than 4 bytes");
    }
}
