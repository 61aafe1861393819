/* ledger.c - what was asked and what came back: each id has exactly one answer, spelled as it was sent. */
#include "attack.h"

#include "support/message_shape.h"

#include <stdlib.h>
#include <string.h>

static const char *own(ledger *self, const char *id) {
  if (self->count == COUNT(self->items)) attack_found(self->owner, "this ledger is full");
  owed *one = &self->items[self->count++];
  *one = (owed){.id = strdup(id), .len = strlen(id)};
  if (!one->id) abort();
  return one->id;
}

/* Each spelling has numbers of its own, so that no two ids are equal by value. */
const char *ledger_new_id(ledger *self, bool mcp) {
  static const char *const forms[] = {
      "1%06u",
      "-2%06u",
      "3%06u.0",
      "4%06ue2",
      "\"s%06u\"",
      "\"\\u00e9%06u\"",
      "\"\\\"%06u\"",
      "\"\\u0000%06u\"",
      "\"\xc3\xa9%06u\"",
      "\"%06u \\ud83d\\ude00\"",
      "5%06u00000000000000000000000000000000000001",
      "\" %06u\"",
      "6%06uE+1",
      "7%06u.25",
      "8%06u.5e-7",
      "-0.%06u",
  };
  char id[400], filler[256];
  unsigned number = (unsigned)self->count;
  unsigned form = chance_below(&self->owner->luck, mcp ? 13 : COUNT(forms) + 1);
  if (form < COUNT(forms)) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(id, sizeof id, forms[form], number + 1);
#pragma GCC diagnostic pop
  } else {
    memset(filler, 'x', sizeof filler);
    snprintf(id, sizeof id, "\"%.*s%06u\"", (int)sizeof filler - 1, filler, number);
  }
  return own(self, id);
}

static owed *find(const ledger *self, const char *id, size_t len) {
  for (size_t i = self->count; i--;) {
    const owed *one = &self->items[i];
    if (one->len == len && memcmp(one->id, id, len) == 0) return (owed *)(uintptr_t)one;
  }
  return NULL;
}

void ledger_ask(ledger *self, const char *id) {
  (void)id;
  self->owner->shared->asked++;
}

void ledger_excuse(ledger *self, const char *id) {
  owed *one = find(self, id, strlen(id));
  if (!one || one->excused) return;
  one->excused = true;
  self->owner->shared->excused++;
}

void ledger_excuse_all(ledger *self) {
  for (size_t i = 0; i < self->count; i++)
    if (!self->items[i].got) ledger_excuse(self, self->items[i].id);
}

bool ledger_answered(const ledger *self, const char *id) {
  const owed *one = find(self, id, strlen(id));
  return one && one->got;
}

bool ledger_owes(const ledger *self, const char *id) {
  const owed *one = find(self, id, strlen(id));
  return one && !one->got && !one->excused;
}

/* ----------------------------------------------------------------------- messages */

static const char begin[] = "{\"jsonrpc\":\"2.0\",\"id\":";

static size_t scalar_len(const char *at, size_t len) {
  size_t i = 0;
  if (len && at[0] == '"') {
    for (i = 1; i < len && at[i] != '"'; i++) i += at[i] == '\\';
    return i < len ? i + 1 : len;
  }
  while (i < len && at[i] != ',' && at[i] != '}') i++;
  return i;
}

bool message_id(const char *message, size_t len, const char **id, size_t *id_len) {
  size_t skip = sizeof begin - 1;
  if (len < skip || memcmp(message, begin, skip) != 0) return false;
  *id = message + skip;
  *id_len = scalar_len(*id, len - skip);
  return true;
}

char *message_string(const char *message, const char *name) {
  char key[96];
  snprintf(key, sizeof key, "\"%s\":\"", name);
  const char *at = strstr(message, key);
  if (!at) return NULL;
  at += strlen(key) - 1;
  size_t len = scalar_len(at, strlen(at));
  return len < 2 ? NULL : strndup(at + 1, len - 2);
}

static void take_answer(ledger *self, const char *message, size_t len) {
  const char *id;
  size_t id_len;
  if (!message_id(message, len, &id, &id_len))
    attack_found(self->owner, "an answer without an id: %.300s", message);
  owed *one = find(self, id, id_len);
  if (!one && self->foreign) return;
  if (!one && id_len == 4 && memcmp(id, "null", 4) == 0)
    attack_found(self->owner, "an error for nobody: %.300s", message);
  if (!one) attack_found(self->owner, "an answer nobody asked for: %.300s", message);
  if (one->got++) attack_found(self->owner, "a second answer: %.300s", message);
  self->owner->shared->answered++;
}

/* The elements of a batch lie in the text as they were sent: cut by depth, for the ids' spelling. */
static void take_batch(ledger *self, const char *batch, size_t len) {
  size_t depth = 0, start = 0;
  for (size_t i = 0; i < len; i++) {
    if (batch[i] == '"')
      i += scalar_len(batch + i, len - i) - 1;
    else if (batch[i] == '{' || batch[i] == '[') {
      if (depth++ == 1) start = i;
    } else if (batch[i] == '}' || batch[i] == ']') {
      if (--depth == 1) take_answer(self, batch + start, i + 1 - start);
    }
  }
}

heard ledger_hear(ledger *self, const char *message, size_t len) {
  yyjson_doc *doc = yyjson_read(message, len, 0);
  yyjson_val *root = yyjson_doc_get_root(doc);
  if (!message_or_batch(root, message_is_well_formed))
    attack_found(self->owner, "not a JSON-RPC message: %.300s", message);
  bool batch = yyjson_is_arr(root), method = yyjson_obj_get(root, "method") != NULL;
  bool id = yyjson_obj_get(root, "id") != NULL;
  yyjson_doc_free(doc);
  if (method) return id ? QUESTION : NOTIFICATION;
  if (batch)
    take_batch(self, message, len);
  else
    take_answer(self, message, len);
  return ANSWER;
}

/* ------------------------------------------------------------------------- closing */

size_t ledger_missing(const ledger *self) {
  size_t missing = 0;
  for (size_t i = 0; i < self->count; i++)
    missing += !self->items[i].got && !self->items[i].excused;
  return missing;
}

void ledger_close(ledger *self) {
  for (size_t i = 0; i < self->count; i++) {
    if (!self->items[i].got && !self->items[i].excused)
      attack_found(self->owner, "no answer to id %.200s", self->items[i].id);
  }
  ledger_free(self);
}

void ledger_free(ledger *self) {
  for (size_t i = 0; i < self->count; i++) free(self->items[i].id);
  self->count = 0;
}
