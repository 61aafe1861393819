/* browser.c - see browser.h. */
#include "browser.h"
#include "call.h"

#include "config/memory.h"

#include <stdlib.h>
#include <string.h>

#define OPENERS_COUNT 3u

static void on_opened(uv_process_t *process, int64_t status, int signal) {
  (void)status, (void)signal;
  uv_close((uv_handle_t *)process, (uv_close_cb)free);
}

/* Only what a browser is for, and as one word of no shell. */
void browser_open(uv_loop_t *loop, const char *address) {
  static const char *const openers[OPENERS_COUNT] = {"xdg-open", "open", "wslview"};
  bool web =
      address && (strncmp(address, "https://", 8) == 0 || strncmp(address, "http://", 7) == 0);
  for (size_t i = 0; web && i < OPENERS_COUNT; i++) {
    char *words[] = {(char *)openers[i], (char *)address, NULL};
    uv_process_options_t options = {
        .exit_cb = on_opened, .file = openers[i], .args = words, .flags = UV_PROCESS_DETACHED};
    uv_process_t *process = calloc(1, sizeof *process);
    if (!process) memory_exhausted();
    if (uv_spawn(loop, process, &options) == 0) {
      uv_unref((uv_handle_t *)process);
      return;
    }
    uv_close((uv_handle_t *)process, (uv_close_cb)free);
  }
  call_say(web ? "there is no program to open pages here; open it yourself"
               : "idem opens http and https pages alone; open it yourself");
}
