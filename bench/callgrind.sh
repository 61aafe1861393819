#!/usr/bin/env bash
# callgrind.sh - N requests of a kind against a program under callgrind, for scripts that source it: run_KIND BUILD N OUT.
# What a process does at its start and end is in OUT, too: two runs, of FEW and MANY requests, differ by the requests alone.
# shellcheck shell=bash disable=SC2034 # FEW and MANY are for who sources it
FEW=100 MANY=300
KINDS='process stdio http'

command -v valgrind >/dev/null || { echo "valgrind is missing: run scripts/setup bench" >&2; exit 1; }
command -v curl >/dev/null || { echo "curl is missing: run scripts/setup bench" >&2; exit 1; }

says() { # KIND
  case $1 in
    process) echo 'a message in process' ;;
    stdio) echo 'a request on stdio' ;;
    http) echo 'tools/call over HTTP' ;;
  esac
}

under() { # OUT COMMAND...
  local out=$1
  shift
  # shellcheck disable=SC2086 # several words
  exec valgrind --tool=callgrind ${CALLGRIND_OPTIONS:-} --callgrind-out-file="$out" "$@" 2>"$out.log"
}

# One after the other, as a client that waits for each answer: what is read and written each time is in the figure.
run_stdio() { # BUILD N OUT
  local id answer
  coproc server { under "$3" "$1/bin/idem-reference" --profile jsonrpc; }
  # shellcheck disable=SC2154 # coproc sets it
  local pid=$server_PID in=${server[1]} out=${server[0]}
  for ((id = 1000; id < 1000 + $2; id++)); do
    printf '{"jsonrpc":"2.0","id":%d,"method":"echo","params":{"name":"x","text":"hello, world hello"}}\n' "$id" >&"$in"
    read -r answer <&"$out" || true
    [[ $answer == *result* ]] || { cat "$3.log" >&2; return 1; }
  done
  eval "exec $in>&-"
  wait "$pid"
}

run_process() { under "$3" "$(message_of "$1")" "$2"; } # BUILD N OUT

# Builds from before there was such a program have its archive.
message_of() { # BUILD
  local flags
  if [[ ! -x $1/bin/message ]]; then
    read -ra flags <<<"$(pkg-config --cflags --libs yyjson libpcre2-8)"
    "${CC:-cc}" -std=c17 -O2 -flto=auto -D_GNU_SOURCE -Iinclude bench/message.c "$1/libidem.a" "${flags[@]}" -lpthread \
      -o "$1/bin/message" || return 1
  fi
  echo "$1/bin/message"
}

run_http() { http_under "$2" "$3" "$1/bin/idem-reference" --profile mcp --http 127.0.0.1:0; } # BUILD N OUT

http_under() { # N OUT COMMAND...: tools/call of 2026-07-28 against a server that says where it listens
  local pid url i meta n=$1 out=$2
  shift 2
  meta='"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}'
  under "$out" "$@" &
  pid=$!
  for ((i = 0; i < 400; i++)); do
    url=$(sed -n 's/.*listening on \(http[^ ]*\).*/\1/p' "$out.log" 2>/dev/null | head -n 1)
    [[ -z $url ]] || break
    sleep 0.05
  done
  # One connection for all: the address has a number that the server does not look at.
  curl -sf -o "$out.answer" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
    -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: echo' \
    -d '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello, world"},'"$meta"'}}' \
    "$url?[1-$n]" || { echo "no answer at $url" >&2; cat "$out.log" >&2; kill "$pid"; return 1; }
  kill "$pid"
  wait "$pid"
}
