//! The store on real files: constraints, restarts, kills, full and failing disks.

mod constraints;
mod conversations;
mod crash;
mod damage;
mod displaced;
mod doctor;
mod faults;
mod fixtures;
mod ledger;
mod model;
mod opening;
mod power;
mod retention;
mod salvage;
mod vanished;
mod writing;
