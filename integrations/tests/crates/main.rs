//! The adapters beside the real crates that they are for.
//!
//! One program, because each links all of these crates.

mod axum;
mod body;
mod hyper;
mod hyper_pool;
mod quinn;
mod quinn_timer;
mod tonic;
mod turmoil;
