//! What comes out of a [`Run`]: tables, `RESULTS.md`, charts, and README's table. The whole
//! run that was kept last is `results.json`, from which all of these can be written again.

pub mod charts;
pub mod page;
pub mod summary;
pub mod tables;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::MetadataCommand;
use jiff::Zoned;
use serde::{Deserialize, Serialize};
use sysinfo::{CpuRefreshKind, RefreshKind, System};

use crate::harness::{Quartiles, Record};
use crate::parts::name;
use crate::rows::{Row, Unit, rows};

/// What was measured, and with what.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Run {
    pub facts: Facts,
    pub results: Results,
}

impl Run {
    /// Where the kept run and what is made of it are.
    pub fn kept_in() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR"))
    }

    /// The run that was kept last.
    pub fn kept() -> Result<Run, Box<dyn Error>> {
        Run::load(Run::kept_in())
    }

    pub fn load(folder: &Path) -> Result<Run, Box<dyn Error>> {
        Ok(serde_json::from_str(&fs::read_to_string(file(folder))?)?)
    }

    /// A line for each contender of each row.
    pub fn save(&self, folder: &Path) -> Result<(), Box<dyn Error>> {
        let text = serde_json::to_string(self)?.replace("{\"row\"", "\n{\"row\"");
        fs::create_dir_all(folder)?;
        Ok(fs::write(file(folder), text + "\n")?)
    }

    /// Writes the table in README.
    pub fn publish_summary(&self) -> Result<(), Box<dyn Error>> {
        let readme = Run::kept_in().join("../README.md");
        let page = fs::read_to_string(&readme)?;
        let table = summary::table(&self.results);
        Ok(fs::write(readme, summary::updated(&page, &table)?)?)
    }

    /// Writes `RESULTS.md` and the charts.
    pub fn publish(&self, folder: &Path) -> Result<(), Box<dyn Error>> {
        fs::create_dir_all(folder.join("charts"))?;
        fs::write(folder.join("RESULTS.md"), page::markdown(self))?;
        charts::draw(&self.results, &folder.join("charts"))
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("results.json")
}

// What a run was made with: versions, machine, date.

const PACKAGES: &[&str] = &[
    "tickwheel",
    "tokio",
    "tokio-util",
    "pingora-timeout",
    "hyper",
    "hyper-util",
    "tokio-io-timeout",
];

/// Which locks tokio has in this build. `tests/tokio_features.rs` holds that it is so.
pub const TOKIO_LOCKS: &str =
    "tokio with the locks of `parking_lot`, as its feature `full` turns them on";

/// What a run was made with.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Facts {
    /// Names and versions.
    pub packages: Vec<(String, String)>,
    pub rustc: String,
    pub cpu: String,
    pub cores: usize,
    pub system: String,
    pub date: String,
}

impl Facts {
    pub fn gather() -> Facts {
        let refresh = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
        let machine = System::new_with_specifics(refresh).ok();
        let cpus = machine.as_ref().map_or(&[][..], System::cpus);
        Facts {
            packages: versions(),
            rustc: rustc_version_runtime::version().to_string(),
            cpu: cpus
                .first()
                .map_or_else(unknown, |cpu| cpu.brand().to_owned()),
            cores: cpus.len(),
            system: System::long_os_version().unwrap_or_else(|_| unknown()),
            date: Zoned::now().date().to_string(),
        }
    }
}

/// The versions that the lock file names; "unknown" where there is none.
fn versions() -> Vec<(String, String)> {
    let manifest = Run::kept_in().join("Cargo.toml");
    let metadata = MetadataCommand::new().manifest_path(manifest).exec();
    let version = |name: &str| {
        let packages = &metadata.as_ref().ok()?.packages;
        let package = packages
            .iter()
            .find(|package| package.name.as_str() == name)?;
        Some(package.version.to_string())
    };
    PACKAGES
        .iter()
        .map(|name| (name.to_string(), version(name).unwrap_or_else(unknown)))
        .collect()
}

fn unknown() -> String {
    "unknown".to_owned()
}

// All records of a run, and the ratios between them.

/// All records of a run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Results {
    pub records: Vec<Record>,
    /// Parts that could not be measured, and why.
    pub failures: Vec<(String, String)>,
}

impl Results {
    pub fn record(&self, row: &str, contender: &str) -> Option<&Record> {
        self.records
            .iter()
            .find(|record| record.is_of(row, contender))
    }

    pub fn quartiles(&self, row: &str, contender: &str) -> Option<Quartiles> {
        self.record(row, contender)?.quartiles()
    }

    /// How many times better one contender is than the other in that row, taken round by round. A
    /// row of the table of lateness counts what is earlier.
    pub fn times_better(&self, row: &str, one: &str, other: &str) -> Option<Quartiles> {
        let known = rows().into_iter().find(|known| known.id == row);
        let unit = known.map_or(Unit::MillisecondsLate, |row| row.unit);
        let (one, other) = (self.record(row, one)?, self.record(row, other)?);
        let rounds = one.samples.iter().zip(&other.samples);
        let ratios: Vec<f64> = rounds
            .map(|(one, other)| unit.times_better(*one, *other))
            .collect();
        Quartiles::of(&ratios)
    }

    /// Under which name tickwheel runs in a row: with its explicit timer, or else as a drop-in.
    pub fn ours(&self, row: &str) -> &'static str {
        match self.record(row, name::TICKWHEEL) {
            Some(_) => name::TICKWHEEL,
            None => name::DROP_IN,
        }
    }

    /// The rows of this run, each with its records.
    pub fn rows(&self) -> Vec<(Row, Vec<&Record>)> {
        rows()
            .into_iter()
            .map(|row| {
                let records = self.records.iter().filter(|record| record.row == row.id);
                (row.clone(), records.collect())
            })
            .filter(|(_, records): &(Row, Vec<&Record>)| !records.is_empty())
            .collect()
    }

    /// In which rows a peer is ahead of one of ours, and by how much.
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses = Vec::new();
        for (row, records) in self.rows() {
            let names = || records.iter().map(|record| &*record.contender);
            for ours in names().filter(|name| name.starts_with(name::TICKWHEEL)) {
                for peer in names().filter(|name| name::is_peer(name)) {
                    let ratio = self.times_better(&row.id, peer, ours);
                    let ahead = ratio.filter(|ratio| ratio.median > 1.0 && !ratio.is_equal());
                    losses.extend(ahead.map(|ratio| Loss {
                        row: row.title.clone(),
                        ours: ours.to_owned(),
                        peer: peer.to_owned(),
                        times: ratio.median,
                    }));
                }
            }
        }
        losses
    }
}

/// A ratio as the tables show it. Where the rounds went either way, there is none to show.
pub fn ratio(found: Quartiles) -> String {
    match found {
        found if !found.median.is_finite() => String::new(),
        found if found.is_equal() => "equal".to_owned(),
        found => format!("{:.2}×", found.median),
    }
}

/// A row in which a peer is ahead.
pub struct Loss {
    pub row: String,
    pub ours: String,
    pub peer: String,
    pub times: f64,
}

/// How a contender is called, for the tables and the charts. Other names stand for themselves.
pub fn how_called(contender: &str) -> &str {
    match contender {
        name::TICKWHEEL => "held timer",
        name::DROP_IN => "free function",
        name::GLOBAL => "global timer",
        other => other.strip_prefix("tickwheel, ").unwrap_or(other),
    }
}

/// A contender's name in the tables and the charts: ours say how they are called.
pub fn shown(contender: &str) -> String {
    match how_called(contender) {
        same if same == contender => same.to_owned(),
        how => format!("tickwheel, {how}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_that_goes_either_way_is_equal_and_no_loss() {
        let record = |who, samples: &[f64]| Record::new("hyper-rate", who, samples.to_vec());
        for (theirs, shown, losses) in [
            ([99.0, 101.0, 102.0, 103.0, 104.0], "0.98×", 1),
            ([10.0, 20.0, 101.0, 102.0, 103.0], "equal", 0),
            ([50.0, 50.0, 50.0, 99.0, 101.0], "2.00×", 0),
        ] {
            let results = Results {
                records: vec![
                    record(name::TICKWHEEL, &[100.0; 5]),
                    record(name::TOKIO, &theirs),
                ],
                ..Results::default()
            };
            let found = results.times_better("hyper-rate", name::TICKWHEEL, name::TOKIO);
            assert_eq!(ratio(found.unwrap()), shown);
            assert_eq!(results.losses().len(), losses);
        }
    }
}
