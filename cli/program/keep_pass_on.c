/* keep_pass_on.c - a reload that changes nothing about a program that stays leaves it running: the same process, with what
 * it has loaded and learned, serves the next edition. What decides is all that it was started with, as it came out of
 * the file, and the files that it was started from. See docs/internals/cli.md. */
#include "keep.h"

#include "keep_answer.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ------------------------------------------------------------------------------- files */

static uint64_t mix(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x100000001b3u; }

/* A word that is no file counts as none. */
static uint64_t mix_file(uint64_t hash, const char *cwd, const char *word) {
  char path[PATH_MAX];
  struct stat about;
  int len = word[0] == '/' || !cwd ? snprintf(path, sizeof path, "%s", word)
                                   : snprintf(path, sizeof path, "%s/%s", cwd, word);
  if (len >= (int)sizeof path || stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return hash;
  hash = mix(mix(hash, about.st_dev), about.st_ino);
  hash = mix(mix(hash, (uint64_t)about.st_size), (uint64_t)about.st_mtim.tv_sec);
  return mix(hash, (uint64_t)about.st_mtim.tv_nsec);
}

uint64_t kept_files(const tool_config *tool) {
  static const values none = {.arguments = NULL};
  word_list words = {.items = NULL};
  template_fault fault;
  uint64_t hash = mix_file(0xcbf29ce484222325u, NULL, tool->program);
  if (template_expand(&tool->run, &none, &words, &fault))
    for (size_t i = 1; i < words.count; i++) hash = mix_file(hash, tool->cwd, words.items[i]);
  word_list_free(&words);
  return hash;
}

/* -------------------------------------------------------------------------- definitions */

static bool same_text(const char *one, const char *other) {
  return one && other ? strcmp(one, other) == 0 : one == other;
}

static bool same_list(const char *const *one, const char *const *other) {
  if (!one || !other) return one == other;
  while (*one && *other && strcmp(*one, *other) == 0) one++, other++;
  return !*one && !*other;
}

/* Secrets among them, whose values may have changed. */
static bool same_environment(const tool_config *one, const tool_config *other) {
  if (one->env_count != other->env_count) return false;
  for (size_t i = 0; i < one->env_count; i++)
    if (strcmp(one->env[i].assignment, other->env[i].assignment) != 0) return false;
  return true;
}

static bool same_inside(const tool_config *one, const tool_config *other) {
  if (one->inside_count != other->inside_count) return false;
  for (size_t i = 0; i < one->inside_count; i++)
    if (!same_text(one->inside[i].folder, other->inside[i].folder)) return false;
  return true;
}

static bool same_start(const tool_config *one, const tool_config *other) {
  return kept_is_shared(one, other) && same_text(one->name, other->name) &&
         same_text(one->program, other->program) && same_text(one->cwd, other->cwd) &&
         one->processes == other->processes && same_environment(one, other);
}

/* Its bounds were put on for good, so they must be those that it would be given now. */
static bool same_bounds(const program_tool *one, const program_tool *other) {
  const tool_config *mine = one->config, *its = other->config;
  return mine->unconfined == its->unconfined && mine->allow_net == its->allow_net &&
         mine->own_tmpdir == its->own_tmpdir && same_inside(mine, its) &&
         same_list(mine->allow_read, its->allow_read) &&
         same_list(mine->allow_write, its->allow_write) && same_list(mine->folders, its->folders) &&
         hidden_same(one->bounds->hidden, other->bounds->hidden);
}

bool kept_stays(const kept_program *self, const kept_program *next) {
  return (self->state == KEPT_UP || self->state == KEPT_COMING) && !self->retired &&
         self->message_bytes == next->message_bytes &&
         same_start(self->tool->config, next->tool->config) &&
         same_bounds(self->tool, next->tool) &&
         (self->state == KEPT_COMING || self->files == kept_files(next->tool->config));
}

/* ----------------------------------------------------------------------------- passing on */

/* The process holds the edition that its program belongs to. */
void kept_pass_on(kept_program *self, const kept_program *next) {
  edition *before = self->tool->edition;
  self->tool = next->tool;
  self->idle_ms = next->idle_ms;
  edition_hold(self->tool->edition);
  edition_release(before);
}

bool kept_is_of(const kept_program *self, const edition *owner) {
  return self->tool->edition == owner;
}
