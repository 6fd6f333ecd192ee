#!/usr/bin/env bash
# Library: comfy-table 7.2.1, which says `rust-version = "1.85"`, and 7.2.2, which says nothing;
#   Rust 1.85.0 of Debian 12
# Guess: Cargo, told to heed `rust-version`, chooses 7.2.1 for Rust 1.85.
# Seen: a package that says nothing fits any Rust. Cargo chooses 7.2.2, which has let chains, and these
#   are stable from Rust 1.88 on.
# Date: 2026-11-28
. "$(dirname "$0")/common.sh"
for package in rustc-web libstd-rust-web-{1.85,dev}; do
    apt-get download -qq -o APT::Sandbox::User=root "$package=1.85.0+dfsg3-1~deb12u3"
done
apt-get download -qq -o APT::Sandbox::User=root libllvm19 libz3-4
for package in *.deb; do dpkg-deb -x "$package" .; done
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu RUSTC=$folder/usr/bin/rustc
export CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS=fallback
mkdir src && touch src/lib.rs
cat >Cargo.toml <<'END'
[package]
name = "comfy-table-rust-version"
version = "0.0.0"
edition = "2024"
rust-version = "1.85"
[dependencies]
comfy-table = { version = "~7.2", default-features = false }
END
seen=$(cargo tree --quiet --depth 1 --prefix none | grep -o 'comfy-table v[0-9.]*')
if cargo check --quiet 2>errors; then
    seen+=" compiles"
else
    seen+=": $(grep -om 1 '`let` expressions in this position are unstable' errors)"
fi
expect "$seen" <<'END'
comfy-table v7.2.2: `let` expressions in this position are unstable
END
