# shellcheck shell=sh disable=SC2034,SC2154 # variables of whoever sources it
# turns.sh - what benchmarks over HTTP share: servers in the background, wrk in short turns, the table of their
# medians. Sourced, with rounds and seconds set. See docs/internals/bench.md.

folder=$(mktemp -d)
running=
stop() {
  for pid in $running; do kill "$pid" && wait "$pid"; done 2>/dev/null
  running=
}
trap 'stop; rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM

# Server and client each have a CPU where there are two, so that neither waits for the other's.
on_first='' on_second=''
if [ "$(nproc)" -gt 1 ] && command -v taskset >/dev/null; then
  on_first='taskset -c 0' on_second='taskset -c 1'
fi

await() { # COMMAND...: until it succeeds; fails when the server has ended or ten seconds have passed
  tries=0
  until "$@" >/dev/null 2>&1; do
    tries=$((tries + 1))
    { [ "$tries" -lt 200 ] && kill -0 "$pid" 2>/dev/null; } || return 1
    sleep 0.05
  done
}

listen() { # COMMAND...: a server of ours in the background; its pid and url
  : >"$folder/log" # before the server starts: the address of the one before must not be read
  $on_first "$@" 2>"$folder/log" &
  pid=$!
  running="$running $pid"
  await grep -q 'listening on' "$folder/log" || return 1
  url=$(sed -n 's/.*listening on \(http[^ ]*\).*/\1/p' "$folder/log" | head -n 1)
}

cpu_ticks() { # PID: of the server and its children
  for one in "$1" $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
    sed 's/.*) //' "/proc/$one/stat"
  done | awk '{ sum += $12 + $13 } END { print sum }'
}

# One connection waits for one answer at a time: on one CPU, so that none is asleep when it is asked.
load() { # SECONDS CONNECTIONS
  if [ "$2" = 1 ]; then cpu=$on_first; else cpu=$on_second; fi
  $cpu wrk -t1 -c"$2" -d"$1s" --timeout 5s -s bench/http/post.lua "$url"
}

# Appends "round name connections rate microseconds-of-cpu p99" to the results.
measure() { # NAME PID URL HEADERS CONNECTIONS
  url=$3 BENCH_HEADERS=$4
  before=$(cpu_ticks "$2")
  line=$(load "$seconds" "$5" | grep '^DONE ') || return 1
  echo "$line $before $(cpu_ticks "$2") $(getconf CLK_TCK)" | awk -v round="$n" -v name="$1" -v c="$5" '
    $4 > 0 { print name, $4, "answers were faults" >"/dev/stderr"; exit 1 }
    { print round, name, c, $2 / ($3 / 1e6), ($8 - $7) / $9 * 1e6 / $2, $5 }' >>"$folder/results"
}

# ------------------------------------------------------------------------ tables

median() { sort -n | awk '{ all[NR] = $1 } END { print (all[int((NR + 1) / 2)] + all[int(NR / 2) + 1]) / 2 }'; }

figure() { # NAME CONNECTIONS COLUMN
  awk -v name="$1" -v c="$2" -v column="$3" '$2 == name && $3 == c { print $column }' "$folder/results" | median
}

ratio() { # LIMIT OURS CONNECTIONS COLUMN: of the two in each round
  awk -v limit="$1" -v ours="$2" -v c="$3" -v column="$4" '
    $3 == c && $2 == limit { under[$1] = $column }
    $3 == c && $2 == ours { over[$1] = $column }
    END { for (round in over) print (under[round] > 0 ? over[round] / under[round] : 0) }' "$folder/results" | median
}

row() { # WHAT CONNECTIONS LIMIT OURS COLUMN at-least|at-most BOUND
  awk -v what="$1" -v c="$2" -v limit="$(figure "$3" "$2" "$5")" -v ours="$(figure "$4" "$2" "$5")" \
    -v ratio="$(ratio "$3" "$4" "$2" "$5")" -v way="$6" -v bound="$7" 'BEGIN {
    kept = ratio > 0 && (way == "at least" ? ratio >= bound : ratio <= bound)
    printf "| %s | %d | %.1f | %.1f | %.2f | %s %.2f | %s |\n", what, c, limit, ours, ratio, way, bound, kept ? "" : "MISS"
  }'
}

