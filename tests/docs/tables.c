/* tables.c - what the documents must agree with: the policy fields with their defaults in each
 * profile, as the beginnings of table rows, and the names of the metrics. */
#include <idem/rpc.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PROFILES 3
static idem_policy presets[PROFILES];

/* One row: the name, then the value in each profile. */
#define ROW(name, format, value)                                                                   \
  do {                                                                                             \
    printf("| `%s` |", name);                                                                      \
    for (int i = 0; i < PROFILES; i++) {                                                           \
      const idem_policy *policy = &presets[i];                                                     \
      printf(" " format " |", value);                                                              \
    }                                                                                              \
    putchar('\n');                                                                                 \
  } while (0)
#define FLAG(field) ROW(#field, "%s", policy->field ? "true" : "false")
#define LIMIT(field) ROW("limits." #field, "%" PRIu64, (uint64_t)policy->limits.field)

static const char *framing_text(idem_framing framing) {
  static const char *const texts[] = {"line", "content-length", "whole"};
  return texts[framing];
}

static const char *or_none(const char *text) { return text ? text : "none"; }

static void print_rules(void) {
  static const char *const unknown_ids[] = {"null", "omit"};
  static const char *const null_id_errors[] = {"report", "fail_only", "fail_all"};
  static const char *const error_details[] = {"full", "reason", "none"};
  static const char *const shutdown_answers[] = {"by_client", "text", "null"};
  static const char *const code_sets[] = {"standard", "modern", "erlmcp"};
  ROW("framing", "%s", framing_text(policy->framing));
  FLAG(null_id);
  FLAG(fractional_id);
  FLAG(null_params);
  FLAG(array_params);
  FLAG(scalar_params);
  FLAG(duplicate_members);
  FLAG(strict_methods);
  FLAG(byte_order_mark);
  FLAG(batches);
  ROW("batch_refusal", "\"%s\"", policy->batch_refusal);
  FLAG(notifications_run_methods);
  FLAG(guard_http);
  FLAG(answer_junk);
  ROW("quiet_notification", "\"%s\"", policy->quiet_notification);
  ROW("unknown_id", "%s", unknown_ids[policy->unknown_id]);
  ROW("null_id_error", "%s", null_id_errors[policy->null_id_error]);
  ROW("codes", "%s", code_sets[policy->codes]);
  ROW("error_message", "%s", policy->error_message ? "cause" : "canonical");
  ROW("cancel.method", "%s", or_none(policy->cancel.method));
  ROW("cancel.id_member", "%s", or_none(policy->cancel.id_member));
  ROW("cancel.answer_code", "%d", policy->cancel.answer_code);
  ROW("error_detail", "%s", error_details[policy->error_detail]);
  ROW("notification_status", "%u", policy->notification_status);
  ROW("shutdown_answer", "%s", shutdown_answers[policy->shutdown_answer]);
  ROW("concurrency", "%zu", policy->concurrency);
}

static void print_limits(void) {
  LIMIT(message_bytes);
  LIMIT(depth);
  LIMIT(parse_bytes);
  LIMIT(in_flight);
  LIMIT(in_flight_id_bytes);
  LIMIT(queued_output_bytes);
  LIMIT(queued_input_bytes);
  LIMIT(batch);
  LIMIT(header_bytes);
  LIMIT(frame_ms);
  LIMIT(idle_ms);
  LIMIT(request_ms);
  LIMIT(call_ms);
  LIMIT(exit_ms);
}

static int print_metrics(void) {
  idem_metrics *metrics;
  char *text;
  size_t len;
  if (idem_metrics_new(NULL, &metrics) != IDEM_OK) return 1;
  if (idem_metrics_render(&metrics, 1, &text, &len) != IDEM_OK) return 1;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    char name[128];
    if (sscanf(line, "# TYPE %127s", name) == 1) printf("%s\n", name);
  }
  idem_metrics_text_free(metrics, text);
  idem_metrics_free(metrics);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "metrics") == 0) return print_metrics();
  presets[0] = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  presets[1] = idem_policy_preset(IDEM_PROFILE_LSP);
  presets[2] = idem_policy_preset(IDEM_PROFILE_MCP);
  print_rules();
  print_limits();
  return 0;
}
