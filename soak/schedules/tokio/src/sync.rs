//! The errors of a receiver.

pub mod mpsc {
    pub mod error {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum TryRecvError {
            Empty,
            Disconnected,
        }
    }
}
