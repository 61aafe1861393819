/* page.c - lists, prepared once for each snapshot, revision and page.
 * A cursor is its list, the position of the page's first entry and a digest of what it was made for, so that a
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

void idem__write_position(idem__writer *writer, const char *key, size_t position) {
  char text[32];
  snprintf(text, sizeof text, "%zx", position);
  idem__write_member_text(writer, key, text);
}

bool idem__parse_position(yyjson_val *cursor, int64_t *position) {
  const char *text = yyjson_get_str(cursor);
  char *end;
  if (!text || !*text || strspn(text, "0123456789abcdef") != strlen(text) || strlen(text) > 15) {
    return false;
  }
  *position = strtoll(text, &end, 16);
  return *end == '\0';
}

/* What the cursors of a list begin with: no digit, and none of tasks/list does. */
static const char list_signs[IDEM__LIST_KINDS] = {
    [IDEM__TOOLS] = 't',
    [IDEM__RESOURCES] = 'r',
    [IDEM__TEMPLATES] = 'm',
    [IDEM__PROMPTS] = 'p',
};

static void write_cursor(idem__writer *writer, idem__registry *registry, idem__list_kind kind,
                         size_t first) {
  char cursor[64];
  snprintf(cursor, sizeof cursor, "%c%llx.%zx", list_signs[kind],
           (unsigned long long)idem__registry_digest(registry, kind), first);
  idem__write_member_text(writer, "nextCursor", cursor);
}

/* Reads what %llx wrote, and nothing that strtoull would forgive; returns its end, NULL: no number. */
static const char *read_hex(const char *text, unsigned long long *value) {
  size_t digits = strspn(text, "0123456789abcdef");
  if (digits == 0 || digits > 16) return NULL;
  *value = strtoull(text, NULL, 16);
  return text + digits;
}

/* False: not a cursor of this list. */
static bool read_cursor(idem__registry *registry, idem__list_kind kind, yyjson_val *cursor,
                        size_t *first) {
  const char *text = yyjson_get_str(cursor);
  unsigned long long digest, position;
  const char *end = text && text[0] == list_signs[kind] ? read_hex(text + 1, &digest) : NULL;
  if (!end || *end != '.') return false;
  end = read_hex(end + 1, &position);
  if (!end || end != text + yyjson_get_len(cursor)) return false;
  if (position == 0 || position >= registry->lists[kind].count) return false;
  if (digest != idem__registry_digest(registry, kind)) return false;
  *first = (size_t)position;
  return true;
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
