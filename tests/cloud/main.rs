//! The Realtime client against a service that keeps to the protocol, and one that does everything else: over loopback, with a real
//! WebSocket. What both send is held against the vendor's own types.

mod command;
mod link;
mod scenarios;
mod secure;
mod service;
mod talker;
mod validator;
