/* fuzz_text.c - escaped text is printable, valid and can be read back to the very bytes; a JSON string
 * stays one string; a cut of valid text is valid. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

static void check(bool promise) {
  if (!promise) abort();
}

static void check_printable(const idem_buf *buf) {
  check(idem_utf8_valid(buf->data, buf->len));
  for (size_t i = 0; i < buf->len; i++) {
    unsigned char c = (unsigned char)buf->data[i];
    check(c >= 0x20 && c != 0x7f);
    check(c != 0xc2 || (unsigned char)buf->data[i + 1] >= 0xa0);
  }
}

static size_t put_utf8(unsigned char *out, unsigned long code) {
  if (code < 0x800) {
    out[0] = (unsigned char)(0xc0 | code >> 6);
    out[1] = (unsigned char)(0x80 | (code & 0x3f));
    return 2;
  }
  out[0] = (unsigned char)(0xe0 | code >> 12);
  out[1] = (unsigned char)(0x80 | (code >> 6 & 0x3f));
  out[2] = (unsigned char)(0x80 | (code & 0x3f));
  return 3;
}

/* Reads one escape behind its backslash; returns how much of the text it took. */
static size_t read_escape(const char *text, unsigned char *out, size_t *made) {
  char *end;
  *made = 1;
  switch (text[0]) {
  case 'n': return *out = '\n', 1;
  case 'r': return *out = '\r', 1;
  case 't': return *out = '\t', 1;
  case '\\': return *out = '\\', 1;
  case 'x': {
    char digits[3] = {text[1], text[2], '\0'};
    *out = (unsigned char)strtoul(digits, &end, 16);
    check(*end == '\0');
    return 3;
  }
  default: check(text[0] == 'u' && text[1] == '{');
  }
  *made = put_utf8(out, strtoul(text + 2, &end, 16));
  check(*end == '}');
  return (size_t)(end - text) + 1;
}

static void check_reads_back(idem_buf *escaped, const uint8_t *data, size_t size) {
  unsigned char bytes[4];
  size_t at = 0;
  check(idem_buf_put(escaped, "", 1) == IDEM_OK);
  for (size_t i = 0, made; i + 1 < escaped->len; at += made) {
    made = 1;
    bytes[0] = (unsigned char)escaped->data[i++];
    if (bytes[0] == '\\') i += read_escape(escaped->data + i, bytes, &made);
    check(at + made <= size && memcmp(data + at, bytes, made) == 0);
  }
  check(at == size);
}

static void check_json(const idem_buf *json) {
  check(json->len >= 2 && json->data[0] == '"' && json->data[json->len - 1] == '"');
  for (size_t i = 1; i + 1 < json->len; i++) {
    if (json->data[i] == '\\')
      i++;
    else
      check(json->data[i] != '"');
    check(i + 1 < json->len);
  }
}

/* Nothing in it ends a word, and nothing is lost. */
static void check_word(const idem_buf *word, const uint8_t *data, size_t size) {
  size_t at = 0;
  for (size_t i = 0; i < word->len; i++, at++) {
    uint8_t byte = (uint8_t)word->data[i];
    check(byte > ' ' && byte != 127 && byte != '"' && byte != '\'' && byte != '\\');
    if (byte == '%') {
      check(i + 2 < word->len);
      byte = (uint8_t)(idem_hex_value(word->data[i + 1]) << 4 | idem_hex_value(word->data[i + 2]));
      i += 2;
    }
    check(at < size && data[at] == byte);
  }
  check(at == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data;
  idem_buf out;
  idem_buf_init(&out, NULL, 8 * size + 64);
  check(idem_text_escape(&out, text, size, SIZE_MAX) == IDEM_OK);
  check_printable(&out);
  check_reads_back(&out, data, size);
  out.len = 0;
  check(idem_text_json_string(&out, text, size) == IDEM_OK);
  check_printable(&out);
  check_json(&out);
  out.len = 0;
  check(idem_text_word(&out, text, size, SIZE_MAX) == IDEM_OK);
  check_printable(&out);
  check_word(&out, data, size);
  for (size_t max = 0; max < size && max < 64; max++) {
    size_t cut = idem_utf8_cut(text, size, max);
    check(cut <= max && cut + 3 >= max);
    check(!idem_utf8_valid(text, size) || idem_utf8_valid(text, cut));
  }
  idem_buf_deinit(&out);
  return 0;
}
