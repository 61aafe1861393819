/* idem/text.h - texts that grow within bounds, and what is done to a stranger's before it is shown: escaped,
 * made JSON, rid of secrets. Knows no JSON values; those are json.h's. Usable from C11 and C++17. */
#ifndef IDEM_TEXT_H
#define IDEM_TEXT_H

#include <idem/base.h>
#include <stdarg.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------ bounded buffer */

/* A growing byte buffer that is born with a maximum: len and cap never exceed max. A failed append
 * leaves it as it was. The fast paths are inline; growth is not. */
typedef struct idem_buf {
  char *data;
  size_t len;
  size_t cap;
  size_t max;
  const idem_alloc *alloc;
} idem_buf;

/* `alloc` may be NULL. */
IDEM_API void idem_buf_init(idem_buf *buf, const idem_alloc *alloc, size_t max);
/* Frees the memory and empties the buffer, which stays usable. Not for a fixed one. */
IDEM_API void idem_buf_deinit(idem_buf *buf);
/* Makes room for `extra` more bytes: OK, LIMIT (past max) or NOMEM. */
IDEM_API idem_status idem_buf_grow(idem_buf *buf, size_t extra);
/* Gives back memory above `keep` bytes of capacity; only when empty. */
IDEM_API void idem_buf_trim(idem_buf *buf, size_t keep);
/* Gives back what is not in use. */
IDEM_API void idem_buf_fit(idem_buf *buf);
/* Removes the first n bytes (all of them if there are fewer). */
IDEM_API void idem_buf_consume(idem_buf *buf, size_t n);
IDEM_API idem_status idem_buf_printf(idem_buf *buf, const char *format, ...) IDEM_PRINTF(2, 3);
IDEM_API idem_status idem_buf_vprintf(idem_buf *buf, const char *format, va_list args)
    IDEM_PRINTF(2, 0);

/* A buffer over memory of the caller's: never grows, never allocates for appends, needs no deinit.
 */
static inline void idem_buf_fixed(idem_buf *buf, char *storage, size_t size) {
  buf->data = storage;
  buf->len = 0;
  buf->cap = buf->max = size;
  buf->alloc = NULL;
}

static inline idem_status idem_buf_reserve(idem_buf *buf, size_t extra) {
  return buf->cap - buf->len >= extra ? IDEM_OK : idem_buf_grow(buf, extra);
}
static inline idem_status idem_buf_put(idem_buf *buf, const void *bytes, size_t len) {
  if (buf->cap - buf->len < len) {
    idem_status status = idem_buf_grow(buf, len);
    if (status != IDEM_OK) return status;
  }
  if (len) memcpy(buf->data + buf->len, bytes, len);
  buf->len += len;
  return IDEM_OK;
}
#define idem_buf_puts(buf, literal) idem_buf_put((buf), "" literal, sizeof(literal) - 1)

/* ------------------------------------------------------------------ text */

/* -1: not a hexadecimal digit. */
static inline int idem_hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}
IDEM_API bool idem_utf8_valid(const char *text, size_t len);
/* Reads one character: its length and *code, or 0 for the end and for invalid bytes. */
IDEM_API size_t idem_utf8_decode(const char *text, size_t len, uint32_t *code);
/* Length of the longest prefix of at most `max` bytes that does not cut a UTF-8 sequence. */
IDEM_API size_t idem_utf8_cut(const char *text, size_t len, size_t max);
/* Appends `text`, at most `max` bytes of it (then "..."; SIZE_MAX for all), with C0, DEL, C1,
 * bidirectional marks, line and paragraph separators and invalid bytes written as \n \t \xNN or
 * \u{NNNN}; a backslash is doubled. Nothing a peer sends can forge a log line. */
IDEM_API idem_status idem_text_escape(idem_buf *out, const char *text, size_t len, size_t max);
/* Appends `text` as a JSON string, quotes included; invalid UTF-8 becomes U+FFFD, and what
 * idem_text_escape would not let through is written as \uNNNN. */
IDEM_API idem_status idem_text_json_string(idem_buf *out, const char *text, size_t len);
/* Appends `text` as one word, for "name=word" in a log line: blanks, quotes, % and \ and whatever idem_text_escape would
 * not let through are written as %NN, byte by byte. At most `max` bytes are appended, and "..." where they were too few. */
IDEM_API idem_status idem_text_word(idem_buf *out, const char *text, size_t len, size_t max);

typedef enum idem_base64_alphabet {
  IDEM_BASE64_STANDARD, /* RFC 4648 section 4: + and /, padded */
  IDEM_BASE64_URL       /* section 5: - and _, never padded */
} idem_base64_alphabet;
IDEM_API idem_status idem_base64_encode(idem_buf *out, const void *bytes, size_t len,
                                        idem_base64_alphabet alphabet);
/* Strict, so that every value has one spelling: INVAL for foreign digits (white space too), for
 * padding that is missing, surplus or misplaced, and for bits behind the last byte. The buffer is
 * then as it was. */
IDEM_API idem_status idem_base64_decode(idem_buf *out, const char *text, size_t len,
                                        idem_base64_alphabet alphabet);

#define IDEM_SHA256_BYTES 32
typedef struct idem_sha256 {
  uint32_t state[8];
  uint64_t len;
  uint8_t block[64];
} idem_sha256;
IDEM_API void idem_sha256_init(idem_sha256 *sha);
IDEM_API void idem_sha256_add(idem_sha256 *sha, const void *bytes, size_t len);
IDEM_API void idem_sha256_end(idem_sha256 *sha, uint8_t digest[IDEM_SHA256_BYTES]);

/* ------------------------------------------------------------- redaction */

/* Appends `text` with secrets replaced by [redacted]: bearer and basic credentials, Authorization
 * and Cookie values, query and key=value secrets, key-like JSON members (password, token, secret,
 * api_key, ...), home and absolute paths, and the values in `secrets`. Linear in len for a given
 * set of secrets. */
typedef struct idem_secret {
  char *text;
  size_t len;
} idem_secret;
IDEM_API idem_status idem_redact(idem_buf *out, const char *text, size_t len,
                                 const idem_secret *secrets, size_t secret_count);
/* The same for who may know of some paths. */
typedef struct idem_redaction {
  const idem_secret *secrets;
  size_t secret_count;
  const char *const *folders; /* real paths, end with NULL: what is in them is named from there */
  bool keep_paths;            /* all of them */
  bool only_secrets;          /* the other rules are left out */
} idem_redaction;
IDEM_API idem_status idem_redact_by(idem_buf *out, const char *text, size_t len,
                                    const idem_redaction *rules);
/* The same for a log line: reads about as much as fits into out->max, writes what fits, never fails
 * and never shows a part of a secret. `only_secrets` leaves the other rules out. */
IDEM_API void idem_redact_cut(idem_buf *out, const char *text, size_t len,
                              const idem_secret *secrets, size_t secret_count, bool only_secrets);
/* Appends a text without what the log keeps secret (paths stand). NOMEM, LIMIT. */
IDEM_API idem_status idem_log_redact(const idem_log *log, idem_buf *out, const char *text,
                                     size_t len);

/* The same, of what the log was told to keep secret alone. */
IDEM_API idem_status idem_log_hide(const idem_log *log, idem_buf *out, const char *text,
                                   size_t len);

#ifdef __cplusplus
}
#endif
#endif
