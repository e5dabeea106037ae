#!/bin/sh
# Counts the instructions of whole requests through baton and through a plain hyper proxy, socket to socket, and
# compares their ratios with benches/whole.txt.
#
#   benches/whole.sh            fails if a ratio grew by more than the tolerance
#   benches/whole.sh --update   updates the baseline
#
# What both have in common (runtime, HTTP, libc, the processor) changes in both and cancels out of the ratio. baton is the
# release build; BENCH and BATON name executables of other builds.
set -eu
cd "$(dirname "$0")/.."
tolerance=5 # percent
baseline=benches/whole.txt

command -v valgrind >/dev/null || { echo "valgrind is not installed (on Debian: apt-get install valgrind)"; exit 69; }

[ -n "${BATON:-}" ] || cargo build --release --locked
bench=${BENCH:-$(CARGO_PROFILE_BENCH_LTO=false cargo bench --bench end_to_end --no-run --locked --message-format=json |
    sed -n 's/.*"name":"end_to_end".*"executable":"\([^"]*\)".*/\1/p' | tail -1 | grep .)}
ratios=$(mktemp)
trap 'rm -f "$ratios"' EXIT
"$bench" --only instructions --baton "${BATON:-target/release/baton}" --counts "$ratios"
echo

if [ "${1:-}" = --update ]; then
    { benches/compare.sh --here; cat "$ratios"; } >"$baseline"
    cat "$baseline"
    exit 0
fi
[ -f "$baseline" ] || { echo "nothing is written down yet: --update"; exit 1; }
benches/compare.sh "$baseline" "$ratios" "$tolerance"
