//! The clients of the Realtime and the Live protocol against services that keep to it, and do everything else: over loopback, with a real
//! WebSocket; and calls that a service leads, over real SIP. What both send is held against the vendor's own types.

mod away;
mod calls;
mod cascade;
mod cascade_ahead;
mod cascade_away;
mod cascade_calls;
mod cascade_command;
mod cascade_counterparts;
mod command;
mod conflicts;
mod counterpart;
mod delegate;
mod gemini;
mod gemini_command;
mod gemini_counterpart;
mod gemini_service;
mod http_service;
mod leaves_message;
mod link;
mod live;
mod live_command;
mod live_counterpart;
mod live_service;
mod llmock;
mod model;
mod scenarios;
#[path = "../scene/mod.rs"]
mod scene;
mod secure;
mod service;
mod stage;
mod talker;
mod validator;
