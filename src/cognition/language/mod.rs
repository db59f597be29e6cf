//! Services with the OpenAI interface behind HTTP: one that answers, and one that writes down what is said. Whoever asks one, a cascade or a tool,
//! asks it here.
//!
//! * [`wire`]: what goes over HTTP, as bytes and JSON. Knows no state.
//! * [`http`]: the requests, and why they fail. Knows no conversation and no operation.
//!
//! Names of models and services are configuration. Whether something is asked again is for whoever asks to say.

pub mod http;
pub mod wire;
