#!/bin/sh
# Counts the instructions of fixed pieces of work and compares them with benches/instructions.txt.
#
#   benches/instructions.sh            fails where a count grew by more than the tolerance
#   benches/instructions.sh --update   writes the counts down
#
# Counts do not depend on how busy a machine is. They do depend on the compiler and, a little, on what the
# processor offers to libc: hence the tolerance. Without valgrind there is nothing to do.
set -eu
cd "$(dirname "$0")/.."
tolerance=3 # percent
baseline=benches/instructions.txt

command -v valgrind >/dev/null || { echo "valgrind is not installed: no instructions counted"; exit 0; }

bench=${BENCH:-$(cargo bench --no-default-features --bench instructions --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"name":"instructions".*"executable":"\([^"]*\)".*/\1/p' | tail -1)}
[ -n "$bench" ] || { echo "the bench could not be built"; exit 1; }

counts=$(mktemp)
trap 'rm -f "$counts"' EXIT
"$bench" | while read -r name; do
    count=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*instructions*measured*' \
        "$bench" "$name" 2>&1 | sed -n 's/.*Collected : *//p')
    printf '%s\t%s\n' "${count:-0}" "$name"
done >"$counts"

if [ "${1:-}" = --update ]; then
    cp "$counts" "$baseline"
    cat "$baseline"
    exit 0
fi

awk -F '\t' -v tolerance="$tolerance" '
    NR == FNR { before[$2] = $1; next }
    {
        change = before[$2] ? ($1 / before[$2] - 1) * 100 : 0
        verdict = !before[$2] ? "new" : change > tolerance ? "TOO MANY" : change < -tolerance ? "fewer: --update" : "ok"
        printf "%12d  %+6.1f %%  %-45s %s\n", $1, change, $2, verdict
        if (!$1 || change > tolerance) failed = 1
    }
    END { exit failed }' "$baseline" "$counts"
