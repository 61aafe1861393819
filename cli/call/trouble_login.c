/* trouble_login.c - what to type where a server refuses whoever asks: rows behind a 401 or 403.
 * What helps depends on what was shown (a token of the caller's, a login, nothing), on what the server says of itself in its
 * challenge, and on why a login failed. */
#include "text.h"
#include "trouble.h"

#include <stdlib.h>
#include <string.h>

/* The value of a member of a challenge, without its quotes; "" where there is none. */
static void member_of(const char *challenge, const char *name, char *out, size_t size) {
  size_t len = strlen(name);
  const char *at = challenge;
  *out = 0;
  while (at && (at = strcasestr(at, name)) &&
         (at[len] != '=' || (at > challenge && at[-1] != ' ' && at[-1] != ',')))
    at += len;
  if (!at) return;
  at += len + 1;
  bool quoted = *at == '"';
  at += quoted;
  snprintf(out, size, "%.*s", (int)strcspn(at, quoted ? "\"" : ", "), at);
}

/* Between the brackets of "the metadata are of another resource (URL)". */
static bool other_resource(const char *why, char *out, size_t size) {
  const char *at = why ? strstr(why, "of another resource (") : NULL;
  if (!at) return false;
  at += strlen("of another resource (");
  snprintf(out, size, "%.*s", (int)strcspn(at, ")"), at);
  return *out != 0;
}

static bool shows_token(const call_target *target) {
  if (target->token) return true;
  for (size_t i = 0; target->headers[i]; i++)
    if (strncasecmp(target->headers[i], "Authorization:", 14) == 0) return true;
  return false;
}

static void advise_tried(const call_target *target, const call_refusal *refusal, text *line) {
  char other[512], scope[256];
  member_of(refusal->challenge, "scope", scope, sizeof scope);
  if (other_resource(refusal->why, other, sizeof other))
    text_printf(line, "idem call %s: the server goes by that name", other);
  else if (strstr(refusal->why, "invalid_client"))
    text_puts(line,
              "--client ID:REFERENCE with another id or secret: the authorization server does "
              "not know this one");
  else if (refusal->http_status == 403 && *scope)
    text_printf(line, "idem call %.300s --login --scope \"%s\"", target->said, scope);
  else
    text_printf(line, "idem call %.300s %s", target->said, refusal->flags);
}

/* 403 without a login, or with a token of the caller's. */
static void advise_forbidden(const call_target *target, const call_refusal *refusal, text *line) {
  char scope[256];
  member_of(refusal->challenge, "scope", scope, sizeof scope);
  if (!*scope)
    text_puts(line, "it refuses this caller: another token, or another Host");
  else if (shows_token(target))
    text_printf(line, "a token with the scope \"%s\", which this one has not", scope);
  else
    text_printf(line, "idem call %.300s --login --scope \"%s\"", target->said, scope);
}

static void advise_unknown(const call_target *target, const call_refusal *refusal, text *line) {
  bool named = refusal->challenge && strcasestr(refusal->challenge, "resource_metadata");
  if (shows_token(target))
    text_printf(line,
                "another token: the server does not take this one (expired, cut, or not for it)%s",
                named ? "; --login gets one" : "");
  else if (named)
    text_printf(line, "idem call %.300s %s, or --device; --token-file FILE for a token of your own",
                target->said, refusal->flags);
  else
    text_printf(line,
                "idem call %.300s --token-file FILE for a token of your own: this server names "
                "no authorization server (--login looks for one)",
                target->said);
}

void trouble_login(const call_target *target, const call_refusal *refusal) {
  text line = {.data = NULL};
  bool tried = refusal->why && *refusal->why;
  if (tried) trouble_row("login", refusal->why, strlen(refusal->why), 800);
  if (tried)
    advise_tried(target, refusal, &line);
  else if (refusal->http_status == 403)
    advise_forbidden(target, refusal, &line);
  else
    advise_unknown(target, refusal, &line);
  trouble_row("try", line.data, line.len, 500);
  text_free(&line);
}
