/* cache.h - what servers said of themselves, kept from one command line to the next: the revision they speak
 * and their tools. For completion, and so that a call need not ask first.
 * In XDG_CACHE_HOME/idem/call, for the user alone; the file is named by a digest of the target, whose headers and
 * environment are not in it. */
#ifndef IDEM_CLI_CALL_CACHE_H
#define IDEM_CLI_CALL_CACHE_H

#include "target.h"
#include "text.h"

#include <yyjson.h>

#define CACHE_FRESH_MS 3600000u /* a server whose tools have changed refuses the call itself */

typedef struct call_cache {
  yyjson_doc
      *doc;    /* {"v", "at", "about": {revision, listed, ...}, "tools": [...], "names": {...}} */
  uint64_t at; /* when the server was asked what it speaks, by the wall clock */
  uint64_t age_ms; /* of that */
} call_cache;

/* False: nothing is kept of it, or nothing that can be used. Free either way. */
bool cache_load(call_cache *self, const call_target *target);
void cache_free(call_cache *self);
/* Lent; NULL: not kept. */
yyjson_val *cache_tools(const call_cache *self);
const char *cache_revision(const call_cache *self);
/* For how long the list of tools is good from now on, by what the server said of it; 0: it is asked for again. */
uint64_t cache_fresh_ms(const call_cache *self);
/* Where the server keeps keys, "" where it does not say; NULL: it knows none. */
const char *cache_keys(const call_cache *self);
/* "resources": URIs and templates; "prompts": {name: [arguments]}. */
yyjson_val *cache_names(const call_cache *self, const char *kind);
/* By the wall clock. */
uint64_t cache_now_ms(void);
/* Keeps it; what fails here only makes the next call slower. `about` is JSON text or NULL. */
void cache_store(const call_target *target, uint64_t at, const char *about, size_t about_len,
                 yyjson_val *tools);
/* Adds to what is kept of this server what completion offers beside tools; each may be NULL. */
void cache_store_names(const call_target *target, yyjson_mut_val *resources,
                       yyjson_mut_val *templates, yyjson_mut_val *prompts);
/* Whether anything is kept of this server. */
bool cache_exists(const call_target *target);
void cache_forget(const call_target *target);

#endif
