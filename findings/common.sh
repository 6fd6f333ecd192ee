# What each finding sources: a folder that goes with the script, the packages in it, and the
# comparison of what was seen with what is expected.
set -euo pipefail

findings=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# python_packages NAME==VERSION..: into an environment of its own.
python_packages() {
    python3 -m venv python
    python/bin/pip install --quiet --disable-pip-version-check "$@"
    PATH=$folder/python/bin:$PATH
}

# node_packages NAME@VERSION..
node_packages() {
    npm install --silent --no-audit --no-fund --ignore-scripts "$@" >/dev/null
}

# rust_program < DEPENDENCIES: `src/main.rs` is there. CARGO_TARGET_DIR may hold what was built.
rust_program() {
    local name
    name=$(basename "$0" .sh) # a folder that is shared holds the program of each finding
    {
        printf '[package]\nname = "%s"\nversion = "0.0.0"\nedition = "2024"\n' "$name"
        printf '[profile.dev]\ndebug = false\nincremental = false\n[dependencies]\n'
        cat
    } >Cargo.toml
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$folder/target}
    cargo build --quiet
    program=$CARGO_TARGET_DIR/debug/$name
}

# expect SEEN < EXPECTED: prints what was seen, and fails if it is another thing.
expect() {
    printf '%s\n' "$1"
    if ! diff --label expected --label seen <(cat) <(printf '%s\n' "$1"); then
        echo "$(basename "$0"): no longer as it was found" >&2
        exit 1
    fi
}
