//! Why a dialogue can't be used.

/// Why a dialogue can't be used. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialogueError {
    /// The file is longer than a dialogue can be: shorten it.
    #[error("the dialogue is {size_bytes} bytes long; at most {bytes_max} are read")]
    TooLong {
        /// Its length.
        size_bytes: usize,
        /// What is read.
        bytes_max: usize,
    },
    /// It is not TOML, or holds something that a dialogue does not have: correct that line.
    #[error("line {line}: {message}")]
    Toml {
        /// The line.
        line: usize,
        /// What was found and what is expected.
        message: String,
    },
    /// A step does nothing: give it something to do, or remove it.
    #[error(
        "line {line}: this step does nothing: give it `say`, `call`, `cancel`, `collect`, `message`, `confirm` or `hang_up`, or remove it"
    )]
    EmptyStep {
        /// The line.
        line: usize,
    },
    /// Something that is said can't be: give it words, or a prompt.
    #[error("line {line}: {reason}")]
    Say {
        /// The line.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A prompt is not declared: declare it, or correct the name.
    #[error("line {line}: there is no prompt `{name}`; declare it as `[prompts.{name}]`, or use one of: {known}")]
    UnknownPrompt {
        /// The line.
        line: usize,
        /// The name.
        name: String,
        /// Those that exist.
        known: String,
    },
    /// A tool can't be called or cancelled like this: correct its name or its arguments.
    #[error("line {line}: {reason}")]
    Tool {
        /// The line.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A placeholder can't be filled in here: use one that can.
    #[error("line {line}: `{{{{{name}}}}}` can't be filled in here; possible are {possible}")]
    Placeholder {
        /// The line.
        line: usize,
        /// The placeholder.
        name: String,
        /// Those that can.
        possible: &'static str,
    },
    /// A key is none, or has two steps: correct it.
    #[error("line {line}: {reason}")]
    Key {
        /// The line.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Keys can't be collected like this: correct it.
    #[error("line {line}: {reason}")]
    Collect {
        /// The line.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A message can't be taken like this: correct it.
    #[error("line {line}: {reason}")]
    Message {
        /// The line.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A silence is too short or too long: correct it.
    #[error("line {line}: `after_s` must be between {min} and {max} seconds")]
    Silence {
        /// The line.
        line: usize,
        /// The shortest.
        min: u32,
        /// The longest.
        max: u32,
    },
    /// There are too many of something: remove some.
    #[error("line {line}: there are more than {max} {what}")]
    TooMany {
        /// The line.
        line: usize,
        /// Of what.
        what: &'static str,
        /// As many as there may be.
        max: usize,
    },
}
