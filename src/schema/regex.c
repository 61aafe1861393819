/* regex.c - which matcher takes a pattern, and what a match may cost.
 * Plain patterns and automata are linear. The rest backtrack in PCRE2, which reports every item of
 * the pattern it comes to; each is charged to the validation, so that many dear matches and many
 * dear beginnings cost no more than one. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "regex.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#include "ecma.h"
#include "plain.h"

#define HEAP_LIMIT_KIB 32768
#define DEPTH_LIMIT 250000
#define NEST_LIMIT 100
/* A translated pattern may grow: \s alone becomes a hundred bytes. */
#define TRANSLATED_MAX ((size_t)2 << 20)
#define REGEX_OPTIONS                                                                              \
  (PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_MATCH_UNSET_BACKREF | PCRE2_NEVER_BACKSLASH_C |        \
   PCRE2_NEVER_UCP)
/* Reports every item, and takes no short cut past one. */
#define COUNTED_OPTIONS                                                                            \
  (REGEX_OPTIONS | PCRE2_AUTO_CALLOUT | PCRE2_NO_AUTO_POSSESS | PCRE2_NO_START_OPTIMIZE)

struct regex {
  const plain_pattern *plain; /* or */
  automaton *machine;         /* or */
  pcre2_code *code;
  uint32_t weight;      /* of one item, in steps: what PCRE2 may do before it reports the next */
  const char *spelling; /* as PCRE2 reads it, where there are references to what was matched */
  regex *next;
  const char *source;
};

static void *pcre_malloc(size_t size, void *alloc) { return idem__malloc(alloc, size); }
static void pcre_free(void *ptr, void *alloc) { idem__free(alloc, ptr); }

static pcre2_general_context *general_context(const idem_alloc *alloc) {
  return pcre2_general_context_create(pcre_malloc, pcre_free, (void *)(uintptr_t)alloc);
}

/* ------------------------------------------------------------- compile */

/* The parts of one compilation that are gone when it ends. */
typedef struct compilation {
  const idem_alloc *alloc;
  region *memory;
  region scratch;
  pcre2_general_context *general;
  pcre2_match_data *data;
  idem_buf translated;
  regex_effort *effort;
  char *why;
  size_t why_size;
} compilation;

static void say(char *why, size_t size, const char *text) {
  if (size) snprintf(why, size, "%s", text);
}

static idem_status compilation_init(compilation *c, region *memory, regex_effort *effort, char *why,
                                    size_t why_size) {
  *c = (compilation){.alloc = memory->alloc, .memory = memory, .effort = effort};
  c->why = why;
  c->why_size = why_size;
  idem__region_init(&c->scratch, c->alloc, (size_t)48 << 10);
  idem_buf_init(&c->translated, c->alloc, TRANSLATED_MAX);
  c->general = general_context(c->alloc);
  if (c->general) c->data = pcre2_match_data_create(1, c->general);
  return c->data ? IDEM_OK : IDEM_E_NOMEM;
}

static void compilation_deinit(compilation *c) {
  if (c->data) pcre2_match_data_free(c->data);
  if (c->general) pcre2_general_context_free(c->general);
  idem_buf_deinit(&c->translated);
  idem__region_deinit(&c->scratch);
}

static idem_status compile_translated(pcre2_general_context *general, const char *text, size_t len,
                                      uint32_t options, pcre2_code **code, int *error) {
  pcre2_compile_context *context = pcre2_compile_context_create(general);
  if (!context) return IDEM_E_NOMEM;
  pcre2_set_parens_nest_limit(context, NEST_LIMIT);
  PCRE2_SIZE offset = 0;
  *code = pcre2_compile((PCRE2_SPTR)text, len, options, error, &offset, context);
  pcre2_compile_context_free(context);
  if (*code) return IDEM_OK;
  return *error == PCRE2_ERROR_HEAP_FAILED ? IDEM_E_NOMEM : IDEM_E_INVAL;
}

static idem_status charge_bytes(compilation *c, size_t bytes) {
  if (c->effort->bytes < bytes) return IDEM_E_LIMIT;
  c->effort->bytes -= bytes;
  return IDEM_OK;
}

static size_t code_bytes(const pcre2_code *code) {
  size_t size = 0;
  pcre2_pattern_info(code, PCRE2_INFO_SIZE, &size);
  return size;
}

/* The largest count in braces: PCRE2 takes that many characters between two reports. */
static uint32_t largest_count(const char *text, size_t len) {
  uint32_t largest = 0;
  for (size_t i = 1; i < len; i++) {
    bool named = i > 1 && text[i - 2] == '\\' && strchr("xpPg", text[i - 1]);
    if (text[i] != '{' || named) continue;
    uint32_t value = 0;
    for (i++; i < len && text[i] >= '0' && text[i] <= '9' && value < 100000; i++)
      value = value * 10 + (uint32_t)(text[i] - '0');
    if (value > largest) largest = value;
  }
  return largest;
}

static idem_status keep_spelling(regex *r, compilation *c, const char *text, size_t len) {
  uint32_t references = 0;
  r->weight = 1 + largest_count(text, len) / 64 + (uint32_t)(len / 256);
  pcre2_pattern_info(r->code, PCRE2_INFO_BACKREFMAX, &references);
  if (!references) return IDEM_OK;
  r->spelling = idem__region_text(c->memory, text, len);
  return r->spelling ? IDEM_OK : IDEM_E_NOMEM;
}

static idem_status compile_pcre(regex *r, compilation *c, const char *text, size_t len) {
  int error = 0;
  idem_status status = compile_translated(c->general, text, len, COUNTED_OPTIONS, &r->code, &error);
  if (status == IDEM_E_INVAL) {
    PCRE2_UCHAR message[128] = {0};
    pcre2_get_error_message(error, message, sizeof message);
    say(c->why, c->why_size, (const char *)message);
  }
  if (status == IDEM_OK) status = charge_bytes(c, code_bytes(r->code));
  return status == IDEM_OK ? keep_spelling(r, c, text, len) : status;
}

static regex *new_regex(region *memory, const char *text, size_t len) {
  regex *r = idem__region_zeroed(memory, sizeof *r);
  if (r) r->source = idem__region_text(memory, text, len);
  return r && r->source ? r : NULL;
}

/* Names of groups change no match, but some are not allowed: PCRE2 knows which. */
static idem_status check_names(compilation *c) {
  pcre2_code *code = NULL;
  int error = 0;
  idem_status status = compile_translated(c->general, c->translated.data, c->translated.len,
                                          REGEX_OPTIONS, &code, &error);
  if (code) pcre2_code_free(code);
  return status == IDEM_E_INVAL ? IDEM_E_NOTFOUND : status;
}

static idem_status keep_machine(regex *r, compilation *c, const automaton *made) {
  size_t instructions = made->table ? 0 : made->instruction_count * sizeof *made->instructions;
  r->machine = idem__region_get(c->memory, sizeof *made);
  if (!r->machine) return IDEM_E_NOMEM;
  *r->machine = *made;
  if (instructions) {
    instruction *kept = idem__region_get(c->memory, instructions);
    if (!kept) return IDEM_E_NOMEM;
    memcpy(kept, made->instructions, instructions);
    r->machine->instructions = kept;
  }
  return charge_bytes(c, made->table_bytes + instructions + idem__classes_bytes(&made->classes));
}

/* NOTFOUND: it is PCRE2's. */
static idem_status compile_machine(regex *r, compilation *c) {
  automaton made;
  idem_status status = idem__automaton_read(c->memory, &c->scratch, c->general, c->data,
                                            c->translated.data ? c->translated.data : "",
                                            c->translated.len, c->effort, &made);
  if (status != IDEM_OK) return status;
  if (made.named) status = check_names(c);
  if (status == IDEM_OK)
    status = idem__automaton_tabulate(&made, c->memory, &c->scratch, c->effort);
  if (status == IDEM_OK) status = keep_machine(r, c, &made);
  if (!r->machine) idem__automaton_free(&made);
  return status;
}

static idem_status translate_and_compile(regex *r, compilation *c, const char *text, size_t len) {
  const char *reason = NULL;
  idem_status status = idem__ecma_translate(text, len, &c->translated, &reason);
  if (status == IDEM_E_INVAL) say(c->why, c->why_size, reason);
  if (status != IDEM_OK) return status;
  status = compile_machine(r, c);
  if (status != IDEM_E_NOTFOUND) return status;
  return compile_pcre(r, c, c->translated.data ? c->translated.data : "", c->translated.len);
}

static idem_status compile_other(regex *r, region *memory, const char *text, size_t len, bool own,
                                 regex_effort *effort, char *why, size_t why_size) {
  compilation c;
  idem_status status = compilation_init(&c, memory, effort, why, why_size);
  if (status == IDEM_OK)
    status = own ? compile_pcre(r, &c, text, len) : translate_and_compile(r, &c, text, len);
  compilation_deinit(&c);
  return status;
}

static idem_status give(regex *r, idem_status status, regex **out) {
  if (status == IDEM_OK)
    *out = r;
  else
    idem__regex_free(r);
  return status;
}

idem_status idem__regex_compile(region *memory, const char *text, size_t len, size_t max_bytes,
                                regex_effort *effort, regex **out, char *why, size_t why_size) {
  *out = NULL;
  if (len > max_bytes) return IDEM_E_LIMIT;
  regex *r = new_regex(memory, text, len);
  if (!r) return IDEM_E_NOMEM;
  plain_pattern *plain;
  idem_status status = idem__plain_compile(memory, text, len, &plain);
  r->plain = plain;
  if (status == IDEM_OK && !plain)
    status = compile_other(r, memory, text, len, false, effort, why, why_size);
  return give(r, status, out);
}

idem_status idem__regex_compile_own(region *memory, const char *text, regex_effort *effort,
                                    regex **out) {
  regex *r = new_regex(memory, text, strlen(text));
  *out = NULL;
  if (!r) return IDEM_E_NOMEM;
  return give(r, compile_other(r, memory, text, strlen(text), true, effort, NULL, 0), out);
}

void idem__regex_free(regex *pattern) {
  if (!pattern) return;
  if (pattern->machine) idem__automaton_free(pattern->machine);
  if (pattern->code) pcre2_code_free(pattern->code);
  pattern->code = NULL;
}

regex *idem__regex_next(const regex *pattern) { return pattern->next; }
void idem__regex_link(regex *pattern, regex *next) { pattern->next = next; }
const char *idem__regex_source(const regex *pattern) { return pattern->source; }

/* PCRE2 10.42 has no lookbehind of variable width; ECMA-262 does, so the format accepts it. */
static bool only_lookbehind(int error) { return error == 125; }

idem_status idem__regex_check(const idem_alloc *alloc, const char *text, size_t len, bool *valid) {
  idem_buf translated;
  const char *reason = NULL;
  *valid = false;
  idem_buf_init(&translated, alloc, TRANSLATED_MAX);
  idem_status status = idem__ecma_translate(text, len, &translated, &reason);
  pcre2_general_context *general = status == IDEM_OK ? general_context(alloc) : NULL;
  if (status == IDEM_OK && !general) status = IDEM_E_NOMEM;
  if (status == IDEM_OK) {
    pcre2_code *code = NULL;
    int error = 0;
    status = compile_translated(general, translated.data ? translated.data : "", translated.len,
                                REGEX_OPTIONS, &code, &error);
    *valid = status == IDEM_OK || (status == IDEM_E_INVAL && only_lookbehind(error));
    if (code) pcre2_code_free(code);
  }
  if (general) pcre2_general_context_free(general);
  idem_buf_deinit(&translated);
  return status == IDEM_E_INVAL || status == IDEM_E_LIMIT ? IDEM_OK : status;
}

bool idem__regex_is_linear(const regex *pattern) { return !pattern->code; }

/* --------------------------------------------------------------- match */

void idem__matcher_init(regex_matcher *matcher, const idem_alloc *alloc) {
  *matcher = (regex_matcher){.alloc = alloc};
}

void idem__matcher_deinit(regex_matcher *matcher) {
  if (matcher->data) pcre2_match_data_free(matcher->data);
  if (matcher->context) pcre2_match_context_free(matcher->context);
  if (matcher->general) pcre2_general_context_free(matcher->general);
  idem__state_memory_deinit(&matcher->states, matcher->alloc);
  *matcher = (regex_matcher){.alloc = matcher->alloc};
}

static bool matcher_ready(regex_matcher *matcher) {
  if (matcher->data) return true;
  if (!matcher->general) matcher->general = general_context(matcher->alloc);
  if (!matcher->general) return false;
  if (!matcher->context) matcher->context = pcre2_match_context_create(matcher->general);
  if (!matcher->context) return false;
  pcre2_set_depth_limit(matcher->context, DEPTH_LIMIT);
  pcre2_set_heap_limit(matcher->context, HEAP_LIMIT_KIB);
  matcher->data = pcre2_match_data_create(1, matcher->general);
  return matcher->data != NULL;
}

/* One match in PCRE2. */
typedef struct attempt {
  const regex *pattern;
  regex_matcher *matcher;
  size_t last, furthest; /* where the last report was, and the furthest one */
} attempt;

/* Comparing with what was matched before may cost as much as lies behind us. */
static bool is_reference(const regex *pattern, const pcre2_callout_block *item) {
  if (!pattern->spelling || item->next_item_length < 2) return false;
  const char *text = pattern->spelling + item->pattern_position;
  return text[0] == '\\' && (text[1] == 'g' || text[1] == 'k');
}

/* PCRE2 is about to try an item of the pattern: charges for it and for the way since the last. */
static int charge_item(pcre2_callout_block *item, void *user) {
  attempt *a = user;
  size_t at = item->current_position;
  size_t moved = at > a->last ? at - a->last : a->last - at;
  a->last = at;
  if (at > a->furthest) a->furthest = at;
  uint64_t cost = a->pattern->weight * (1 + (uint64_t)moved / 16);
  if (is_reference(a->pattern, item)) cost += a->furthest / 16;
  if (a->matcher->steps_left < cost) {
    a->matcher->steps_left = 0;
    return PCRE2_ERROR_CALLOUT;
  }
  a->matcher->steps_left -= cost;
  return 0;
}

static idem_status match_result(int code, bool *matched) {
  *matched = code >= 0;
  if (code >= 0 || code == PCRE2_ERROR_NOMATCH) return IDEM_OK;
  if (code == PCRE2_ERROR_NOMEMORY) return IDEM_E_NOMEM;
  if (code == PCRE2_ERROR_CALLOUT || code == PCRE2_ERROR_MATCHLIMIT ||
      code == PCRE2_ERROR_DEPTHLIMIT || code == PCRE2_ERROR_HEAPLIMIT)
    return IDEM_E_LIMIT;
  return IDEM_OK; /* not UTF-8: such a string matches nothing */
}

static idem_status match_pcre(const regex *pattern, regex_matcher *matcher, const char *text,
                              size_t len, bool *matched) {
  attempt a = {.pattern = pattern, .matcher = matcher};
  if (!matcher_ready(matcher)) return IDEM_E_NOMEM;
  if (matcher->steps_left == 0) return IDEM_E_LIMIT;
  pcre2_set_match_limit(matcher->context, UINT32_MAX);
  pcre2_set_callout(matcher->context, charge_item, &a);
  int code =
      pcre2_match(pattern->code, (PCRE2_SPTR)text, len, 0, 0, matcher->data, matcher->context);
  pcre2_set_callout(matcher->context, NULL, NULL);
  return match_result(code, matched);
}

idem_status idem__regex_match(const regex *pattern, regex_matcher *matcher, const char *text,
                              size_t len, bool *matched) {
  *matched = false;
  if (pattern->plain) {
    *matched = idem__plain_match(pattern->plain, text, len);
    return IDEM_OK;
  }
  if (pattern->code) return match_pcre(pattern, matcher, text, len, matched);
  if (pattern->machine->classes.property_count && !matcher_ready(matcher)) return IDEM_E_NOMEM;
  return idem__automaton_match(pattern->machine, matcher->alloc, &matcher->states, matcher->data,
                               text, len, &matcher->steps_left, matched);
}
