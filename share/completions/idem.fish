# idem.fish - completion of idem for fish.
complete -c idem -f
complete -c idem -n __fish_use_subcommand -a call -d 'ask a server'
complete -c idem -n __fish_use_subcommand -a init -d 'write a commented idem.json'
complete -c idem -n __fish_use_subcommand -a list -d 'say what idem.json serves'
complete -c idem -n __fish_use_subcommand -a serve -d 'serve what idem.json describes'
complete -c idem -n __fish_use_subcommand -a help -d 'an overview, or help of a verb'
complete -c idem -n __fish_use_subcommand -a version -d 'the version'
complete -c idem -n __fish_use_subcommand -s V -l version -d 'the version'
complete -c idem -s h -l help -d 'examples and every flag'
complete -c idem -n '__fish_seen_subcommand_from help' -a 'call init list serve'
complete -c idem -n '__fish_seen_subcommand_from init' -F
complete -c idem -n '__fish_seen_subcommand_from list' -k -a '(__fish_complete_suffix .json)'

# What the program itself offers behind --dry-run: tools of the file, then their arguments.
function __idem_words
    set -l words (commandline -opc) (commandline -ct)
    $words[1] --words $words[3..-1] 2>/dev/null
end

set -l serve '__fish_seen_subcommand_from serve'
complete -c idem -n $serve -k -a '(__fish_complete_suffix .json)'
complete -c idem -n '__fish_seen_subcommand_from serve; and __fish_contains_opt dry-run' -a '(__idem_words)'
complete -c idem -n $serve -l http -x -a '127.0.0.1:8420 0' -d 'HTTP and WebSocket at /mcp'
complete -c idem -n $serve -l ws -x -a '127.0.0.1:8420 0' -d 'WebSocket alone'
complete -c idem -n $serve -l tcp -x -a '127.0.0.1:8420 0' -d 'lines over TCP'
complete -c idem -n $serve -l unix -r -F -d 'lines over a Unix socket'
complete -c idem -n $serve -l stdio -d 'lines on stdin and stdout'
complete -c idem -n $serve -l profile -x -a 'mcp jsonrpc lsp' -d 'what is spoken there'
complete -c idem -n $serve -l codes -x -a 'standard erlmcp' -d 'numbers and texts of errors'
complete -c idem -n $serve -l token-file -r -F -d 'bearer tokens, one a line'
complete -c idem -n $serve -l no-auth -d 'let others in without a token'
complete -c idem -n $serve -l reload-may-loosen -d 'let a changed file give tools more'
complete -c idem -n $serve -l allow-host -x -d 'a Host to answer to'
complete -c idem -n $serve -l allow-origin -x -d 'whose pages may ask'
complete -c idem -n $serve -l trusted-proxy -x -d 'a proxy that may name the client'
complete -c idem -n $serve -l client-header -x -a 'X-Forwarded-For Forwarded' -d 'where a proxy names the client'
complete -c idem -n $serve -l rate-limit -x -d 'messages a client may send'
complete -c idem -n $serve -l max-connections -x -d 'at once, on each address'
complete -c idem -n $serve -l client-connections -x -d 'of one client that is not this machine'
complete -c idem -n $serve -l max-in-flight -x -d 'calls under way, of all'
complete -c idem -n $serve -l client-in-flight -x -d 'calls under way, of one client'
complete -c idem -n $serve -l session-in-flight -x -d 'calls under way, of one session'
complete -c idem -n $serve -l first-ms -x -d 'until a connection must say something'
complete -c idem -n $serve -l store -x -a 'memory: sqlite:' -d 'where sessions and tasks are kept'
complete -c idem -n $serve -l access-log -d 'one line a request'
complete -c idem -n $serve -l log-level -x -a 'debug info warn error' -d 'the least that is logged'
complete -c idem -n $serve -l log-format -x -a 'text json' -d 'for people or for programs'
complete -c idem -n $serve -l check -d 'say what is wrong with the file'
complete -c idem -n $serve -l dry-run -x -a '(__idem_words)' -d 'show what a call would run'
complete -c idem -n $serve -l print-schema -d 'print the JSON Schema of the file'

# Servers that assistants know, and what a server told of its tools.
function __idem_call_words
    set -l words (commandline -opc) (commandline -ct)
    $words[1] --call-words $words[3..-1] 2>/dev/null
end

set -l call '__fish_seen_subcommand_from call'
complete -c idem -n $call -a '(__idem_call_words)'
complete -c idem -n $call -k -a '(__fish_complete_suffix .json)'
complete -c idem -n $call -l read -x -d 'read a resource'
complete -c idem -n $call -l prompt -x -d 'get a prompt'
complete -c idem -n $call -l complete -x -d 'values for an argument'
complete -c idem -n $call -l method -x -a 'tools/list tools/call resources/list resources/read prompts/list prompts/get ping' -d 'call a method by its name'
complete -c idem -n $call -l notify -x -d 'send a notification'
complete -c idem -n $call -s d -l data -x -d 'arguments or params'
complete -c idem -n $call -l profile -x -a 'mcp jsonrpc lsp' -d 'what is spoken'
complete -c idem -n $call -l revision -x -a '2024-11-05 2025-03-26 2025-06-18 2025-11-25 2026-07-28' -d 'of MCP'
complete -c idem -n $call -l config -r -F -d 'an mcpServers file'
complete -c idem -n $call -s H -l header -x -d 'sent with every HTTP request'
complete -c idem -n $call -l token-file -r -F -d 'a bearer token'
complete -c idem -n $call -l ca-file -r -F -d 'whom to trust'
complete -c idem -n $call -l no-verify -d 'trust any certificate'
complete -c idem -n $call -l json -d 'structured content, or the whole result'
complete -c idem -n $call -l raw -d 'every message both ways'
complete -c idem -n $call -s o -l output -r -F -d 'where bytes go'
complete -c idem -n $call -l answers -r -F -d 'JSON that answers questions'
complete -c idem -n $call -l no-input -d 'ask nobody'
complete -c idem -n $call -l sampling -x -d 'a program that answers for a model'
complete -c idem -n $call -l timeout -x -d 'without a sign of life'
complete -c idem -n $call -l deadline -x -d 'for everything'
complete -c idem -n $call -l no-cache -d 'do not use or keep the list of tools'
complete -c idem -n $call -l bench -x -d 'make the call so often'
complete -c idem -n $call -s c -l connections -x -d 'at once'
complete -c idem -n $call -l rate -x -d 'begin so many a second'
complete -c idem -n $call -l ramp -d 'find the rate from which answers come late'
