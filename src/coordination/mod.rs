//! Durable coordination: the store that survives a power cut, and what a restart does with it.
//!
//! It knows records only (`recado_core::ledger`), no conversation, no channel and no executor.
