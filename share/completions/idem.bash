# idem.bash - completion of idem for bash.
_idem() {
  local program=$1 current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "call init list page serve help version --help --version" -- "$current")
    return
  fi
  case $verb in
    page) _idem_words "-o --output --help" || mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    help) mapfile -t COMPREPLY < <(compgen -W "call init list page serve" -- "$current") ;;
    init) _idem_words "--help" || mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    list) _idem_words "--help" || mapfile -t COMPREPLY < <(compgen -f -X '!*.json' -- "$current"; compgen -d -- "$current") ;;
    serve) _idem_serve ;;
    call) _idem_call ;;
  esac
}

# Flags where a flag is begun; false elsewhere.
_idem_words() {
  [[ $current == -* ]] || return 1
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current")
}

# What the program itself offers behind --dry-run: tools of the file, then their arguments. Bash would split words at
# = and :, so the line is split anew. False: nothing.
_idem_dry_run() {
  local line=${COMP_LINE:0:COMP_POINT} words word
  [[ $line == *" --dry-run"[=\ ]* ]] || return 1
  read -ra words <<<"$line"
  [[ $line == *" " ]] && words+=("")
  [[ $current == "=" ]] && current=
  while read -r word; do
    [[ $word == "$current"* ]] && COMPREPLY+=("$word")
    [[ $word == *= ]] && compopt -o nospace +o filenames 2>/dev/null
  done < <("$program" --words "${words[@]:2}" 2>/dev/null)
  ((${#COMPREPLY[@]}))
}

_idem_serve() {
  case $previous in
    --http | --ws | --tcp) mapfile -t COMPREPLY < <(compgen -W "127.0.0.1:8420 0" -- "$current") ;;
    --profile) mapfile -t COMPREPLY < <(compgen -W "mcp jsonrpc lsp" -- "$current") ;;
    --codes) mapfile -t COMPREPLY < <(compgen -W "standard erlmcp" -- "$current") ;;
    --log-level) mapfile -t COMPREPLY < <(compgen -W "debug info warn error" -- "$current") ;;
    --log-format) mapfile -t COMPREPLY < <(compgen -W "text json" -- "$current") ;;
    --unix | --token-file) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    --allow-host | --allow-origin | --trusted-proxy) ;;
    --rate-limit | --max-connections | --client-connections | --max-sessions | --max-in-flight | --client-in-flight | --session-in-flight | --first-ms | --key-ms | --lease-ms | --drain-ms | --grace-ms) ;;
    --store) mapfile -t COMPREPLY < <(compgen -W "memory: sqlite: redis:// rediss:// redis+unix:" -- "$current") ;;
    --client-header) mapfile -t COMPREPLY < <(compgen -W "X-Forwarded-For Forwarded" -- "$current") ;;
    --dry-run) _idem_dry_run ;;
    *)
      _idem_dry_run || _idem_words "--http --ws --tcp --unix --stdio --profile --codes --token-file --no-auth --reload-may-loosen --allow-host
        --allow-origin --trusted-proxy --client-header --rate-limit --max-connections --client-connections --max-sessions --max-in-flight --client-in-flight --session-in-flight --first-ms --store --key-ms --lease-ms --drain-ms --grace-ms --access-log --log-level --log-format --check --dry-run --print-schema
        --page --no-page --help" ||
        mapfile -t COMPREPLY < <(compgen -f -X '!*.json' -- "$current"; compgen -d -- "$current")
      ;;
  esac
}

# Servers that assistants know, and what a server told of its tools: from the program itself.
_idem_call_words() {
  local line=${COMP_LINE:0:COMP_POINT} words word
  read -ra words <<<"$line"
  [[ $line == *" " ]] && words+=("")
  [[ $current == [=:] ]] && current=
  local before=${words[-1]%"$current"} # bash splits words at = and :, an address has some
  while read -r word; do
    [[ $word == "$before$current"* ]] && COMPREPLY+=("${word#"$before"}")
    [[ $word == *= ]] && compopt -o nospace +o filenames 2>/dev/null
  done < <("$program" --call-words "${words[@]:2}" 2>/dev/null)
  ((${#COMPREPLY[@]}))
}

_idem_call() {
  case $previous in
    --profile) mapfile -t COMPREPLY < <(compgen -W "mcp jsonrpc lsp" -- "$current") ;;
    --revision) mapfile -t COMPREPLY < <(compgen -W "2024-11-05 2025-03-26 2025-06-18 2025-11-25 2026-07-28" -- "$current") ;;
    --method | --notify) mapfile -t COMPREPLY < <(compgen -W "tools/list tools/call resources/list resources/read prompts/list prompts/get ping" -- "$current") ;;
    --config | --token-file | --token-command | --ca-file | --output | -o | --record | --answers | --sampling) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    --read | --prompt | --complete) _idem_call_words ;;
    --data | -d | --header | -H | --client | --scope | --redirect | --key | --repeat | --timeout | --deadline | --bench | --connections | -c | --rate) ;;
    *)
      [[ ${COMP_LINE:0:COMP_POINT} =~ " "--(read|complete)[=\ ]+[^\ ]+$ ]] && { _idem_call_words; return; }
      _idem_words "--read --prompt --complete --method --notify --data --profile --revision --key --no-key --repeat --config --header --ca-file --no-verify
        --login --device --open --client --scope --redirect --private-issuer --stored-only --whoami --logout --token-file --token-command --json --verbose --raw --record
        --output --answers --no-input --sampling --timeout --deadline --no-cache --bench --connections --rate --ramp --help" ||
        { _idem_call_words && [[ $previous != call ]]; } ||
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -X '!*.json' -- "$current")
      ;;
  esac
}

complete -o filenames -F _idem idem
