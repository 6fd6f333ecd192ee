//! What a measured process tells the process that started it: one line of JSON for each contender
//! in a row.

use serde::{Deserialize, Serialize};

use super::Quartiles;

/// The samples of one contender in one row, in the order of the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub row: String,
    pub contender: String,
    pub samples: Vec<f64>,
}

impl Record {
    pub fn new(row: &str, contender: &str, samples: Vec<f64>) -> Record {
        Record {
            row: row.to_owned(),
            contender: contender.to_owned(),
            samples,
        }
    }

    /// `None` where nothing could be measured.
    pub fn quartiles(&self) -> Option<Quartiles> {
        Quartiles::of(&self.samples)
    }

    /// Adds the samples of another process to those of the same contender in the same row.
    pub fn gather(all: &mut Vec<Record>, one: Record) {
        match all
            .iter_mut()
            .find(|known| known.is_of(&one.row, &one.contender))
        {
            Some(known) => known.samples.extend(one.samples),
            None => all.push(one),
        }
    }

    pub fn is_of(&self, row: &str, contender: &str) -> bool {
        self.row == row && self.contender == contender
    }
}
