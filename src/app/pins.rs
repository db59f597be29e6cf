//! `recado pin`: who has a PIN, given, taken away and listed beside a running box, which reads the file each time.

use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::os::fd::AsRawFd;

use recado_trace::plain;

use crate::config::Config;
use crate::identity::{HashError, Pins, PinsError, hash, keep, party};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PinAsked {
    /// Who has one.
    List,
    /// That this user gets one, which is read from the input.
    Set {
        /// The user part or number.
        user: String,
    },
    /// That this user has none any more.
    Remove {
        /// The user part or number.
        user: String,
    },
}

/// Why it can't be done: it says what to do. No PIN is repeated.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// Nobody is asked for a PIN by this configuration.
    #[error("the configuration names no file for PINs; write there: [identity] pins_file = \"pins\"")]
    NoFile,
    /// No caller is called so.
    #[error("{0:?} is no caller who can have a PIN: write the user part or the number that it calls with, without spaces in it")]
    User(String),
    /// The caller has none.
    #[error("{0} has no PIN")]
    None(String),
    /// They differ.
    #[error("the two PINs differ: nothing is changed")]
    Differ,
    /// It can't be read.
    #[error("the PIN can't be read: {0}")]
    Input(#[from] io::Error),
    /// It can't be one.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// What is wrong with the file.
    #[error(transparent)]
    File(#[from] PinsError),
}

/// Does what is asked, and says what came of it.
///
/// # Errors
/// See [`PinError`].
pub fn pin(config: &Config, asked: PinAsked) -> Result<String, PinError> {
    let file = config.identity.pins_file.as_ref().ok_or(PinError::NoFile)?;
    Ok(match asked {
        PinAsked::List => {
            let pins = match Pins::read(file) {
                Err(PinsError::Unreadable { error, .. }) if error.kind() == io::ErrorKind::NotFound => Pins::default(),
                read => read?,
            };
            let mut text = format!("In {}:\n", file.display());
            for user in pins.users() {
                let _ = writeln!(text, "{user}");
            }
            if pins.is_empty() {
                text.push_str("Nobody has a PIN: recado pin set USER -c FILE\n");
            }
            plain(&text)
        }
        PinAsked::Set { user } => {
            let user = caller(config, &user)?;
            let pin = read_pin()?;
            config.identity.pin_rules().check(&pin)?;
            let hash = hash(&pin)?;
            let had = keep(file, |pins| pins.set(&user, hash))?;
            plain(&format!("{user} has {} PIN.\n", if had { "another" } else { "a" }))
        }
        PinAsked::Remove { user } => {
            let user = caller(config, &user)?;
            if !keep(file, |pins| pins.remove(&user))? {
                return Err(PinError::None(user));
            }
            plain(&format!("{user} has no PIN any more.\n"))
        }
    })
}

/// The user as a call would name it: what stands there without the scheme and the host.
fn caller(config: &Config, written: &str) -> Result<String, PinError> {
    let bare = written.trim().trim_start_matches("sips:").trim_start_matches("sip:").trim_start_matches("tel:");
    let bare = bare.split('@').next().unwrap_or_default();
    let account = &config.this_box.account;
    let known = party(account, Some(bare), "").and_then(|party| Some(party.0.strip_prefix(account)?.strip_prefix('/')?.to_owned()));
    known
        .filter(|user| user.len() <= USER_BYTES_MAX && !user.starts_with('#') && !user.chars().any(|c| c.is_whitespace() || c.is_control()))
        .ok_or_else(|| PinError::User(written.to_owned()))
}

fn read_pin() -> Result<String, PinError> {
    let input = io::stdin();
    if !input.is_terminal() {
        return Ok(line(&mut input.lock())?);
    }
    let pin = prompted("PIN: ")?;
    if prompted("Once more: ")? != pin {
        return Err(PinError::Differ);
    }
    Ok(pin)
}

/// One line, without its end.
fn line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    input.take(LINE_BYTES_MAX).read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// What is typed behind `prompt`, which is not shown.
fn prompted(prompt: &str) -> io::Result<String> {
    let mut out = io::stderr();
    write!(out, "{prompt}")?;
    out.flush()?;
    let typed = {
        let _hidden = Hidden::begin()?;
        line(&mut io::stdin().lock())
    };
    writeln!(out)?;
    let typed = typed?;
    if typed.contains(INTERRUPT) {
        return Err(io::Error::new(io::ErrorKind::Interrupted, "given up"));
    }
    Ok(typed)
}

/// The terminal shows nothing that is typed, until this is dropped. What would end the program before then is a character like others.
struct Hidden(libc::termios);

impl Hidden {
    #[allow(unsafe_code)]
    fn begin() -> io::Result<Self> {
        let terminal = io::stdin().as_raw_fd();
        // SAFETY: `termios` is plain data for which zeroes are valid; the call only fills it in.
        let (found, before) = unsafe {
            let mut before: libc::termios = std::mem::zeroed();
            (libc::tcgetattr(terminal, &mut before), before)
        };
        if found != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut hidden = before;
        hidden.c_lflag &= !(libc::ECHO | libc::ISIG);
        // SAFETY: it reads the settings that it is given, and no other memory.
        if unsafe { libc::tcsetattr(terminal, libc::TCSAFLUSH, &hidden) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(before))
    }
}

impl Drop for Hidden {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: as above. Where it fails there is no terminal any more.
        unsafe { libc::tcsetattr(io::stdin().as_raw_fd(), libc::TCSAFLUSH, &self.0) };
    }
}

/// Ctrl-C.
const INTERRUPT: char = '\u{3}';

/// Longer than any PIN.
const LINE_BYTES_MAX: u64 = 256;

/// Longer than the user part of any telephone.
const USER_BYTES_MAX: usize = 200;
