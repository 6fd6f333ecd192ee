//! How many connections the system's limit on open files allows, once it is raised as far as the
//! system lets it.

use std::io;

/// For all but the connections, of which each is one socket in the server's process and one in the
/// load's: the standard streams, the listeners, the admin's sessions, the runtime's own, what the
/// process was started with.
const OTHER_FILES: u64 = 64;

/// Raises the limit to what `wanted` connections need, and gives how many of them fit. Prints a
/// line if not all of them fit.
pub(crate) fn connections_allowed(wanted: usize) -> io::Result<usize> {
    let needed = wanted as u64 + OTHER_FILES;
    let limit = match rlimit::increase_nofile_limit(needed) {
        Ok(limit) => limit,
        Err(error) => {
            eprintln!("The limit on open files could not be raised: {error}.");
            current_limit()?
        }
    };
    if limit >= needed {
        return Ok(wanted);
    }
    let allowed = limit.saturating_sub(OTHER_FILES);
    if allowed == 0 {
        return Err(io::Error::other(format!(
            "the limit of {limit} open files leaves none for connections; raise it with `ulimit -n`"
        )));
    }
    eprintln!(
        "The limit on open files may not be raised above {limit}, and {wanted} connections need {needed}: \
         going on with {allowed} connections. To allow more, raise the hard limit (`ulimit -Hn`)."
    );
    Ok(allowed as usize)
}

#[cfg(unix)]
fn current_limit() -> io::Result<u64> {
    rlimit::Resource::NOFILE.get_soft()
}

/// Elsewhere sockets are not counted as files.
#[cfg(not(unix))]
fn current_limit() -> io::Result<u64> {
    Ok(u64::MAX)
}
