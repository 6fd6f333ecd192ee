//! The unit tests of the wheel, and what they share.
//!
//! Invariant: a test that holds its wheel in [`Printed`] prints the wheel when it fails.

mod access;
mod advance;
mod by_index;
mod debug;
mod link;
mod make;
mod memory;
mod model;
mod turn;

use super::*;

impl<T> Wheel<T> {
    /// Asserts every invariant that the files of the wheel state.
    fn check(&self) {
        for (&(due, rank), &index) in &self.overdue {
            let node = &self.nodes[index as usize];
            assert_eq!(
                (node.due, node.links.to_rank(), node.home),
                (due, rank, Home::OVERDUE)
            );
        }
        let overdue = self.overdue.len();
        let in_levels: usize = self
            .levels
            .iter()
            .enumerate()
            .map(|(number, level)| level.check(&self.nodes, number))
            .sum();
        assert_eq!(
            overdue + in_levels,
            self.nodes.len(),
            "a node is in no list"
        );
        for (number, level) in self.levels.iter().enumerate() {
            assert_eq!(
                self.occupied >> number & 1 == 1,
                !level.is_empty(),
                "the bit of level {number}"
            );
        }
        assert!(self.elapsed <= self.now);
        for (_, node) in &self.nodes {
            if node.home == Home::OVERDUE {
                assert!(node.due < self.elapsed);
            } else if Some(node.home) != self.cascading {
                assert!(node.due >= self.elapsed);
                let shift = node.home.level() as u32 * self.digit_bits;
                let digit = node.due >> shift & ((1 << self.digit_bits) - 1);
                assert_eq!(
                    digit as usize,
                    node.home.slot(),
                    "a timer is not in the slot of its digit"
                );
                let above = u64::MAX.checked_shl(shift + self.digit_bits).unwrap_or(0);
                assert_eq!(
                    node.due & above,
                    self.elapsed & above,
                    "a timer is too low for its due"
                );
            }
        }
    }
}

/// Prints the wheel when the test that holds it fails.
struct Printed<T>(Wheel<T>);

impl<T> Drop for Printed<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:#?}", self.0);
        }
    }
}

/// The dues of what an advance yields.
fn dues<T>(fired: impl Iterator<Item = (u64, T)>) -> Vec<u64> {
    fired.map(|(due, _)| due).collect()
}
