/* config_started.c - a value must not say which program or which script is run: `timeout 5 {name}`, `sh {name}`,
 * `docker exec box {name}`, `psql -f {name}`. One that is one of some ("enum") may. What is not known of a program's words is let pass. */
#include "config_shell.h"

#include <pthread.h>
#include <string.h>

/* A program that starts another, or a script. */
typedef struct starter {
  const char *names;  /* with a blank before and behind each */
  const char *valued; /* letters of flags that take the next word */
  const char *none;   /* letters of flags with which it starts nothing that is named behind them */
  const char *longs;  /* long flags that take the next word, with blanks as above; NULL: any may */
  unsigned own;       /* plain words of its own before it */
  bool settings;      /* NAME=value may stand before it */
  bool script;
  const char *commands; /* with which it does, and with no other; NULL: it always does */
  bool image;           /* it starts an image; the word behind that may be a program in it */
} starter;

/* Words before such a command: docker compose exec, ip netns exec, uv tool run. */
#define GROUPS " compose container netns tool "

#define BOX_LONGS                                                                                  \
  " --env --env-file --user --workdir --detach-keys --host --context --file --project-name "       \
  "--namespace --container --index "
#define RUN_LONGS                                                                                  \
  " --env --env-file --user --workdir --host --context --file --project-name --volume --mount "    \
  "--name --network --publish --hostname --memory --cpus --label --platform --pull --add-host "    \
  "--entrypoint --cap-add --cap-drop --device --tmpfs --security-opt --restart --dns --gpus "      \
  "--ulimit "

static const starter starters[] = {
    {" nohup setsid setpriv valgrind chronic ifne busybox toybox linux32 linux64 tini dumb-init "
     "dbus-run-session systemd-inhibit entr firejail pkexec unbuffer rlwrap ",
     "", "", NULL, 0, false, false, NULL, false},
    {" timeout ", "ks", "", NULL, 1, false, false, NULL, false},
    {" nice ", "n", "", NULL, 0, false, false, NULL, false},
    {" ionice ", "cn", "pPu", NULL, 0, false, false, NULL, false},
    {" choom uclampset ", "nmM", "p", NULL, 0, false, false, NULL, false},
    {" taskset chrt ", "TPD", "pm", NULL, 1, false, false, NULL, false},
    {" stdbuf ", "ioe", "", NULL, 0, false, false, NULL, false},
    {" time ", "fo", "", NULL, 0, false, false, NULL, false},
    {" env ", "uCS", "", NULL, 0, true, false, NULL, false},
    {" sudo ", "ugCDRTpUrth", "levK", NULL, 0, true, false, NULL, false},
    {" doas ", "uC", "L", NULL, 0, false, false, NULL, false},
    {" flock ", "wE", "cu", NULL, 1, false, false, NULL, false},
    {" chroot gosu su-exec setarch ", "", "", NULL, 1, false, false, NULL, false},
    {" strace ltrace ", "aAbDeEFIlnoOpPsSuUwxX", "", NULL, 0, false, false, NULL, false},
    {" fakeroot ", "lisb", "", NULL, 0, false, false, NULL, false},
    {" prlimit ", "", "p", NULL, 0, false, false, NULL, false},
    {" systemd-run ", "pEuHM", "",
     " --property --setenv --unit --host --machine --slice --description --uid --gid --nice "
     "--working-directory --service-type --on-active --on-boot --on-calendar ",
     0, false, false, NULL, false},
    {" unshare nsenter ", "tSGRw", "", NULL, 0, false, false, NULL, false},
    {" xvfb-run ", "nepsfw", "", NULL, 0, false, false, NULL, false},
    {" cgexec ", "g", "", NULL, 0, false, false, NULL, false},
    {" npx bunx pnpx uvx ", "pc", "", " --package --from --with --python ", 0, false, false, NULL,
     false},
    {" docker podman nerdctl docker-compose ", "Hcfpeuwl", "", BOX_LONGS, 1, false, false, " exec ",
     false},
    {" docker podman nerdctl docker-compose ", "Hcfpeuwlvhma", "", RUN_LONGS, 0, false, false,
     " run create ", true},
    {" kubectl oc ", "ncfls", "", BOX_LONGS, 1, false, false, " exec ", false},
    {" lxc incus multipass ip ", "nT", "", BOX_LONGS, 1, false, false, " exec ", false},
    {" flatpak snap toolbox ", "c", "", NULL, 0, false, false, " run ", false},
    {" npm pnpm yarn ", "Cw", "", NULL, 0, false, true, " run run-script exec x dlx ", false},
    {" deno ", "c", "", " --config --import-map --cert --seed --location --env-file --ext ", 0,
     false, true, " run test bench serve eval ", false},
    {" bun ", "rc", "", " --cwd --config --env-file --preload ", 0, false, true, " run x ", false},
    {" uv pipx ", "p", "",
     " --with --python --project --directory --env-file --extra --group --from --spec ", 0, false,
     false, " run ", false},
    {" go ", "C", "", " ", 0, false, true, " run generate ", false},
    {" sh bash dash ash ksh mksh zsh yash fish rbash ", "oO", "cs", " --rcfile --init-file ", 0,
     false, true, NULL, false},
    {" python python2 python3 pypy3 ", "WX", "cm", " ", 0, false, true, NULL, false},
    {" perl ", "I", "eE", " ", 0, false, true, NULL, false},
    {" ruby ", "rICE", "ec", NULL, 0, false, true, NULL, false},
    {" node nodejs tsx ts-node ", "rC", "epc", NULL, 0, false, true, NULL, false},
    {" php ", "cdztS", "rlwsBREFi", NULL, 0, false, true, NULL, false},
    {" lua luajit ", "el", "", " ", 0, false, true, NULL, false},
    {" java ", "", "", " ", 0, false, true, NULL, false},
    {" ansible-playbook ", "ieutlM", "", NULL, 0, false, true, NULL, false},
    {" crontab ", "u", "lre", " ", 0, false, true, NULL, false},
    {" tclsh expect Rscript osascript julia octave guile groovy elixir racket gnuplot ", "", "ec",
     NULL, 0, false, true, NULL, false},
};

/* Flags behind which stands a script, a settings file that may name programs, or code to load. */
typedef struct loader {
  const char *names, *letters, *words;
  const char *valued; /* letters of its other flags that take the next word */
  bool ends;          /* its own words end with the first that is no option, */
  bool last;          /* or with such a flag */
} loader;

static const loader loaders[] = {
    {" psql ", "f", " --file ", "", false, false},
    {" vi vim nvim view ex gvim vimdiff ", "Su", " ", "", false, false},
    {" ssh ", "FI", " ", "", false, false},
    {" scp ", "F", " ", "", false, false},
    {" sftp ", "Fb", " ", "", false, false},
    {" sqlite3 duckdb ", "", " -init --init ", "", false, false},
    {" gdb ", "", " -x --command -command ", "", false, false},
    {" lldb ", "", " -s --source -S --source-before-file ", "", false, false},
    {" emacs ", "", " -l --load -load --script -script ", "", false, false},
    {" at batch ", "f", " ", "", false, false},
    {" docker podman nerdctl docker-compose ", "", " --entrypoint ", "", false, false},
    {" python python2 python3 pypy3 ", "m", " ", "WXc", true, true},
    {" perl ", "mM", " ", "IeE", true, false},
    {" ruby ", "r", " --require ", "ICEe", true, false},
    {" node nodejs ", "r", " --require --import --loader --experimental-loader ", "Cep", true,
     false},
    {" lua luajit ", "l", " ", "e", true, false},
};

static name_sieve starter_sieves[sizeof starters / sizeof *starters];
static name_sieve loader_sieves[sizeof loaders / sizeof *loaders];
static pthread_once_t sieves_once = PTHREAD_ONCE_INIT;

static void make_sieves(void) {
  for (size_t i = 0; i < sizeof starters / sizeof *starters; i++)
    starter_sieves[i] = config_sieve(starters[i].names);
  for (size_t i = 0; i < sizeof loaders / sizeof *loaders; i++)
    loader_sieves[i] = config_sieve(loaders[i].names);
}

/* The bit of a program in these; 0: none is named. */
static name_sieve bit_of(const char *program, size_t len) {
  pthread_once(&sieves_once, make_sieves);
  return len ? config_sieve_bit(program, len) : 0;
}

#define A_SCRIPT "it says which script is run; name the script, or list the choices (\"enum\")"
#define A_PROGRAM "it says which program is run; name the program, or list the choices (\"enum\")"

/* ------------------------------------------------------------------------- words */

static bool is_option(const word_template *word, const char *text, size_t len) {
  return len && *text == '-' && (len > 1 || config_name_in(word)); /* "-" is a file */
}

static bool starts_nothing(const starter *by, const char *text, size_t len) {
  if (text[1] == '-') return false;
  for (size_t i = 1; i < len; i++)
    if (strchr(by->none, text[i])) return true;
  return false;
}

static bool may_take_next(const starter *by, const char *text, size_t len) {
  return !by->longs && len > 2 && text[1] == '-' && !memchr(text, '=', len);
}

static bool takes_next(const starter *by, const char *text, size_t len) {
  if (len == 2) return strchr(by->valued, text[1]);
  return by->longs && config_is_listed(by->longs, text, len);
}

/* ------------------------------------------------------------------ what is started */

/* The word that is the plain one behind so many others; `count` where there is none, or where it cannot be told. */
static size_t plain_at(const shell_check *self, size_t from, const starter *by, unsigned own) {
  bool perhaps = false; /* a long flag's value */
  for (size_t i = from; i < self->count; i++) {
    size_t len;
    const word_template *word = self->words[i].word;
    const char *text = config_beginning(word, &len);
    if (is_option(word, text, len)) {
      if (starts_nothing(by, text, len)) return self->count;
      perhaps = may_take_next(by, text, len);
      i += takes_next(by, text, len);
      continue;
    }
    bool value = perhaps && config_name_in(word);
    perhaps = false;
    if (value || (by->settings && memchr(text, '=', len))) continue;
    if (self->words[i].maybe && !config_name_in(word)) return self->count;
    if (own-- == 0) return i;
  }
  return self->count;
}

/* By its name and its command; *from is where the words for what is started begin. A program whose command would be the value
 * takes that for a script, if it runs scripts. */
static const starter *starter_of(const shell_check *self, size_t at, size_t *from) {
  size_t len;
  const char *program = config_program_named(self->words[at].word, &len);
  name_sieve bit = bit_of(program, len);
  for (size_t i = 0; i < sizeof starters / sizeof *starters; i++) {
    const starter *by = &starters[i];
    if (!(starter_sieves[i] & bit) || !config_is_listed(by->names, program, len)) continue;
    *from = at + 1;
    if (!by->commands) return by;
    size_t command = plain_at(self, at + 1, by, 0);
    if (command < self->count && config_is_named(GROUPS, self->words[command].word))
      command = plain_at(self, command + 1, by, 0);
    if (command == self->count) continue;
    if (by->script && config_name_in(self->words[command].word)) return by;
    *from = command + 1;
    if (config_is_named(by->commands, self->words[command].word)) return by;
  }
  return NULL;
}

static void refuse(shell_check *self, size_t at, bool script) {
  const piece *name = at < self->count ? config_name_in(self->words[at].word) : NULL;
  if (name && !config_is_closed(self, name))
    config_refuse_word(self, &self->words[at], script ? A_SCRIPT : A_PROGRAM);
}

/* ------------------------------------------------------------------- what is loaded */

/* "-f", "-Atf", "--file"; with a value in the same word "-f{name}", "--file={name}". */
static bool is_loading(const loader *by, const char *text, size_t len, bool joined) {
  const char *equals = memchr(text, '=', len);
  if (config_is_listed(by->words, text, equals ? (size_t)(equals - text) : len))
    return !joined || equals;
  if (text[1] == '-' || !*by->letters) return false;
  return strchr(by->letters, joined ? text[1] : text[len - 1]) != NULL;
}

static bool ends_options(const char *text, size_t len) {
  return (len == 2 && memcmp(text, "--", 2) == 0) || (len == 6 && memcmp(text, "--args", 6) == 0);
}

static void check_loader(shell_check *self, size_t at, const loader *by) {
  for (size_t i = at + 1; i < self->count; i++) {
    size_t len;
    const char *text = config_beginning(self->words[i].word, &len);
    bool joined = config_name_in(self->words[i].word) != NULL, option = len > 1 && *text == '-';
    if (!joined && ends_options(text, len)) return;
    if (!option && by->ends) return;
    if (!option) continue;
    bool loading = is_loading(by, text, len, joined);
    if (loading) refuse(self, joined ? i : i + 1, true);
    if (loading && by->last) return;
    i += !joined && (loading || (len == 2 && strchr(by->valued, text[1])));
  }
}

static void check_loaded(shell_check *self, size_t at) {
  size_t len;
  const char *program = config_program_named(self->words[at].word, &len);
  name_sieve bit = bit_of(program, len);
  for (size_t i = 0; i < sizeof loaders / sizeof *loaders; i++)
    if (loader_sieves[i] & bit && config_is_listed(loaders[i].names, program, len))
      check_loader(self, at, &loaders[i]);
}

/* One may start another: nice timeout 5 {name}. */
void config_started(shell_check *self) {
  for (size_t at = 0, from; at < self->count;) {
    check_loaded(self, at);
    if (config_stdin(self, at)) return;
    const starter *by = starter_of(self, at, &from);
    if (!by) return;
    at = plain_at(self, from, by, by->own);
    refuse(self, at, by->script);
    if (by->script || (at < self->count && config_name_in(self->words[at].word))) return;
    if (by->image) at++; /* a value there may be a word for what the image itself starts */
  }
}

size_t config_started_at(const shell_check *self, size_t at, bool *script) {
  size_t from;
  const starter *by = starter_of(self, at, &from);
  if (!by || by->commands) return self->count;
  size_t found = plain_at(self, from, by, by->own);
  size_t len = 0;
  const char *before =
      found < self->count ? config_beginning(self->words[found - 1].word, &len) : "";
  *script = by->script;
  return len > 2 && may_take_next(by, before, len) ? self->count : found;
}
