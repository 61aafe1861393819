/* registry.h - what is served, as immutable snapshots: tools, resources, templates, prompts.
 * A change makes the next snapshot; requests finish on the one they began with. */
#ifndef IDEM_MCP_REGISTRY_H
#define IDEM_MCP_REGISTRY_H

#include "nouns.h"

#include <idem/schema.h>

/* What every entry begins with. The last snapshot that holds an entry frees it. */
typedef struct idem__entry {
  _Atomic unsigned refs;
  const char *name; /* by which it is found: its own, or its URI */
  char *scopes;     /* that a caller's token must have; NULL: none */
  void (*free)(void *entry, const idem_alloc *alloc);
  void (*release)(void *user); /* the application's, after that; NULL: none */
  void *user;
} idem__entry;
/* A zeroed entry of this size, counted once; NULL: no memory. */
void *idem__entry_new(idem_server *server, size_t size,
                      void (*free)(void *entry, const idem_alloc *alloc));
void idem__entry_unref(idem__entry *entry, const idem_alloc *alloc);

/* Definitions hold their texts compact and checked. All strings are owned, NULL where absent. */
typedef struct idem__tool_entry {
  idem__entry head;
  char *name, *title, *description, *input_schema, *output_schema, *annotations, *icons, *meta;
  uint64_t input_hash;                  /* of the text of its schema */
  _Atomic(idem_schema *) input, output; /* NULL: not compiled yet; see idem__tool_input */
  bool output_is_object;
  idem__header_rules headers; /* x-mcp-header: see header_check.c */
  idem_task_support task;
  idem_once once;
  bool may_repeat; /* idempotentHint */
  idem_tool_fn fn;
} idem__tool_entry;

typedef struct idem__resource_entry {
  idem__entry head;
  char *uri, *name, *title, *description, *mime_type, *annotations, *icons, *meta;
  int64_t size;
  uint64_t ttl_ms;
  bool cache_private;
  struct idem__uri_template *pattern; /* NULL: a plain URI */
  idem_resource_fn fn;
} idem__resource_entry;

typedef struct idem__prompt_entry {
  idem__entry head;
  char *name, *title, *description, *icons, *meta;
  struct idem__prompt_arg {
    char *name, *title, *description;
    bool required;
  } * arguments;
  size_t argument_count;
  idem_prompt_fn fn;
} idem__prompt_entry;

/* One kind of thing that is listed. */
typedef enum idem__list_kind {
  IDEM__TOOLS,
  IDEM__RESOURCES,
  IDEM__TEMPLATES,
  IDEM__PROMPTS,
  IDEM__LIST_KINDS
} idem__list_kind;

typedef struct idem__registry_list {
  idem__entry **entries; /* heads of the kind's entry type, in order of registration */
  size_t count;
  size_t capacity;
  bool scoped;      /* one of them has scopes: not everybody sees the same */
  idem_map by_name; /* name, or uri */
} idem__registry_list;

/* An immutable snapshot of what is served. Shared by threads, counted atomically. */
struct idem__registry {
  idem_alloc alloc;
  _Atomic unsigned refs;
  uint64_t generation;
  _Atomic uint64_t digests[IDEM__LIST_KINDS]; /* 0: not known yet */
  idem__registry_list lists[IDEM__LIST_KINDS];
};
/* What a list says: another list, another number. From any thread. */
uint64_t idem__registry_digest(idem__registry *registry, idem__list_kind kind);
void idem__registry_unref(idem__registry *registry);
idem_status idem__registry_first(idem_server *server);
/* Lookups in a snapshot. */
const idem__tool_entry *idem__registry_tool(const idem__registry *registry, const char *name,
                                            size_t len);
const idem__prompt_entry *idem__registry_prompt(const idem__registry *registry, const char *name,
                                                size_t len);
/* A plain URI first, then templates in order. */
const idem__resource_entry *idem__registry_resource(const idem__registry *registry, const char *uri,
                                                    size_t len);

/* Makes the next snapshot with `entry` added (taken over, also on failure) or with the named one
 * removed (entry NULL) and swaps it in; tells workers. OK, EXISTS, NOTFOUND, NOMEM. */
idem_status idem__registry_change(idem_server *server, idem__list_kind kind, const char *name,
                                  idem__entry *entry);

/* The programs of a tool's schemas, made when they are first asked for, on any thread; NULL: no
 * memory. Only a tool that has an output schema may be asked for its program. */
const idem_schema *idem__tool_input(const idem__tool_entry *tool, const idem_alloc *alloc);
const idem_schema *idem__tool_output(const idem__tool_entry *tool, const idem_alloc *alloc);

/* How a definition looks in a list, by revision. */
const char *idem__task_support_word(idem_task_support support);
void idem__tool_write(const idem__tool_entry *tool, const idem__revision *revision,
                      idem__writer *writer);
void idem__resource_write(const idem__resource_entry *resource, const idem__revision *revision,
                          idem__writer *writer);
void idem__prompt_write(const idem__prompt_entry *prompt, const idem__revision *revision,
                        idem__writer *writer);
/* ... of any kind. */
void idem__entry_write(idem__list_kind kind, const void *entry, const idem__revision *revision,
                       idem__writer *writer);

#endif
