//! Telemetry: logs with the contract's ids, and the contract's measures. It observes and decides nothing.
