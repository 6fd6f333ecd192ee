#!/usr/bin/env bash
# Library: rustc 1.85.0 of Debian 12, without optimisation
# Guess: `let b = make(); Pair { a: convert(large), b }` needs as much of the stack as
#   `Pair { a: convert(large), b: make() }`.
# Seen: it needs twice as much. A call before the conversion may panic, and then `large` has to be
#   dropped, so it is copied before it is moved on. Since a later Rust both need twice as much.
# Date: 2026-11-28
. "$(dirname "$0")/common.sh"
for package in rustc-web libstd-rust-web-{1.85,dev}; do
    apt-get download -qq -o APT::Sandbox::User=root "$package=1.85.0+dfsg3-1~deb12u3"
done
apt-get download -qq -o APT::Sandbox::User=root libllvm19 libz3-4
for package in *.deb; do dpkg-deb -x "$package" .; done
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu RUSTC=$folder/usr/bin/rustc
cat >program.rs <<'END'
pub struct Pair<A> {
    pub a: A,
    pub b: String,
}
pub fn before<F: IntoIterator>(large: F) -> Pair<F::IntoIter> {
    let b = String::new();
    Pair { a: large.into_iter(), b }
}
pub fn after<F: IntoIterator>(large: F) -> Pair<F::IntoIter> {
    Pair { a: large.into_iter(), b: String::new() }
}
pub struct Large(pub [u8; 1 << 20]);
impl Iterator for Large {
    type Item = u8;
    fn next(&mut self) -> Option<u8> {
        Some(self.0[0])
    }
}
pub fn run() {
    std::hint::black_box(before(Large([1; 1 << 20])));
    std::hint::black_box(after(Large([1; 1 << 20])));
}
END
"$RUSTC" --edition 2024 --crate-type lib --emit asm program.rs
# A frame is as large as what its function gives back at its end.
frames=$(awk '
    /^_ZN.*:$/ { name = ($0 ~ /6before/) ? "before" : ($0 ~ /5after/) ? "after" : "" }
    name != "" && $1 == "addq" && $3 == "%rsp" {
        gsub(/[$,]/, "", $2)
        if ($2 >= 1048576) print name ": " int($2 / 1048576) " MiB"
    }' program.s | sort -u)
expect "$frames" <<'END'
after: 1 MiB
before: 2 MiB
END
