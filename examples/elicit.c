/* elicit.c - a tool that asks the user before it goes on. One handler serves peers that are asked by
 * a request of ours and peers that come back with the answer: it is simply called again. */
#include <idem/uv.h>
#include <stdio.h>
#include <string.h>

static const idem_ask which_table = {
    .key = "table",
    .kind = IDEM_ASK_FORM,
    .message = "Where would you like to sit?",
    .schema = "{\"type\":\"object\",\"required\":[\"place\"],\"properties\":{"
              "\"place\":{\"type\":\"string\",\"enum\":[\"window\",\"garden\",\"bar\"]},"
              "\"quiet\":{\"type\":\"boolean\"}}}",
};

/* The form fits its schema: that was checked. */
static void confirm(idem_request *request, int64_t guests, yyjson_val *form) {
  char text[160];
  const char *place = yyjson_get_str(yyjson_obj_get(form, "place"));
  bool quiet = yyjson_is_true(yyjson_obj_get(form, "quiet"));
  snprintf(text, sizeof text, "A %stable for %lld, %s.", quiet ? "quiet " : "", (long long)guests,
           place);
  idem_tool_text(request, text, strlen(text));
}

static void book(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  int64_t guests;
  idem_param_fault fault;
  idem_answer_error error;
  if (idem_param_int(arguments, "guests", 0, &guests, &fault) != IDEM_OK) {
    idem_reply_invalid_params(request, &fault);
    return;
  }
  switch (idem_answer_of(request, "table", &error)) {
  case IDEM_ANSWER_NONE: idem_needs_input(request, &which_table, 1, NULL, 0); break;
  case IDEM_ANSWER_GIVEN:
    confirm(request, guests, yyjson_obj_get(idem_answer_to(request, "table"), "content"));
    break;
  case IDEM_ANSWER_REFUSED: idem_tool_text(request, "Nothing was booked.", 19); break;
  case IDEM_ANSWER_FAILED: idem_tool_failed(request, "The question went unanswered."); break;
  }
}

static const idem_tool tool = {
    .name = "book_table",
    .description = "Books a table; asks the user which.",
    .input_schema = "{\"type\":\"object\",\"required\":[\"guests\"],\"properties\":{"
                    "\"guests\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":20}}}",
    .fn = book};

int main(int argc, char **argv) {
  idem_server *server;
  idem_server_opts opts = {.name = "elicit", .version = "1.0.0"};
  idem_server_os(&opts);
  if (idem_server_new(&opts, &server) != IDEM_OK) return 1;
  if (idem_server_add_tool(server, &tool, NULL, 0) != IDEM_OK) return 1;
  const char *url = argc > 1 ? argv[1] : "stdio:";
  int code = idem_run(&url, 1, &(idem_serve_opts){.server = server});
  idem_server_free(server);
  return code;
}
