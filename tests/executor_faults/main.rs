//! What comes of everything that can go wrong between an operation and the service behind it, with the parts of a real box: the ledger, the store on disk,
//! the executor over HTTP, the route for callbacks; and services on loopback that count what reaches them.

mod breaker;
mod callbacks;
mod ending;
mod faults;
mod proxy;
mod rig;
#[path = "../scene/mod.rs"]
mod scene;
mod service;
mod signatures;
mod status;
