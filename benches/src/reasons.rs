//! Where a peer is ahead of tickwheel in a run, and why. The reasons are in `reasons.txt`.

use crate::part::name;
use crate::pattern::covers;
use crate::results::{Results, how_called, shown};
use crate::rows::{Row, readable, rows, times_better};

/// `rows | ours | peer | reason`. In the first three fields a `*` stands for whatever is there. The
/// first line that covers a loss is its reason.
const REASONS: &str = include_str!("reasons.txt");

/// A peer whose median is ahead by more than this is ahead, though some rounds went the other way.
const FAR: f64 = 1.1;

/// What the page shows of a loss that has none.
pub const NONE_YET: &str = "**NO REASON YET**";

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

    pub fn reason(&self) -> Option<&'static str> {
        Some(self.entry()?.reason)
    }

    fn entry(&self) -> Option<Entry> {
        entries().into_iter().find(|entry| entry.covers(self))
    }

    /// In words, for a message.
    pub fn text(&self) -> String {
        let (row, ours, peer) = (&self.row, &self.ours, shown(&self.peer));
        let how_much = self.how_much();
        let ours = how_called(ours);
        format!(
            "{} ({}), {ours} beside {peer}: {how_much}",
            row.title, row.id
        )
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

/// The lines of the file that no loss of this run needs. Small losses come and go from run to run,
/// so a reason that one run does not need may be right.
pub fn unneeded(losses: &[Loss]) -> Vec<&'static str> {
    let needed = losses.iter().filter_map(Loss::entry);
    let needed: Vec<&str> = needed.map(|entry| entry.text).collect();
    let lines = entries().into_iter().map(|entry| entry.text);
    lines.filter(|text| !needed.contains(text)).collect()
}

/// A line of the file.
struct Entry {
    text: &'static str,
    rows: &'static str,
    ours: &'static str,
    peer: &'static str,
    reason: &'static str,
}

impl Entry {
    fn covers(&self, loss: &Loss) -> bool {
        let pairs = [
            (self.rows, &loss.row.id),
            (self.ours, &loss.ours),
            (self.peer, &loss.peer),
        ];
        pairs.iter().all(|(pattern, name)| covers(pattern, name))
    }
}

fn entries() -> Vec<Entry> {
    parse(REASONS).unwrap_or_else(|error| panic!("{error}"))
}

fn parse(text: &'static str) -> Result<Vec<Entry>, String> {
    let known = rows();
    let lines = text.lines().enumerate();
    let entry = |(index, text): (usize, &'static str)| {
        let fields: Vec<&str> = text.split(" | ").collect();
        let at = |error: String| format!("reasons.txt:{}: {error}", index + 1);
        let [rows, ours, peer, reason] = fields[..] else {
            return Err(at(format!("«{text}» has not four fields")));
        };
        if !known.iter().any(|row| covers(rows, &row.id)) {
            return Err(at(format!("there is no row «{rows}»")));
        }
        Ok(Entry {
            text,
            rows,
            ours,
            peer,
            reason,
        })
    };
    lines
        .filter(|(_, text)| !text.is_empty())
        .map(entry)
        .collect()
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
    fn the_first_line_that_covers_a_loss_is_its_reason() {
        let losses = losses(&results());
        let text =
            "ready-* | * | * | first\nreplace-* | * | tokio | second\n\nreplace-* | * | * | third";
        let entries = parse(text).unwrap();
        let covering: Vec<_> = entries
            .iter()
            .filter(|entry| entry.covers(&losses[0]))
            .collect();
        let reasons: Vec<_> = covering.iter().map(|entry| entry.reason).collect();
        assert_eq!(reasons, ["second", "third"]);
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named_with_its_cause() {
        for (text, error) in [
            (
                "\nreddy-* | * | * | why",
                "reasons.txt:2: there is no row «reddy-*»",
            ),
            (
                "ready-* | * | why",
                "reasons.txt:1: «ready-* | * | why» has not four fields",
            ),
        ] {
            assert_eq!(parse(text).err().as_deref(), Some(error));
        }
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
