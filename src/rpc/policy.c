/* policy.c - the presets of the profiles.
 * Every rule of the wire that is a choice is a field of idem_policy; this is the one table of their
 * defaults. */
#include "inside.h"

static const idem_limits default_limits = {
    .message_bytes = 10485760,
    .depth = 512,
    .parse_bytes = (size_t)128 << 20,
    .in_flight = 1024,
    .in_flight_id_bytes = (size_t)1 << 20,
    .queued_output_bytes = (size_t)16 << 20,
    .queued_input_bytes = (size_t)16 << 20,
    .batch = 1000,
    .header_bytes = 8192,
    .frame_ms = 30000,
    .idle_ms = 300000,
    .exit_ms = 2000,
};

static idem_policy jsonrpc_policy(void) {
  return (idem_policy){
      .framing = IDEM_FRAMING_LINE,
      .null_id = true,
      .fractional_id = true,
      .null_params = true,
      .array_params = true,
      .batches = true,
      .batch_refusal = "Invalid Request",
      .notifications_run_methods = true,
      .answer_junk = true,
      .quiet_notification = "notifications/initialized",
      .limits = default_limits,
  };
}

static idem_policy lsp_policy(void) {
  idem_policy policy = jsonrpc_policy();
  policy.framing = IDEM_FRAMING_CONTENT_LENGTH;
  policy.batches = false;
  policy.batch_refusal = "Batch requests not supported";
  policy.cancel = (idem_cancel_form){"$/cancelRequest", "id", IDEM_RPC_REQUEST_CANCELLED};
  policy.concurrency = 1;
  return policy;
}

static idem_policy mcp_policy(void) {
  idem_policy policy = jsonrpc_policy();
  policy.null_id = false;
  policy.fractional_id = false;
  policy.null_params = false;
  policy.array_params = false;
  policy.batches = false;
  policy.notifications_run_methods = false;
  policy.error_message = IDEM_MESSAGE_CAUSE;
  policy.cancel = (idem_cancel_form){"notifications/cancelled", "requestId", 0};
  return policy;
}

idem_policy idem_policy_preset(idem_profile profile) {
  switch (profile) {
  case IDEM_PROFILE_LSP: return lsp_policy();
  case IDEM_PROFILE_MCP: return mcp_policy();
  case IDEM_PROFILE_JSONRPC: break;
  }
  return jsonrpc_policy();
}
