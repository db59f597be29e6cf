//! Traces: written within their bounds whatever happens, shown by the command line, and those of a whole story replayed: today's
//! code decides what the code that recorded them decided.

mod command_line;
mod keeping;
mod recorded;
