/* mcp.c - MCP messages of a client that means harm, or only changes its mind. */
#include "attack.h"

#include <stdlib.h>
#include <string.h>

static const mcp_call calls[] = {
    {"greet", "{\"name\":\"x\"}", false, false},
    {"test_sampling", "{\"prompt\":\"x\"}", true, false},
    {"test_sampling", "{\"prompt\":\"y\"}", true, false},
    {"test_elicitation", "{\"message\":\"x\"}", true, false},
    {"test_elicitation_sep1330_enums", "{}", true, false},
    {"test_tool_with_progress", "{}", false, false},
    {"test_tool_with_logging", "{}", false, false},
    {"test_input_required_result_elicitation", "{}", true, false},
    {"test_input_required_result_list_roots", "{}", true, false},
    {"test_input_required_result_multi_round", "{}", true, false},
    {"test_input_required_result_multiple_inputs", "{}", true, false},
    {"test_input_required_result_capabilities", "{}", true, false},
    {"test_missing_capability", "{}", false, false},
    {"test_slow", "{}", true, false},
    {"test_reconnection", "{}", true, false},
    {"test_trigger_tool_change", "{}", false, false},
    {"test_trigger_prompt_change", "{}", false, false},
    {"test_trigger_resource_update", "{}", false, false},
    {"slow_compute", "{\"seconds\":0.05}", false, true},
    {"slow_compute", "{\"seconds\":0.3}", false, true},
    {"slow_compute", "{\"seconds\":-1}", false, true},
    {"failing_job", "{}", false, true},
    {"protocol_error_job", "{}", false, true},
    {"confirm_delete", "{\"filename\":\"x\"}", true, true},
    {"multi_input", "{}", true, true},
    {"test_tool_with_task", "{}", true, true},
    {"test_late_question", "{}", true, true},
    {"test_late_question", "{}", true, true},
};

const mcp_call *mcp_any_call(attacker *self) {
  return &calls[chance_below(&self->luck, COUNT(calls))];
}

void mcp_legacy_call(text *into, attacker *self, const mcp_call *call, const char *id,
                     bool as_task) {
  text_printf(
      into,
      "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
      "\"arguments\":%s",
      id, call->tool, call->arguments);
  if (as_task) text_printf(into, ",\"task\":{\"ttl\":%u}", chance_below(&self->luck, 2000));
  if (chance_one_in(&self->luck, 3)) text_printf(into, ",\"_meta\":{\"progressToken\":%s}", id);
  text_add(into, "}}", 2);
}

void mcp_legacy_other(text *into, attacker *self, const char *id) {
  static const char *const others[] = {
      "\"ping\"",
      "\"tools/list\"",
      "\"tools/list\",\"params\":{\"cursor\":\"x\"}",
      "\"prompts/list\"",
      "\"resources/list\"",
      "\"resources/templates/list\"",
      "\"resources/subscribe\",\"params\":{\"uri\":\"test://watched-resource\"}",
      "\"resources/unsubscribe\",\"params\":{\"uri\":\"test://watched-resource\"}",
      "\"resources/read\",\"params\":{\"uri\":\"test://static-text\"}",
      "\"resources/read\",\"params\":{\"uri\":\"test://nosuch\"}",
      "\"prompts/get\",\"params\":{\"name\":\"test_simple_prompt\"}",
      "\"logging/setLevel\",\"params\":{\"level\":\"debug\"}",
      ("\"completion/complete\",\"params\":{\"ref\":{\"type\":\"ref/prompt\",\"name\":"
       "\"test_prompt_with_arguments\"},\"argument\":{\"name\":\"arg1\",\"value\":\"t\"}}"),
      "\"tasks/list\"",
      "\"nosuch/method\"",
      "\"tools/call\",\"params\":{\"name\":\"nosuch\"}",
      "\"tools/call\",\"params\":[]",
      ("\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},"
       "\"clientInfo\":{\"name\":\"again\",\"version\":\"1\"}}"),
  };
  text_printf(into, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":%s}", id,
              CHANCE_OF(&self->luck, others));
}

void mcp_hello(text *into, attacker *self, const char *id, const char *revision) {
  static const char *const capabilities[] = {
      "{\"sampling\":{},\"elicitation\":{},\"roots\":{}}",
      "{\"sampling\":{},\"elicitation\":{},\"roots\":{}}",
      "{\"sampling\":{}}",
      "{}",
      "{\"elicitation\":{\"form\":{},\"url\":{}}}",
      ("{\"sampling\":{\"tools\":{}},\"elicitation\":{},\"roots\":{\"listChanged\":true},\"tasks\":"
       "{\"list\":{},\"cancel\":{},\"requests\":{\"sampling\":{\"createMessage\":{}},"
       "\"elicitation\":{\"create\":{}}}}}")};
  text_printf(into,
              "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"initialize\",\"params\":{"
              "\"protocolVersion\":\"%s\",\"capabilities\":%s,\"clientInfo\":{\"name\":\"attack\","
              "\"version\":\"1\"}}}",
              id, revision, CHANCE_OF(&self->luck, capabilities));
}

void mcp_answer(text *into, attacker *self, const char *question) {
  const char *id;
  size_t len;
  if (!message_id(question, strlen(question), &id, &len)) attack_found(self, "no id: %s", question);
  static const char *const bad[] = {"\"error\":{\"code\":-1,\"message\":\"no\"}",
                                    "\"result\":null",
                                    "\"result\":{\"action\":7}",
                                    "\"result\":[]",
                                    "\"error\":null",
                                    "\"result\":{\"action\":\"decline\"}"};
  const char *good = "\"result\":{\"action\":\"accept\",\"content\":{\"name\":\"x\",\"ok\":true,"
                     "\"confirm\":true,\"username\":\"u\",\"email\":\"e\"}}";
  if (strstr(question, "\"sampling/createMessage\""))
    good = "\"result\":{\"role\":\"assistant\",\"content\":{\"type\":\"text\",\"text\":\"yes\"},"
           "\"model\":\"m\"}";
  if (strstr(question, "\"roots/list\"")) good = "\"result\":{\"roots\":[]}";
  text_printf(into, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,%s}", (int)len, id,
              chance_one_in(&self->luck, 4) ? CHANCE_OF(&self->luck, bad) : good);
}
