/* account.c - who is logged in at a server, and logging out: `idem call TARGET --whoami` and `--logout`.
 * No token is ever printed. */
#include "cache.h"
#include "kept.h"
#include "login.h"
#include "trouble.h"

#include "config/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct account {
  call_target target;
  call_client client;
  token_store store;
  text kept;
  bool revoked;
} account;

/* CALL_WELL: somebody is. Free it either way. */
static int account_open(account *self, const call_options *options) {
  *self = (account){.store = {.folder = -1, .lock = -1}};
  if (!target_find(&self->target, options)) return CALL_ASKED_WRONGLY;
  if (!self->target.url) {
    call_say("%s: tokens are for servers at http and https URLs", self->target.said);
    return CALL_ASKED_WRONGLY;
  }
  if (options->client && !secret_client(&self->target.memory, options->client, &self->client))
    return CALL_ASKED_WRONGLY;
  bool usable = token_store_open(&self->store, self->target.url, self->client.id, true);
  token_file file = usable ? token_store_read(&self->store, &self->kept) : TOKEN_FILE_REFUSED;
  if (file == TOKEN_FILE_REFUSED) {
    call_say("%s", self->store.why);
    return CALL_ASKED_WRONGLY;
  }
  if (file == TOKEN_FILE_READ) return CALL_WELL;
  call_say("nobody is logged in at %s", self->target.url);
  return CALL_TOOL_FAILED;
}

static void account_free(account *self) {
  token_store_close(&self->store);
  kept_wipe(&self->kept);
  text_free(&self->kept);
  target_free(&self->target);
}

/* -------------------------------------------------------------------------- --whoami */

static void put_row(const char *name, const char *value) {
  if (!*value) return;
  printf("  %-9s", name);
  text_show_line(stdout, value, strlen(value), 4096);
  putchar('\n');
}

static void put_expiry(const text *kept, char *out, size_t size) {
  uint64_t end = kept_expires(kept), now = (uint64_t)time(NULL);
  const char *again = kept_has_refresh_token(kept) ? "; the next call refreshes it" : "";
  if (end == UINT64_MAX)
    snprintf(out, size, "nobody said when it ends");
  else if (end <= now)
    snprintf(out, size, "over%s", again);
  else
    snprintf(out, size, "good for %" PRIu64 " s", end - now);
}

static void print_for_people(const account *self) {
  static const struct {
    const char *row, *name;
  } rows[] = {{"issuer", "client_issuer"},
              {"resource", "resource"},
              {"client", "client_id"},
              {"scope", "scope"}};
  char value[4096];
  printf("%s\n", self->target.url);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    kept_says(&self->kept, rows[i].name, value, sizeof value);
    put_row(rows[i].row, value);
  }
  put_expiry(&self->kept, value, sizeof value);
  put_row("token", value);
  token_store_name(&self->store, value, sizeof value);
  put_row("kept in", value);
}

static void print_json(const account *self) {
  static const char *const names[] = {"client_issuer", "resource", "client_id", "scope"};
  char value[4096];
  uint64_t end = kept_expires(&self->kept);
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  if (!doc) memory_exhausted();
  yyjson_mut_val *root = yyjson_mut_obj(doc);
  yyjson_mut_doc_set_root(doc, root);
  yyjson_mut_obj_add_str(doc, root, "url", self->target.url);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (kept_says(&self->kept, names[i], value, sizeof value))
      yyjson_mut_obj_add_strcpy(doc, root, i ? names[i] : "issuer", value);
  if (end != UINT64_MAX) yyjson_mut_obj_add_uint(doc, root, "expires", end);
  yyjson_mut_obj_add_bool(doc, root, "refreshable", kept_has_refresh_token(&self->kept));
  char *made = yyjson_mut_write(doc, 0, NULL);
  if (!made) memory_exhausted();
  puts(made);
  free(made);
  yyjson_mut_doc_free(doc);
}

int login_whoami(const call_options *options) {
  account self;
  int code = account_open(&self, options);
  if (code == CALL_WELL && !kept_has_token(&self.kept)) {
    call_say("nobody is logged in at %s any more: --login", self.target.url);
    code = CALL_TOOL_FAILED;
  }
  if (code == CALL_WELL && options->json) print_json(&self);
  if (code == CALL_WELL && !options->json) print_for_people(&self);
  account_free(&self);
  return code;
}

/* -------------------------------------------------------------------------- --logout */

static void on_left(idem_auth *auth, bool revoked, void *user) {
  account *self = user;
  self->revoked = revoked;
  idem_auth_free(auth);
}

/* The server is asked to forget the tokens, too; whether it does or not, we do. */
static void leave(account *self, const call_options *options) {
  uv_loop_t loop;
  idem_auth *auth;
  idem_log *log = trouble_log();
  if (uv_loop_init(&loop) != 0) memory_exhausted();
  idem_auth_opts opts = {.url = self->target.url,
                         .grant = IDEM_AUTH_DEVICE,
                         .client_id = self->client.id,
                         .client_secret = self->client.secret,
                         .private_key = self->client.key,
                         .kept_only = true,
                         .kept = self->kept.data,
                         .private_addresses = options->private_issuer,
                         .ca_file = options->ca_file,
                         .user = self,
                         .log = log};
  if (idem_auth_new(&loop, &opts, &auth) == IDEM_OK) {
    if (idem_auth_log_out(auth, on_left) != IDEM_OK) idem_auth_free(auth);
    uv_run(&loop, UV_RUN_DEFAULT);
  }
  uv_loop_close(&loop);
  idem_log_free(log);
}

static bool wait_for_lock(account *self) {
  const struct timespec step = {.tv_nsec = 20000000};
  token_lock got;
  for (int i = 0; (got = token_store_lock(&self->store)) == TOKEN_LOCK_BUSY && i < 3000; i++)
    nanosleep(&step, NULL);
  if (got == TOKEN_LOCK_BUSY)
    call_say("another process has been busy with the tokens for a minute");
  if (got == TOKEN_LOCK_REFUSED) call_say("%s", self->store.why);
  return got == TOKEN_LOCK_HELD;
}

int login_out(const call_options *options) {
  account self;
  char issuer[512];
  int code = account_open(&self, options);
  if (code == CALL_WELL && !wait_for_lock(&self)) code = CALL_NO_PEER;
  if (code == CALL_WELL) {
    kept_wipe(&self.kept); /* it may have changed meanwhile */
    if (token_store_read(&self.store, &self.kept) == TOKEN_FILE_READ) leave(&self, options);
    if (!token_store_remove(&self.store)) {
      call_say("%s", self.store.why);
      code = CALL_NO_PEER;
    }
  }
  if (code == CALL_WELL) {
    cache_forget(&self.target);
    bool named = kept_says(&self.kept, "client_issuer", issuer, sizeof issuer);
    call_say("logged out of %s; %s", named ? issuer : self.target.url,
             self.revoked ? "the server has forgotten the tokens, too"
                          : "the server did not say that it forgets the tokens");
  }
  account_free(&self);
  return code;
}
