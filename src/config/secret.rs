//! Credentials. They come from files, never from settings or the environment, and are never shown.
//!
//! Somebody may have written one where the name of its file should stand. So the name of a file that is there may be repeated; of one that is
//! not, only the nearest directory that is there, where it was looked for.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use reqwest::Url;

use super::file::open_file;
use super::repeated;

/// A credential. It can be used and can't be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Why a credential can't be had.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// There is no such file: name one that holds the credential, and not the credential itself.
    #[error("the credential file that is named is not in {}: {error}", within.display())]
    Missing {
        /// The nearest directory that is there. What was written may be the credential, and is not repeated.
        within: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file can't be read: give it to the user that the box runs as, or load it with systemd's `LoadCredential=`.
    #[error("the credential file {} can't be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The content can't be a credential: it must be one line of printable characters.
    #[error("the credential file {} must hold one line of 1 to {SECRET_BYTES_MAX} printable ASCII characters", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
    },
}

impl Secret {
    /// Reads a credential from a file, white space around it left out.
    ///
    /// # Errors
    /// When the file can't be read or does not hold one line.
    pub fn read(path: &Path) -> Result<Self, SecretError> {
        let mut text = Vec::new();
        let read = open_file(path).and_then(|file| file.take(SECRET_BYTES_MAX + 2).read_to_end(&mut text));
        read.map_err(|error| unreadable(path, error))?;
        match std::str::from_utf8(&text).map(str::trim) {
            Ok(line) if (1..=SECRET_BYTES_MAX).contains(&(line.len() as u64)) && line.bytes().all(|byte| matches!(byte, b' '..=b'~')) => {
                Ok(Self(line.to_owned()))
            }
            _ => Err(SecretError::Malformed { path: path.to_owned() }),
        }
    }

    /// What may be keys in a URL: each value of its query, and parts of its path that are as long as one.
    pub(crate) fn in_url(url: &Url) -> Vec<Self> {
        let values = url.query_pairs().map(|(_, value)| value.into_owned()).filter(|value| value.len() >= KEY_BYTES_MIN);
        let parts = url.path_segments().into_iter().flatten().map(str::to_owned).filter(|part| part.len() >= KEY_IN_PATH_BYTES_MIN);
        let printable = |text: &String| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        values.chain(parts).filter(printable).map(Self).collect()
    }

    /// `text` with `***` in each place that repeats it, also where it is escaped or encoded. Before a text is shortened: what is cut in the middle
    /// is not found.
    pub fn hidden_in(&self, text: &str) -> String {
        repeated::without(text, &self.0)
    }

    /// The same for a name that something goes by, as a code of a fault: what is too short to be a key of a service, as one that stands for none, is
    /// part of many a name.
    pub fn hidden_in_name(&self, name: &str) -> String {
        if self.0.len() < KEY_BYTES_MIN { name.to_owned() } else { self.hidden_in(name) }
    }

    /// The credential itself, to be sent and not to be kept.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
impl From<&str> for Secret {
    fn from(line: &str) -> Self {
        Self(line.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

fn unreadable(path: &Path, error: std::io::Error) -> SecretError {
    if path.symlink_metadata().is_ok() {
        return SecretError::Unreadable { path: path.to_owned(), error };
    }
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let within = whole.ancestors().skip(1).find(|above| above.is_dir()).unwrap_or(Path::new("/")).to_owned();
    SecretError::Missing { within, error }
}

/// Whether what stands under these keys may be a credential or hold one, also where it should not: it is never repeated.
pub(super) fn may_hold_secret<'k>(keys: impl IntoIterator<Item = &'k str>) -> bool {
    let hints = |key: &str| {
        let key = key.replace(['-', '_'], "").to_lowercase();
        HINTS.iter().any(|hint| key.contains(hint))
    };
    keys.into_iter().any(hints)
}

/// What the names of such settings contain, without hyphens and underscores. A key often stands in the path or the query of a URL.
const HINTS: [&str; 13] = [
    "secret",
    "token",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "bearer",
    "authorization",
    "cookie",
    "key",
    "headers",
    "url",
    "proxy",
];

/// Services give longer ones.
const KEY_BYTES_MIN: usize = 8;

/// Longer than most words that name a place (bytes).
const KEY_IN_PATH_BYTES_MIN: usize = 16;
/// Servers refuse headers beyond 8 KiB.
const SECRET_BYTES_MAX: u64 = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &[u8]) -> Result<Secret, SecretError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        std::fs::write(&path, content).unwrap();
        Secret::read(&path)
    }

    #[test]
    fn a_secret_is_read_whole_and_never_printed() {
        let secret = read(b"  s3cr3t token\n").unwrap();
        assert_eq!(secret.expose(), "s3cr3t token");
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "*** Some(***)");
    }

    #[test]
    fn a_name_is_a_name_also_where_what_stands_for_a_key_is_part_of_it() {
        assert_eq!(Secret::from("none").hidden_in_name("none_such"), "none_such");
        assert_eq!(Secret::from("none").hidden_in("none such"), "*** such");
        assert_eq!(Secret::from("s3cr3t-key").hidden_in_name("no_s3cr3t%2Dkey"), "no_***");
    }

    #[test]
    fn what_can_be_no_header_is_no_secret() {
        for content in [&b""[..], b"\n", b"two\nlines", b"\xff\xfe", &[b'a'; 9_000]] {
            let error = read(content).unwrap_err();
            assert!(matches!(error, SecretError::Malformed { .. }), "{error}");
        }
        assert!(read(&[b'a'; 8 * 1024]).is_ok());
    }

    #[test]
    fn an_error_names_the_file_and_not_its_content() {
        let error = read(b"p@ss\nword").unwrap_err().to_string();
        assert!(error.starts_with("the credential file /") && error.contains("/token must hold") && !error.contains("p@ss"), "{error}");
        let directory = tempfile::tempdir().unwrap();
        let error = Secret::read(directory.path()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("the credential file {} can't be read: ", directory.path().display())), "{error}");
    }

    #[test]
    fn a_name_that_is_no_files_may_be_the_credential_and_is_not_repeated() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().display();
        let long = "s3cr3t".repeat(60);
        for pasted in ["sk-proj-s3cr3t", "s3cr3t/ab+cd==", "s3cr3t", "./s3cr3t", "Bearer s3cr3t", long.as_str()] {
            let error = Secret::read(&directory.path().join(pasted)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("the credential file that is named is not in {here}: ")), "{error}");
            assert!(!error.contains("s3cr3t"), "{error}");
        }
        let error = Secret::read(Path::new("/s3cr3t/ab")).unwrap_err().to_string();
        assert!(error.starts_with("the credential file that is named is not in /: "), "{error}");
        let error = format!("{:?}", Secret::read(Path::new("s3cr3t")).unwrap_err());
        assert!(!error.contains("s3cr3t"), "{error}");
    }
}
