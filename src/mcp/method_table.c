/* method_table.c - every method of MCP as a row, for who serves it and who asks it. */
#include "method_table.h"

#include <string.h>

#define LEGACY                                                                                     \
  (IDEM_MCP_2024_11_05 | IDEM_MCP_2025_03_26 | IDEM_MCP_2025_06_18 | IDEM_MCP_2025_11_25)
#define MODERN IDEM_MCP_2026_07_28
#define ALL (LEGACY | MODERN)

const idem__mcp_method idem__mcp_methods[IDEM__METHODS] = {
    [IDEM__METHOD_INITIALIZE] = {"initialize", LEGACY, IDEM__CAP_NONE, IDEM__NAME_NONE, true},
    [IDEM__METHOD_PING] = {"ping", LEGACY, IDEM__CAP_NONE, IDEM__NAME_NONE, true},
    [IDEM__METHOD_DISCOVER] = {"server/discover", MODERN, IDEM__CAP_NONE, IDEM__NAME_NONE, false},
    [IDEM__METHOD_TOOLS_LIST] = {"tools/list", ALL, IDEM__CAP_TOOLS, IDEM__NAME_NONE, false},
    [IDEM__METHOD_TOOLS_CALL] = {"tools/call", ALL, IDEM__CAP_TOOLS, IDEM__NAME_NAME, false},
    [IDEM__METHOD_RESOURCES_LIST] = {"resources/list", ALL, IDEM__CAP_RESOURCES, IDEM__NAME_NONE,
                                     false},
    [IDEM__METHOD_TEMPLATES_LIST] = {"resources/templates/list", ALL, IDEM__CAP_RESOURCES,
                                     IDEM__NAME_NONE, false},
    [IDEM__METHOD_RESOURCES_READ] = {"resources/read", ALL, IDEM__CAP_RESOURCES, IDEM__NAME_URI,
                                     false},
    [IDEM__METHOD_SUBSCRIBE] = {"resources/subscribe", LEGACY, IDEM__CAP_RESOURCES, IDEM__NAME_NONE,
                                false},
    [IDEM__METHOD_UNSUBSCRIBE] = {"resources/unsubscribe", LEGACY, IDEM__CAP_RESOURCES,
                                  IDEM__NAME_NONE, false},
    [IDEM__METHOD_LISTEN] = {"subscriptions/listen", MODERN, IDEM__CAP_NONE, IDEM__NAME_NONE,
                             false},
    [IDEM__METHOD_PROMPTS_LIST] = {"prompts/list", ALL, IDEM__CAP_PROMPTS, IDEM__NAME_NONE, false},
    [IDEM__METHOD_PROMPTS_GET] = {"prompts/get", ALL, IDEM__CAP_PROMPTS, IDEM__NAME_NAME, false},
    [IDEM__METHOD_COMPLETE] = {"completion/complete", ALL, IDEM__CAP_COMPLETIONS, IDEM__NAME_NONE,
                               false},
    [IDEM__METHOD_SET_LEVEL] = {"logging/setLevel", LEGACY, IDEM__CAP_LOGGING, IDEM__NAME_NONE,
                                false},
    [IDEM__METHOD_TASKS_GET] = {"tasks/get", IDEM_MCP_2025_11_25 | MODERN, IDEM__CAP_TASKS,
                                IDEM__NAME_TASK, false},
    [IDEM__METHOD_TASKS_CANCEL] = {"tasks/cancel", IDEM_MCP_2025_11_25 | MODERN, IDEM__CAP_TASKS,
                                   IDEM__NAME_TASK, false},
    [IDEM__METHOD_TASKS_UPDATE] = {"tasks/update", MODERN, IDEM__CAP_TASKS, IDEM__NAME_TASK, false},
    [IDEM__METHOD_TASKS_RESULT] = {"tasks/result", IDEM_MCP_2025_11_25, IDEM__CAP_TASKS,
                                   IDEM__NAME_NONE, false},
    [IDEM__METHOD_TASKS_LIST] = {"tasks/list", IDEM_MCP_2025_11_25, IDEM__CAP_TASKS,
                                 IDEM__NAME_NONE, false},
};

/* A handshake that nobody heard the answer to leaves a session behind, which ends by itself. */
bool idem__mcp_method_is_harmless(const idem__mcp_method *method) {
  static const idem__method_row rows[] = {
      IDEM__METHOD_INITIALIZE,   IDEM__METHOD_PING,           IDEM__METHOD_DISCOVER,
      IDEM__METHOD_TOOLS_LIST,   IDEM__METHOD_RESOURCES_LIST, IDEM__METHOD_TEMPLATES_LIST,
      IDEM__METHOD_PROMPTS_LIST, IDEM__METHOD_COMPLETE,       IDEM__METHOD_SET_LEVEL,
      IDEM__METHOD_LISTEN,       IDEM__METHOD_TASKS_GET,      IDEM__METHOD_TASKS_CANCEL,
      IDEM__METHOD_TASKS_LIST};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (method == &idem__mcp_methods[rows[i]]) return true;
  }
  return false;
}

const idem__mcp_method *idem__mcp_method_find(const char *name, size_t len) {
  for (size_t i = 0; i < IDEM__METHODS; i++) {
    const idem__mcp_method *method = &idem__mcp_methods[i];
    if (strlen(method->name) == len && memcmp(method->name, name, len) == 0) return method;
  }
  return NULL;
}

yyjson_val *idem__mcp_method_subject(const idem__mcp_method *method, yyjson_val *params) {
  static const char *const keys[] = {
      [IDEM__NAME_NAME] = "name", [IDEM__NAME_URI] = "uri", [IDEM__NAME_TASK] = "taskId"};
  if (method->name_source == IDEM__NAME_NONE || !params) return NULL;
  return yyjson_obj_get(params, keys[method->name_source]);
}
