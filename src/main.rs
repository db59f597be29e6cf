//! The command line: parse and dispatch, nothing else.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use recado::admin;
use recado::config::Sources;

/// A telephone agent in a box that accepts work, keeps talking, and tells each result once.
#[derive(Debug, Parser)]
#[command(name = "recado", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a configuration: print every problem, or what a box with it will do.
    Check(Configured),
}

/// Where the configuration is.
#[derive(Debug, Args)]
struct Configured {
    /// The configuration file; `FILE.d/*.toml` and RECADO_SECTION__KEY variables are laid over it.
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    file: PathBuf,
    /// Set one setting over all others, such as sip.calls_max=4; may be repeated.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    flags: Vec<String>,
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Check(configured) => check(configured),
    }
}

fn check(configured: Configured) -> ExitCode {
    match admin::check(&Sources::of_process(configured.file, configured.flags)) {
        Ok(checked) => {
            checked.warnings.iter().for_each(|warning| eprintln!("{warning}"));
            print!("{}", checked.summary);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  it could not be done, or the configuration has problems: they are on stderr
  2  the command line was not understood";
