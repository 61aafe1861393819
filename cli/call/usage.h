/* usage.h - how a tool is called, for people. */
#ifndef IDEM_CLI_CALL_USAGE_H
#define IDEM_CLI_CALL_USAGE_H

#include <stdio.h>
#include <yyjson.h>

/* A tool as a server lists it. */
void usage_show(FILE *out, yyjson_val *tool);

#endif
