/* page.c - lists, prepared once for each snapshot, revision and page.
 * A cursor is its list, a digest of what it was made for and the position of the page's first entry, which the digest covers, so that a
 * cursor of another list, or of one that has changed since, is refused instead of skipping or repeating entries, and
 * one of another node that lists the same is not. */
#include "page.h"
#include "result.h"
#include "scope.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A finished result; pages of one list and revision form a chain. */
typedef struct idem__page {
  struct idem__page *next;
  size_t first;
  size_t len;
  char text[];
} idem__page;

static const char *const list_names[IDEM__LIST_KINDS] = {
    [IDEM__TOOLS] = "tools",
    [IDEM__RESOURCES] = "resources",
    [IDEM__TEMPLATES] = "resourceTemplates",
    [IDEM__PROMPTS] = "prompts",
};

void idem__pages_free(idem__worker_lists *lists) {
  for (size_t kind = 0; kind < IDEM__LIST_KINDS; kind++) {
    for (size_t revision = 0; revision < IDEM__REVISIONS; revision++) {
      for (idem__page *page = lists->pages[kind][revision]; page;) {
        idem__page *next = page->next;
        idem__free(lists->alloc, page);
        page = next;
      }
    }
  }
}

/* ------------------------------------------------------------------ cursors */

/* Mixes so that a cursor that was cut, padded or changed by hand is none; nobody is kept from making one. */
static uint64_t mix(uint64_t word) {
  word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
  word = (word ^ word >> 27) * 0x94d049bb133111ebu;
  return word ^ word >> 31;
}

#define POSITION 32
static void spell_position(size_t position, char out[POSITION]) {
  snprintf(out, POSITION, "%zx.%04x", position,
           (unsigned)(mix((uint64_t)position + 0x9e3779b97f4a7c15u) & 0xffff));
}

void idem__write_position(idem__writer *writer, const char *key, size_t position) {
  char text[POSITION];
  spell_position(position, text);
  idem__write_member_text(writer, key, text);
}

/* One spelling alone is right: what was read is spelled again and compared. */
bool idem__parse_position(yyjson_val *cursor, int64_t *position) {
  const char *text = yyjson_get_str(cursor);
  char spelled[POSITION];
  if (!text || strspn(text, "0123456789abcdef") > 15) return false;
  *position = strtoll(text, NULL, 16);
  if (*position < 0) return false;
  spell_position((size_t)*position, spelled);
  return yyjson_equals_str(cursor, spelled);
}

/* What the cursors of a list begin with: no digit, and none of tasks/list does. */
static const char list_signs[IDEM__LIST_KINDS] = {
    [IDEM__TOOLS] = 't',
    [IDEM__RESOURCES] = 'r',
    [IDEM__TEMPLATES] = 'm',
    [IDEM__PROMPTS] = 'p',
};

#define CURSOR 64
static void spell_cursor(idem__registry *registry, idem__list_kind kind, size_t first,
                         char out[CURSOR]) {
  uint64_t digest = idem__registry_digest(registry, kind);
  snprintf(out, CURSOR, "%c%016llx.%zx", list_signs[kind],
           (unsigned long long)(digest ^ mix(first)), first);
}

static void write_cursor(idem__writer *writer, idem__registry *registry, idem__list_kind kind,
                         size_t first) {
  char cursor[CURSOR];
  spell_cursor(registry, kind, first, cursor);
  idem__write_member_text(writer, "nextCursor", cursor);
}

/* False: not a cursor of this list, as it would be spelled. */
static bool read_cursor(idem__registry *registry, idem__list_kind kind, yyjson_val *cursor,
                        size_t *first) {
  char spelled[CURSOR];
  const char *text = yyjson_get_str(cursor), *dot = text ? strchr(text, '.') : NULL;
  if (!dot || strspn(dot + 1, "0123456789abcdef") > 15) return false;
  *first = (size_t)strtoull(dot + 1, NULL, 16);
  if (*first == 0 || *first >= registry->lists[kind].count) return false;
  spell_cursor(registry, kind, *first, spelled);
  return yyjson_equals_str(cursor, spelled);
}

/* ------------------------------------------------------------------ writing */

void idem__entry_write(idem__list_kind kind, const void *entry, const idem__revision *revision,
                       idem__writer *writer) {
  switch (kind) {
  case IDEM__TOOLS: idem__tool_write(entry, revision, writer); break;
  case IDEM__PROMPTS: idem__prompt_write(entry, revision, writer); break;
  case IDEM__RESOURCES:
  case IDEM__TEMPLATES:
  case IDEM__LIST_KINDS: idem__resource_write(entry, revision, writer); break;
  }
}

static uint64_t ttl_of(const idem_server_opts *opts, idem__list_kind kind) {
  const uint64_t times[IDEM__LIST_KINDS] = {
      [IDEM__TOOLS] = opts->tools_ttl_ms,
      [IDEM__RESOURCES] = opts->resources_ttl_ms,
      [IDEM__TEMPLATES] = opts->templates_ttl_ms,
      [IDEM__PROMPTS] = opts->prompts_ttl_ms,
  };
  return times[kind];
}

static void write_page(idem__result *result, idem__list_kind kind, size_t first) {
  idem__registry *registry = result->context->lists->registry;
  const idem__registry_list *list = &registry->lists[kind];
  size_t end = first + result->context->server->opts.page_size;
  if (end > list->count) end = list->count;
  idem__write_key(&result->writer, list_names[kind]);
  idem__write_array(&result->writer);
  for (size_t i = first; i < end; i++) {
    if (!idem__scope_may_use(result->context, list->entries[i])) continue;
    idem__entry_write(kind, list->entries[i], result->context->revision, &result->writer);
  }
  idem__write_array_end(&result->writer);
  if (end < list->count) write_cursor(&result->writer, registry, kind, end);
  idem__result_cacheable(result, ttl_of(&result->context->server->opts, kind), list->scoped);
}

/* ----------------------------------------------------------------- preparing */

static idem__page **slot_of(idem__context *context, idem__list_kind kind, size_t first) {
  idem__page **slot = &context->lists->pages[kind][idem__revision_index(context->revision)];
  while (*slot && (*slot)->first != first) slot = &(*slot)->next;
  return slot;
}

static idem__page *prepare(idem__context *context, idem__list_kind kind, size_t first) {
  idem__result result;
  idem__result_begin(&result, context, "complete");
  write_page(&result, kind, first);
  if (idem__result_close(&result, NULL) != IDEM_OK) {
    idem__result_abandon(&result);
    return NULL;
  }
  idem__page *page = idem__malloc(context->lists->alloc, sizeof *page + result.buf.len);
  if (page) {
    page->next = NULL;
    page->first = first;
    page->len = result.buf.len;
    memcpy(page->text, result.buf.data, result.buf.len);
  }
  idem__result_abandon(&result);
  return page;
}

/* What only the caller may see is written for it alone. */
static void reply_own(idem__context *context, idem__list_kind kind, size_t first) {
  idem__result result;
  idem__result_begin(&result, context, "complete");
  write_page(&result, kind, first);
  idem__result_end(&result, NULL);
}

void idem__page_reply(idem__context *context, idem__list_kind kind, yyjson_val *params) {
  yyjson_val *cursor = params ? yyjson_obj_get(params, "cursor") : NULL;
  size_t first = 0;
  bool begins = !cursor || yyjson_equals_str(cursor, "");
  if (!begins && !read_cursor(context->lists->registry, kind, cursor, &first)) {
    idem__reply_bad_param(context, "cursor", "a cursor of the list as it is now", cursor);
    return;
  }
  if (context->grant && context->lists->registry->lists[kind].scoped) {
    reply_own(context, kind, first);
    return;
  }
  idem__page **slot = slot_of(context, kind, first);
  if (!*slot) *slot = prepare(context, kind, first);
  if (*slot)
    idem__reply_text(context, (*slot)->text, (*slot)->len);
  else
    idem_request_drop(context->request);
}
