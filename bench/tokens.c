/* tokens.c - what a token costs that a server has never seen: of each of many, one after the other on one connection, OpenSSL's bare
 * verification in this process, a request that brings it first, and one that brings it again. The three take turns in short blocks, so that the
 * machine is the same for each, on one CPU: else a wake-up costs what it takes to bring another one back from its sleep, which seemed to be twenty
 * microseconds in a virtual machine and nothing on a busy one. What counts is the CPU time of the server's threads, by the median of those blocks in which
 * they had to wait least for the CPU: half of them, so that what others leave of the caches hardly shows. The clock stands beside it. See
 * docs/internals/bench.md. */
#include "clock.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOKENS 3000
#define BLOCK 30
#define BLOCKS (TOKENS / BLOCK)
#define TOKEN_BYTES 1024
#define BOUND_US 20.0
#define BODY                                                                                       \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{"                \
  "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                                    \
  "\"io.modelcontextprotocol/clientCapabilities\":{}}}}"

typedef struct token {
  char text[TOKEN_BYTES];
  size_t signed_len;
  unsigned char signature[512]; /* as OpenSSL has it */
  size_t signature_len;
} token;

static token tokens[TOKENS];

static void need(bool fine, const char *what) {
  if (fine) return;
  fprintf(stderr, "tokens: %s\n", what);
  exit(1);
}

/* ------------------------------------------------------------------- tokens */

static void put_base64(char *out, const unsigned char *bytes, size_t len) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  out += strlen(out);
  for (size_t bit = 0; bit < len * 8; bit += 6) {
    unsigned two = (unsigned)bytes[bit / 8] << 8 | (bit / 8 + 1 < len ? bytes[bit / 8 + 1] : 0u);
    *out++ = digits[two >> (10 - bit % 8) & 63];
  }
  *out = '\0';
}

static void put_text(char *out, const char *text) {
  put_base64(out, (const unsigned char *)text, strlen(text));
}

/* Two numbers side by side, as JOSE has them. */
static size_t from_der(const unsigned char *der, size_t len, unsigned char raw[64]) {
  ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &der, (long)len);
  need(pair != NULL, "no signature");
  BN_bn2binpad(ECDSA_SIG_get0_r(pair), raw, 32);
  BN_bn2binpad(ECDSA_SIG_get0_s(pair), raw + 32, 32);
  ECDSA_SIG_free(pair);
  return 64;
}

static void make_token(token *out, EVP_PKEY *key, bool elliptic, int number) {
  char claims[256];
  unsigned char raw[64];
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  snprintf(claims, sizeof claims,
           "{\"iss\":\"https://id.example\",\"aud\":\"https://mcp.example/mcp\",\"sub\":\"alice\","
           "\"scope\":\"mcp:use\",\"jti\":\"%d\",\"exp\":4000000000}",
           number);
  put_text(out->text, elliptic ? "{\"alg\":\"ES256\",\"typ\":\"at+jwt\",\"kid\":\"k\"}"
                               : "{\"alg\":\"RS256\",\"typ\":\"at+jwt\",\"kid\":\"k\"}");
  strcat(out->text, ".");
  put_text(out->text, claims);
  out->signed_len = strlen(out->text);
  out->signature_len = sizeof out->signature;
  need(EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key) == 1 &&
           EVP_DigestSign(context, out->signature, &out->signature_len,
                          (const unsigned char *)out->text, out->signed_len) == 1,
       "cannot sign");
  EVP_MD_CTX_free(context);
  strcat(out->text, ".");
  if (elliptic)
    put_base64(out->text, raw, from_der(out->signature, out->signature_len, raw));
  else
    put_base64(out->text, out->signature, out->signature_len);
}

static void put_number(FILE *file, const char *name, EVP_PKEY *key, const char *parameter) {
  unsigned char bytes[512];
  char text[1024] = "";
  BIGNUM *number = NULL;
  need(EVP_PKEY_get_bn_param(key, parameter, &number) == 1, "no number of the key");
  bool point = parameter[0] == 'q';
  int len = point ? BN_bn2binpad(number, bytes, 32) : BN_bn2bin(number, bytes);
  put_base64(text, bytes, (size_t)len);
  fprintf(file, ",\"%s\":\"%s\"", name, text);
  BN_free(number);
}

static void write_keys(const char *path, EVP_PKEY *key, bool elliptic) {
  FILE *file = fopen(path, "w");
  need(file != NULL, "cannot write the keys");
  fprintf(file, "{\"keys\":[{\"kid\":\"k\",\"kty\":\"%s\"", elliptic ? "EC" : "RSA");
  if (elliptic) {
    fprintf(file, ",\"crv\":\"P-256\"");
    put_number(file, "x", key, OSSL_PKEY_PARAM_EC_PUB_X);
    put_number(file, "y", key, OSSL_PKEY_PARAM_EC_PUB_Y);
  } else {
    put_number(file, "n", key, OSSL_PKEY_PARAM_RSA_N);
    put_number(file, "e", key, OSSL_PKEY_PARAM_RSA_E);
  }
  fprintf(file, "}]}");
  fclose(file);
}

/* ------------------------------------------------------------------- server */

static pid_t start(const char *server, const char *keys, int *port) {
  int log[2];
  char line[512];
  need(pipe(log) == 0, "no pipe");
  pid_t pid = fork();
  if (pid == 0) {
    dup2(log[1], 2);
    execl(server, server, "--profile", "mcp", "--http", "127.0.0.1:0", "--issuer",
          "https://id.example", "--jwks-file", keys, "--resource", "https://mcp.example/mcp",
          (char *)NULL);
    _exit(127);
  }
  close(log[1]);
  FILE *lines = fdopen(log[0], "r");
  for (*port = 0; !*port && fgets(line, sizeof line, lines);) {
    const char *at = strstr(line, "listening on http://127.0.0.1:");
    if (at) *port = (int)strtol(strrchr(at, ':') + 1, NULL, 10);
  }
  need(*port > 0, "the server does not listen");
  return pid; /* its log stays open, and is short */
}

static int connect_to(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  need(connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "cannot connect");
  return fd;
}

/* ------------------------------------------------------------------- asking */

/* Nanoseconds until the whole answer is there. */
static double ask(int fd, const char *text) {
  static char request[4096], answer[65536];
  int len = snprintf(
      request, sizeof request,
      "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
      "Mcp-Method: tools/list\r\nAuthorization: Bearer %s\r\nContent-Length: %zu\r\n\r\n%s",
      text, sizeof BODY - 1, BODY);
  size_t got = 0;
  double began = now_ns();
  need(write(fd, request, (size_t)len) == len, "cannot ask");
  for (;;) {
    ssize_t n = read(fd, answer + got, sizeof answer - 1 - got);
    need(n > 0, "no answer");
    answer[got += (size_t)n] = '\0';
    const char *head = strstr(answer, "\r\n\r\n"), *length = strstr(answer, "Content-Length: ");
    if (head && length && got >= (size_t)(head + 4 - answer) + strtoul(length + 16, NULL, 10))
      break;
  }
  double took = now_ns() - began;
  need(strncmp(answer, "HTTP/1.1 200", 12) == 0, answer);
  return took;
}

/* Nanoseconds that the threads of a process have run, and have waited for a CPU. */
typedef struct usage {
  double ran, waited;
} usage;

static void add_usage(usage *sum, const char *path) {
  char line[96], *end;
  FILE *file = fopen(path, "r");
  if (file && fgets(line, sizeof line, file)) {
    sum->ran += (double)strtoull(line, &end, 10);
    sum->waited += (double)strtoull(end, NULL, 10);
  }
  if (file) fclose(file);
}

static usage usage_of(pid_t pid) {
  char path[320];
  usage sum = {0, 0};
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR *tasks = opendir(path);
  need(tasks != NULL, "the server has gone");
  for (const struct dirent *task; (task = readdir(tasks));) {
    snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", (int)pid, task->d_name);
    if (task->d_name[0] != '.') add_usage(&sum, path);
  }
  closedir(tasks);
  return sum;
}

static double own_cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double verify(EVP_PKEY *key, const token *one) {
  double began = now_ns();
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  bool good = EVP_DigestVerifyInit(context, NULL, EVP_sha256(), NULL, key) == 1 &&
              EVP_DigestVerify(context, one->signature, one->signature_len,
                               (const unsigned char *)one->text, one->signed_len) == 1;
  EVP_MD_CTX_free(context);
  double took = now_ns() - began;
  need(good, "a signature is wrong");
  return took;
}

static int order(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

/* Microseconds. */
static double at_share(double *values, size_t count, double share) {
  qsort(values, count, sizeof *values, order);
  return values[(size_t)(share * (double)(count - 1))] / 1000;
}

/* Whatever is started from here on stays where this is. */
static void stay_on_one_cpu(void) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET((size_t)sched_getcpu(), &one);
  need(sched_setaffinity(0, sizeof one, &one) == 0, "cannot stay on one CPU");
}

typedef struct block {
  double waited;
  double cpu; /* of a token that is new, beside OpenSSL's and that of one that is not */
} block;

typedef struct times {
  double bare[TOKENS], first[TOKENS], again[TOKENS], beside[TOKENS];
  block blocks[BLOCKS];
} times;

static usage ask_all(int fd, pid_t pid, int from, double *took) {
  usage before = usage_of(pid);
  for (int i = from; i < from + BLOCK; i++) took[i] = ask(fd, tokens[i].text);
  usage after = usage_of(pid);
  return (usage){after.ran - before.ran, after.waited - before.waited};
}

static void take_turns(times *all, EVP_PKEY *key, int fd, pid_t pid) {
  for (int i = 0; i < BLOCKS; i++) {
    int from = i * BLOCK;
    double bare = -own_cpu();
    for (int j = from; j < from + BLOCK; j++) all->bare[j] = verify(key, &tokens[j]);
    bare += own_cpu();
    usage first = ask_all(fd, pid, from, all->first), again = ask_all(fd, pid, from, all->again);
    all->blocks[i] = (block){first.waited + again.waited, (first.ran - again.ran - bare) / BLOCK};
  }
  for (int i = 0; i < TOKENS; i++) all->beside[i] = all->first[i] - all->again[i] - all->bare[i];
}

static int order_by_waiting(const void *a, const void *b) {
  return order(&((const block *)a)->waited, &((const block *)b)->waited);
}

static void report(times *all, const char *name) {
  double calm[BLOCKS / 2];
  qsort(all->blocks, BLOCKS, sizeof *all->blocks, order_by_waiting);
  for (int i = 0; i < BLOCKS / 2; i++) calm[i] = all->blocks[i].cpu;
  double extra = at_share(calm, BLOCKS / 2, 0.5);
  printf("%s: beside OpenSSL's verification %.1f us of CPU (half of the blocks have %.1f to %.1f), "
         "bound %.0f%s; by the clock %.1f us: seen before %.1f, new %.1f, OpenSSL alone %.1f\n",
         name, extra, at_share(calm, BLOCKS / 2, 0.25), at_share(calm, BLOCKS / 2, 0.75), BOUND_US,
         extra <= BOUND_US ? "" : " MISS", at_share(all->beside, TOKENS, 0.5),
         at_share(all->again, TOKENS, 0.5), at_share(all->first, TOKENS, 0.5),
         at_share(all->bare, TOKENS, 0.5));
}

static void measure(const char *server, const char *folder, bool elliptic) {
  static times all;
  char keys[512];
  int port;
  EVP_PKEY *key = elliptic ? EVP_EC_gen("P-256") : EVP_RSA_gen(2048);
  snprintf(keys, sizeof keys, "%s/keys.json", folder);
  write_keys(keys, key, elliptic);
  memset(tokens, 0, sizeof tokens);
  for (int i = 0; i < TOKENS; i++) make_token(&tokens[i], key, elliptic, i);
  pid_t pid = start(server, keys, &port);
  int fd = connect_to(port);
  take_turns(&all, key, fd, pid);
  report(&all, elliptic ? "ES256" : "RS256");
  close(fd);
  kill(pid, SIGTERM);
  waitpid(pid, NULL, 0);
  EVP_PKEY_free(key);
  unlink(keys);
}

int main(int argc, char **argv) {
  char folder[] = "/tmp/idem-tokens-XXXXXX";
  need(argc == 2, "usage: tokens IDEM-REFERENCE");
  need(mkdtemp(folder) != NULL, "no folder");
  signal(SIGPIPE, SIG_IGN);
  stay_on_one_cpu();
  measure(argv[1], folder, true);
  measure(argv[1], folder, false);
  rmdir(folder);
  return 0;
}
