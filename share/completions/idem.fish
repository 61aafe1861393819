# idem.fish - completion of idem for fish.
complete -c idem -f
complete -c idem -n __fish_use_subcommand -a init -d 'write a commented idem.json'
complete -c idem -n __fish_use_subcommand -a list -d 'say what idem.json serves'
complete -c idem -n __fish_use_subcommand -a serve -d 'serve what idem.json describes'
complete -c idem -n __fish_use_subcommand -a help -d 'an overview, or help of a verb'
complete -c idem -n __fish_use_subcommand -a version -d 'the version'
complete -c idem -n __fish_use_subcommand -s V -l version -d 'the version'
complete -c idem -s h -l help -d 'examples and every flag'
complete -c idem -n '__fish_seen_subcommand_from help' -a 'init list serve'
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
