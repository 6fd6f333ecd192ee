//! A program written for `tokio::time` compiles and runs after no more than a change of its `use`
//! lines.

mod program;
mod shapes;
