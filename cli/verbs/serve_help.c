/* serve_help.c - what `idem help serve` says: examples, every flag, what is good to know. */
#include "serve.h"

#include <stdio.h>

static const char examples[] =
    "idem serve - programs, files and databases as tools for assistants (MCP)\n"
    "\n"
    "  idem serve                      serve idem.json of this folder: on a terminal at\n"
    "                                  http://127.0.0.1:8420/mcp, on stdin and stdout when an\n"
    "                                  assistant starts it with pipes\n"
    "  idem serve tools.json --http 9000\n"
    "                                  another file, another port\n"
    "  idem serve --check              only say what is wrong with the file, and where\n"
    "  idem serve --dry-run search text=TODO\n"
    "                                  show what a call would run, without running it\n"
    "  idem serve --print-schema >idem.schema.json\n"
    "                                  the file's JSON Schema, for your editor\n"
    "\n"
    "An assistant's settings, for one that starts programs and for one that connects to URLs:\n"
    "\n"
    "  {\"mcpServers\": {\"my-tools\": {\"command\": \"idem\", \"args\": [\"serve\", "
    "\"/path/to/idem.json\"]}}}\n"
    "  {\"mcpServers\": {\"my-tools\": {\"type\": \"http\", \"url\": "
    "\"http://127.0.0.1:8420/mcp\"}}}\n"
    "\n"
    "usage: idem serve [FILE] [FLAG...]   FILE is idem.json unless given; idem init writes one\n";

static const char notes[] =
    "\n"
    "A PORT alone is on this machine (localhost); port 0 takes a free one. Logs go to stderr, or\n"
    "to the file named by IDEM_LOG. Ctrl-C or TERM ends it and every program it started. So does\n"
    "the end of stdin where that is served: what was asked has 1.5 seconds to be answered.\n"
    "\n"
    "exit status: 0 ended well, 1 it cannot serve, the file has faults or stdout broke, 2 asked "
    "wrongly\n"
    "read on: man idem-serve, man idem.json\n";

void serve_help(void) {
  fputs(examples, stdout);
  serve_options_help();
  fputs(notes, stdout);
}
