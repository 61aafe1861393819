/* guard_keys.c - the keys of issuers: read from a file, or fetched, where the operator or the issuer's metadata say. One fetch for
 * all who wait, on whichever loop (guard_shared.c), never two within ten seconds unless the last one failed; an answer that is no key
 * set changes nothing. See docs/internals/auth.md. */
#include "auth/auth.h"
#include "uv/guard.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MS 10000u
#define METADATA_BYTES 1048576u

uint64_t idem__guard_pause_ms = 10000;

static const char other_algorithms[] =
    "none of its keys goes with one of the algorithms that are taken";

/* ------------------------------------------------------------ who waits */

/* Those who came before the keys were asked for have their answer now; the others wait for the next time. */
static void settle(idem__key_source *source) {
  idem__guard *guard = source->guard;
  source->over = false;
  for (idem_list *at = guard->askings.next; at != &guard->askings; at = guard->next_asking) {
    idem__asking *asking = IDEM_CONTAINER(at, idem__asking, link);
    guard->next_asking = at->next;
    if (asking->step != IDEM__ASKING_KEYS || &guard->sources[asking->issuer] != source) continue;
    idem__key *key = idem__key_set_find(&source->keys, &asking->token);
    if (key)
      idem__asking_verify(asking, key);
    else if (asking->since_ms <= source->settled_ms && source->failures)
      idem__asking_refuse(asking, 503, "the keys of the token's issuer cannot be had now");
    else if (asking->since_ms <= source->settled_ms)
      idem__asking_refuse(asking, 401,
                          "the token is signed with a key that its issuer does not publish");
  }
}

static bool is_waited_for(const idem__key_source *source) {
  const idem__guard *guard = source->guard;
  for (const idem_list *at = guard->askings.next; at != &guard->askings; at = at->next) {
    const idem__asking *asking = IDEM_CONTAINER(at, idem__asking, link);
    if (asking->step == IDEM__ASKING_KEYS && &guard->sources[asking->issuer] == source) return true;
  }
  return false;
}

static void tell(const idem__key_source *source, const char *why, const char *more) {
  const char *address = source->refused_address ? "its address is a private one" : more;
  idem_logf(source->guard->log, IDEM_LOG_WARN, "keys of an issuer could not be had", "%s: %s%s%s",
            source->issuer, why, *address ? ": " : "", address);
}

static void tell_trouble(const idem__key_source *source, const char *trouble) {
  char more[IDEM__ISSUER_SAID + 160];
  snprintf(more, sizeof more, "%.100s%s%s", trouble, *source->said ? ", " : "", source->said);
  tell(source, "where they are was asked for", more);
}

static void end_fetch(idem__key_source *source, bool good) {
  if (!good) { /* where they are may have changed */
    idem__free(&source->guard->alloc, source->found_url);
    source->found_url = NULL;
  }
  idem__shared_keys_end(source, good);
  settle(source);
  if (idem_list_empty(&source->guard->stays))
    idem__guard_arm(source->guard);
  else
    idem__guard_hurry(source->guard); /* what lasts by a key that is gone ends */
}

/* ---------------------------------------------------------------- reading */

idem_status idem_http_check_keys(const char *jwks, size_t len, unsigned algorithms,
                                 const char **why) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__key_set set = {.count = 0};
  const idem__crypto *crypto = idem__guard_crypto(NULL);
  *why = "there is nothing here that could look at keys";
  if (!crypto) return IDEM_E_SYS;
  idem_status status = idem__key_set_read(&set, &alloc, crypto, jwks, len, why);
  if (status == IDEM_OK && !idem__key_set_serves(&set, algorithms)) {
    *why = other_algorithms;
    status = IDEM_E_INVAL;
  }
  idem__key_set_deinit(&set);
  return status;
}

static void tell_cut(idem__key_source *source) {
  if (source->keys.cut && !source->told_cut)
    idem_logf(source->guard->log, IDEM_LOG_WARN, "an issuer has too many keys",
              "%s: the first %u are looked at, and tokens of others refused", source->issuer,
              IDEM__KEYS_MAX);
  source->told_cut = source->keys.cut;
}

static bool take_keys(idem__key_source *source, const char *body, size_t len) {
  idem__guard *guard = source->guard;
  const char *why = "";
  idem_status status =
      idem__key_set_read(&source->keys, &guard->alloc, guard->crypto, body, len, &why);
  if (status != IDEM_OK) tell(source, status == IDEM_E_NOMEM ? "no memory" : why, "");
  if (status == IDEM_OK) tell_cut(source);
  return status == IDEM_OK;
}

static bool read_all(int file, char *room, size_t size, size_t *len) {
  ssize_t got = 1;
  for (*len = 0; *len < size && got > 0; *len += (size_t)got) {
    got = read(file, room + *len, size - *len);
    if (got < 0) return false;
  }
  return *len < size;
}

/* Small, and on this machine: read where we are. Opened so that nobody's FIFO is waited for. */
static bool read_file(idem__key_source *source) {
  idem__guard *guard = source->guard;
  size_t len;
  char *room = idem__malloc(&guard->alloc, IDEM__JWKS_BYTES + 1);
  int file = room ? open(source->jwks_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
  bool good = file >= 0 && read_all(file, room, IDEM__JWKS_BYTES + 1, &len);
  if (!good) tell(source, "the file of its keys cannot be read, or is too long", "");
  good = good && take_keys(source, room, len);
  if (good && !idem__key_set_serves(&source->keys, guard->rules.algorithms))
    tell(source, other_algorithms, "");
  if (file >= 0) close(file);
  idem__free(&guard->alloc, room);
  return good;
}

/* --------------------------------------------------------------- fetching */

static bool is_public(const uint8_t *address, size_t len, void *user) {
  idem__key_source *source = user;
  bool may = idem__auth_address_is_public(address, len);
  if (!may) source->refused_address = true;
  return may;
}

/* What the operator named may be anywhere. */
static bool may_be_private(const idem__key_source *source, const char *url) {
  return source->guard->anywhere || source->jwks_url ||
         idem__issuer_may_be_private(source->issuer, url);
}

static idem_status fetch(idem__key_source *source, const char *url, size_t most, idem_fetch_fn fn) {
  static const char *const headers[] = {"Accept: application/json", NULL};
  idem__guard *guard = source->guard;
  idem_fetch_opts opts = {.url = url,
                          .headers = headers,
                          .max_bytes = most,
                          .total_ms = ANSWER_MS,
                          .redirects = IDEM_REDIRECTS_SAME_ORIGIN,
                          .ca_file = guard->ca_file,
                          .proxy = guard->proxy,
                          .may_connect = may_be_private(source, url) ? NULL : is_public,
                          .log = guard->log,
                          .alloc = &guard->alloc};
  source->refused_address = false;
  return idem_fetch_start(guard->runtime->loop, &opts, fn, source, &source->fetch);
}

static void on_keys(const idem_fetch_answer *answer, void *user) {
  idem__key_source *source = user;
  bool came = answer->status == IDEM_OK && answer->http_status == 200;
  source->fetch = NULL;
  if (!came)
    tell(source, "they were asked for",
         answer->status == IDEM_OK ? "not answered with 200" : answer->why);
  end_fetch(source, came && take_keys(source, answer->body, answer->body_len));
}

static idem_status fetch_keys(idem__key_source *source) {
  const char *url = source->jwks_url ? source->jwks_url : source->found_url;
  return fetch(source, url, IDEM__JWKS_BYTES, on_keys);
}

static idem_status fetch_metadata(idem__key_source *source);

static void on_metadata(const idem_fetch_answer *answer, void *user) {
  idem__key_source *source = user;
  const char *why = answer->status == IDEM_OK ? "not answered with 200" : answer->why;
  idem_status status = IDEM_E_INVAL;
  char said[IDEM__ISSUER_SAID] = "";
  source->fetch = NULL;
  if (answer->status == IDEM_OK && answer->http_status == 200) {
    status = idem__issuer_read(&source->guard->alloc, source->issuer, answer->body,
                               answer->body_len, &source->found_url, said, &why);
    if (status != IDEM_OK && !source->trouble) {
      source->trouble = why;
      memcpy(source->said, said, sizeof source->said);
    }
  }
  if (status == IDEM_OK) {
    status = fetch_keys(source);
  } else {
    source->place++;
    status = fetch_metadata(source);
  }
  if (status == IDEM_OK) return;
  tell_trouble(source, source->trouble ? source->trouble : why);
  end_fetch(source, false);
}

/* NOTFOUND: there is no other place. */
static idem_status fetch_metadata(idem__key_source *source) {
  idem_status status;
  char *url =
      idem__auth_server_place(&source->guard->alloc, source->issuer, source->place, &status);
  if (!url) return status == IDEM_OK ? IDEM_E_NOTFOUND : status;
  status = fetch(source, url, METADATA_BYTES, on_metadata);
  idem__free(&source->guard->alloc, url);
  return status;
}

/* ------------------------------------------------------------------ times */

static void begin(idem__key_source *source) {
  source->place = 0;
  source->trouble = NULL;
  source->said[0] = 0;
  if (source->jwks_file) {
    idem__shared_keys_end(source, read_file(source));
  } else {
    bool known = source->jwks_url || source->found_url;
    if ((known ? fetch_keys(source) : fetch_metadata(source)) == IDEM_OK) return;
    tell(source, "they could not be asked for", "");
    idem__shared_keys_end(source, false);
  }
  source->over = true;
  idem__guard_hurry(source->guard);
}

static void look(idem__key_source *source, uint64_t age_ms) {
  if (!source->fetch && !source->guard->closing &&
      idem__shared_keys_begin(source, idem__clock_ms(), age_ms))
    begin(source);
}

void idem__source_look(idem__key_source *source) { look(source, idem__guard_pause_ms); }

void idem__source_refresh(idem__key_source *source) {
  look(source, (IDEM__GUARD_KEYS_S - 1) * (uint64_t)1000);
}

void idem__source_want(idem__key_source *source) {
  idem__source_look(source);
  if (!source->fetch && !source->over) idem__guard_arm(source->guard);
}

void idem__guard_hurry(idem__guard *guard) {
  if (!guard->closing) uv_timer_start(&guard->timer, idem__guard_on_timer, 0, 0);
}

void idem__guard_arm(idem__guard *guard) {
  uint64_t now = idem__clock_ms(), first = UINT64_MAX;
  for (size_t i = 0; i < guard->issuer_count; i++) {
    const idem__key_source *source = &guard->sources[i];
    if (source->over) first = 0;
    if (source->fetch || !is_waited_for(source)) continue;
    uint64_t at = idem__shared_keys_next_ms(source);
    if (at < first) first = at;
  }
  uint64_t due = idem__stays_due(guard);
  if (due != UINT64_MAX && now + due < first) first = now + due;
  if (guard->closing || first == UINT64_MAX) return;
  uv_update_time(guard->runtime->loop);
  uv_timer_start(&guard->timer, idem__guard_on_timer, idem_timer_ms(first, now), 0);
}

static void refuse_failed(idem__guard *guard) {
  for (idem_list *at = guard->askings.next; at != &guard->askings; at = guard->next_asking) {
    idem__asking *asking = IDEM_CONTAINER(at, idem__asking, link);
    guard->next_asking = at->next;
    if (asking->step == IDEM__ASKING_FAILED)
      idem__asking_refuse(asking, 503, "the token cannot be looked at now");
  }
}

void idem__guard_on_timer(uv_timer_t *timer) {
  idem__guard *guard = timer->data;
  refuse_failed(guard);
  idem__stays_look(guard);
  for (size_t i = 0; i < guard->issuer_count; i++) {
    idem__key_source *source = &guard->sources[i];
    if (source->over) settle(source);
    if (!source->fetch && is_waited_for(source)) idem__source_look(source);
  }
  idem__guard_arm(guard);
}

/* Another loop has fetched, or let go of it. */
void idem__guard_on_news(uv_async_t *news) {
  idem__guard *guard = news->data;
  if (guard->closing) return;
  for (size_t i = 0; i < guard->issuer_count; i++)
    if (idem__shared_keys_news(&guard->sources[i])) guard->sources[i].over = true;
  idem__guard_on_timer(&guard->timer);
}

void idem__source_close(idem__key_source *source) {
  const idem_alloc *alloc = &source->guard->alloc;
  idem_fetch_cancel(source->fetch);
  source->fetch = NULL;
  idem__shared_keys_leave(source);
  idem__key_set_deinit(&source->keys);
  idem__free(alloc, source->found_url);
  source->found_url = NULL;
}
