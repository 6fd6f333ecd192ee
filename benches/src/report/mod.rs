//! What comes out of a run: [`Results`], shown as tables, as a Markdown file and as charts.

pub mod charts;
mod facts;
pub mod lateness;
mod neighbours;
mod results;
pub mod tables;

pub use facts::Facts;
pub use neighbours::Neighbours;
pub use results::Results;
