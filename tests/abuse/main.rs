//! The box as a process, ill-treated: what comes in is garbage, and what it leans on breaks.
//!
//! It is judged by what a caller hears, by what the tools were asked, and by the store. The caller is a telephone of this
//! test's own and the speech engine a script that gives each closing a tone of its own: nothing has to be installed.

mod addresses;
mod bad_input;
mod box_process;
mod configuration;
mod disk;
mod faults;
mod http;
mod http_peers;
mod phone;
mod stage;
mod store_trouble;
