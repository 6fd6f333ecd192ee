//! The programs of this package, each as a process of its own, by good clients and by bad ones.

mod hyper_server;
mod process;
