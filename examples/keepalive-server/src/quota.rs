//! A CPU quota for this process alone, by a cgroup of its own. Linux has them in two versions, and
//! often only root may make one.

use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::{fs, io};

use tickwheel::Duration;

/// What the process may use of each period.
const SHARE: Duration = Duration::from_millis(10);

/// The kernel allows no longer one.
const PERIOD: Duration = Duration::from_secs(1);

/// Then the next period has not yet begun.
pub(crate) const LONGEST: Duration = Duration::from_millis(950);

/// A cgroup, which is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Quota {
    /// The cgroup that this process is in, and returns to.
    parent: PathBuf,
    own: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug)]
enum Version {
    One,
    Two,
}

impl Quota {
    /// Makes a cgroup with no process in it. An error if there are no cgroups, or none for this
    /// user.
    pub(crate) fn new() -> io::Result<Quota> {
        let (parent, version) = cgroup_of_this_process()?;
        if let Version::Two = version {
            // Fails in a cgroup with processes in it, apart from the root.
            fs::write(parent.join("cgroup.subtree_control"), "+cpu")?;
        }
        let own = parent.join(format!("keepalive-server-{}", process::id()));
        fs::create_dir(&own)?;
        let quota = Quota {
            parent,
            own,
            version,
        };
        match version {
            Version::One => quota.write("cpu.cfs_period_us", &PERIOD.as_micros().to_string())?,
            Version::Two => quota.write("cpu.max", &quota.share_of_a_second())?,
        }
        Ok(quota)
    }

    /// Has no CPU time for about so long. Another process begins and ends that, because this one
    /// may have used up its share again before it can end anything.
    pub(crate) fn use_up(self, length: Duration) -> io::Result<()> {
        let (file, limited, unlimited) = match self.version {
            Version::One => ("cpu.cfs_quota_us", format!("{}", SHARE.as_micros()), "-1"),
            Version::Two => ("cpu.max", self.share_of_a_second(), "max"),
        };
        let script = r#"echo "$2" > "$1"; sleep "$3"; echo "$4" > "$1""#;
        let mut other = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(self.own.join(file))
            .args([
                limited,
                length.as_secs_f64().to_string(),
                unlimited.to_owned(),
            ])
            .spawn()?;
        self.enter(&self.own)?;
        // This uses CPU time.
        while other.try_wait()?.is_none() {}
        Ok(())
    }

    fn share_of_a_second(&self) -> String {
        format!("{} {}", SHARE.as_micros(), PERIOD.as_micros())
    }

    fn write(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.own.join(file), value)
    }

    fn enter(&self, cgroup: &Path) -> io::Result<()> {
        fs::write(cgroup.join("cgroup.procs"), process::id().to_string())
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // A cgroup that is left over has no process and no effect.
        let _ = self.enter(&self.parent);
        let _ = fs::remove_dir(&self.own);
    }
}

/// Each line has a number, the controllers of version one, and the path.
fn cgroup_of_this_process() -> io::Result<(PathBuf, Version)> {
    let known = fs::read_to_string("/proc/self/cgroup")?;
    let line = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        Some((parts.next()?.to_owned(), parts.next()?.to_owned()))
    };
    let lines: Vec<(String, String)> = known.lines().filter_map(line).collect();
    let below = |root: &str, path: &str| PathBuf::from(root).join(path.trim_start_matches('/'));
    for (controllers, path) in &lines {
        if controllers.split(',').any(|controller| controller == "cpu") {
            let root = format!("/sys/fs/cgroup/{controllers}");
            return Ok((below(&root, path), Version::One));
        }
    }
    let unified = lines.iter().find(|(controllers, _)| controllers.is_empty());
    let unified = unified.map(|(_, path)| (below("/sys/fs/cgroup", path), Version::Two));
    unified.ok_or_else(|| io::Error::other("this process is in no cgroup"))
}
