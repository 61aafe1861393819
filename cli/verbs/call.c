/* call.c - the verb `call`: asks a server, over whatever it speaks. See docs/internals/cli.md. */
#include "cli.h"

#include "call/bench.h"
#include "call/call.h"
#include "call/session.h"

#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>

static void help(void) {
  puts("idem call - ask a server of the Model Context Protocol, or of plain JSON-RPC\n"
       "\n"
       "  idem call http://127.0.0.1:8420/mcp                what is there\n"
       "  idem call idem.json find_note text=milk            call a tool of a configuration\n"
       "  idem call my-notes find_note text=milk             of a server that an assistant knows\n"
       "  idem call -- npx -y @modelcontextprotocol/server-everything\n"
       "  idem call echo message=hello -- node server.js     a tool of a server to start\n"
       "  idem call URL add a=1 b:=2.5 notes=@notes.txt      values typed by the tool's schema\n"
       "  idem call URL --read file:///notes.txt\n"
       "  idem call URL --prompt review code=@main.c\n"
       "  idem call URL --complete review language=py\n"
       "  idem call URL --method tools/list -d '{}'\n"
       "  idem call tcp://127.0.0.1:4000 --profile jsonrpc --method add -d '[1, 2]'\n"
       "  idem call URL --login                              to a server that wants to know you\n"
       "  idem call URL add a=1 b=2 --bench 10000 -c 8       how fast it answers\n"
       "\n"
       "A target is a URL (http, https, ws, wss, tcp, tls, unix), an idem.json, the name of a "
       "server in\n"
       "an assistant's mcpServers file, or a command behind --. A word is NAME=VALUE, NAME=@FILE "
       "or\n"
       "NAME:=JSON.");
  call_options_help();
  puts("\nexit status: 0 well, 1 the tool said that it failed, 2 asked wrongly or refused by the "
       "tool's\n"
       "schema (no call was made), 3 no connection, a broken protocol or a result that cannot be "
       "written,\n"
       "4 the server answered with an error, 5 no answer in time or cancelled, 6 nobody knows "
       "whether the\n"
       "tool did what was asked");
}

static int run_as_asked(const call_options *options) {
  call_session session;
  if (options->whoami) return login_whoami(options);
  if (options->logout) return login_out(options);
  if (options->bench || options->ramp) return bench_run(options);
  int code = session_run(&session, options);
  session_free(&session);
  return code;
}

/* A result that did not reach its reader is no tool that failed. */
static int run(int argc, char **argv) {
  call_options options;
  int code;
  if (!call_options_parse(&options, argc, argv, &code)) return code;
  code = run_as_asked(&options);
  int fault = call_flush();
  if (!fault) return code;
  call_say("cannot write to stdout: %s", strerror(fault));
  __fpurge(stdout); /* it is said */
  clearerr(stdout);
  return code ? code : CALL_NO_PEER;
}

const verb call_verb = {"call", "ask a server: its tools, resources, prompts and methods", help,
                        run};
