/* regex.c - compiles and matches patterns within bounds.
 * Backtracking is paid from the validation's budget: a match starts with a small allowance and is
 * given more only while the budget lasts, so that many dear matches cost no more than one. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "regex.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#include "ecma.h"
#include "plain.h"

#define FIRST_ALLOWANCE 10000
#define HEAP_LIMIT_KIB 32768
#define DEPTH_LIMIT 250000
#define NEST_LIMIT 100
/* A translated pattern may grow: \s alone becomes a hundred bytes. */
#define TRANSLATED_MAX ((size_t)2 << 20)

struct regex {
  const plain_pattern *plain; /* or */
  pcre2_code *code;
  pcre2_general_context *general;
  regex *next;
  const char *source;
};

static void *pcre_malloc(size_t size, void *alloc) { return idem__malloc(alloc, size); }
static void pcre_free(void *ptr, void *alloc) { idem__free(alloc, ptr); }

static pcre2_general_context *general_context(const idem_alloc *alloc) {
  return pcre2_general_context_create(pcre_malloc, pcre_free, (void *)(uintptr_t)alloc);
}

/* ------------------------------------------------------------- compile */

/* The version test is for the linker's library, which may be newer than the header. */
static idem_status compile_translated(pcre2_general_context *general, const char *text, size_t len,
                                      pcre2_code **code, int *error) {
  pcre2_compile_context *context = pcre2_compile_context_create(general);
  if (!context) return IDEM_E_NOMEM;
  pcre2_set_parens_nest_limit(context, NEST_LIMIT);
  PCRE2_SIZE offset = 0;
  uint32_t options = PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_MATCH_UNSET_BACKREF |
                     PCRE2_NEVER_BACKSLASH_C | PCRE2_NEVER_UCP;
  *code = pcre2_compile((PCRE2_SPTR)text, len, options, error, &offset, context);
  pcre2_compile_context_free(context);
  if (*code) return IDEM_OK;
  return *error == PCRE2_ERROR_HEAP_FAILED ? IDEM_E_NOMEM : IDEM_E_INVAL;
}

static void say(char *why, size_t size, const char *text) {
  if (size) snprintf(why, size, "%s", text);
}

static idem_status compile_pcre(regex *r, const idem_alloc *alloc, const char *text, size_t len,
                                char *why, size_t why_size) {
  r->general = general_context(alloc);
  if (!r->general) return IDEM_E_NOMEM;
  int error = 0;
  idem_status status = compile_translated(r->general, text, len, &r->code, &error);
  if (status == IDEM_E_INVAL) {
    PCRE2_UCHAR message[128] = {0};
    pcre2_get_error_message(error, message, sizeof message);
    say(why, why_size, (const char *)message);
  }
  /* Without the just-in-time compiler matching is slower, never wrong. */
  if (status == IDEM_OK) pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE);
  return status;
}

static regex *new_regex(region *memory, const char *text, size_t len) {
  regex *r = idem__region_zeroed(memory, sizeof *r);
  if (r) r->source = idem__region_text(memory, text, len);
  return r && r->source ? r : NULL;
}

static idem_status translate_and_compile(regex *r, const idem_alloc *alloc, const char *text,
                                         size_t len, char *why, size_t why_size) {
  idem__buf translated;
  const char *reason = NULL;
  idem__buf_init(&translated, alloc, TRANSLATED_MAX);
  idem_status status = idem__ecma_translate(text, len, &translated, &reason);
  if (status == IDEM_E_INVAL) say(why, why_size, reason);
  if (status == IDEM_OK)
    status = compile_pcre(r, alloc, translated.data ? translated.data : "", translated.len, why,
                          why_size);
  idem__buf_deinit(&translated);
  return status;
}

idem_status idem__regex_compile(region *memory, const char *text, size_t len, size_t max_bytes,
                                regex **out, char *why, size_t why_size) {
  *out = NULL;
  if (len > max_bytes) return IDEM_E_LIMIT;
  regex *r = new_regex(memory, text, len);
  if (!r) return IDEM_E_NOMEM;
  plain_pattern *plain;
  idem_status status = idem__plain_compile(memory, text, len, &plain);
  r->plain = plain;
  if (status == IDEM_OK && !plain)
    status = translate_and_compile(r, memory->alloc, text, len, why, why_size);
  if (status == IDEM_OK)
    *out = r;
  else
    idem__regex_free(r);
  return status;
}

idem_status idem__regex_compile_own(region *memory, const char *text, regex **out) {
  regex *r = new_regex(memory, text, strlen(text));
  *out = NULL;
  if (!r) return IDEM_E_NOMEM;
  idem_status status = compile_pcre(r, memory->alloc, text, strlen(text), NULL, 0);
  if (status == IDEM_OK)
    *out = r;
  else
    idem__regex_free(r);
  return status;
}

void idem__regex_free(regex *pattern) {
  if (!pattern) return;
  if (pattern->code) pcre2_code_free(pattern->code);
  if (pattern->general) pcre2_general_context_free(pattern->general);
  pattern->code = NULL;
  pattern->general = NULL;
}

regex *idem__regex_next(const regex *pattern) { return pattern->next; }
void idem__regex_link(regex *pattern, regex *next) { pattern->next = next; }
const char *idem__regex_source(const regex *pattern) { return pattern->source; }

/* PCRE2 10.42 has no lookbehind of variable width; ECMA-262 does, so the format accepts it. */
static bool only_lookbehind(int error) { return error == 125; }

idem_status idem__regex_check(const idem_alloc *alloc, const char *text, size_t len, bool *valid) {
  idem__buf translated;
  const char *reason = NULL;
  *valid = false;
  idem__buf_init(&translated, alloc, TRANSLATED_MAX);
  idem_status status = idem__ecma_translate(text, len, &translated, &reason);
  pcre2_general_context *general = status == IDEM_OK ? general_context(alloc) : NULL;
  if (status == IDEM_OK && !general) status = IDEM_E_NOMEM;
  if (status == IDEM_OK) {
    pcre2_code *code = NULL;
    int error = 0;
    status = compile_translated(general, translated.data ? translated.data : "", translated.len,
                                &code, &error);
    *valid = status == IDEM_OK || (status == IDEM_E_INVAL && only_lookbehind(error));
    if (code) pcre2_code_free(code);
  }
  if (general) pcre2_general_context_free(general);
  idem__buf_deinit(&translated);
  return status == IDEM_E_INVAL || status == IDEM_E_LIMIT ? IDEM_OK : status;
}

/* --------------------------------------------------------------- match */

void idem__matcher_init(regex_matcher *matcher, const idem_alloc *alloc) {
  *matcher = (regex_matcher){.alloc = alloc};
}

void idem__matcher_deinit(regex_matcher *matcher) {
  if (matcher->data) pcre2_match_data_free(matcher->data);
  if (matcher->context) pcre2_match_context_free(matcher->context);
  if (matcher->general) pcre2_general_context_free(matcher->general);
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

static int match_once(const regex *pattern, regex_matcher *matcher, const char *text, size_t len,
                      uint64_t allowance) {
  pcre2_set_match_limit(matcher->context, (uint32_t)allowance);
  int code =
      pcre2_match(pattern->code, (PCRE2_SPTR)text, len, 0, 0, matcher->data, matcher->context);
  if (code != PCRE2_ERROR_JIT_STACKLIMIT) return code;
  return pcre2_match(pattern->code, (PCRE2_SPTR)text, len, 0, PCRE2_NO_JIT, matcher->data,
                     matcher->context);
}

static idem_status match_result(int code, bool *matched) {
  *matched = code >= 0;
  if (code >= 0 || code == PCRE2_ERROR_NOMATCH) return IDEM_OK;
  if (code == PCRE2_ERROR_NOMEMORY) return IDEM_E_NOMEM;
  if (code == PCRE2_ERROR_MATCHLIMIT || code == PCRE2_ERROR_DEPTHLIMIT ||
      code == PCRE2_ERROR_HEAPLIMIT || code == PCRE2_ERROR_JIT_STACKLIMIT)
    return IDEM_E_LIMIT;
  return IDEM_OK; /* not UTF-8: such a string matches nothing */
}

idem_status idem__regex_match(const regex *pattern, regex_matcher *matcher, const char *text,
                              size_t len, bool *matched) {
  if (pattern->plain) {
    *matched = idem__plain_match(pattern->plain, text, len);
    return IDEM_OK;
  }
  *matched = false;
  if (!matcher_ready(matcher)) return IDEM_E_NOMEM;
  for (uint64_t allowance = FIRST_ALLOWANCE; matcher->steps_left > 0; allowance *= 8) {
    if (allowance > matcher->steps_left) allowance = matcher->steps_left;
    if (allowance > UINT32_MAX) allowance = UINT32_MAX;
    int code = match_once(pattern, matcher, text, len, allowance);
    if (code != PCRE2_ERROR_MATCHLIMIT) return match_result(code, matched);
    matcher->steps_left -= allowance;
  }
  return IDEM_E_LIMIT;
}
