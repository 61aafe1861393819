/* confine.c - Landlock rulesets, made by the server when a tool is first called and kept for the next
 * call: the child only has to put its own on. What an older kernel cannot refuse is left out, and said
 * at the start. */
#include "confine.h"

#include "config/regular_file.h"

#include "bounds.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
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
#define IN_USR "/usr/" /* the first of them */
static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                      "/dev/urandom"};
#define FOLDER_NAME 17
#define COUNT(array) (sizeof(array) / sizeof *(array))

bool confine_is_system(const char *path) {
  for (size_t i = 0; i < COUNT(system_folders); i++) {
    size_t len = strlen(system_folders[i]);
    if (strncmp(path, system_folders[i], len) == 0 && (!path[len] || path[len] == '/')) return true;
  }
  return false;
}

static uint64_t all_rights(int abi) {
  uint64_t rights = 0x1fffu; /* ABI 1 */
  if (abi >= 2) rights |= MAY_REFER;
  if (abi >= 3) rights |= MAY_TRUNCATE;
  return rights;
}

static bool allow_open(const confinement *self, int rules, int fd, uint64_t rights) {
  struct stat about;
  rights &= all_rights(self->abi);
  if (fstat(fd, &about) == 0 && !S_ISDIR(about.st_mode)) rights &= OF_A_FILE;
  beneath_attr rule = {.allowed = rights, .folder = fd};
  return syscall(SYS_landlock_add_rule, rules, RULE_BENEATH, &rule, 0) == 0;
}

typedef struct allowance {
  const confinement *bounds;
  int rules;
  uint64_t rights;
} allowance;

static bool allow_beside(void *user, int fd, bool whole) {
  const allowance *self = user;
  return allow_open(self->bounds, self->rules, fd,
                    self->rights & (whole ? UINT64_MAX : MAY_READ_FOLDER));
}

static bool allow_fd(const confinement *self, int rules, int fd, uint64_t rights) {
  if (fd < 0) return errno == ENOENT || errno == ENOTDIR;
  bool added = allow_open(self, rules, fd, rights);
  close(fd);
  return added;
}

/* A folder that is not there cannot be reached anyway. Of one with secrets in it, what lies beside them. */
static bool allow(const confinement *self, int rules, const char *path, uint64_t rights) {
  char real[PATH_MAX];
  if (self->hidden->count && realpath(path, real) &&
      hidden_in(self->hidden, real, rights & MAY_WRITE_FILE)) {
    allowance one = {self, rules, rights};
    return hidden_pass_by(self->hidden, real, self->trying ? NULL : allow_beside, &one);
  }
  return allow_fd(self, rules, open(path, O_PATH | O_CLOEXEC), rights);
}

/* One that the configuration names was without links when that was read. A link by now was put there by
 * somebody who would like to be allowed what it leads to: there is no rule for it. */
static bool allow_named(const confinement *self, int rules, const char *path, uint64_t rights) {
  int fd = regular_file_open_unlinked(path, O_PATH | O_CLOEXEC);
  if (fd < 0 && errno == ELOOP) return true;
  if (fd < 0 || !hidden_in(self->hidden, path, rights & MAY_WRITE_FILE))
    return allow_fd(self, rules, fd, rights);
  close(fd);
  return allow(self, rules, path, rights);
}

static tool_bounds *bounds_of(const confinement *self, const tool_config *tool) {
  return &self->of_tool[tool - self->config->tools];
}

static void forget_rules(tool_bounds *self) {
  if (self->rules >= 0) close(self->rules);
  self->rules = CONFINE_NONE;
}

/* By name, so that it stays the tool's when the file is read again; names may hold any character. */
static void name_folder(const tool_config *tool, char name[FOLDER_NAME]) {
  uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
  for (const char *at = tool->name; *at; at++) hash = (hash ^ (uint8_t)*at) * 0x100000001b3u;
  snprintf(name, FOLDER_NAME, "%016llx", (unsigned long long)hash);
}

/* The tool's, as it is now: some systems clean up, and in a public place others may put theirs there. -1:
 * there is no such place, and the path is empty. */
static int tool_folder(const confinement *self, const tool_config *tool, char path[CONFINE_PATH]) {
  char name[FOLDER_NAME];
  int base = scratch_open(self->temporary);
  name_folder(tool, name);
  int folder = base >= 0 ? scratch_open_inside(base, name) : -1;
  path[0] = 0;
  if (folder >= 0) snprintf(path, CONFINE_PATH, "%s/%s", self->temporary->path, name);
  if (base >= 0) close(base);
  return folder;
}

/* A ruleset knows the folder, not its name: with a new folder it is out of date. */
static void forget_old_rules(tool_bounds *bounds, int folder) {
  struct stat about = {.st_ino = 0};
  if (folder >= 0) fstat(folder, &about);
  if (bounds->device != about.st_dev || bounds->folder != about.st_ino) forget_rules(bounds);
  bounds->device = about.st_dev;
  bounds->folder = about.st_ino;
}

static int create(const confinement *self, const tool_config *tool) {
  ruleset_attr attr = {.files = all_rights(self->abi)};
  size_t size = self->abi >= 6 ? sizeof attr : self->abi >= 4 ? 16 : 8;
  if (self->abi >= 4 && !tool->allow_net) attr.network = TCP_BIND_AND_CONNECT;
  if (self->abi >= 6) attr.scopes = SCOPE_SOCKETS_AND_SIGNALS;
  return (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
}

static bool is_in_usr(const char *path) { return strncmp(path, IN_USR, strlen(IN_USR)) == 0; }

/* What is in there already needs no rule of its own, and each one costs every start of a program:
 * where /bin and /lib are links into /usr, that is half of them. */
static bool allow_system(const confinement *self, int rules, const char *path, uint64_t rights) {
  char real[PATH_MAX];
  if (realpath(path, real) && is_in_usr(real)) return true;
  return allow(self, rules, path, rights);
}

static bool allow_listed(const confinement *self, int rules, const char *const *paths,
                         uint64_t rights) {
  for (size_t i = 0; paths && paths[i]; i++)
    if (!allow_named(self, rules, paths[i], rights)) return false;
  return true;
}

static bool allow_usual(const confinement *self, int rules, const tool_config *tool,
                        int temporary) {
  for (size_t i = 0; i < COUNT(system_folders); i++)
    if (!allow_system(self, rules, system_folders[i], MAY_READ | MAY_EXECUTE)) return false;
  for (size_t i = 0; i < COUNT(devices); i++)
    if (!allow(self, rules, devices[i], MAY_READ_FILE | MAY_WRITE_FILE)) return false;
  for (size_t i = 0; i < tool->inside_count; i++)
    if (!allow_named(self, rules, tool->inside[i].folder, MAY_READ)) return false;
  return allow_named(self, rules, self->config->source.folder, MAY_READ) &&
         allow_named(self, rules, tool->cwd, MAY_READ) &&
         allow_system(self, rules, tool->program, MAY_READ_FILE | MAY_EXECUTE) &&
         (temporary < 0 || allow_open(self, rules, temporary, UINT64_MAX));
}

static int try_rules(const confinement *self, const tool_config *tool, int temporary) {
  int rules = create(self, tool);
  if (rules < 0) return -1;
  if (allow_usual(self, rules, tool, temporary) &&
      allow_listed(self, rules, tool->allow_read, MAY_READ | MAY_EXECUTE) &&
      allow_listed(self, rules, tool->allow_write, UINT64_MAX & ~(uint64_t)MAY_EXECUTE))
    return rules;
  int why = errno;
  close(rules);
  errno = why;
  return -1;
}

/* Rather the system's own files are open, which is said, than nothing can be run. */
static int rules_for(const confinement *self, const tool_config *tool, int temporary) {
  int rules = try_rules(self, tool, temporary);
  if (rules < 0 && errno == E2BIG && hidden_give_up(self->hidden))
    rules = try_rules(self, tool, temporary);
  return rules;
}

/* ------------------------------------------------------------------------- keeping */

/* The one made longest ago gives way: a ruleset is a descriptor, and there may be hundreds of tools. */
static void keep(confinement *self, size_t index, int rules) {
  size_t *place = &self->kept[self->made++ % CONFINE_KEPT];
  if (self->made > CONFINE_KEPT) forget_rules(&self->of_tool[*place]);
  *place = index;
  self->of_tool[index].rules = rules;
}

static int kept_rules(confinement *self, const tool_config *tool, int folder) {
  tool_bounds *known = bounds_of(self, tool);
  forget_old_rules(known, folder);
  if (known->rules >= 0) return known->rules;
  int rules = rules_for(self, tool, folder);
  if (rules < 0) return rules;
  keep(self, (size_t)(known - self->of_tool), rules);
  return rules;
}

/* ------------------------------------------------------------------------- one call */

/* In the tool's, which its rules do not name: calls at the same time cannot reach each other's. */
static int make_own_folder(call_bounds *out) {
  size_t len = strlen(out->folder);
  snprintf(out->folder + len, sizeof out->folder - len, "/XXXXXX");
  out->own = mkdtemp(out->folder);
  return out->own ? open(out->folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
}

/* The folder's descriptor is the caller's. */
static int find_folder(const confinement *self, const tool_config *tool, call_bounds *out) {
  int folder = tool_folder(self, tool, out->folder);
  if (folder < 0 || !tool->own_tmpdir) return folder;
  close(folder);
  return make_own_folder(out);
}

/* Beside hidden files each name has its rule, and there are new names. */
static void forget_all_rules(confinement *self) {
  for (size_t i = 0; i < self->made && i < CONFINE_KEPT; i++)
    forget_rules(&self->of_tool[self->kept[i]]);
}

static int find_rules(confinement *self, const tool_config *tool, call_bounds *out, int folder) {
  if (!self->abi || tool->unconfined) return 0;
  if (hidden_out_of_date(self->hidden)) forget_all_rules(self);
  out->rules = out->own ? rules_for(self, tool, folder) : kept_rules(self, tool, folder);
  return out->rules >= 0 ? 0 : errno;
}

int confinement_begin(confinement *self, const tool_config *tool, call_bounds *out) {
  *out = (call_bounds){.rules = CONFINE_NONE};
  int folder = find_folder(self, tool, out);
  bool lost = folder < 0 && tool->own_tmpdir && out->folder[0];
  int why = lost ? errno : find_rules(self, tool, out, folder);
  if (folder >= 0) close(folder);
  if (why) confinement_ordered(out, false);
  return why;
}

void confinement_ordered(call_bounds *bounds, bool given) {
  if (!bounds->own) return;
  if (bounds->rules >= 0) close(bounds->rules);
  if (!given) rmdir(bounds->folder);
}

seal_level confinement_seal(const confinement *self, const tool_config *tool) {
  if (!self->seals || tool->unconfined) return SEAL_NONE;
  return tool->allow_net ? SEAL_OTHERS : SEAL_SOCKETS;
}

/* ------------------------------------------------------------------ making and ending */

/* The filter itself is only taken by a process that has given up privileges; whether it would be is
 * known without. */
static bool knows_seccomp(void) {
  uint32_t action = SECCOMP_RET_ERRNO;
  return confine_knows_machine() && syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

/* Perhaps on another thread, which has no business with folders. False: errno. */
static bool can_confine(const confinement *self, const tool_config *tool) {
  int rules = self->abi ? rules_for(self, tool, CONFINE_NONE) : CONFINE_NONE;
  if (rules >= 0) close(rules);
  return rules >= 0 || !self->abi;
}

/* A folder that may be written cannot spare a file; the file's own secrets are bounds_check's. */
static bool on_way_of_any(const char *path, const char *const *folders) {
  for (size_t i = 0; folders && folders[i]; i++)
    if (bounds_on_way(path, folders[i])) return true;
  return false;
}

static bool writes_one(const serve_config *config, const char *own_file) {
  for (size_t i = 0; i < config->tool_count; i++) {
    const tool_config *tool = &config->tools[i];
    if (tool->unconfined || !on_way_of_any(own_file, tool->allow_write)) continue;
    fprintf(stderr,
            "idem serve: tool %s may write %s, a file of the server's own: put it elsewhere\n",
            tool->name, own_file);
    return true;
  }
  return false;
}

static bool writes_any(const serve_config *config, const char *const *own_files) {
  for (size_t i = 0; own_files && own_files[i]; i++)
    if (writes_one(config, own_files[i])) return true;
  return false;
}

static bool same_text(const char *one, const char *other) {
  return one && other ? strcmp(one, other) == 0 : one == other;
}

static bool same_paths(const char *const *one, const char *const *other) {
  size_t i = 0;
  while (one && other && one[i] && other[i] && strcmp(one[i], other[i]) == 0) i++;
  return (one ? one[i] : NULL) == (other ? other[i] : NULL);
}

static bool same_inside(const tool_config *one, const tool_config *other) {
  bool same = one->inside_count == other->inside_count;
  for (size_t i = 0; same && i < one->inside_count; i++)
    same = same_text(one->inside[i].folder, other->inside[i].folder);
  return same;
}

static bool same_files(const tool_config *one, const tool_config *other) {
  return (same_text(one->program, other->program) ||
          (is_in_usr(one->program) && is_in_usr(other->program))) &&
         same_text(one->cwd, other->cwd) && same_inside(one, other) &&
         same_paths(one->allow_read, other->allow_read) &&
         same_paths(one->allow_write, other->allow_write);
}

/* There may be hundreds, most of which reach the same: each kind is tried once. */
static bool is_like_one_before(const serve_config *config, size_t index) {
  for (size_t i = 0; i < index; i++) {
    const tool_config *before = &config->tools[i];
    if (before->is_program && !before->unconfined && same_files(before, &config->tools[index]))
      return true;
  }
  return false;
}

/* All that cannot be are told. What lies beside hidden files is counted, not opened: of /etc that is hundreds
 * of calls of the system, and a start has no time for them. */
static bool can_confine_all(confinement *self) {
  const serve_config *config = self->config;
  bool fine = true;
  self->trying = true;
  for (size_t i = 0; i < config->tool_count; i++) {
    const tool_config *tool = &config->tools[i];
    if (!tool->is_program || tool->unconfined || is_like_one_before(config, i) ||
        can_confine(self, tool))
      continue;
    fprintf(stderr, "idem serve: tool %s cannot be confined: %s\n", tool->name,
            errno == E2BIG ? "a secret or token file lies among too many others: put it into a "
                             "folder of its own"
                           : strerror(errno));
    fine = false;
  }
  self->trying = false;
  return fine;
}

bool confinement_init(confinement *self, const serve_config *config, scratch_folder *temporary,
                      const char *const *own_files) {
  long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION_FLAG);
  *self = (confinement){.config = config,
                        .temporary = temporary,
                        .abi = abi > 0 ? (int)abi : 0,
                        .seals = knows_seccomp()};
  self->of_tool = calloc(config->tool_count + 1, sizeof *self->of_tool);
  self->hidden = calloc(1, sizeof *self->hidden);
  if (!self->of_tool || !self->hidden || !hidden_init(self->hidden, config, own_files))
    return false;
  for (size_t i = 0; i < config->tool_count; i++) self->of_tool[i].rules = CONFINE_NONE;
  return !writes_any(config, own_files) && can_confine_all(self);
}

void confinement_deinit(confinement *self) {
  if (self->of_tool) forget_all_rules(self);
  free(self->of_tool);
  if (self->hidden) hidden_deinit(self->hidden);
  free(self->hidden);
}

/* ------------------------------------------------------------------------- telling */

static void say_open(const confinement *self, idem_log *log) {
  if (!self->abi)
    idem_logf(log, IDEM_LOG_WARN, "programs are not confined to files",
              "this kernel has no Landlock: they read and write what this user can");
  else if (self->abi < 6)
    idem_logf(log, IDEM_LOG_WARN, "programs may signal other processes",
              "this kernel's Landlock is older than ABI 6: they end what this user can end");
  if (self->hidden->gave_up)
    idem_logf(log, IDEM_LOG_WARN, "programs may read what only root may",
              "there are too many names in /etc to leave out shadow, sudoers and keys: run the "
              "server as another user");
  if (!self->seals)
    idem_logf(
        log, IDEM_LOG_WARN, "programs are not kept from the network",
        "this kernel has no seccomp: %s; limits and priorities of other processes are open, too",
        self->abi >= 4 ? "TCP is closed to them, UDP is not" : "TCP and UDP are open");
  if (access("/proc/thread-self/children", R_OK) != 0)
    idem_logf(log, IDEM_LOG_WARN, "programs that detach may be left running",
              "there is no /proc/thread-self/children to find them by");
}

/* Of the tools that run programs. */
typedef struct tool_counts {
  size_t programs, unconfined, networked;
} tool_counts;

static tool_counts count_tools(const serve_config *config) {
  tool_counts count = {0, 0, 0};
  for (size_t i = 0; i < config->tool_count; i++) {
    const tool_config *tool = &config->tools[i];
    count.programs += tool->is_program;
    count.unconfined += tool->is_program && tool->unconfined;
    count.networked += tool->is_program && !tool->unconfined && tool->allow_net;
  }
  return count;
}

bool confinement_brief(const confinement *self, char text[CONFINE_BRIEF]) {
  tool_counts count = count_tools(self->config);
  if (!count.programs) return false;
  int len = snprintf(text, CONFINE_BRIEF, "programs %s, %s",
                     self->abi ? "read the system's folders and this one, write to a temporary one"
                               : "reach all files of this user (no Landlock)",
                     self->seals ? "have no network" : "may have the network (no seccomp)");
  if (count.unconfined || count.networked)
    snprintf(text + len, CONFINE_BRIEF - (size_t)len, "; but %zu unconfined, %zu with network",
             count.unconfined, count.networked);
  return true;
}

static void say_in_force(const confinement *self, idem_log *log, const tool_counts *count) {
  idem_logf(
      log, IDEM_LOG_INFO, "programs are kept in bounds",
      "in force: own groups that end as a whole, clean environment, no new privileges, no "
      "core files, time and output limits%s%s%s; open: modes, owners and times of this user's "
      "files",
      self->abi ? ", files by Landlock" : "",
      self->seals ? ", no sockets and no hand on other processes by seccomp" : "",
      self->abi >= 6 ? ", no signals to others" : "");
  if (count->unconfined || count->networked)
    idem_logf(log, IDEM_LOG_INFO, "some tools are given more",
              "of %zu that run programs %zu are not confined (confine: false), %zu may use the "
              "network (allow: net)",
              count->programs, count->unconfined, count->networked);
}

void confinement_say(const confinement *self, idem_log *log, bool briefly) {
  tool_counts count = count_tools(self->config);
  if (!count.programs) return;
  if (!briefly) say_in_force(self, log, &count);
  say_open(self, log);
}

/* ------------------------------------------------------------------------ in a child */

int confine_files(int rules) {
  return rules < 0 || syscall(SYS_landlock_restrict_self, rules, 0) == 0 ? 0 : errno;
}
