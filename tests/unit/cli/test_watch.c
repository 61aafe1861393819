/* test_watch.c - changes are told of after a moment of calm, and what takes long to tell less often. */
#include "support/unit.h"

#include "service/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SLOW_MS 20u

typedef struct scene {
  uv_loop_t loop;
  watcher watcher;
  char folder[64], file[96];
  bool mark;
  int told;
} scene;

/* As where the machine is busy with others, or the disk is slow. */
static void tell_slowly(void *user) {
  scene *self = user;
  uint64_t until = uv_hrtime() + SLOW_MS * 1000000u;
  while (uv_hrtime() < until) continue;
  self->told++;
}

static void begin(scene *self) {
  *self = (scene){.folder = "/tmp/idem-watch-XXXXXX"};
  assert_non_null(mkdtemp(self->folder));
  snprintf(self->file, sizeof self->file, "%s/file", self->folder);
  assert_int_equal(uv_loop_init(&self->loop), 0);
  watcher_init(&self->watcher, NULL, tell_slowly, self);
  assert_true(watcher_start(&self->watcher, &self->loop));
  watcher_want(&self->watcher, self, &self->mark, self->folder);
}

static void end(scene *self) {
  watcher_forget(&self->watcher, self);
  uv_close((uv_handle_t *)&self->watcher.poll, NULL);
  uv_close((uv_handle_t *)&self->watcher.timer, NULL);
  uv_run(&self->loop, UV_RUN_DEFAULT);
  close(self->watcher.inotify);
  assert_int_equal(uv_loop_close(&self->loop), 0);
  assert_int_equal(unlink(self->file), 0);
  assert_int_equal(rmdir(self->folder), 0);
}

static void change(scene *self) {
  FILE *file = fopen(self->file, "a");
  assert_non_null(file);
  assert_true(fputs("more", file) >= 0);
  assert_int_equal(fclose(file), 0);
  uv_ref((uv_handle_t *)&self->watcher.poll);
  uv_ref((uv_handle_t *)&self->watcher.timer);
  for (int before = self->told; self->told == before;) uv_run(&self->loop, UV_RUN_ONCE);
  assert_true(self->mark);
}

/* A process that stood still for two seconds while it looked did not look again for forty. */
static void what_takes_long_once_is_not_told_less_often(void **state) {
  scene self;
  (void)state;
  begin(&self);
  uint64_t calm_ms = self.watcher.calm_ms;
  change(&self);
  assert_int_equal(self.watcher.calm_ms, calm_ms);
  change(&self);
  assert_true(self.watcher.calm_ms >= calm_ms + SLOW_MS * 20u);
  end(&self);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_takes_long_once_is_not_told_less_often),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
