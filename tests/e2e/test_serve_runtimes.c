/* test_serve_runtimes.c - what keeps programs from others does not keep them from their own work:
 * runtimes that start threads, choose processors and priorities, and copy files with all they have.
 * Java is large: where it is not installed it is said to be left out, unless CI is true. */
#include "serving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char config[] = "{\"tools\":{\n"
                             " \"openmp\":{\"run\":[\"./openmp\"]},\n"
                             " \"node\":{\"run\":[\"node\",\"work.js\"]},\n"
                             " \"numpy\":{\"run\":[\"/usr/bin/python3\",\"work.py\"]},\n"
                             " \"copies\":{\"run\":[\"sh\",\"copies.sh\"]}\n"
                             "}}";
static const char java_config[] = "{\"tools\":{\"java\":{\"run\":[\"java\",\"-XX:+UseParallelGC\","
                                  "\"-XX:ParallelGCThreads=2\",\"-Xmx64m\",\"-version\"]}}}";

static const char openmp[] = "#include <omp.h>\n#include <stdio.h>\n"
                             "int main(void) {\n  long sum = 0;\n  int threads = 0;\n"
                             "#pragma omp parallel reduction(+ : sum) num_threads(4)\n  {\n"
                             "#pragma omp for\n    for (long i = 0; i < 1000; i++) sum += i;\n"
                             "#pragma omp single\n    threads = omp_get_num_threads();\n  }\n"
                             "  printf(\"sum %ld by %d\\n\", sum, threads);\n}\n";

static const char node[] =
    "const { Worker } = require('worker_threads');\n"
    "const os = require('os');\n"
    "os.setPriority(0, Math.min(os.getPriority(0) + 1, 19));\n" /* nobody may take a better one */
    "require('child_process').execFile('echo', ['a child'], (fault, said) => {\n"
    "  process.stdout.write(said);\n"
    "  require('crypto').pbkdf2('a', 'b', 1000, 8, 'sha1', (fault, key) => {\n"
    "    console.log('key of', key.length);\n"
    "    new Worker('require(\"worker_threads\").parentPort.postMessage(7)', { eval: true })\n"
    "      .on('message', (got) => console.log('thread said', got));\n"
    "  });\n"
    "});\n";

static const char numpy[] = "import os, subprocess, numpy\n"
                            "os.sched_setaffinity(0, os.sched_getaffinity(0))\n"
                            "os.nice(1)\n"
                            "a = numpy.ones((300, 300))\n"
                            "print('sum', int((a @ a).sum()))\n"
                            "print(subprocess.check_output(['echo', 'a child']).decode())\n";

static const char copies[] =
    "set -e\ncd \"$TMPDIR\"\nmkdir -p a/b o\necho x >a/b/c\nchmod 640 a/b/c\nchmod 750 a\n"
    "touch -d 2001-02-03 a/b/c\ntar cf - a | tar xpf - -C o\n"
    "test \"$(stat -c '%a %Y' a/b/c)\" = \"$(stat -c '%a %Y' o/a/b/c)\"\n"
    "export GIT_CONFIG_GLOBAL=/dev/null\ngit init -q r 2>/dev/null\ncd r\ngit config user.email "
    "a@b\n"
    "git config user.name n\ncp -a ../a .\ngit add .\ngit commit -qm x\ngit clone -q . ../r2\n"
    "cp -pr . ../r3\ninstall -m 700 a/b/c ../installed\necho all copied\n";

static void make_program(const serving *self) {
  char command[1024];
  serving_file(self, "openmp.c", openmp);
  snprintf(command, sizeof command, "gcc -O1 -fopenmp -o '%s/openmp' '%s/openmp.c'", self->folder,
           self->folder);
  if (system(command) != 0) /* NOLINT: the words are ours */
    fail_msg("gcc with OpenMP is missing: scripts/setup test gets it");
}

static int start(void **state) {
  static serving self;
  serving_make(&self, config);
  make_program(&self);
  serving_file(&self, "work.js", node);
  serving_file(&self, "work.py", numpy);
  serving_file(&self, "copies.sh", copies);
  serving_start(&self);
  *state = &self;
  return 0;
}

static int end(void **state) {
  serving_end(*state);
  return 0;
}

static void openmp_s_threads_work(void **state) {
  expect_in(serving_call(*state, "openmp", "{}"), "sum 499500 by 4");
}

static void node_s_threads_and_children_work(void **state) {
  const char *answer = serving_call(*state, "node", "{}");
  expect_in(answer, "a child");
  expect_in(answer, "key of 8");
  expect_in(answer, "thread said 7");
}

static void numpy_works(void **state) {
  const char *answer = serving_call(*state, "numpy", "{}");
  if (strstr(answer, "No module named")) fail_msg("numpy is missing: scripts/setup test gets it");
  expect_in(answer, "sum 27000000");
  expect_in(answer, "a child");
}

static void tar_git_and_cp_work(void **state) {
  expect_in(serving_call(*state, "copies", "{}"), "all copied");
}

static bool left_out; /* CTest reports it */

static void java_works(void **state) {
  serving self;
  (void)state;
  const char *ci = getenv("CI");
  if (system("java -version >/dev/null 2>&1") != 0) { /* NOLINT: the words are ours */
    if (ci && strcmp(ci, "true") == 0) fail_msg("Java is missing: scripts/setup test gets it");
    print_message("NOT TESTED: there is no Java here\n");
    left_out = true;
    skip();
  }
  serving_make(&self, java_config);
  serving_start(&self);
  expect_not_in(serving_call(&self, "java", "{}"), "isError");
  serving_end(&self);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(openmp_s_threads_work),
      cmocka_unit_test(node_s_threads_and_children_work),
      cmocka_unit_test(numpy_works),
      cmocka_unit_test(tar_git_and_cp_work),
      cmocka_unit_test(java_works),
  };
  int failed = cmocka_run_group_tests(tests, start, end);
  return failed ? failed : left_out ? 77 : 0;
}
