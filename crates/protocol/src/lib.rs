//! The delivery protocol, model-checked: accept, attempt, result, claim, speak, evidence, commit, power cut, restart.
//!
//! A [`specification`] of the ledger, written from the contract, stands in a [`world`] of tools that count their effects, an ear
//! that counts what it hears, callers who interrupt, hang up and call again, a store that fails and power that goes. The
//! [`model`] is explored to its end ([stateright](https://www.stateright.rs), and [`graph`]) in each [`scope`]: no depth and no
//! number of states is given, only how often what could go wrong without end does.
//!
//! # What is checked
//! * The [`laws`] in every state: R1–R6, I1–I4, I6, I10, I17 as the world could see their breach.
//! * No dead end: from every state, were all faults to stop there, everything accepted can still be told.
//! * Every edge of the contract's machines is taken, and no other.
//! * [`conformance`]: the real ledger goes along every transition of the specification, and what comes out, what is durable
//!   and whether a transaction is in flight are the same.
//! * The [`real`] ledger as the model's own state, with inputs that come while a transaction is in flight.
//!
//! # What broken rules lead to
//! Each of [`specification::Broken`] is refuted, by a few steps that a caller could live through:
//!
//! | broken | what then happens |
//! | --- | --- |
//! | a closing is spoken, then its claim committed | power cut in between: the next call hears it again, as if for the first time |
//! | what was `Speaking` is `Ready` after a restart | the same |
//! | a callback is answered, then its result committed | power cut in between: the sender is content, the result is gone |
//! | an attempt is sent, then committed | power cut in between: after the restart it is sent again under the same number; two effects |
//! | an attempt is repeated though the last may have been executed | a lost answer is enough; two effects |
//! | a report about an ended playback counts for the next one | `Spoken`, and never heard |
//! | a claim is shared | two calls tell the same closing at once |
//!
//! # What is not
//! One batch, one clause for each operation, one party. Time is whether a back-off or a deadline has passed. Far ends, tools
//! and the store are honest: what is lost is lost, but nobody lies (the simulator's do). What a conversation does between
//! its gate and its voice is the simulator's too: here a claim is told, given back, cut or lost. In the specification an input
//! waits outside while a transaction is in flight. A call that comes again keeps its slot's identifier; nothing of the earlier one
//! is left by then. `HandedOff` and updates of progress, and replacement: the ledger's own tests have them.

pub mod action;
pub mod alphabet;
pub mod conformance;
pub mod graph;
pub mod laws;
pub mod model;
pub mod real;
pub mod scope;
pub mod specification;
pub mod world;
