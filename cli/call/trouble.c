/* trouble.c - see trouble.h. Everything is escaped: a server that fails may say anything. */
#include "trouble.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STDERR_LINES 20u
#define LINE_BYTES 400u
#define LACKS_CAPABILITY (-32021)

/* ------------------------------------------------------------------------ the log */

static char last_line[1024];

/* Without its level; the detail says it best. */
static void on_line(void *ctx, const char *line, size_t len) {
  (void)ctx;
  const char *detail = memmem(line, len, "detail=", 7);
  if (detail) detail += 7;
  if (detail) len -= (size_t)(detail - line), line = detail;
  size_t cut = len < sizeof last_line ? len : sizeof last_line - 1;
  while (cut && line[cut - 1] == '\n') cut--;
  memcpy(last_line, line, cut);
  last_line[cut] = 0;
}

idem_log *trouble_log(void) {
  idem_log *log = NULL;
  idem_log_opts opts = {.level = IDEM_LOG_WARN, .write = on_line};
  return idem_log_new(&opts, &log) == IDEM_OK ? log : NULL;
}

const char *trouble_logged(void) { return last_line; }

/* --------------------------------------------------------------------- what to try */

static bool contains(const char *words, const char *part) {
  return words && strcasestr(words, part);
}

/* The status, from the sentence where nobody kept it. */
static int http_status_of(const call_trouble *why) {
  if (why->http_status || !why->what || strncmp(why->what, "HTTP ", 5) != 0)
    return why->http_status;
  return (int)strtol(why->what + 5, NULL, 10);
}

static bool is_plain(const char *url) {
  static const char *const plain[] = {"http:", "ws:", "tcp:", "tcp+"};
  for (size_t i = 0; url && i < sizeof plain / sizeof *plain; i++)
    if (strncasecmp(url, plain[i], strlen(plain[i])) == 0) return true;
  return false;
}

/* Who speaks TLS hangs up without a word, or answers with an alert, which a reader of HTTP takes for HTTP/0.9, or says in plain HTTP, with
 * 400, what it would have liked to hear. */
static const char *try_tls(const call_target *target, const call_trouble *why) {
  if (!is_plain(target->url)) return NULL;
  if (contains(why->what, "HTTP/0.9"))
    return "it speaks TLS here: https:// in place of http:// (wss:// of ws://, tls:// of tcp://)";
  if (http_status_of(why) == 400 && contains(why->what, "speaks neither Streamable HTTP"))
    return "does it speak TLS here (https://)? is the path right? MCP servers are often at /mcp; "
           "--profile jsonrpc is for one without MCP";
  if (http_status_of(why) == 400 && strncasecmp(target->url, "ws:", 3) == 0)
    return "does it speak TLS here (wss:// of ws://)? --raw shows what was sent and what came back";
  bool silent = contains(why->what, "Empty reply") ||
                (!why->sent && why->what &&
                 (strcmp(why->what, idem_status_text(IDEM_E_CLOSED)) == 0 ||
                  contains(why->what, "the peer ended its side")));
  return silent && !why->stray_len
             ? "it hung up without a word; if it speaks TLS here: https:// in place of http:// "
               "(wss:// of ws://, tls:// of tcp://)"
             : NULL;
}

static const char *try_url(const call_target *target, const call_trouble *why) {
  int http_status = http_status_of(why);
  const char *tls = try_tls(target, why);
  if (tls) return tls;
  if (http_status == 404 || http_status == 405)
    return "is the path right? MCP servers are often at /mcp, older ones at /sse";
  if (contains(why->what, "neither JSON nor an event stream"))
    return "is the path right? MCP servers are often at /mcp";
  if (contains(why->what, "speaks neither Streamable HTTP"))
    return "is the path right? MCP servers are often at /mcp; --profile jsonrpc is for one without "
           "MCP";
  if (http_status >= 500) return "the server itself is in trouble: look at its log";
  if (http_status == 400) return "--raw shows what was sent and what came back";
  if (contains(why->what, "refused") || contains(why->what, "Failed to connect"))
    return "is the server running, and at this port?";
  if (contains(why->what, "wrong version number"))
    return "the server does not speak TLS here: the URL without the s (http, ws), or tcp";
  if (contains(why->what, "certificate") || contains(why->what, "TLS") ||
      contains(why->what, "SSL"))
    return "--ca-file FILE names whom to trust";
  if (contains(why->what, "resolve") || contains(why->what, "not known"))
    return "is the name of the host right?";
  if (contains(why->what, "No such file")) return "is the server running? there is no such socket";
  if (why->stray_len >= 5 && memcmp(why->stray, "HTTP/", 5) == 0)
    return "it speaks HTTP: http://HOST:PORT/mcp, perhaps";
  if (why->status == IDEM_E_LIMIT) return "--raw shows how far it came";
  return "--raw shows what was sent and what came back";
}

static const char *try_command(const call_trouble *why) {
  if (contains(why->what, "No such file") || contains(why->what, "ENOENT") ||
      why->exit_status == 127)
    return "is the program installed, and in PATH?";
  if (contains(why->what, "Permission") || why->exit_status == 126)
    return "may this file be executed?";
  if (why->stray_len) return "a server's stdout carries messages alone; its log belongs on stderr";
  if (why->signal == 9) return "it was killed: is there enough memory?";
  if (why->exit_status >= 0 || why->signal) return "run the command by hand to see what it says";
  return "does this command speak MCP on stdin and stdout? --raw shows what it says";
}

static bool is_about_login(const call_target *target, const call_trouble *why) {
  int http_status = http_status_of(why);
  return !target->argv && (http_status == 401 || http_status == 403);
}

static const char *advice(const call_target *target, const call_trouble *why) {
  if (why->status == IDEM_E_CANCELLED || is_about_login(target, why)) return NULL;
  if (why->status == IDEM_E_TIMEOUT && contains(why->what, "unknown id"))
    return "an answer has the id of its request, of the same type; --raw shows both";
  if (why->status == IDEM_E_TIMEOUT)
    return "--timeout TIME waits longer; --raw shows how far it came";
  return target->argv ? try_command(why) : try_url(target, why);
}

/* --------------------------------------------------------------------- what is said */

void trouble_row(const char *name, const char *data, size_t len, size_t max) {
  fprintf(stderr, "  %-8s ", name);
  text_show_line(stderr, data, len, max);
  fputc('\n', stderr);
}

void trouble_try(const char *words) { trouble_row("try", words, strlen(words), 400); }

static const char *last_lines(const char *data, size_t len, size_t *left) {
  size_t lines = 0, at = len;
  if (at && data[at - 1] == '\n') at--;
  while (at && !(data[at - 1] == '\n' && ++lines == STDERR_LINES)) at--;
  *left = len - at;
  return data + at;
}

static void put_errors(const call_trouble *why) {
  size_t left;
  const char *at = last_lines(why->errors, why->errors_len, &left);
  fputs("  stderr\n", stderr);
  while (left) {
    const char *end = memchr(at, '\n', left);
    size_t len = end ? (size_t)(end - at) : left;
    fputs("    | ", stderr);
    text_show_line(stderr, at, len && at[len - 1] == '\r' ? len - 1 : len, LINE_BYTES);
    fputc('\n', stderr);
    len += end != NULL;
    at += len;
    left -= len;
  }
}

/* "Invalid Request" alone says less than the status it came with. */
static void put_what(const call_trouble *why) {
  text line = {.data = NULL};
  if (!why->what || !*why->what) return;
  text_printf(&line, "%.1000s", why->what);
  if (why->http_status >= 400 && strncmp(why->what, "HTTP ", 5) != 0)
    text_printf(&line, " (HTTP %d)", why->http_status);
  trouble_row("what", line.data, line.len, 1020);
  text_free(&line);
}

static void put_end(const call_trouble *why) {
  char how[96] = "";
  if (why->signal)
    snprintf(how, sizeof how, "signal %d (%s)", why->signal, strsignal(why->signal));
  else if (why->exit_status >= 0)
    snprintf(how, sizeof how, "exit status %d", why->exit_status);
  if (*how && (!why->what || !strstr(why->what, how))) trouble_row("ended", how, strlen(how), 100);
}

static const char *fate_of(const call_trouble *why) {
  if (!why->sent || why->fate == IDEM_MCP_ANSWERED) return NULL;
  return why->fate == IDEM_MCP_NOT_SENT ? "it was not sent: nothing happened there"
                                        : "it was sent: the server may have carried it out";
}

static const char *first_words(const call_trouble *why) {
  switch (why->status) {
  case IDEM_E_TIMEOUT: return "no answer in time";
  case IDEM_E_CANCELLED: return "cancelled";
  case IDEM_E_PROTO:
    return http_status_of(why) ? "the server refuses" : "the server breaks the protocol";
  case IDEM_E_LIMIT: return "the server sends too much";
  default: return why->sent ? "the server is lost" : "cannot connect";
  }
}

static int status_of(const call_trouble *why) {
  return why->status == IDEM_E_TIMEOUT || why->status == IDEM_E_CANCELLED ? CALL_GIVEN_UP
                                                                          : CALL_NO_PEER;
}

/* --------------------------------------------------------- what an error has beside its message */

static yyjson_val *text_in(yyjson_val *data, const char *name) {
  yyjson_val *value = yyjson_obj_get(data, name);
  return yyjson_get_len(value) && yyjson_is_str(value) ? value : NULL;
}

static void put_text(const char *name, yyjson_val *value, size_t max) {
  if (value) trouble_row(name, yyjson_get_str(value), yyjson_get_len(value), max);
}

/* Which fault it is, and what helps; how many members that were. A message may have the hint in it already. */
static size_t put_reason(yyjson_val *data, const char *message, size_t len) {
  yyjson_val *reason = text_in(data, "reason"), *hint = text_in(data, "hint");
  bool said = hint && len && memmem(message, len, yyjson_get_str(hint), yyjson_get_len(hint));
  put_text("reason", reason, 400);
  if (!said) put_text("hint", hint, 1000);
  return (size_t)(reason != NULL) + (size_t)(hint != NULL);
}

static void put_told(const call_trouble *why) {
  yyjson_doc *doc = why->data_len ? yyjson_read(why->data, why->data_len, 0) : NULL;
  yyjson_val *data = yyjson_doc_get_root(doc);
  put_reason(data, why->what, why->what ? strlen(why->what) : 0);
  if (!why->stray_len) put_text("it said", text_in(data, "body"), 300); /* of an HTTP error */
  yyjson_doc_free(doc);
}

static void put_data(const idem_mcp_result *result) {
  size_t len, shown = put_reason(result->data, result->message, result->message_len);
  if (!result->data || (shown && shown == yyjson_obj_size(result->data))) return;
  char *written = yyjson_val_write(result->data, 0, &len);
  if (written) trouble_row("data", written, len, 4000);
  free(written);
}

static bool names_sampling(yyjson_val *data) {
  char *written = data ? yyjson_val_write(data, 0, NULL) : NULL;
  bool named = contains(written, "\"sampling\"");
  free(written);
  return named;
}

/* A store's name is the server's own word, and who copies the line gives it to a shell. */
static bool is_plain_word(const char *word) {
  static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-";
  return word && *word && *word != '-' && !word[strspn(word, letters)];
}

void trouble_put_again(text *line, const char *key, const char *store) {
  text_printf(line, is_plain_word(key) ? "--key %s" : "--key '%s'", key);
  if (is_plain_word(store)) text_printf(line, " --repeat %s", store);
}

/* The key is what the caller has in hand to find out. */
static void put_key(const char *key, unsigned repeats, const char *store) {
  text line = {.data = NULL};
  text_printf(&line, "%s", key);
  if (repeats) text_printf(&line, ", asked again %u time%s", repeats, repeats == 1 ? "" : "s");
  trouble_row("key", line.data, line.len, 400);
  line.len = 0;
  text_puts(&line, "the same with ");
  trouble_put_again(&line, key, store);
  text_puts(&line, is_plain_word(store) ? " finds out, and runs nothing twice" : " finds out");
  if (store) trouble_row("try", line.data, line.len, 700);
  text_free(&line);
}

int trouble_tell(const call_target *target, const call_trouble *why) {
  const char *fate = fate_of(why), *try = advice(target, why);
  call_flush();
  call_say("%s", first_words(why));
  trouble_row(target->argv ? "command" : "url", target->argv ? target->said : target->url,
              strlen(target->argv ? target->said : target->url), 1000);
  if (why->phase) trouble_row("phase", why->phase, strlen(why->phase), 200);
  put_what(why);
  put_told(why);
  put_end(why);
  if (why->errors_len) put_errors(why);
  if (why->stray_len)
    trouble_row(target->argv ? "stdout" : "it said", why->stray, why->stray_len, 300);
  if (fate) trouble_row("call", fate, strlen(fate), 200);
  if (fate && why->key)
    put_key(why->key, why->repeats, why->fate == IDEM_MCP_UNKNOWN ? why->store : NULL);
  if (try) trouble_row("try", try, strlen(try), 300);
  if (is_about_login(target, why) && why->status != IDEM_E_CANCELLED)
    trouble_login(target, &(call_refusal){.http_status = http_status_of(why),
                                          .why = why->login.why,
                                          .flags = why->login.flags,
                                          .challenge = why->login.challenge});
  return status_of(why);
}

static int outcome_unknown(const idem_mcp_result *result) {
  static const char try[] = "look at what the tool did; another --key makes the call anew";
  if (result->key) put_key(result->key, result->repeats, NULL);
  trouble_row("try", try, sizeof try - 1, 200);
  return CALL_OUTCOME_UNKNOWN;
}

int trouble_remote(const idem_mcp_result *result, const char *store) {
  static const char try_sampling[] = "--sampling COMMAND names a program that answers for a model";
  text line = {.data = NULL};
  text_printf(&line, "the server answered with error %lld: ", (long long)result->code);
  text_escape_cut(&line, result->message ? result->message : "",
                  result->message ? result->message_len : 0, 4000);
  if (result->http_status && result->http_status != 200)
    text_printf(&line, " (HTTP %d)", result->http_status);
  call_say("%s", line.data);
  put_data(result);
  if (result->code == LACKS_CAPABILITY && names_sampling(result->data))
    trouble_row("try", try_sampling, strlen(try_sampling), 100);
  text_free(&line);
  if (result->fate == IDEM_MCP_OUTCOME_UNKNOWN) return outcome_unknown(result);
  if (result->fate == IDEM_MCP_UNKNOWN && result->key) put_key(result->key, result->repeats, store);
  return CALL_REFUSED;
}
