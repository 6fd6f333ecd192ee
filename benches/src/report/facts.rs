//! What a run was made with: versions, machine, date.

use cargo_metadata::MetadataCommand;
use jiff::Zoned;
use sysinfo::{CpuRefreshKind, RefreshKind, System};

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
