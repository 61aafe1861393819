/* confine.c - Landlock rulesets, one a tool, made before any program runs: the child only has to
 * put its own on. What an older kernel cannot refuse is left out, and said at the start. */
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's interface as of ABI 6; headers of older systems know less of it. */
typedef struct ruleset_attr {
  uint64_t files;
  uint64_t network;
  uint64_t scopes;
} ruleset_attr;
typedef struct __attribute__((packed)) beneath_attr {
  uint64_t allowed;
  int32_t folder;
} beneath_attr;

#if !defined(SYS_landlock_create_ruleset)
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif
#define VERSION_FLAG 1u
#define RULE_BENEATH 1

#define MAY_EXECUTE 0x1u
#define MAY_WRITE_FILE 0x2u
#define MAY_READ_FILE 0x4u
#define MAY_READ_FOLDER 0x8u
#define MAY_TRUNCATE 0x4000u /* ABI 3 */
#define MAY_REFER 0x2000u    /* ABI 2 */
#define MAY_READ (MAY_READ_FILE | MAY_READ_FOLDER)
#define OF_A_FILE (MAY_EXECUTE | MAY_WRITE_FILE | MAY_READ_FILE | MAY_TRUNCATE)
#define TCP_BIND_AND_CONNECT 0x3u
#define SCOPE_SOCKETS_AND_SIGNALS 0x3u

static const char *const system_folders[] = {"/usr",   "/bin", "/sbin", "/lib", "/lib64",
                                             "/lib32", "/etc", "/opt",  "/nix", "/proc"};
static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                      "/dev/urandom"};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t all_rights(int abi) {
  uint64_t rights = 0x1fffu; /* ABI 1 */
  if (abi >= 2) rights |= MAY_REFER;
  if (abi >= 3) rights |= MAY_TRUNCATE;
  return rights;
}

/* A folder that is not there cannot be reached anyway. */
static bool allow(const confinement *self, int rules, const char *path, uint64_t rights) {
  struct stat about;
  int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT;
  rights &= all_rights(self->abi);
  if (fstat(fd, &about) == 0 && !S_ISDIR(about.st_mode)) rights &= OF_A_FILE;
  beneath_attr rule = {.allowed = rights, .folder = fd};
  bool added = syscall(SYS_landlock_add_rule, rules, RULE_BENEATH, &rule, 0) == 0;
  close(fd);
  return added;
}

static int create(const confinement *self, const tool_config *tool) {
  ruleset_attr attr = {.files = all_rights(self->abi)};
  size_t size = self->abi >= 6 ? sizeof attr : self->abi >= 4 ? 16 : 8;
  if (self->abi >= 4 && !tool->allow_net) attr.network = TCP_BIND_AND_CONNECT;
  if (self->abi >= 6) attr.scopes = SCOPE_SOCKETS_AND_SIGNALS;
  return (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
}

static bool allow_listed(const confinement *self, int rules, const char *const *paths,
                         uint64_t rights) {
  for (size_t i = 0; paths && paths[i]; i++)
    if (!allow(self, rules, paths[i], rights)) return false;
  return true;
}

static bool allow_usual(const confinement *self, int rules, const serve_config *config,
                        const tool_config *tool) {
  for (size_t i = 0; i < COUNT(system_folders); i++)
    if (!allow(self, rules, system_folders[i], MAY_READ | MAY_EXECUTE)) return false;
  for (size_t i = 0; i < COUNT(devices); i++)
    if (!allow(self, rules, devices[i], MAY_READ_FILE | MAY_WRITE_FILE)) return false;
  for (size_t i = 0; i < tool->inside_count; i++)
    if (!allow(self, rules, tool->inside[i].folder, MAY_READ)) return false;
  return allow(self, rules, config->source.folder, MAY_READ) &&
         allow(self, rules, tool->cwd, MAY_READ) &&
         allow(self, rules, tool->program, MAY_READ_FILE | MAY_EXECUTE) &&
         (!self->temporary[0] || allow(self, rules, self->temporary, UINT64_MAX));
}

static int rules_for(const confinement *self, const serve_config *config, const tool_config *tool) {
  int rules = create(self, tool);
  if (rules < 0) return -1;
  if (allow_usual(self, rules, config, tool) &&
      allow_listed(self, rules, tool->allow_read, MAY_READ | MAY_EXECUTE) &&
      allow_listed(self, rules, tool->allow_write, UINT64_MAX & ~(uint64_t)MAY_EXECUTE))
    return rules;
  close(rules);
  return -1;
}

bool confinement_init(confinement *self, const serve_config *config) {
  const char *folder = getenv("TMPDIR");
  long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION_FLAG);
  *self = (confinement){.abi = abi > 0 ? (int)abi : 0, .count = config->tool_count};
  self->rules = calloc(config->tool_count + 1, sizeof *self->rules);
  if (!self->rules) return false;
  for (size_t i = 0; i < self->count; i++) self->rules[i] = -1;
  snprintf(self->temporary, sizeof self->temporary, "%s/idem-XXXXXX",
           folder && strlen(folder) < 40 ? folder : "/tmp");
  if (!mkdtemp(self->temporary)) self->temporary[0] = 0;
  for (size_t i = 0; self->abi && i < self->count; i++) {
    const tool_config *tool = &config->tools[i];
    if (!tool->is_program || tool->unconfined) continue;
    self->rules[i] = rules_for(self, config, tool);
    if (self->rules[i] >= 0) continue;
    fprintf(stderr, "idem serve: tool %s cannot be confined: %s\n", tool->name, strerror(errno));
    return false;
  }
  return true;
}

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *where) {
  (void)about, (void)kind, (void)where;
  remove(path);
  return 0;
}

void confinement_deinit(confinement *self) {
  for (size_t i = 0; self->rules && i < self->count; i++)
    if (self->rules[i] >= 0) close(self->rules[i]);
  free(self->rules);
  if (self->temporary[0]) nftw(self->temporary, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

int confine_self(int rules) {
  return rules < 0 || syscall(SYS_landlock_restrict_self, rules, 0) == 0 ? 0 : errno;
}
