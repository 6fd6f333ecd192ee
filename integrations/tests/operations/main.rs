//! `docs/OPERATIONS.md`: its recipes export what they promise, and its alerts query that.

mod leases;
mod page;
mod recipes;
