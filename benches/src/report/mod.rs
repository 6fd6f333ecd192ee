//! What comes out of a [`Run`]: tables, `RESULTS.md`, charts, and the figures in the documents. The
//! whole run that was kept last is `results.json`, from which all of these can be written again.

pub mod charts;
pub mod figures;
mod neighbours;
pub mod page;
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
use crate::rows::{Row, rows};
pub use neighbours::Neighbours;

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

    /// Writes `RESULTS.md` and the charts.
    pub fn publish(&self, folder: &Path) -> Result<(), Box<dyn Error>> {
        fs::create_dir_all(folder.join("charts"))?;
        fs::write(folder.join("RESULTS.md"), page::markdown(self))?;
        charts::draw(&self.results, &folder.join("charts"))
    }

    /// Writes the figures of the documents.
    pub fn publish_figures(&self) -> Result<(), Box<dyn Error>> {
        for document in figures::DOCUMENTS {
            let path = figures::path(document);
            let text = figures::updated(&fs::read_to_string(&path)?, self);
            fs::write(path, text.map_err(|error| format!("{document}: {error}"))?)?;
        }
        Ok(())
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("results.json")
}

// What a run was made with: versions, machine, date.

const PEERS: &[&str] = &[
    "tokio",
    "tokio-util",
    "pingora-timeout",
    "hierarchical_hash_wheel_timer",
    "hyper",
    "hyper-util",
    "tokio-io-timeout",
    "quinn",
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
        let mut packages = vec![(
            "tickwheel".to_owned(),
            versions("", &["tickwheel"]).join(""),
        )];
        let peers = PEERS.iter().map(|name| name.to_string());
        packages.extend(peers.zip(versions("", PEERS)));
        let kestrel = versions("/kestrel", &["kestrel-timer"]).join("");
        packages.push(("kestrel-timer".to_owned(), kestrel));

        let refresh = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
        let machine = System::new_with_specifics(refresh).ok();
        let cpus = machine.as_ref().map_or(&[][..], System::cpus);
        Facts {
            packages,
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

/// The versions that the lock file names for those packages; "unknown" where there is none.
fn versions(folder: &str, names: &[&str]) -> Vec<String> {
    let manifest = format!("{}{folder}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
    let metadata = MetadataCommand::new().manifest_path(manifest).exec();
    let version = |name: &&str| {
        let packages = &metadata.as_ref().ok()?.packages;
        let package = packages
            .iter()
            .find(|package| package.name.as_str() == *name)?;
        Some(package.version.to_string())
    };
    names
        .iter()
        .map(|name| version(name).unwrap_or_else(unknown))
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
    /// For each part the share of the machine that other programs took meanwhile, where it is
    /// known.
    pub neighbours: Vec<(String, f64)>,
}

/// A run is kept only if other programs took no more of the machine than this, in any part.
pub const MOST_OTHERS_MAY_TAKE: f64 = 0.03;

impl Results {
    /// The part in which other programs took most of the machine, and which share.
    pub fn most_disturbed(&self) -> Option<&(String, f64)> {
        let by_share = |one: &&(String, f64), other: &&(String, f64)| one.1.total_cmp(&other.1);
        self.neighbours.iter().max_by(by_share)
    }

    pub fn record(&self, row: &str, contender: &str) -> Option<&Record> {
        self.records
            .iter()
            .find(|record| record.is_of(row, contender))
    }

    pub fn quartiles(&self, row: &str, contender: &str) -> Option<Quartiles> {
        self.record(row, contender)?.quartiles()
    }

    /// How many times better one contender is than the other in that row, taken round by round.
    pub fn times_better(&self, row: &str, one: &str, other: &str) -> Option<Quartiles> {
        let unit = rows().into_iter().find(|known| known.id == row)?.unit;
        let (one, other) = (self.record(row, one)?, self.record(row, other)?);
        let ratios: Vec<f64> = one
            .samples
            .iter()
            .zip(&other.samples)
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

    /// In which rows a peer is ahead of tickwheel in most rounds, and by how much.
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses = Vec::new();
        for (row, records) in self.rows() {
            for record in records {
                let ahead = |ours: &str| {
                    let ratio = self.times_better(&row.id, &record.contender, ours)?;
                    (ratio.lower > 1.0).then_some(ratio.median)
                };
                let peer = !record.contender.starts_with(name::TICKWHEEL)
                    && !name::is_yardstick(&record.contender);
                if let Some(times) = ahead(self.ours(&row.id)).filter(|_| peer) {
                    losses.push(Loss {
                        row: row.title.clone(),
                        peer: record.contender.clone(),
                        times,
                    });
                }
            }
        }
        losses
    }
}

/// A row in which a peer is ahead.
pub struct Loss {
    pub row: String,
    pub peer: String,
    pub times: f64,
}
