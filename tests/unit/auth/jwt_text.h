/* jwt_text.h - JWTs as text with a signature that nobody looks at, and reading one while memory fails. */
#ifndef IDEM_TEST_JWT_TEXT_H
#define IDEM_TEST_JWT_TEXT_H

#include "base/base.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <idem/text.h>

/* "header.claims.signature" */
static inline void write_jwt(idem_buf *out, const char *header, const char *claims) {
  assert_int_equal(idem_base64_encode(out, header, strlen(header), IDEM_BASE64_URL), IDEM_OK);
  assert_int_equal(idem_buf_puts(out, "."), IDEM_OK);
  assert_int_equal(idem_base64_encode(out, claims, strlen(claims), IDEM_BASE64_URL), IDEM_OK);
  assert_int_equal(idem_buf_puts(out, ".AAAA"), IDEM_OK);
}

/* Reads a good one and gives back what it took. */
typedef idem_status (*jwt_reader)(const idem_alloc *alloc, const char *text, size_t len);

typedef struct jwt_reading {
  jwt_reader read;
  const char *text;
  size_t len;
} jwt_reading;

static inline void jwt_read_once(fault_alloc *fault, void *user) {
  const jwt_reading *reading = user;
  idem_status status = reading->read(&fault->alloc, reading->text, reading->len);
  assert_true(status == IDEM_OK || status == IDEM_E_NOMEM);
}

/* Each allocation of the reader fails in turn. */
static inline void jwt_sweep(jwt_reader read, const char *header, const char *claims) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem_buf text;
  idem_buf_init(&text, &alloc, 4096);
  write_jwt(&text, header, claims);
  jwt_reading reading = {.read = read, .text = text.data, .len = text.len};
  assert_true(fault_alloc_sweep(jwt_read_once, &reading, 200) > 4);
  idem_buf_deinit(&text);
}

#endif
