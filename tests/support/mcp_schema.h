/* mcp_schema.h - every message a server or a client sends, checked against the schema of the revision in hand.
 * It listens to both directions of one conn, so that it knows what each answer is an answer to. The
 * schemas are not part of the repository: they are looked for in mcp-schema under the folder that
 * IDEM_TEST_DATA names, or in ../shared/data beside the project. Their absence ends the program
 * where CI=true and is told loudly elsewhere. */
#ifndef IDEM_TEST_MCP_SCHEMA_H
#define IDEM_TEST_MCP_SCHEMA_H

#include <idem/rpc.h>

/* Every revision, oldest first. */
enum { MCP_TEST_REVISIONS = 5 };
extern const char *const mcp_test_revisions[MCP_TEST_REVISIONS];

typedef struct mcp_schema mcp_schema;

mcp_schema *mcp_schema_new(void);
/* What idem_conn_opts.on_trace is told. */
void mcp_schema_trace(mcp_schema *checker, idem_direction direction, const char *message,
                      size_t len);
/* The same where the conn is a client's: what it sends is checked. */
void mcp_schema_trace_client(mcp_schema *checker, idem_direction direction, const char *message,
                             size_t len);
/* False: something did not fit; stderr has said what. Frees the checker. */
bool mcp_schema_end(mcp_schema *checker);

#endif
