#!/bin/sh
# Counts the instructions of fixed work items of the pure core and compares them with benches/instructions.txt.
#
#   benches/instructions.sh            fails if a count grew by more than the tolerance
#   benches/instructions.sh --update   updates the baseline
#
# Counts do not depend on the load of the machine, the user, the folder or the environment (0.05 %). They differ by 2 % with
# what the processor offers to libc, hence the tolerance. Another compiler generates other code. BENCH names an executable
# of another build.
set -eu
cd "$(dirname "$0")/.."
tolerance=3 # percent
baseline=benches/instructions.txt

command -v valgrind >/dev/null || { echo "valgrind is not installed (on Debian: apt-get install valgrind)"; exit 69; }
# Copies by vectors on every processor: `rep movsb` counts as an instruction for each byte.
export GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000

bench=${BENCH:-$(cargo bench --package baton-llm-core --bench instructions --no-run --locked --message-format=json |
    sed -n 's/.*"name":"instructions".*"executable":"\([^"]*\)".*/\1/p' | tail -1 | grep .)}
counts=$(mktemp)
trap 'rm -f "$counts"' EXIT
"$bench" | while read -r name; do
    count=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*instructions*measured*' \
        "$bench" "$name" 2>&1 | sed -n 's/.*Collected : *//p')
    printf '%s\t%s\n' "${count:-0}" "$name"
done >"$counts"

if [ "${1:-}" = --update ]; then
    { benches/compare.sh --here; cat "$counts"; } >"$baseline"
    cat "$baseline"
    exit 0
fi
benches/compare.sh "$baseline" "$counts" "$tolerance"
