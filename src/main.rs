//! The command line: parse and dispatch, nothing else.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use recado::app::{MessagesAsked, PinAsked};
use recado::config::{Config, Depth, Sources};
use recado::demo::{self, Options};
use recado::messages::MessageId;
use recado::{app, simulate, telemetry, traces};
use recado_core::DeliveryId;
use recado_core::policy::Language;
use recado_trace::plain;

/// A telephone agent in a box that accepts work, keeps talking, and tells each result once.
#[derive(Debug, Parser)]
#[command(name = "recado", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve calls until SIGTERM or Ctrl-C.
    Run(Configured),
    /// Check a configuration: print every problem, or what a box with it will do.
    Check(Configured),
    /// Show what waits to be told and what runs; the box may run meanwhile.
    Pending {
        #[command(flatten)]
        configured: Configured,
        /// As one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Explain how the store is, and what is wrong with it; the box may run meanwhile.
    Doctor {
        #[command(flatten)]
        configured: Configured,
        /// Mend what can be mended. The box must not run: a running one mends itself.
        #[arg(long)]
        mend: bool,
        /// Ask the speech engine, and the one that stands in for it, for a word each: a service may charge for it.
        #[arg(long)]
        speech: bool,
        /// As one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show what callers have left while the service that leads calls was away; the box may run meanwhile.
    Messages {
        #[command(flatten)]
        configured: Configured,
        /// The file of this message alone.
        #[arg(long, value_name = "ID", conflicts_with = "delete")]
        path: Option<MessageId>,
        /// Delete this message.
        #[arg(long, value_name = "ID")]
        delete: Option<MessageId>,
    },
    /// List the tools; explain what the policy of one will do; try one out. No store is touched, and no box needs to run.
    Tools {
        #[command(subcommand)]
        asked: Option<ToolsAsked>,
        /// The configuration file.
        #[arg(short = 'c', long = "config", value_name = "FILE", global = true)]
        file: Option<PathBuf>,
        /// Set one setting over all others; may be repeated.
        #[arg(long = "set", value_name = "SECTION.KEY=VALUE", global = true)]
        flags: Vec<String>,
        /// Ask the servers of [mcp] what they offer now, and keep it for the next start; otherwise what they offered last is shown.
        #[arg(long, global = true)]
        discover: bool,
        /// As JSON.
        #[arg(long, global = true)]
        json: bool,
    },
    /// Set, list and remove the PINs by which callers show who they are; the box may run meanwhile.
    #[command(subcommand)]
    Pin(Pin),
    /// What concerns a speech model in a network.
    #[command(subcommand)]
    Cloud(Cloud),
    /// Draw a conversation: the four clocks, each delivery and why it waited. Without arguments: list the conversations.
    Trace {
        /// The conversation (its identifier, or how that begins), or a trace's file.
        #[arg(value_name = "SESSION|FILE", conflicts_with = "last")]
        name: Option<String>,
        /// The latest conversation.
        #[arg(long)]
        last: bool,
        /// This delivery, and the time around it; without a conversation, its whole life.
        #[arg(long, value_name = "ID")]
        delivery: Option<DeliveryId>,
        /// As one JSON object.
        #[arg(long)]
        json: bool,
        /// Without characters that not every terminal has.
        #[arg(long)]
        ascii: bool,
        /// The configuration of the box whose traces are meant.
        #[arg(short = 'c', long = "config", value_name = "FILE", conflicts_with = "directory")]
        config: Option<PathBuf>,
        /// Where the traces are, when neither -c names box.data_dir, nor they are in data/traces or /var/lib/recado/traces.
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Tell today's code what a trace says that the box was told: does it decide the same?
    Replay {
        /// Traces; those that belong together, as the parts of a ledger's, are taken together.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Play a whole story on loopback: a box, its tools and a caller; needs espeak-ng and no configuration.
    Demo {
        /// The language of the call: es or en.
        #[arg(long, default_value = "es", value_parser = language)]
        language: Language,
        /// Where the call is written as a stereo WAV.
        #[arg(long, default_value = "recado-demo.wav")]
        wav: PathBuf,
        /// Keep the store, the configuration and the log in this directory.
        #[arg(long, value_name = "DIR")]
        keep: Option<PathBuf>,
    },
    /// Test the box on this machine in a few seconds; needs no speech engine.
    SelfTest,
    /// Play conversations in virtual time, with every fault, and check that the contract holds; needs nothing.
    Sim(simulate::Options),
}

#[derive(Debug, Subcommand)]
enum ToolsAsked {
    /// What is done when it is asked for twice, fails, or is cancelled, and what the caller hears in each case.
    Explain {
        /// The tool.
        name: String,
    },
    /// Carry out one real attempt, and say what came of it and what the caller would hear.
    Call {
        /// The tool.
        name: String,
        /// Its arguments, as a JSON object.
        #[arg(value_name = "JSON", default_value = "{}")]
        arguments: String,
        /// Do it for real, also with a tool that is not idempotent.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
enum Pin {
    /// Give a caller a PIN, asked for twice where there is a terminal, and otherwise read from the first line of the input.
    Set {
        /// The caller's user part or telephone number, as it calls.
        user: String,
        #[command(flatten)]
        configured: Configured,
    },
    /// Who has a PIN.
    List(Configured),
    /// Take a caller's PIN away.
    Remove {
        /// The caller's user part or telephone number.
        user: String,
        #[command(flatten)]
        configured: Configured,
    },
}

#[derive(Debug, Subcommand)]
enum Cloud {
    /// Talk with the model that is configured: what works, how long it takes, what mends the rest. Needs espeak-ng; costs some tokens.
    Test(Configured),
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
        Command::Run(configured) => run(configured),
        Command::Check(configured) => ended(app::check(&sources(configured)).map(|checked| {
            checked.warnings.iter().for_each(|warning| eprintln!("{warning}"));
            print(&checked.summary);
        })),
        Command::Pending { configured, json } => match Config::load(&sources(configured), Depth::Settings) {
            Ok((config, _)) => ended(app::pending(&config, json).map(|text| print(&text))),
            Err(problems) => ended::<()>(Err(problems)),
        },
        Command::Doctor { configured, mend, speech, json } => doctor(configured, mend, speech, json),
        Command::Messages { configured, path, delete } => {
            let asked = match (path, delete) {
                (_, Some(id)) => MessagesAsked::Delete(id),
                (Some(id), None) => MessagesAsked::Path(id),
                (None, None) => MessagesAsked::List,
            };
            match Config::load(&sources(configured), Depth::Settings) {
                Ok((config, _)) => ended(app::messages(&config, asked).map(|text| print(&text))),
                Err(problems) => ended::<()>(Err(problems)),
            }
        }
        Command::Tools { asked, file: Some(file), flags, discover, json } => tools(asked, Configured { file, flags }, discover, json),
        Command::Tools { file: None, .. } => {
            let missing = Cli::command().error(ErrorKind::MissingRequiredArgument, "the configuration file is missing: add -c FILE");
            let _ = missing.print();
            ExitCode::from(NOT_UNDERSTOOD)
        }
        Command::Pin(asked) => pin(asked),
        Command::Cloud(Cloud::Test(configured)) => cloud_test(configured),
        Command::Trace { name, last, delivery, json, ascii, config, directory } => {
            let directory = match (directory, config) {
                (Some(directory), _) => directory,
                (None, Some(file)) => match Config::load(&Sources::of_process(file, Vec::new()), Depth::Settings) {
                    // A box that is not told keeps its data where systemd or whoever started it has said.
                    Ok((config, _)) if config.this_box.data_dir.is_none() => traces::default_directory(),
                    Ok((config, _)) => config.this_box.traces(),
                    Err(problems) => return ended::<()>(Err(problems)),
                },
                (None, None) => traces::default_directory(),
            };
            let asked = traces::show::Asked { name, last, delivery, json };
            ended(traces::show::trace(&directory, &asked, traces::terminal(ascii)).map(|text| print(&text)))
        }
        Command::Replay { files } => {
            let replayed = traces::show::replay_files(&files);
            print(&replayed.text);
            replayed.errors.iter().for_each(|error| eprintln!("{}", plain(&error.to_string())));
            if replayed.same && replayed.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Command::Demo { language, wav, keep } => ended(demo::run(&Options { language, wav, keep })),
        Command::SelfTest => ended(demo::self_test()),
        Command::Sim(options) => ended(simulate::run(&options).map(|text| print(&text))),
    }
}

fn run(configured: Configured) -> ExitCode {
    let file = configured.file.display().to_string();
    let (config, warnings) = match Config::load(&sources(configured), Depth::Files) {
        Ok(loaded) => loaded,
        Err(problems) => return ended::<()>(Err(problems)),
    };
    if let Err(error) = telemetry::logs::init(&config.log) {
        return ended::<()>(Err(error));
    }
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    ended(app::run(&config, &file))
}

fn doctor(configured: Configured, mend: bool, speech: bool, json: bool) -> ExitCode {
    let config = match Config::load(&sources(configured), Depth::Settings) {
        Ok((config, _)) => config,
        Err(problems) => return ended::<()>(Err(problems)),
    };
    let diagnosis = app::doctor(&config, mend, speech);
    let text = if json { serde_json::to_string_pretty(&diagnosis).map(|text| text + "\n") } else { Ok(diagnosis.text()) };
    match text {
        Ok(text) => print(&text),
        Err(error) => return ended::<()>(Err(error)),
    }
    if diagnosis.is_well() { ExitCode::SUCCESS } else { ExitCode::from(SOMETHING_IS_WRONG) }
}

fn tools(asked: Option<ToolsAsked>, configured: Configured, discover: bool, json: bool) -> ExitCode {
    // A tool that is tried out needs its files, and so does a server that is asked; to show it, none of them has to be there.
    let depth = if discover || matches!(asked, Some(ToolsAsked::Call { .. })) { Depth::Files } else { Depth::Settings };
    let config = match Config::load(&sources(configured), depth) {
        Ok((config, _)) => config,
        Err(problems) => return ended::<()>(Err(problems)),
    };
    let config = match app::with_offered(&config, discover) {
        Ok((config, notes)) => {
            notes.iter().for_each(|note| eprintln!("{}", plain(note)));
            config
        }
        Err(error) => return tools_ended(Err(error)),
    };
    let shown = match asked {
        None => app::listed(&config, json),
        Some(ToolsAsked::Explain { name }) => app::explained(&config, &name),
        Some(ToolsAsked::Call { name, arguments, yes }) => match app::called(&config, &name, &arguments, yes) {
            Ok(call) => {
                let text = if json { call.json() } else { Ok(call.text()) };
                let code = if call.is_done() { ExitCode::SUCCESS } else { ExitCode::from(SOMETHING_IS_WRONG) };
                return match text {
                    Ok(text) => {
                        print(&text);
                        code
                    }
                    Err(error) => tools_ended(Err(error)),
                };
            }
            Err(error) => Err(error),
        },
    };
    tools_ended(shown.map(|text| print(&text)))
}

fn tools_ended(result: Result<(), app::ToolsError>) -> ExitCode {
    let interrupted = matches!(result, Err(app::ToolsError::Interrupted));
    let code = ended(result);
    if interrupted { ExitCode::from(INTERRUPTED) } else { code }
}

fn pin(asked: Pin) -> ExitCode {
    let (asked, configured) = match asked {
        Pin::Set { user, configured } => (PinAsked::Set { user }, configured),
        Pin::List(configured) => (PinAsked::List, configured),
        Pin::Remove { user, configured } => (PinAsked::Remove { user }, configured),
    };
    match Config::load(&sources(configured), Depth::Settings) {
        Ok((config, _)) => ended(app::pin(&config, asked).map(|text| print(&text))),
        Err(problems) => ended::<()>(Err(problems)),
    }
}

fn cloud_test(configured: Configured) -> ExitCode {
    let config = match Config::load(&sources(configured), Depth::Settings) {
        Ok((config, _)) => config,
        Err(problems) => return ended::<()>(Err(problems)),
    };
    match app::cloud_test(&config) {
        Ok(report) => {
            print(&report.text());
            if report.is_well() { ExitCode::SUCCESS } else { ExitCode::from(SOMETHING_IS_WRONG) }
        }
        Err(error) => ended::<()>(Err(error)),
    }
}

/// Prints, to a reader that may have seen enough.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(plain(text).as_bytes());
}

fn sources(configured: Configured) -> Sources {
    Sources::of_process(configured.file, configured.flags)
}

fn language(word: &str) -> Result<Language, String> {
    match word {
        "es" => Ok(Language::Es),
        "en" => Ok(Language::En),
        _ => Err("write es or en".to_owned()),
    }
}

fn ended<T>(result: Result<T, impl std::fmt::Display>) -> ExitCode {
    match result {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", plain(&error.to_string()));
            ExitCode::FAILURE
        }
    }
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  it could not be done, or the configuration has problems: they are on stderr
  2  the command line was not understood
  3  recado doctor has found something wrong, and has not mended it; or not all of what recado cloud test tries works;
     or recado tools call has not done what it was asked for
  130  recado tools was interrupted (SIGINT, SIGTERM), and has ended what it had started";

const NOT_UNDERSTOOD: u8 = 2;

const SOMETHING_IS_WRONG: u8 = 3;

/// As a shell has it for what ends by SIGINT.
const INTERRUPTED: u8 = 130;
