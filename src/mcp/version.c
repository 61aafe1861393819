/* version.c - the version table: what differs between revisions is a row of it. */
#include "mcp.h"

#include <string.h>

#define LEGACY_2024 0
#define LEGACY_2025_03                                                                             \
  (LEGACY_2024 | IDEM__R_COMPLETIONS | IDEM__R_PROGRESS_MESSAGE | IDEM__F_TOOL_ANNOTATIONS |       \
   IDEM__F_AUDIO)
#define LEGACY_2025_06                                                                             \
  (LEGACY_2025_03 | IDEM__R_VERSION_HEADER | IDEM__F_TITLE | IDEM__F_RESOURCE_LINK |               \
   IDEM__F_STRUCTURED | IDEM__F_META | IDEM__F_LAST_MODIFIED | IDEM__F_COMPLETE_CONTEXT |          \
   IDEM__F_ELICIT)
#define LEGACY_2025_11                                                                             \
  (LEGACY_2025_06 | IDEM__R_INPUT_FAILS_TOOL | IDEM__R_TASKS | IDEM__R_URL_ERROR |                 \
   IDEM__R_PRIME_EVENT | IDEM__F_ICONS | IDEM__F_IMPLEMENTATION | IDEM__F_ELICIT_URL |             \
   IDEM__F_ELICIT_ID | IDEM__F_EXECUTION | IDEM__F_SAMPLING_TOOLS)
#define MODERN_2026_07                                                                             \
  ((LEGACY_2025_11 & ~(IDEM__R_TASKS | IDEM__R_URL_ERROR | IDEM__R_PRIME_EVENT |                   \
                       IDEM__F_ELICIT_ID | IDEM__F_EXECUTION)) |                                   \
   IDEM__R_MODERN | IDEM__F_STRUCTURED_ANY)

const idem__revision idem__revisions[IDEM__REVISIONS] = {
    {"2026-07-28", IDEM_MCP_2026_07_28, MODERN_2026_07, IDEM_CODES_MODERN},
    {"2025-11-25", IDEM_MCP_2025_11_25, LEGACY_2025_11, IDEM_CODES_STANDARD},
    {"2025-06-18", IDEM_MCP_2025_06_18, LEGACY_2025_06, IDEM_CODES_STANDARD},
    {"2025-03-26", IDEM_MCP_2025_03_26, LEGACY_2025_03 | IDEM__R_BATCH, IDEM_CODES_STANDARD},
    {"2024-11-05", IDEM_MCP_2024_11_05, LEGACY_2024, IDEM_CODES_STANDARD},
};

const idem__revision *idem__revision_find(const char *date, size_t len) {
  for (size_t i = 0; i < IDEM__REVISIONS; i++) {
    const idem__revision *row = &idem__revisions[i];
    if (len == 10 && memcmp(row->date, date, 10) == 0) return row;
  }
  return NULL;
}

const idem__revision *idem__revision_legacy(uint32_t revisions) {
  for (size_t i = 0; i < IDEM__REVISIONS; i++) {
    const idem__revision *row = &idem__revisions[i];
    if (!idem__revision_has(row, IDEM__R_MODERN) && (revisions & row->bit)) return row;
  }
  return NULL;
}
