//! What comes out of a run: its records, with what they were made, and the ratios between them. The
//! whole run that was kept last is `results.json`.

use std::error::Error;
use std::fs;
use std::path::Path;

use cargo_metadata::MetadataCommand;
use itertools::iproduct;
use jiff::ZonedDateTime;
use serde::{Deserialize, Serialize};
use sysinfo::{CpuRefreshKind, RefreshKind, System};

use crate::harness::{Quartiles, Record};
use crate::part::name;
use crate::parts::lateness::{Kind, LOADS, Load, QUANTILES};
use crate::rows::{Row, rows, times_better};

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

    pub fn load(folder: &Path) -> Result<Run, Box<dyn Error>> {
        let text = fs::read_to_string(folder.join("results.json"))?;
        Ok(serde_json::from_str(&text)?)
    }

    /// A line for each contender of each row.
    pub fn save(&self, folder: &Path) -> Result<(), Box<dyn Error>> {
        let text = serde_json::to_string(self)?.replace("{\"row\"", "\n{\"row\"");
        fs::create_dir_all(folder)?;
        Ok(fs::write(folder.join("results.json"), text + "\n")?)
    }
}

const PACKAGES: &str =
    "tickwheel tokio tokio-util nexus-timer pingora-timeout moka hyper hyper-util tokio-io-timeout";

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
        let manifest = Run::kept_in().join("Cargo.toml");
        let metadata = MetadataCommand::new().manifest_path(manifest).exec();
        let packages = metadata.map_or(Vec::new(), |metadata| metadata.packages);
        let version = |name: &str| {
            let package = packages.iter().find(|package| *package.name == *name);
            let version = package.map_or("unknown".to_owned(), |found| found.version.to_string());
            (name.to_string(), version)
        };
        Facts {
            packages: PACKAGES.split(' ').map(version).collect(),
            rustc: rustc_version_runtime::version().to_string(),
            cpu: cpus.first().map_or("unknown", |cpu| cpu.brand()).to_owned(),
            cores: cpus.len(),
            system: System::long_os_version().unwrap_or_else(|_| "unknown".to_owned()),
            date: ZonedDateTime::now().date().to_string(),
        }
    }
}

/// All records of a run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Results {
    pub records: Vec<Record>,
    /// Parts that could not be measured, and why.
    pub failures: Vec<(String, String)>,
}

impl Results {
    pub fn record(&self, row: &str, contender: &str) -> Option<&Record> {
        let mut records = self.records.iter();
        records.find(|record| record.is_of(row, contender))
    }

    pub fn median(&self, row: &str, contender: &str) -> Option<f64> {
        Some(self.record(row, contender)?.quartiles()?.median)
    }

    /// How many times better one contender is than the other in that row, taken round by round. A
    /// row of the table of lateness counts what is earlier.
    pub fn times_better(&self, row: &str, one: &str, other: &str) -> Option<Quartiles> {
        let known = rows().into_iter().find(|known| known.id == row);
        let unit = known.map_or("ms late", |row| row.unit);
        let (one, other) = (self.record(row, one)?, self.record(row, other)?);
        let rounds = one.samples.iter().zip(&other.samples);
        let ratios = rounds.map(|(one, other)| times_better(unit, *one, *other));
        Quartiles::of(&ratios.collect::<Vec<f64>>())
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
        let with_records = |row: Row| {
            let records = self.records.iter().filter(|record| record.row == row.id);
            let records: Vec<&Record> = records.collect();
            (!records.is_empty()).then_some((row, records))
        };
        rows().into_iter().filter_map(with_records).collect()
    }

    /// How late the timers were under each load.
    pub fn lateness(&self) -> Vec<Late> {
        let mut lines = Vec::new();
        for load in LOADS {
            for (&workers, &kind) in iproduct!(load.workers, load.kinds) {
                let of = |contender| {
                    let row = |quantile| load.row(workers, kind, quantile);
                    let [p50, p99, max] = QUANTILES.map(|at| self.median(&row(at), contender));
                    Some([p50?, p99?, max?])
                };
                if let (Some(ours), Some(peers)) = (of(name::TICKWHEEL), of(name::TOKIO)) {
                    let late = Late {
                        load,
                        workers,
                        kind,
                        ours,
                        peers,
                    };
                    lines.push(late);
                }
            }
        }
        lines
    }
}

/// How late one kind of timer was under one load. Each figure is the median of the rounds, in
/// milliseconds.
pub struct Late {
    pub load: &'static Load,
    pub workers: usize,
    pub kind: Kind,
    /// One figure for each of [`QUANTILES`].
    pub ours: [f64; 3],
    pub peers: [f64; 3],
}

impl Late {
    /// By how much the figure that has a limit is above it.
    pub fn above_limit(&self) -> f64 {
        let limit = self.load.limit;
        let judged = QUANTILES.iter().position(|quantile| *quantile == limit.of);
        let judged = judged.expect("a limit is for one of them");
        let most = (limit.times * self.peers[judged] + limit.plus).min(limit.at_most);
        self.ours[judged] - most
    }
}

/// How a contender is called, for the tables. Other names stand for themselves.
pub fn how_called(contender: &str) -> &str {
    match contender {
        name::TICKWHEEL => "held timer",
        name::DROP_IN => "free function",
        name::GLOBAL => "global timer",
        name::ON_ALTERNATIVE => "held timer, on tokio's alternative timer",
        name::DROP_IN_ON_ALTERNATIVE => "free function, on tokio's alternative timer",
        name::NO_FAST_BINS => "held timer, glibc without fast bins",
        other => other.strip_prefix("tickwheel, ").unwrap_or(other),
    }
}

/// A contender's name in the tables: ours say how they are called.
pub fn shown(contender: &str) -> String {
    match how_called(contender) {
        same if same == contender => same.to_owned(),
        how => format!("tickwheel, {how}"),
    }
}
