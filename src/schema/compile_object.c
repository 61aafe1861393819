/* compile_object.c - the keywords about objects, merged into one table of names.
 * Declared, required and dependent names share the table, so that one lookup per member of an
 * instance answers for all of them and presence is a bit. */
#include "compile.h"

typedef struct name_table {
  compiler *c;
  object_rules rules;
  property *properties;
  uint32_t *slots;
  uint32_t capacity;
} name_table;

static size_t length_of(yyjson_val *value) {
  return value && (yyjson_is_obj(value) || yyjson_is_arr(value)) ? idem__length(value) : 0;
}

/* How many names there can be at most. */
static uint64_t count_names(yyjson_val *const *k) {
  uint64_t count = length_of(k[KEYWORD_PROPERTIES]) + length_of(k[KEYWORD_REQUIRED]) +
                   length_of(k[KEYWORD_DEPENDENT_SCHEMAS]);
  const keyword maps[] = {KEYWORD_DEPENDENT_REQUIRED, KEYWORD_DEPENDENCIES};
  for (int i = 0; i < 2; i++) {
    size_t index, max;
    yyjson_val *key, *value;
    if (!length_of(k[maps[i]])) continue;
    idem_each_member(k[maps[i]], index, max, key, value) {
      count += 1 + (yyjson_is_arr(value) ? idem__length(value) : 0);
    }
  }
  return count;
}

static idem_status table_init(name_table *t, compiler *c, uint64_t capacity) {
  region *memory = &c->schema->memory;
  *t = (name_table){.c = c};
  t->rules =
      (object_rules){.additional = NODE_NONE, .names = NODE_NONE, .max_properties = UINT64_MAX};
  if (capacity > UINT32_MAX / 8) return IDEM_E_LIMIT;
  t->capacity = (uint32_t)capacity;
  t->properties = idem__region_get(memory, t->capacity * sizeof *t->properties);
  if (!t->properties) return idem__compile_no_memory(c);
  t->rules.properties = t->properties;
  if (capacity <= 8) return IDEM_OK; /* few names are compared one by one */
  uint32_t slots = 16;
  while (slots < capacity * 2) slots *= 2;
  t->slots = idem__region_zeroed(memory, slots * sizeof *t->slots);
  if (!t->slots) return idem__compile_no_memory(c);
  t->rules.slots = t->slots;
  t->rules.slot_mask = slots - 1;
  return IDEM_OK;
}

/* The index of a name, added when it is new. */
static idem_status intern(name_table *t, yyjson_val *name, uint32_t *index) {
  size_t len = idem__length(name);
  if (len > UINT32_MAX) return IDEM_E_LIMIT;
  *index = idem__property_find(&t->rules, name->uni.str, len);
  if (*index != UINT32_MAX) return IDEM_OK;
  property *p = &t->properties[t->rules.property_count];
  p->name = idem__region_text(&t->c->schema->memory, name->uni.str, len);
  if (!p->name) return idem__compile_no_memory(t->c);
  p->len = (uint32_t)len;
  p->words = idem__text_words(p->name, len);
  p->node = NODE_NONE;
  *index = t->rules.property_count++;
  if (!t->slots) return IDEM_OK;
  uint32_t slot = (uint32_t)idem__hash(p->name, len, 0) & t->rules.slot_mask;
  while (t->slots[slot]) slot = (slot + 1) & t->rules.slot_mask;
  t->slots[slot] = *index + 1;
  return IDEM_OK;
}

static idem_status expect(compiler *c, yyjson_val *value, bool good, node_id self, keyword k,
                          const char *what) {
  (void)value;
  return good ? IDEM_OK : idem__compile_fail(c, IDEM_E_INVAL, self, k, "must be %s", what);
}

static idem_status read_properties(name_table *t, yyjson_val *map, const where *at, node_id self) {
  if (!map) return IDEM_OK;
  idem_status status =
      expect(t->c, map, yyjson_is_obj(map), self, KEYWORD_PROPERTIES, "an object of schemas");
  size_t i, max;
  yyjson_val *key, *value;
  if (status != IDEM_OK) return status;
  idem_each_member(map, i, max, key, value) {
    uint32_t index;
    status = intern(t, key, &index);
    if (status != IDEM_OK) return status;
    const char *name = t->properties[index].name;
    node_id child;
    status = idem__compile_child(t->c, value, at, self, KEYWORD_PROPERTIES, name, idem__length(key),
                                 UINT32_MAX, &child);
    if (status != IDEM_OK) return status;
    t->properties[index].node = child;
  }
  return IDEM_OK;
}

/* A list of names as indexes into the table. */
static idem_status read_names(name_table *t, yyjson_val *list, node_id self, keyword k,
                              uint32_t **indexes, uint32_t *count) {
  idem_status status = expect(t->c, list, yyjson_is_arr(list), self, k, "an array of strings");
  if (status != IDEM_OK) return status;
  size_t i, max;
  yyjson_val *name;
  *count = (uint32_t)idem__length(list);
  *indexes = idem__region_get(&t->c->schema->memory, *count * sizeof **indexes);
  if (!*indexes) return idem__compile_no_memory(t->c);
  yyjson_arr_foreach(list, i, max, name) {
    status = expect(t->c, name, yyjson_is_str(name), self, k, "an array of strings");
    if (status == IDEM_OK) status = intern(t, name, &(*indexes)[i]);
    if (status != IDEM_OK) return status;
  }
  return IDEM_OK;
}

static idem_status read_patterns(name_table *t, yyjson_val *map, const where *at, node_id self) {
  if (!map) return IDEM_OK;
  keyword k = KEYWORD_PATTERN_PROPERTIES;
  idem_status status = expect(t->c, map, yyjson_is_obj(map), self, k, "an object of schemas");
  if (status != IDEM_OK) return status;
  size_t i, max;
  yyjson_val *key, *value;
  pattern_property *list =
      idem__region_get(&t->c->schema->memory, idem__length(map) * sizeof *list);
  if (!list) return idem__compile_no_memory(t->c);
  t->rules.patterns = list;
  idem_each_member(map, i, max, key, value) {
    pattern_property *p = &list[t->rules.pattern_count];
    status = idem__compile_pattern(t->c, key, self, k, &p->pattern);
    if (status == IDEM_OK)
      status = idem__compile_child(t->c, value, at, self, k, idem__regex_source(p->pattern),
                                   idem__length(key), UINT32_MAX, &p->node);
    if (status != IDEM_OK) return status;
    t->rules.pattern_count++;
  }
  return IDEM_OK;
}

typedef struct dependency_lists {
  dependent_names *names;
  dependent_schema *schemas;
} dependency_lists;

static idem_status read_dependency(name_table *t, yyjson_val *key, yyjson_val *value, keyword k,
                                   const where *at, node_id self, dependency_lists *lists) {
  uint32_t trigger;
  idem_status status = intern(t, key, &trigger);
  if (status != IDEM_OK) return status;
  bool names =
      k == KEYWORD_DEPENDENT_REQUIRED || (k == KEYWORD_DEPENDENCIES && yyjson_is_arr(value));
  if (!names) {
    dependent_schema *d = &lists->schemas[t->rules.dependent_schema_count++];
    d->trigger = trigger;
    return idem__compile_child(t->c, value, at, self, k, t->properties[trigger].name,
                               idem__length(key), UINT32_MAX, &d->node);
  }
  dependent_names *d = &lists->names[t->rules.dependent_names_count++];
  *d = (dependent_names){.trigger = trigger, .keyword = (uint8_t)k};
  uint32_t *indexes = NULL;
  status = read_names(t, value, self, k, &indexes, &d->count);
  d->names = indexes;
  return status;
}

static idem_status read_dependencies(name_table *t, yyjson_val *const *k, const where *at,
                                     node_id self) {
  const keyword maps[] = {KEYWORD_DEPENDENT_REQUIRED, KEYWORD_DEPENDENT_SCHEMAS,
                          KEYWORD_DEPENDENCIES};
  region *memory = &t->c->schema->memory;
  size_t total = 0;
  for (int i = 0; i < 3; i++) total += length_of(k[maps[i]]);
  dependency_lists lists = {idem__region_get(memory, total * sizeof *lists.names),
                            idem__region_get(memory, total * sizeof *lists.schemas)};
  if (!lists.names || !lists.schemas) return idem__compile_no_memory(t->c);
  t->rules.dependent_names = lists.names;
  t->rules.dependent_schemas = lists.schemas;
  for (int m = 0; m < 3; m++) {
    yyjson_val *map = k[maps[m]], *key, *value;
    if (!map) continue;
    size_t i, max;
    idem_status status = expect(t->c, map, yyjson_is_obj(map), self, maps[m], "an object");
    if (status != IDEM_OK) return status;
    idem_each_member(map, i, max, key, value) {
      status = read_dependency(t, key, value, maps[m], at, self, &lists);
      if (status != IDEM_OK) return status;
    }
  }
  return IDEM_OK;
}

static idem_status mark_required(name_table *t, const uint32_t *indexes, uint32_t count) {
  t->rules.words = (t->rules.property_count + 63) / 64;
  if (count == 0) return IDEM_OK;
  uint64_t *bits = idem__region_zeroed(&t->c->schema->memory, t->rules.words * sizeof *bits);
  if (!bits) return idem__compile_no_memory(t->c);
  for (uint32_t i = 0; i < count; i++) bits[indexes[i] / 64] |= (uint64_t)1 << (indexes[i] % 64);
  t->rules.required = bits;
  t->rules.required_count = count;
  return IDEM_OK;
}

static idem_status read_rest(name_table *t, yyjson_val *const *k, const where *at, node_id self) {
  compiler *c = t->c;
  idem_status status = IDEM_OK;
  if (k[KEYWORD_ADDITIONAL_PROPERTIES])
    status = idem__compile_child(c, k[KEYWORD_ADDITIONAL_PROPERTIES], at, self,
                                 KEYWORD_ADDITIONAL_PROPERTIES, NULL, 0, UINT32_MAX,
                                 &t->rules.additional);
  if (status == IDEM_OK && k[KEYWORD_PROPERTY_NAMES])
    status = idem__compile_child(c, k[KEYWORD_PROPERTY_NAMES], at, self, KEYWORD_PROPERTY_NAMES,
                                 NULL, 0, UINT32_MAX, &t->rules.names);
  if (status == IDEM_OK && k[KEYWORD_MIN_PROPERTIES])
    status = idem__compile_count(c, k[KEYWORD_MIN_PROPERTIES], self, KEYWORD_MIN_PROPERTIES,
                                 &t->rules.min_properties);
  if (status == IDEM_OK && k[KEYWORD_MAX_PROPERTIES])
    status = idem__compile_count(c, k[KEYWORD_MAX_PROPERTIES], self, KEYWORD_MAX_PROPERTIES,
                                 &t->rules.max_properties);
  return status;
}

static bool any_keyword(yyjson_val *const *k) {
  const keyword about_objects[] = {
      KEYWORD_PROPERTIES,     KEYWORD_PATTERN_PROPERTIES, KEYWORD_ADDITIONAL_PROPERTIES,
      KEYWORD_REQUIRED,       KEYWORD_PROPERTY_NAMES,     KEYWORD_MIN_PROPERTIES,
      KEYWORD_MAX_PROPERTIES, KEYWORD_DEPENDENT_REQUIRED, KEYWORD_DEPENDENT_SCHEMAS,
      KEYWORD_DEPENDENCIES};
  for (size_t i = 0; i < sizeof about_objects / sizeof *about_objects; i++)
    if (k[about_objects[i]]) return true;
  return false;
}

idem_status idem__compile_object(compiler *c, yyjson_val *const *k, const where *at, node_id self,
                                 const object_rules **out) {
  *out = NULL;
  if (!any_keyword(k)) return IDEM_OK;
  name_table t;
  uint32_t *required = NULL, required_count = 0;
  idem_status status = table_init(&t, c, count_names(k));
  if (status == IDEM_OK) status = read_properties(&t, k[KEYWORD_PROPERTIES], at, self);
  if (status == IDEM_OK && k[KEYWORD_REQUIRED])
    status =
        read_names(&t, k[KEYWORD_REQUIRED], self, KEYWORD_REQUIRED, &required, &required_count);
  if (status == IDEM_OK) status = read_dependencies(&t, k, at, self);
  if (status == IDEM_OK) status = read_patterns(&t, k[KEYWORD_PATTERN_PROPERTIES], at, self);
  if (status == IDEM_OK) status = read_rest(&t, k, at, self);
  if (status == IDEM_OK) status = mark_required(&t, required, required_count);
  if (status != IDEM_OK) return status;
  object_rules *rules = idem__region_get(&c->schema->memory, sizeof *rules);
  if (!rules) return idem__compile_no_memory(c);
  *rules = t.rules;
  *out = rules;
  return IDEM_OK;
}
