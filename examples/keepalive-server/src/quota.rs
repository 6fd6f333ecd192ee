//! A CPU quota for this process alone, by a cgroup of its own. Linux has them in two versions, and
//! often only root may make one.

use std::path::PathBuf;
use std::{fs, io, process};

use tickwheel::{Duration, Instant};

/// What the process may use of each period.
const SHARE: Duration = Duration::from_millis(10);

/// The kernel allows a period of one second at most.
pub(crate) const LONGEST: Duration = Duration::from_millis(990);

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
        quota.limit(Some(SHARE + LONGEST))?;
        quota.limit(None)?;
        Ok(quota)
    }

    /// Uses up the quota of one period, so that no thread of this process runs for about so long.
    pub(crate) fn use_up(self, length: Duration) -> io::Result<()> {
        self.limit(Some(SHARE + length))?;
        self.enter(&self.own)?;
        let (mut last, longest_wait) = (Instant::now(), 10 * length);
        let begin = last;
        // It stands still within this loop, because nothing here waits for anything else.
        while last.elapsed() < length / 2 {
            last = Instant::now();
            if begin.elapsed() > longest_wait {
                return Err(io::Error::other("the quota has held up nothing"));
            }
        }
        self.limit(None)
    }

    /// `None` for no limit.
    fn limit(&self, period: Option<Duration>) -> io::Result<()> {
        let share = SHARE.as_micros();
        let period = period.map(|period| period.as_micros());
        match (self.version, period) {
            (Version::One, None) => self.write("cpu.cfs_quota_us", "-1"),
            (Version::One, Some(period)) => {
                self.write("cpu.cfs_period_us", &period.to_string())?;
                self.write("cpu.cfs_quota_us", &share.to_string())
            }
            (Version::Two, None) => self.write("cpu.max", "max"),
            (Version::Two, Some(period)) => self.write("cpu.max", &format!("{share} {period}")),
        }
    }

    fn write(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.own.join(file), value)
    }

    fn enter(&self, cgroup: &std::path::Path) -> io::Result<()> {
        fs::write(cgroup.join("cgroup.procs"), process::id().to_string())
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // A cgroup that is left over has no process and no effect.
        let _ = self.limit(None);
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
