/* test_serve_modules.c - a module of another build is refused with a sentence that says what to do, before anything of it
 * runs: beside a program that was exchanged without it, a module would read structs that are others now. */
#include "modules/stamp.h"
#include "node.h"
#include "serving.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char idem[] = IDEM_BIN_DIR "/idem";
static const char own[] = IDEM_BIN_DIR "/../lib/idem/idem-sqlite.so";
static const char config[] = "{\"tools\":{\"say\":{\"run\":[\"echo\",\"hello\"]}}}";

typedef struct world {
  serving files;
  char store[320], config[300], module[300];
} world;

/* Its bytes, in which `from` has become `to`, of the same length, wherever it stands. */
static void copy_module(const char *source, const char *path, const char *from, const char *to) {
  FILE *in = fopen(source, "rb"), *out = fopen(path, "wb");
  assert_non_null(in);
  assert_non_null(out);
  fseek(in, 0, SEEK_END);
  size_t len = (size_t)ftell(in), changed = 0;
  rewind(in);
  char *bytes = malloc(len);
  assert_non_null(bytes);
  assert_int_equal(fread(bytes, 1, len, in), len);
  for (char *at = bytes; from && (at = memmem(at, len - (size_t)(at - bytes), from, strlen(from)));
       changed++)
    memcpy(at, to, strlen(to));
  assert_true(!from || changed > 0);
  assert_int_equal(fwrite(bytes, 1, len, out), len);
  assert_int_equal(fclose(out), 0);
  fclose(in);
  free(bytes);
}

static void make(world *self) {
  char folder[300];
  serving_make(&self->files, config);
  serving_folder(&self->files, "modules");
  serving_path(&self->files, "modules", folder, sizeof folder);
  serving_path(&self->files, "modules/idem-sqlite.so", self->module, sizeof self->module);
  serving_path(&self->files, "idem.json", self->config, sizeof self->config);
  snprintf(self->store, sizeof self->store, "sqlite:%s/store.db", self->files.folder);
  assert_int_equal(setenv("IDEM_MODULES", folder, 1), 0);
}

static void end(world *self) {
  unsetenv("IDEM_MODULES");
  child_remove_folder(self->files.folder);
}

static void expect_refused(const world *self) {
  child server =
      CHILD(idem, "serve", self->config, "--http", "127.0.0.1:0", "--store", self->store);
  const char *said = child_rest(server.err);
  expect_in(said, "idem-sqlite.so that was found is of another build");
  expect_in(said, "install idem and its modules together");
  assert_int_equal(child_end(&server), 1);
}

static void a_module_with_another_stamp_is_refused(void **state) {
  world self;
  (void)state;
  make(&self);
  copy_module(own, self.module, IDEM__STAMP_LEAD, "idem modulE ");
  expect_refused(&self);
  end(&self);
}

static void a_module_from_before_there_were_stamps_is_refused(void **state) {
  world self;
  (void)state;
  make(&self);
  copy_module(STAMPLESS, self.module, NULL, NULL);
  expect_refused(&self);
  end(&self);
}

static void a_module_of_the_same_build_serves_wherever_it_lies(void **state) {
  world self;
  char session[80];
  (void)state;
  make(&self);
  copy_module(own, self.module, NULL, NULL);
  node one = node_serve(self.config, self.store, NULL);
  node_open_session(&one, "2025-11-25", "{}", session);
  node_stop(&one, SIGTERM);
  end(&self);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_module_with_another_stamp_is_refused),
      cmocka_unit_test(a_module_from_before_there_were_stamps_is_refused),
      cmocka_unit_test(a_module_of_the_same_build_serves_wherever_it_lies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
