//! The programs of this package, each as a process of its own, by good clients and by bad ones.

mod axum_idle;
mod behaviour;
mod durable_retry;
mod hyper_server;
mod idle_proxy;
mod mqtt_keepalive;
mod process;
#[cfg(unix)]
mod wheel_view;
mod ws_heartbeat;
