# support.sh - what the tests of `idem call` share. Read by bash; $1 is the folder of programs, $2 one to work in.
# shellcheck shell=bash disable=SC2034 # who reads it uses these
bin=$(cd "$1" && pwd)
idem=$bin/idem
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$2/$(basename "$0")-test
rm -rf "$work" && mkdir -p "$work/home" && cd "$work" || exit 1
export HOME=$work/home XDG_CACHE_HOME=$work/cache XDG_CONFIG_HOME=$work/config NO_COLOR=1
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=1"
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
failures=0 checks=0
command -v node >/dev/null || { echo "node is missing: run scripts/setup test" >&2; exit 1; }

# call STATUS TEXT WORD... - `idem call` exits with STATUS and prints TEXT somewhere, on stdout or stderr; all of it is in $output.
call() {
  local want=$1 text=$2 got=0
  shift 2
  checks=$((checks + 1))
  output=$(timeout 60 "$idem" call "$@" 2>&1 <"${input:-/dev/null}") || got=$?
  if [[ $got -ne $want || $output != *"$text"* ]]; then
    echo "FAILED: idem call $*"
    echo "  wanted exit status $want and \"$text\", got $got and: ${output:0:3000}"
    failures=$((failures + 1))
  fi
}

# says TEXT WORD... - stdout is exactly this, and the exit status 0.
says() {
  local text=$1 output got=0
  shift
  checks=$((checks + 1))
  output=$(timeout 60 "$idem" call "$@" 2>stderr <"${input:-/dev/null}") || got=$?
  if [[ $got -ne 0 || $output != "$text" ]]; then
    echo "FAILED: idem call $*"
    echo "  wanted \"$text\", got exit status $got and: ${output:0:3000} $(head -c 2000 stderr)"
    failures=$((failures + 1))
  fi
}

fail() {
  echo "FAILED: $1"
  failures=$((failures + 1))
}

# Servers started with `start` end with the test.
running=()
end_all() {
  ((${#running[@]} == 0)) || kill "${running[@]}" 2>/dev/null
  wait
}
trap end_all EXIT

# start LOG COMMAND... - in the background; its pid in $!.
start() {
  local log=$1
  shift
  : >"$log" # here, since the job begins late: what an earlier one said must not be read as this one's
  "$@" >"$log" 2>&1 </dev/null &
  running+=("$!")
}

# address LOG SCHEME - the URL of the first "listening on SCHEME" line of a server.
address() {
  local url="" tries
  for ((tries = 0; tries < 3000; tries++)); do
    url=$(sed -n "s|.*listening on \($2:[^ ]*\).*|\1|p" "$1" | head -n 1)
    [[ -n $url ]] && break
    read -rt 0.02 <> <(:) || :
  done
  [[ -n $url ]] || { echo "no server listens: $(cat "$1")" >&2; exit 1; }
  echo "$url"
}

judge() {
  ((failures == 0)) || { echo "$failures of $checks failed"; exit 1; }
  echo "$checks as promised"
}
