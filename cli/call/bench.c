/* bench.c - see bench.h: finds out what is to be sent, runs it, says what it took. */
#include "bench.h"

#include "config/memory.h"

#include <idem/base.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define IDLE_MS 10000u
#define RAMP_STEP_NS UINT64_C(2000000000)
#define RAMP_FIRST 100.0
#define RAMP_FACTOR 1.5
#define RAMP_STEPS 32u

static volatile bool stopped;

volatile bool *bench_stopped(void) { return &stopped; }

static void on_signal(int number) {
  (void)number;
  if (stopped) _exit(CALL_GIVEN_UP);
  stopped = true;
}

void bench_fault(bench_tally *tally, const char *format, ...) {
  va_list args;
  if (*tally->first_fault) return;
  va_start(args, format);
  vsnprintf(tally->first_fault, sizeof tally->first_fault, format, args);
  va_end(args);
}

/* ----------------------------------------------------------------------- the subject */

static const char *method_of(const call_options *options) {
  switch (options->kind) {
  case CALL_TOOL: return "tools/call";
  case CALL_READ: return "resources/read";
  case CALL_PROMPT: return "prompts/get";
  default: return options->subject;
  }
}

static void put_string(text *out, const char *words) {
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  size_t len;
  char *made = doc ? yyjson_mut_val_write(yyjson_mut_str(doc, words), 0, &len) : NULL;
  if (!made) memory_exhausted();
  text_put(out, made, len);
  free(made);
  yyjson_mut_doc_free(doc);
}

static void make_params(bench_subject *self) {
  const call_options *options = self->session->options;
  text *out = &self->params, why = {.data = NULL}, note = {.data = NULL};
  if (options->kind == CALL_METHOD) {
    const text *given = &self->session->arguments.base_text;
    if (given->data) text_put(out, given->data, given->len);
    return;
  }
  if (options->kind == CALL_PROMPT)
    arguments_make(&self->session->arguments, NULL, &self->session->made, &why, &note);
  text_puts(out, options->kind == CALL_READ ? "{\"uri\":" : "{\"name\":");
  put_string(out, options->subject);
  if (options->kind != CALL_READ) {
    text_puts(out, ",\"arguments\":");
    text_put(out, self->session->made.data, self->session->made.len);
  }
  text_puts(out, "}");
  text_free(&why);
  text_free(&note);
}

/* ------------------------------------------------------------------------ one measure */

static uint64_t cpu_ns(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return ((uint64_t)used.ru_utime.tv_sec + (uint64_t)used.ru_stime.tv_sec) * 1000000000u +
         ((uint64_t)used.ru_utime.tv_usec + (uint64_t)used.ru_stime.tv_usec) * 1000u;
}

static void set_limits(bench_plan *plan, const bench_subject *subject) {
  const call_options *options = subject->session->options;
  plan->idle_ns = (options->timeout_ms ? options->timeout_ms : IDLE_MS) * UINT64_C(1000000);
  if (options->deadline_ms)
    plan->end_ns = subject->session->begun_ns + options->deadline_ms * UINT64_C(1000000);
}

static bool measure(const bench_subject *subject, const bench_plan *plan, bench_tally *tally) {
  memset(tally, 0, sizeof *tally);
  histogram_reset(&tally->times);
  uint64_t before = cpu_ns();
  bool fine = bench_is_http(subject) ? bench_http(subject, plan, tally)
                                     : bench_client(subject, plan, tally);
  tally->cpu_ns = cpu_ns() - before;
  return fine;
}

static double per_second(const bench_tally *tally) {
  return tally->took_ns ? (double)tally->answered * 1e9 / (double)tally->took_ns : 0;
}

static uint64_t faults(const bench_tally *tally) {
  return tally->refused + tally->failed + tally->lost;
}

/* -------------------------------------------------------------------------- reporting */

static void print_percentiles(const bench_tally *tally) {
  static const struct {
    const char *name;
    double share;
  } rows[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}};
  char words[32];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    printf("  %s %s", rows[i].name,
           histogram_time(histogram_at(&tally->times, rows[i].share), words, sizeof words));
  printf("  most %s\n", histogram_time(tally->times.most, words, sizeof words));
}

static void print_faults(const bench_tally *tally) {
  text shown = {.data = NULL};
  if (!faults(tally)) return;
  text_escape_cut(&shown, tally->first_fault, strlen(tally->first_fault), 300);
  printf("  not well: %llu (errors %llu, isError %llu, no answer %llu); the first: %s\n",
         (unsigned long long)faults(tally), (unsigned long long)tally->refused,
         (unsigned long long)tally->failed, (unsigned long long)tally->lost, shown.data);
  text_free(&shown);
}

static void print_report(const bench_subject *subject, const bench_plan *plan,
                         const bench_tally *tally) {
  const call_target *target = &subject->session->target;
  char words[32];
  printf("%llu calls of %s, %zu connection%s", (unsigned long long)tally->begun,
         subject->session->options->subject, plan->connections, plan->connections == 1 ? "" : "s");
  if (plan->rate > 0) printf(", %.0f a second wanted", plan->rate);
  printf(": %s\n", target->url ? target->url : target->said);
  printf("  %.0f a second, %s in all, client CPU %s a call\n", per_second(tally),
         histogram_time(tally->took_ns, words, sizeof words),
         histogram_time(tally->begun ? tally->cpu_ns / tally->begun : 0, (char[32]){0}, 32));
  print_percentiles(tally);
  print_faults(tally);
  histogram_draw(&tally->times, stdout);
}

static void print_as_json(const bench_plan *plan, const bench_tally *tally) {
  const histogram *times = &tally->times;
  printf("{\"calls\":%llu,\"connections\":%zu,\"answered\":%llu,\"errors\":%llu,\"isError\":%llu,"
         "\"lost\":%llu,\"seconds\":%.6f,\"perSecond\":%.1f,\"cpuNanosecondsPerCall\":%llu,"
         "\"nanoseconds\":{\"p50\":%llu,\"p90\":%llu,\"p99\":%llu,\"p99.9\":%llu,\"most\":%llu}}\n",
         (unsigned long long)tally->begun, plan->connections, (unsigned long long)tally->answered,
         (unsigned long long)tally->refused, (unsigned long long)tally->failed,
         (unsigned long long)tally->lost, (double)tally->took_ns / 1e9, per_second(tally),
         (unsigned long long)(tally->begun ? tally->cpu_ns / tally->begun : 0),
         (unsigned long long)histogram_at(times, 0.5), (unsigned long long)histogram_at(times, 0.9),
         (unsigned long long)histogram_at(times, 0.99),
         (unsigned long long)histogram_at(times, 0.999), (unsigned long long)times->most);
}

static int status_of(const bench_tally *tally) {
  if (stopped || tally->late) return CALL_GIVEN_UP;
  if (tally->lost || !tally->answered) return CALL_NO_PEER;
  if (tally->refused) return CALL_REFUSED;
  return tally->failed ? CALL_TOOL_FAILED : CALL_WELL;
}

/* ------------------------------------------------------------------------------ ramp */

static void print_step(const bench_plan *plan, const bench_tally *tally) {
  char p50[32], p99[32];
  printf("  %8.0f a second  answered %8.0f  p50 %9s  p99 %9s%s\n", plan->rate, per_second(tally),
         histogram_time(histogram_at(&tally->times, 0.5), p50, sizeof p50),
         histogram_time(histogram_at(&tally->times, 0.99), p99, sizeof p99),
         faults(tally) ? "  not well" : "");
  fflush(stdout);
}

/* Answers come late: less than what was asked for, or half of them take longer than nearly all did at first. */
static bool is_past_knee(const bench_plan *plan, const bench_tally *tally, uint64_t calm_ns) {
  uint64_t allowed = calm_ns * 2 > 1000000 ? calm_ns * 2 : 1000000;
  return faults(tally) || per_second(tally) < plan->rate * 0.95 ||
         histogram_at(&tally->times, 0.5) > allowed;
}

static int ramp(const bench_subject *subject, const call_options *options, bench_tally *tally) {
  bench_plan plan = {.connections = options->connections ? options->connections : 64,
                     .rate = options->rate > 0 ? options->rate : RAMP_FIRST,
                     .most_ns = RAMP_STEP_NS * 2};
  set_limits(&plan, subject);
  double knee = 0;
  uint64_t calm_ns = 0;
  printf("%s, %zu connections, 2 s a step\n", options->subject, plan.connections);
  for (unsigned i = 0; i < RAMP_STEPS && !stopped; i++) {
    plan.requests = (uint64_t)(plan.rate * (double)RAMP_STEP_NS / 1e9);
    if (!measure(subject, &plan, tally)) return CALL_NO_PEER;
    print_step(&plan, tally);
    if (!calm_ns) calm_ns = histogram_at(&tally->times, 0.99);
    if (tally->late) break;
    if (is_past_knee(&plan, tally, calm_ns)) break;
    knee = plan.rate;
    plan.rate *= RAMP_FACTOR;
  }
  if (knee > 0)
    printf("  the knee is near %.0f a second: beyond it answers come late\n", knee);
  else
    printf("  not even %.0f a second are answered in time\n", plan.rate);
  return stopped || tally->late ? CALL_GIVEN_UP : knee > 0 ? CALL_WELL : status_of(tally);
}

static int once(const bench_subject *subject, const call_options *options, bench_tally *tally) {
  bench_plan plan = {.requests = options->bench,
                     .connections = options->connections ? options->connections
                                    : options->rate > 0  ? 64
                                                         : 1,
                     .rate = options->rate};
  set_limits(&plan, subject);
  if (plan.connections > plan.requests) plan.connections = (size_t)plan.requests;
  if (!measure(subject, &plan, tally)) return CALL_NO_PEER;
  if (options->json)
    print_as_json(&plan, tally);
  else
    print_report(subject, &plan, tally);
  return status_of(tally);
}

int bench_run(const call_options *options) {
  call_session session;
  bench_tally *tally = calloc(1, sizeof *tally);
  if (!tally) memory_exhausted();
  int code = session_prepare(&session, options);
  if (code == CALL_WELL) {
    bench_subject subject = {.session = &session,
                             .method = method_of(options),
                             .revision = session.revision,
                             .plain = options->profile != IDEM_PROFILE_MCP};
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    make_params(&subject);
    code = options->ramp ? ramp(&subject, options, tally) : once(&subject, options, tally);
    text_free(&subject.params);
  }
  session_free(&session);
  free(tally);
  return code;
}
