//! Where a peer is ahead of tickwheel in a run. `page.md` says why.

use crate::part::name;
use crate::results::Results;
use crate::rows::{Row, readable, times_better};

/// A peer whose median is ahead by more than this is ahead, though some rounds went the other way.
const FAR: f64 = 1.1;

/// A row in which a peer is ahead of one of ours.
pub struct Loss {
    pub row: Row,
    pub ours: String,
    pub peer: String,
    /// How many times better the peer is: the median of the rounds.
    pub times: f64,
    /// What ours takes, and what the peer takes.
    pub amounts: [f64; 2],
}

impl Loss {
    /// The amounts, and how many times the one is of the other as long as that says more.
    pub fn how_much(&self) -> String {
        let amounts = amounts(self.amounts, self.row.unit);
        match self.times {
            ..1.005 => format!("{amounts}: less than 1 %"),
            times @ ..10.0 => format!("{amounts}: {times:.2}×"),
            _ => amounts,
        }
    }
}

/// «114 ns for 88.0». Many bytes are written as KB or MB.
fn amounts([ours, peer]: [f64; 2], unit: &str) -> String {
    let (scale, unit) = match unit {
        "bytes" if ours >= 1e6 => (1e6, "MB"),
        "bytes" if ours >= 1e4 => (1e3, "KB"),
        unit => (1.0, unit),
    };
    let [ours, peer] = [ours, peer].map(|amount| readable(amount / scale));
    format!("{ours} {unit} for {peer}")
}

/// Every row in which a peer is ahead: the quartiles of the rounds' ratios lie on its side, or the
/// median lies far on it. The medians of the amounts have to agree.
pub fn losses(results: &Results) -> Vec<Loss> {
    let mut losses = Vec::new();
    for (row, records) in results.rows() {
        let names = || records.iter().map(|record| &record.contender);
        for ours in names().filter(|name| name.starts_with(name::TICKWHEEL)) {
            let peers = names().filter(|name| name::is_peer(name));
            losses.extend(peers.filter_map(|peer| {
                let ratio = results.times_better(&row.id, peer, ours)?;
                let amounts = [
                    results.median(&row.id, ours)?,
                    results.median(&row.id, peer)?,
                ];
                let is_clear = !ratio.is_equal() || ratio.median > FAR;
                let is_ahead = ratio.median > 1.0 && is_clear;
                let agrees = times_better(row.unit, amounts[1], amounts[0]) > 1.0;
                (is_ahead && agrees).then(|| Loss {
                    row: row.clone(),
                    ours: ours.clone(),
                    peer: peer.clone(),
                    times: ratio.median,
                    amounts,
                })
            }));
        }
    }
    losses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Record;

    /// A run in which tokio has twice the cost in one row, and half of it in another one.
    fn results() -> Results {
        let record = |row, who, cost| Record::new(row, who, vec![cost; 3]);
        Results {
            records: vec![
                record("ready-1", name::TICKWHEEL, 1.0),
                record("ready-1", name::TOKIO, 2.0),
                record("replace-1000", name::TICKWHEEL, 2.0),
                record("replace-1000", name::TOKIO, 1.0),
                record("replace-1000", name::NO_TIMER, 0.5),
            ],
            failures: Vec::new(),
        }
    }

    #[test]
    fn a_loss_is_a_row_in_which_a_peer_is_ahead() {
        let losses = losses(&results());
        let found: Vec<_> = losses
            .iter()
            .map(|loss| (&*loss.row.id, &*loss.peer))
            .collect();
        assert_eq!(found, [("replace-1000", name::TOKIO)]);
        assert_eq!(losses[0].how_much(), "2.00 ns for 1.00: 2.00×");
    }

    #[test]
    fn amounts_are_in_a_unit_that_fits_ours() {
        for (ours, peer, unit, text) in [
            (114.5, 88.0, "ns", "114 ns for 88.0"),
            (120.0, 112.0, "bytes", "120 bytes for 112"),
            (415_000.0, 1_111.0, "bytes", "415 KB for 1.11"),
            (3_000_000.0, 1_000.0, "bytes", "3.00 MB for 0.00"),
        ] {
            assert_eq!(amounts([ours, peer], unit), text);
        }
    }
}
