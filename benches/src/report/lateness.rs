//! How late the timers were under each load, line by line, and which of them were later than they
//! may be.

use super::Results;
use crate::parts::lateness::{Kind, LOADS, Load, QUANTILES};
use crate::parts::name;

/// What a run found of one kind of timer under one load. Each figure is the median of the rounds,
/// in milliseconds.
pub struct Line {
    pub load: &'static Load,
    pub workers: usize,
    pub kind: Kind,
    /// One figure for each of [`QUANTILES`].
    pub ours: [f64; 3],
    pub peers: [f64; 3],
}

impl Line {
    /// The figure that has a limit.
    pub fn judged(&self) -> f64 {
        self.ours[self.judged_quantile()]
    }

    pub fn limit(&self) -> f64 {
        let limit = self.load.limit;
        limit.times * self.peers[self.judged_quantile()] + limit.plus
    }

    pub fn holds(&self) -> bool {
        self.judged() <= self.limit()
    }

    fn judged_quantile(&self) -> usize {
        let judged = self.load.limit.of;
        let place = QUANTILES.iter().position(|quantile| *quantile == judged);
        place.expect("a limit is for one of them")
    }
}

/// All lines that this run measured.
pub fn lines(results: &Results) -> Vec<Line> {
    let mut lines = Vec::new();
    for load in LOADS {
        for &workers in load.workers {
            for &kind in load.kinds {
                let of = |contender| {
                    let mut found = [0.0; 3];
                    for (found, quantile) in found.iter_mut().zip(QUANTILES) {
                        let row = load.row(workers, kind, quantile);
                        *found = results.quartiles(&row, contender)?.median;
                    }
                    Some(found)
                };
                if let (Some(ours), Some(peers)) = (of(name::TICKWHEEL), of(load.peer)) {
                    lines.push(Line {
                        load,
                        workers,
                        kind,
                        ours,
                        peers,
                    });
                }
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Record;

    #[test]
    fn a_line_is_judged_by_the_figure_that_has_a_limit() {
        let load = LOADS.iter().find(|load| load.id == "burst");
        let load = load.expect("there is one that is judged by its latest timer");
        let mut results = Results::default();
        for (contender, late) in [
            (name::TICKWHEEL, [90.0, 95.0, 8.0]),
            (name::TOKIO, [1.0, 2.0, 4.0]),
        ] {
            for (quantile, late) in QUANTILES.into_iter().zip(late) {
                let row = load.row(1, Kind::Sleep, quantile);
                results
                    .records
                    .push(Record::new(&row, contender, vec![late]));
            }
        }
        let lines = lines(&results);
        assert_eq!(lines.len(), 1);
        assert_eq!((lines[0].judged(), lines[0].limit()), (8.0, 8.0));
        assert!(lines[0].holds());
    }
}
