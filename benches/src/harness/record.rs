//! What a measured process reports to the process that started it: one line of JSON for each
//! contender in a row, and the medians and quartiles of that.

use serde::{Deserialize, Serialize, Serializer};

/// The samples of one contender in one row, in the order of the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub row: String,
    pub contender: String,
    #[serde(serialize_with = "to_four_digits")]
    pub samples: Vec<f64>,
}

/// No measurement here is more exact.
fn to_four_digits<S: Serializer>(samples: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    let rounded = |sample: &f64| format!("{sample:.3e}").parse().unwrap_or(*sample);
    serializer.collect_seq(samples.iter().map(rounded))
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
        let mut known = all.iter_mut();
        match known.find(|known| known.is_of(&one.row, &one.contender)) {
            Some(known) => known.samples.extend(one.samples),
            None => all.push(one),
        }
    }

    pub fn is_of(&self, row: &str, contender: &str) -> bool {
        self.row == row && self.contender == contender
    }
}

/// The median and the quartiles of some samples. A few that a neighbour on the machine disturbed do
/// not move them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quartiles {
    pub lower: f64,
    pub median: f64,
    pub upper: f64,
}

impl Quartiles {
    /// Of ratios: in some rounds the one was ahead, and in others the other.
    pub fn is_equal(&self) -> bool {
        self.lower <= 1.0 && self.upper >= 1.0
    }

    /// `None` if there are no samples. Between two samples it interpolates.
    pub fn of(samples: &[f64]) -> Option<Quartiles> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)? as f64;
        let at = |part: f64| {
            let place = part * last;
            let [below, above] = [place.floor(), place.ceil()].map(|at| sorted[at as usize]);
            below + (above - below) * place.fract()
        };
        let [lower, median, upper] = [0.25, 0.5, 0.75].map(at);
        Some(Quartiles {
            lower,
            median,
            upper,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_few_and_of_none() {
        assert_eq!(Quartiles::of(&[]), None);
        let two = Quartiles::of(&[3.0, 1.0]).unwrap();
        assert_eq!([two.lower, two.median, two.upper], [1.5, 2.0, 2.5]);
    }
}
