//! Administration over HTTP, on loopback unless configured: health and metrics.
