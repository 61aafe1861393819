/* module.c - loading what needs a heavy library, when it is first needed.
 * Looked for in $IDEM_MODULES, beside the program, beside the library and where it was installed; kept for
 * ever, for nothing that was handed out may dangle. One of another build is refused: the structs that it
 * shares with us may be others. See docs/internals/modules.md. */
#include "modules/stamp.h"
#include "uv/runtime.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef IDEM_STATIC /* a program without shared libraries has no loader */
const void *idem__module_load(const char *name, const char *symbol, char *why, size_t size) {
  (void)symbol;
  snprintf(why, size, "this program is a static one, which cannot load idem-%s", name);
  return NULL;
}
#else

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *open_in(const char *folder, const char *name, char *why, size_t size) {
  char path[PATH_MAX];
  int len = snprintf(path, sizeof path, "%s/idem-%s.so", folder, name);
  if (len < 0 || (size_t)len >= sizeof path) return NULL;
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const char *error = handle ? NULL : dlerror();
  if (error && access(path, F_OK) == 0) snprintf(why, size, "%s", error); /* there, but broken */
  return handle;
}

/* "DIR/bin/program" has its modules in "DIR/lib/idem". */
static bool beside_program(char *folder, size_t size) {
  char path[PATH_MAX];
  ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
  if (len <= 0) return false;
  path[len] = 0;
  char *slash = strrchr(path, '/');
  if (!slash) return false;
  *slash = 0;
  return snprintf(folder, size, "%s/../lib/idem", path) < (int)size;
}

/* "DIR/libidem-uv.so.0" has them in "DIR/idem", whatever prefix it was installed into. Not where it is a part of the program. */
static bool beside_library(char *folder, size_t size) {
  Dl_info self;
  if (!dladdr(&lock, &self) || !self.dli_fname) return false;
  const char *slash = strrchr(self.dli_fname, '/');
  if (!slash || strncmp(slash, "/libidem", 8) != 0) return false;
  return snprintf(folder, size, "%.*s/idem", (int)(slash - self.dli_fname), self.dli_fname) <
         (int)size;
}

static void *find_module(const char *name, char *why, size_t size) {
  char folder[PATH_MAX];
  const char *chosen = getenv("IDEM_MODULES");
  snprintf(why, size, "idem-%s.so was not found", name);
  void *handle = chosen && *chosen ? open_in(chosen, name, why, size) : NULL;
  if (!handle && beside_program(folder, sizeof folder)) handle = open_in(folder, name, why, size);
  if (!handle && beside_library(folder, sizeof folder)) handle = open_in(folder, name, why, size);
  return handle ? handle : open_in(IDEM_MODULE_DIR, name, why, size);
}

/* Before anything of it runs. Of one that has no stamp nothing is read. */
static bool is_of_this_build(void *handle) {
  const char *stamp = dlsym(handle, IDEM__STAMP_SYMBOL);
  return stamp && strncmp(stamp, idem__module_stamp, IDEM__STAMP_MAX) == 0;
}

/* The first that is found counts: who looked on for one that fits would run what nobody chose. */
static const void *table_of(void *handle, const char *name, const char *symbol, char *why,
                            size_t size) {
  const void *table = is_of_this_build(handle) ? dlsym(handle, symbol) : NULL;
  if (table) return table;
  snprintf(why, size,
           "the idem-%s.so that was found is of another build: install idem and its modules "
           "together, or name the folder of this build's in IDEM_MODULES",
           name);
  dlclose(handle);
  return NULL;
}

const void *idem__module_load(const char *name, const char *symbol, char *why, size_t size) {
  pthread_mutex_lock(&lock);
  void *handle = find_module(name, why, size);
  const void *table = handle ? table_of(handle, name, symbol, why, size) : NULL;
  pthread_mutex_unlock(&lock);
  return table;
}

#endif
