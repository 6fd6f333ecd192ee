//! `docs/OPERATIONS.md`: its recipes export what they promise, its alerts can be asked for, and all
//! that it names is there.

mod leases;
mod page;
mod recipes;
