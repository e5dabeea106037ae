#!/bin/sh
# Compares figures with a baseline. A line has a number, a tab and a name; comments begin with `#`.
#
#   benches/compare.sh BASELINE FIGURES TOLERANCE      fails if a figure grew by more than TOLERANCE percent,
#                                                      if one is missing, or if one is new
#   benches/compare.sh --here                          prints the first line of a baseline for this machine
#
# A baseline names the compiler and processor that it was counted with (`# rustc 1.2.3 x86_64+avx2`). Another compiler
# generates other code from the same source, so the tolerance is then five times as wide. For another processor, or one
# with other vector extensions, by which the program chooses its code, there is nothing to compare with.
set -eu

used=$(${RUSTC:-rustc} --version | cut -d' ' -f2)
here=$(uname -m)
if grep -qsw avx2 /proc/cpuinfo; then here=$here+avx2; fi
if [ "$1" = --here ]; then
    echo "# rustc $used $here"
    exit 0
fi
baseline=$1 figures=$2 tolerance=$3

read -r _ _ compiler processor <"$baseline"
if [ "$processor" != "$here" ]; then
    echo "written down on $processor, counted on $here: not compared"
    exit 0
fi
if [ "$compiler" != "$used" ]; then
    echo "written down with rustc $compiler, counted with $used: five times the tolerance"
    tolerance=$((tolerance * 5))
fi

awk -F '\t' -v tolerance="$tolerance" '
    /^#/ || !NF { next }
    FILENAME == ARGV[1] { before[$2] = $1; order[++names] = $2; next }
    {
        seen[$2] = 1
        change = before[$2] > 0 ? ($1 / before[$2] - 1) * 100 : 0
        if (!($1 > 0)) verdict = "NOT COUNTED"
        else if (!before[$2]) verdict = "NEW: --update"
        else if (change > tolerance) verdict = "TOO MANY"
        else verdict = change < -tolerance ? "fewer: --update" : "ok"
        if (verdict ~ /^[A-Z]/) failed = 1
        printf "%12s  %+6.1f %%  %-45s %s\n", $1, change, $2, verdict
    }
    END {
        for (i = 1; i <= names; i++) if (!seen[order[i]]) {
            printf "%12s  %8s  %-45s %s\n", "", "", order[i], "MISSING"
            failed = 1
        }
        exit failed
    }' "$baseline" "$figures"
