//! A process that runs: a line in, a WAV file out.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Loaded;
use super::scratch::Scratch;
use crate::process::Program;
use crate::surface::speech::error::SpeechError;
use crate::surface::speech::process::{self, SECONDS_MAX, STDERR_BYTES_MAX};
use crate::surface::speech::wav::{self, WavFault};

/// A process with its voice. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    program: Program,
    path: PathBuf,
    stdin: ChildStdin,
    /// The files that it says it has written.
    written: mpsc::Receiver<PathBuf>,
    /// The end of what else it says.
    complaint: Arc<Mutex<String>>,
    listening: JoinSet<()>,
    _scratch: Scratch,
}

impl Running {
    /// Starts it. It loads its voice then.
    ///
    /// # Errors
    /// It can't be started.
    pub async fn start(loaded: &Loaded) -> Result<Self, SpeechError> {
        let io = |source| SpeechError::EngineIo { program: loaded.program.clone(), source };
        let scratch = Scratch::make().map_err(io)?;
        let (program, (stdin, stdout, stderr)) = process::start(&loaded.program, &arguments(loaded, scratch.path()), INSTALL)?;
        let stdin = stdin.ok_or_else(|| io(std::io::ErrorKind::BrokenPipe.into()))?;
        let (writes, written) = mpsc::channel(FILES_MAX);
        let complaint = Arc::new(Mutex::new(String::new()));
        let mut listening = JoinSet::new();
        // The program of the package says it among its errors, the older one at its output.
        if let Some(stdout) = stdout {
            listening.spawn(listen(stdout, scratch.path().to_owned(), writes.clone(), Arc::clone(&complaint)));
        }
        if let Some(stderr) = stderr {
            listening.spawn(listen(stderr, scratch.path().to_owned(), writes, Arc::clone(&complaint)));
        }
        Ok(Self { program, path: loaded.program.clone(), stdin, written, complaint, listening, _scratch: scratch })
    }

    /// Has it say `text`, which is a line.
    ///
    /// # Errors
    /// It has died, or takes longer than `within`: it is of no use any more. Or what it wrote can't be used.
    pub async fn say(&mut self, text: &str, within: Duration) -> Result<Vec<i16>, SpeechError> {
        while let Ok(late) = self.written.try_recv() {
            // Nobody asked for it.
            let _ = tokio::fs::remove_file(late).await;
        }
        let deadline = Instant::now() + within;
        let line = format!("{}\n", text.trim());
        let file = timeout_at(deadline, async {
            // One that has died says why below.
            let _ = self.stdin.write_all(line.as_bytes()).await;
            tokio::select! {
                biased;
                Some(file) = self.written.recv() => Ok(file),
                status = process::ended(&mut self.program) => Err(status.err().unwrap_or_else(|| ENDED.to_owned())),
            }
        });
        match file.await {
            Ok(Ok(file)) => read(&file, &self.path).await,
            Ok(Err(status)) => Err(self.failed(status).await),
            Err(_) => Err(SpeechError::TimedOut(within)),
        }
    }

    /// Waits until it has ended, and says how. Cancel-safe.
    pub async fn ended(&mut self) -> SpeechError {
        let status = process::ended(&mut self.program).await;
        self.failed(status.err().unwrap_or_else(|| ENDED.to_owned())).await
    }

    async fn failed(&mut self, status: String) -> SpeechError {
        // What it said last is still being read, unless somebody else holds its output open.
        let heard_out = async { while self.listening.join_next().await.is_some() {} };
        let _ = timeout(HEARD_OUT_WITHIN, heard_out).await;
        let stderr = self.complaint.lock().unwrap_or_else(PoisonError::into_inner).trim().to_owned();
        SpeechError::EngineFailed { status, stderr }
    }
}

/// What both programs understand.
fn arguments(loaded: &Loaded, directory: &Path) -> Vec<std::ffi::OsString> {
    let mut arguments = vec!["--model".into(), loaded.model.clone().into(), "--output_dir".into(), directory.into()];
    let mut give = |name: &str, value: String| arguments.extend([name.into(), value.into()]);
    give("--sentence_silence", SENTENCE_SILENCE_S.to_owned());
    if let Some(speaker) = loaded.speaker {
        give("--speaker", speaker.to_string());
    }
    // A voice has a pace of its own, which stays where nothing else is wanted.
    if loaded.pace_percent != 100 {
        give("--length_scale", format!("{:.3}", 100.0 / f64::from(loaded.pace_percent)));
    }
    arguments
}

/// Reads what it says line by line, to its end: files that it has written are passed on, of the rest the end is kept.
async fn listen(from: impl AsyncRead + Unpin, directory: PathBuf, written: mpsc::Sender<PathBuf>, complaint: Arc<Mutex<String>>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut from).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        match file_in(&text, &directory) {
            // One that nobody takes is removed with the directory.
            Some(file) => drop(written.try_send(file)),
            None => keep_end(&mut complaint.lock().unwrap_or_else(PoisonError::into_inner), &text),
        }
    }
}

/// The file in `directory` that a line names.
fn file_in(line: &str, directory: &Path) -> Option<PathBuf> {
    let (_, rest) = line.split_once(directory.to_str()?)?;
    let (name, _) = rest.strip_prefix('/')?.rsplit_once(".wav")?;
    let is_plain = !name.is_empty() && !name.contains(['/', '\0']);
    is_plain.then(|| directory.join(format!("{name}.wav")))
}

fn keep_end(kept: &mut String, text: &str) {
    kept.push_str(text);
    let surplus = kept.len().saturating_sub(STDERR_BYTES_MAX as usize);
    let from = (surplus..=kept.len()).find(|at| kept.is_char_boundary(*at)).unwrap_or_default();
    kept.drain(..from);
}

/// Reads a file that has just been written, and removes it.
async fn read(file: &Path, program: &Path) -> Result<Vec<i16>, SpeechError> {
    let io = |source| SpeechError::EngineIo { program: program.to_owned(), source };
    let mut looks = LOOKS_MAX;
    let samples = loop {
        let bytes = tokio::fs::metadata(file).await.map_err(io)?.len();
        if bytes > FILE_BYTES_MAX {
            break Err(SpeechError::AudioTooLong { seconds_max: SECONDS_MAX });
        }
        match wav::read(&tokio::fs::read(file).await.map_err(io)?[..]) {
            // The older program names a file a moment before all of it is there.
            Err(WavFault::Truncated { .. }) if looks > 0 => {
                looks -= 1;
                sleep(LOOKS_EVERY).await;
            }
            samples => break samples.map_err(SpeechError::EngineAudio),
        }
    };
    tokio::fs::remove_file(file).await.map_err(io)?;
    samples
}

const INSTALL: &str = "install it (the package piper-tts of PyPI, in an environment of its own), and name it in speech.piper.program";
const ENDED: &str = "it ended";
/// The two programs differ in what they do where nothing is said, and without a pause nobody hears where a sentence ends.
const SENTENCE_SILENCE_S: &str = "0.2";
/// One is written for each line.
const FILES_MAX: usize = 4;
/// No message is longer.
const LINE_BYTES_MAX: u64 = 4_096;
/// As much as a playback holds, at the 22,050 Hz and 16 bits of most voices, or less at more.
const FILE_BYTES_MAX: u64 = SECONDS_MAX * 22_050 * 2 + 44;
/// What was said last is in the pipe.
const HEARD_OUT_WITHIN: Duration = Duration::from_millis(200);
/// A file that is being closed is whole after that: 200 ms.
const LOOKS_MAX: u32 = 10;
const LOOKS_EVERY: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_in_what_either_program_says() {
        let directory = Path::new("/dev/shm/recado-piper-1-0");
        let found = |line: &str| file_in(line, directory);
        let file = Some(directory.join("66092940861596.wav"));
        assert_eq!(found("INFO:__main__:Wrote /dev/shm/recado-piper-1-0/66092940861596.wav\n"), file);
        assert_eq!(found("/dev/shm/recado-piper-1-0/66092940861596.wav\n"), file);
        for other in
            ["INFO: loaded in 0.5 s", "/dev/shm/recado-piper-1-0/../../../etc/x.wav", "/dev/shm/recado-piper-1-0/.wav", "/tmp/1.wav"]
        {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn the_end_of_a_long_complaint_is_kept() {
        let mut kept = String::new();
        for number in 0..1_000 {
            keep_end(&mut kept, &format!("línea {number}\n"));
        }
        assert!(kept.len() <= STDERR_BYTES_MAX as usize && kept.ends_with("línea 999\n"));
    }
}
