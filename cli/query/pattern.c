/* pattern.c - see pattern.h. Everything but % takes exactly one character, so only the last % needs
 * ever to be tried again further on: time is at most the product of the two lengths. */
#include "pattern.h"

#include <stddef.h>
#include <string.h>

#define STEPS_BETWEEN_LOOKS 4096u

typedef const unsigned char *place;

typedef struct match {
  const pattern_kind *kind;
  place pattern;
  place text;
  place again; /* behind the last %; NULL: there was none */
  place again_text;
  char begin[3];   /* what a text can go on with behind that %, where it is known */
  unsigned steps;  /* since the last look */
  bool impossible; /* the pattern is one that nothing fits */
} match;

/* ------------------------------------------------------------------------ characters */

static uint32_t read_long(place *at) {
  uint32_t c = *(*at)++;
  if (c < 0xC0) return c;
  c &= c < 0xE0   ? 0x1Fu
       : c < 0xF0 ? 0x0Fu
       : c < 0xF8 ? 0x07u
       : c < 0xFC ? 0x03u
       : c < 0xFE ? 1u
                  : 0;
  while ((**at & 0xC0u) == 0x80u) c = (c << 6) + (*(*at)++ & 0x3Fu);
  bool valid = c >= 0x80 && (c & 0xFFFFF800u) != 0xD800u && (c & 0xFFFFFFFEu) != 0xFFFEu;
  return valid ? c : 0xFFFDu;
}

uint32_t pattern_read(const unsigned char **at) {
  if (!**at) return 0;
  return **at < 0x80 ? *(*at)++ : read_long(at);
}

static uint32_t lower(uint32_t c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; }

static bool same(const pattern_kind *kind, uint32_t one, uint32_t other) {
  return one == other || (kind->folds_case && lower(one) == lower(other));
}

/* ----------------------------------------------------------------------------- sets */

/* Behind the bracket, to behind the one that closes it. A set without one fits nothing. */
static bool fits_set(match *self, uint32_t c) {
  uint32_t before = 0, member = pattern_read(&self->pattern);
  bool inverted = member == '^', seen = false;
  if (inverted) member = pattern_read(&self->pattern);
  if (member == ']') { /* the first one is a member */
    seen = c == ']';
    member = pattern_read(&self->pattern);
  }
  for (; member && member != ']'; self->steps++) {
    bool range = member == '-' && *self->pattern != ']' && *self->pattern && before;
    if (range) member = pattern_read(&self->pattern);
    seen = seen || (range ? c >= before && c <= member : c == member);
    before = range ? 0 : member;
    member = pattern_read(&self->pattern);
  }
  self->impossible = !member;
  return member && seen != inverted;
}

/* -------------------------------------------------------------------------- matching */

/* One character of the text, which is not at its end, against one of the pattern, `wanted`. */
static bool fits(match *self, uint32_t wanted) {
  const pattern_kind *kind = self->kind;
  uint32_t c = pattern_read(&self->text);
  if (wanted == '[' && kind->has_sets) return fits_set(self, c);
  if (wanted == kind->escape && kind->escape) {
    wanted = pattern_read(&self->pattern);
    self->impossible = !wanted;
    return wanted && same(kind, wanted, c);
  }
  return same(kind, wanted, c) || (wanted == kind->one && kind->one);
}

/* What follows a % is often a letter, and then most of the text can be passed over at once. */
static void know_begin(match *self) {
  const pattern_kind *kind = self->kind;
  uint32_t c = *self->again;
  bool plain = c < 0x80 && c != kind->one && c != kind->any && c != kind->escape &&
               !(c == '[' && kind->has_sets);
  bool letter = lower(c) >= 'a' && lower(c) <= 'z';
  self->begin[0] = (char)(plain ? c : 0);
  self->begin[1] = (char)(plain && letter && kind->folds_case ? c ^ 0x20u : 0);
}

static void begin_again(match *self) {
  if (self->begin[0]) self->again_text += strcspn((const char *)self->again_text, self->begin);
  self->pattern = self->again;
  self->text = self->again_text;
}

/* True: the answer is *answer. */
static bool step(match *self, pattern_answer *answer) {
  uint32_t wanted = pattern_read(&self->pattern);
  *answer = PATTERN_NO;
  if (wanted && wanted == self->kind->any) {
    *answer = PATTERN_YES;
    self->again = self->pattern;
    self->again_text = self->text;
    know_begin(self);
    begin_again(self);
    return !*self->pattern;
  }
  if (!wanted && !*self->text) *answer = PATTERN_YES;
  if (!*self->text) return true; /* further on there is even less */
  if (wanted && fits(self, wanted)) return false;
  if (self->impossible || !self->again) return true;
  pattern_read(&self->again_text);
  begin_again(self);
  return false;
}

pattern_answer pattern_match(const pattern_kind *kind, const char *pattern, const char *text,
                             bool (*ended)(void *user), void *user) {
  match self = {.kind = kind, .pattern = (place)pattern, .text = (place)text};
  pattern_answer answer;
  while (!step(&self, &answer)) {
    if (++self.steps < STEPS_BETWEEN_LOOKS) continue;
    self.steps = 0;
    if (ended(user)) return PATTERN_ENDED;
  }
  return answer;
}
