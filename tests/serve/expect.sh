# expect.sh - what the tests of the program share: $idem is asked, in a folder of its own. Read by sh.
# shellcheck shell=sh disable=SC2154 # who reads it has set idem
failures=0

# expect STATUS TEXT COMMAND... - the command exits with STATUS and prints TEXT somewhere.
expect() {
  want=$1 text=$2
  shift 2
  output=$("$@" 2>&1 </dev/null)
  got=$?
  case $output in *"$text"*) found=yes ;; *) found=no ;; esac
  if [ $got -ne "$want" ] || [ $found = no ]; then
    echo "FAILED: $*"
    echo "  wanted exit $want and \"$text\", got exit $got and: $output"
    failures=$((failures + 1))
  fi
}

# fault PLACE-AND-SENTENCE - the configuration on stdin has this fault.
fault() {
  cat >faulty.json
  expect 1 "faulty.json:$1" "$idem" serve faulty.json --check
}

# note PLACE-AND-SENTENCE - the configuration on stdin is fine, and this is said of it.
note() {
  cat >noted.json
  expect 0 "noted.json:$1" "$idem" serve noted.json --check
}

# fail SENTENCE - something else is wrong.
fail() {
  echo "FAILED: $1"
  failures=$((failures + 1))
}

# judge - the end of a test.
judge() {
  [ $failures -eq 0 ] || { echo "$failures failed"; exit 1; }
  echo "all as promised"
  exit 0
}
