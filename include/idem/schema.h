/* idem/schema.h - JSON Schema 2020-12 and draft-07: compile once, validate many.
 * A schema becomes an immutable program that any number of threads share; each thread brings its
 * own context. Nothing is ever fetched: references reach registered documents only. */
#ifndef IDEM_SCHEMA_H
#define IDEM_SCHEMA_H

#include <idem/base.h>
#include <yyjson.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The dialect of schemas that do not name one with `$schema`. */
typedef enum idem_schema_draft {
  IDEM_SCHEMA_DRAFT_DEFAULT = 0, /* 2020-12 */
  IDEM_SCHEMA_DRAFT_2020_12 = 1,
  IDEM_SCHEMA_DRAFT_07 = 2
} idem_schema_draft;

/* ------------------------------------------------------------ registry */

/* Documents that `$ref` and `$schema` may reach by URI. Filled first, then only read: many threads
 * may compile against one registry at the same time. The meta-schemas of both drafts are built in.
 */
typedef struct idem_schema_registry idem_schema_registry;

IDEM_API idem_status idem_schema_registry_new(const idem_alloc *alloc, idem_schema_registry **out);
IDEM_API void idem_schema_registry_free(idem_schema_registry *registry);
/* Adds a document under an absolute URI (a trailing '#' is dropped). `text` is parsed at once and
 * copied. OK; INVAL: not JSON or an empty URI; EXISTS: that URI is taken; LIMIT; NOMEM. */
IDEM_API idem_status idem_schema_registry_add(idem_schema_registry *registry, const char *uri,
                                              const char *text, size_t len);

/* ------------------------------------------------------------- compile */

/* Bounds on what a schema may ask of the compiler; zero means the default in brackets. Reaching one
 * is IDEM_E_LIMIT with a sentence that names it. */
typedef struct idem_schema_opts {
  idem_schema_draft draft; /* used where the schema has no `$schema` */
  /* `format` fails instance strings that do not have it (otherwise it is an annotation). */
  bool assert_formats;
  const idem_schema_registry *registry; /* borrowed for the call; NULL: none */
  const char *base_uri;                 /* what relative references are relative to; NULL: none */
  size_t max_bytes;                     /* schema text, all documents together [16 MiB] */
  uint32_t max_depth;                   /* nesting of subschemas and of constants [128] */
  uint32_t max_subschemas;              /* over all documents it reaches [20,000] */
  uint32_t max_pattern_bytes;           /* one pattern [8,192] */
  const idem_alloc *alloc;              /* must outlive the schema; NULL: the C library's */
} idem_schema_opts;

/* Why a schema was refused. Plain text, cut to fit, NUL-terminated. */
typedef struct idem_schema_fault {
  char schema_path[256]; /* "#/properties/count/minimum", or "other.json#/..." */
  char keyword[32];      /* empty when the fault is no keyword's */
  char sentence[384];    /* one line, with the path */
} idem_schema_fault;

/* An immutable program; freely shared by threads. */
typedef struct idem_schema idem_schema;

/* Compiles schema text. OK; INVAL: not a schema we can honour (bad JSON, a keyword with a value of
 * the wrong kind, another dialect, a reference to nothing, a bad pattern); LIMIT; NOMEM. `opts` and
 * `fault` may be NULL. On failure *out is NULL and `fault` says why. */
IDEM_API idem_status idem_schema_compile(const idem_schema_opts *opts, const char *text, size_t len,
                                         idem_schema **out, idem_schema_fault *fault);
/* The same for a parsed value, borrowed for the call. Parse with YYJSON_READ_NUMBER_AS_RAW or
 * YYJSON_READ_BIGNUM_AS_RAW so that big numbers stay exact. */
IDEM_API idem_status idem_schema_compile_value(const idem_schema_opts *opts, yyjson_val *value,
                                               idem_schema **out, idem_schema_fault *fault);
/* Frees the program; takes NULL. No validation may be running. */
IDEM_API void idem_schema_free(idem_schema *schema);

/* ------------------------------------------------------------ validate */

/* One thing that is wrong. Strings are NUL-terminated UTF-8 with control characters escaped; they
 * belong to the context and live until its next use. */
typedef struct idem_schema_error {
  const char *instance_path; /* JSON Pointer, "" for the whole value */
  const char *schema_path;   /* "#/properties/count/minimum" */
  const char *keyword;       /* "minimum"; "false" for a schema that is false */
  const char *expected;      /* "integer >= 1" */
  const char *received;      /* "a string"; the value itself only with show_values */
  const char *sentence;      /* "arguments.count: expected integer >= 1, got a string" */
  const char *log_sentence;  /* the sentence without any instance value, whatever was asked */
} idem_schema_error;

/* How to validate; zero means the default in brackets. */
typedef struct idem_schema_check {
  bool all_errors;         /* collect up to max_errors instead of stopping at the first */
  bool verdict_only;       /* no errors at all, only the verdict */
  bool show_values;        /* received and sentence may quote the instance (cut at 64 bytes) */
  uint32_t max_errors;     /* [64] */
  const char *root_name;   /* how sentences call the whole value ["value"] */
  uint32_t max_depth;      /* nested evaluations [2,048] */
  uint32_t max_references; /* references followed without descending in the instance [256] */
  uint64_t max_steps;      /* [1,000,000 plus 16 for each value, at most 16,000,000] */
  /* Work of all pattern matches that are not one lookup a character: backtracking (references,
   * lookaround) and patterns of very many states [2,000,000] */
  uint64_t max_regex_steps;
  size_t max_bytes; /* instance text [64 MiB] */
} idem_schema_check;

typedef struct idem_schema_result {
  bool valid;
  bool truncated; /* there were more errors than max_errors */
  size_t error_count;
  const idem_schema_error *errors; /* lent by the context */
  const char *limit;               /* after IDEM_E_LIMIT: which bound ("max_steps"); else NULL */
} idem_schema_result;

/* Scratch memory of one thread, reused from one validation to the next: once it has grown to what
 * a schema and its instances need, validating allocates nothing. */
typedef struct idem_schema_ctx idem_schema_ctx;

IDEM_API idem_status idem_schema_ctx_new(const idem_alloc *alloc, idem_schema_ctx **out);
IDEM_API void idem_schema_ctx_free(idem_schema_ctx *ctx);

/* Judges a parsed value. OK: *result holds the verdict; LIMIT: no verdict, result->limit says which
 * bound (valid is false); NOMEM. `check` may be NULL. `value` is borrowed for the call. Integers
 * beyond 64 bits are exact when they were read as raw numbers (YYJSON_READ_BIGNUM_AS_RAW). */
IDEM_API idem_status idem_schema_validate(const idem_schema *schema, idem_schema_ctx *ctx,
                                          yyjson_val *value, const idem_schema_check *check,
                                          idem_schema_result *result);
/* Judges raw text, every number exactly as written. Also INVAL: not JSON (one error says where). */
IDEM_API idem_status idem_schema_validate_text(const idem_schema *schema, idem_schema_ctx *ctx,
                                               const char *text, size_t len,
                                               const idem_schema_check *check,
                                               idem_schema_result *result);

/* ------------------------------------------------- coercion, defaults, names */

typedef struct idem_schema_shape {
  bool coerce;        /* turn strings into the types the schema asks for */
  bool fill_defaults; /* add absent properties whose schema has a `default` */
  uint32_t max_depth; /* [64] */
} idem_schema_shape;

/* Copies `value` into `doc`, shaped by the schema: with coerce, "3" becomes 3 where an integer is
 * asked for, "true" a boolean, "" or "null" null, text that starts with [ or { the array or object
 * it spells, and any other string becomes a one-element array where an array is asked for. What
 * cannot be turned stays as it is, for validation to report. OK, LIMIT, NOMEM. `value` is borrowed;
 * the result belongs to `doc`. */
IDEM_API idem_status idem_schema_apply(const idem_schema *schema, yyjson_val *value,
                                       const idem_schema_shape *shape, yyjson_mut_doc *doc,
                                       yyjson_mut_val **out);

/* The declared top-level property nearest to `name` (at most 2 edits and a third of its length), or
 * NULL. The string belongs to the schema. */
IDEM_API const char *idem_schema_suggest_property(const idem_schema *schema, const char *name,
                                                  size_t len);
/* The nearest of `count` names by the same rule; NULL when none is near. */
IDEM_API const char *idem_schema_suggest(const char *name, size_t len, const char *const *names,
                                         size_t count);

#ifdef __cplusplus
}
#endif
#endif
