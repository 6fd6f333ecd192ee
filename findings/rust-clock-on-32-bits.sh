#!/usr/bin/env bash
# Library: std of Rust 1.85.0 of Debian 12, on x86-64 and i686 with glibc
# Guess: a program that has its own `clock_gettime` sets what its `Instant::now` reads.
# Seen: on 64 bits it does. On 32 bits std asks for `__clock_gettime64` by its name, with `dlsym`, and
#   a program's own `clock_gettime` is called by nobody.
# Date: 2026-11-28
. "$(dirname "$0")/common.sh"
# Lists of its own, because this machine's may have one architecture.
mkdir -p apt/{state/lists/partial,cache/archives/partial,sources}
: >apt/status
for sources in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
    if [[ -e $sources ]]; then cp "$sources" "apt/sources/debian.${sources##*.}"; fi
done
cat >apt/conf <<CONF
Dir::State "$folder/apt/state";
Dir::State::status "$folder/apt/status";
Dir::Cache "$folder/apt/cache";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$folder/apt/sources";
APT::Architecture "amd64";
APT::Architectures { "amd64"; "i386"; };
APT::Sandbox::User "root";
CONF
export APT_CONFIG=$folder/apt/conf
apt-get update -qq || true # a list that fails may be one that is not needed
version=1.85.0+dfsg3-1~deb12u3
apt-get download -qq {rustc-web,libstd-rust-web-1.85,libstd-rust-web-dev,libstd-rust-web-dev:i386}="$version" \
    libllvm19 libz3-4 {gcc-12,binutils}-i686-linux-gnu \
    {libc6,libc6-dev,libgcc-s1,libgcc-12-dev}-i386-cross
for package in *.deb; do dpkg-deb -x "$package" .; done
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu

cat >program.rs <<'PROGRAM'
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

static CALLS: AtomicUsize = AtomicUsize::new(0);

#[unsafe(no_mangle)]
extern "C" fn clock_gettime(_: c_int, at: &mut [c_long; 2]) -> c_int {
    *at = [CALLS.fetch_add(1, Ordering::Relaxed) as c_long + 1, 0];
    0
}

fn main() {
    let elapsed = Instant::now().elapsed();
    let calls = CALLS.load(Ordering::Relaxed);
    println!("{} bits: {calls} calls, {} s passed", usize::BITS, elapsed.as_secs());
}
PROGRAM
usr/bin/rustc --edition 2024 program.rs -o on-64
libraries=$folder/usr/i686-linux-gnu/lib
usr/bin/rustc --edition 2024 program.rs -o on-32 --target i686-unknown-linux-gnu \
    -C linker="$folder/usr/bin/i686-linux-gnu-gcc-12" -C link-arg=--sysroot="$folder" \
    -C link-arg=-Wl,--dynamic-linker="$libraries/ld-linux.so.2",-rpath,"$libraries"
expect "$(./on-64 && ./on-32)" <<'END'
64 bits: 2 calls, 1 s passed
32 bits: 0 calls, 0 s passed
END
