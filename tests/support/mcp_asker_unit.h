/* mcp_asker_unit.h - what the unit tests of MCP clients share: an asker that must not leak, and looking for parts of
 * what was said. */
#ifndef IDEM_TEST_MCP_ASKER_UNIT_H
#define IDEM_TEST_MCP_ASKER_UNIT_H

#include "support/mcp_asker.h"
#include "support/unit.h"

#include <stdlib.h>

#define HAS(text, part) mcp_asker_has((text), (part), __LINE__)
#define LACKS(text, part) assert_null(strstr((text), (part)))
#define OK(id, result) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"result\":" result "}"
#define ERROR(id, code)                                                                            \
  "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"error\":{\"code\":" #code ",\"message\":\"no\"}}"
#define NOTICE(method, params)                                                                     \
  "{\"jsonrpc\":\"2.0\",\"method\":\"" method "\",\"params\":" params "}"

static inline void mcp_asker_has(const char *text, const char *part, int line) {
  if (!strstr(text, part)) fail_msg("line %d: no %s in %s", line, part, text);
}

static inline mcp_asker *mcp_asker_new(const idem_mcp_client_opts *opts) {
  mcp_asker *self = calloc(1, sizeof *self);
  assert_non_null(self);
  fault_alloc_init(&self->fault);
  assert_true(mcp_asker_open(self, opts));
  return self;
}

static inline mcp_asker *mcp_asker_modern(const idem_mcp_client_opts *opts) {
  mcp_asker *self = mcp_asker_new(opts);
  mcp_asker_be_modern(self);
  assert_true(idem_mcp_client_ready(self->client));
  return self;
}

static inline mcp_asker *mcp_asker_legacy(const idem_mcp_client_opts *opts, const char *revision) {
  mcp_asker *self = mcp_asker_new(opts);
  mcp_asker_be_legacy(self, revision);
  assert_true(idem_mcp_client_ready(self->client));
  return self;
}

static inline void mcp_asker_end(mcp_asker *self) {
  mcp_asker_close(self);
  fault_alloc_assert_clean(&self->fault);
  free(self);
}

static inline uint64_t mcp_asker_call(mcp_asker *self, const char *tool,
                                      const idem_mcp_call_opts *opts) {
  uint64_t call = 0;
  assert_int_equal(
      idem_mcp_call_tool_json(self->client, tool, "{}", 2, opts, mcp_asker_on_result, self, &call),
      IDEM_OK);
  return call;
}

#endif
