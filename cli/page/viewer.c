/* viewer.c - see viewer.h. The modules of web/ are written so that they become one script by leaving out their lines
 * of import and the word export: each name at the top of one is at the top of no other (a test looks). */
#include "viewer.h"

#include "page_files.h"

#include <string.h>

/* What each needs stands before it. */
static const char *const modules[] = {"dom.js",  "schema.js",  "result.js", "feed.js",
                                      "list.js", "traffic.js", "viewer.js"};

static const idem_http_file *find(const char *name) {
  for (size_t i = 0; i < page_file_count; i++)
    if (strcmp(page_files[i].name, name) == 0) return &page_files[i].file;
  return NULL; /* unreachable: the files are part of the program */
}

static bool begins(const char *line, size_t len, const char *word) {
  size_t word_len = strlen(word);
  return len >= word_len && memcmp(line, word, word_len) == 0;
}

static idem_status put_line(idem__buf *out, const char *line, size_t len) {
  size_t skip = begins(line, len, "import ") ? len : begins(line, len, "export ") ? 7 : 0;
  idem_status status = idem__buf_put(out, line + skip, len - skip);
  return status == IDEM_OK ? idem__buf_puts(out, "\n") : status;
}

static idem_status put_module(idem__buf *out, const idem_http_file *file) {
  const char *text = file->plain, *end = text + file->plain_len;
  idem_status status = IDEM_OK;
  while (text < end && status == IDEM_OK) {
    const char *stop = memchr(text, '\n', (size_t)(end - text));
    if (!stop) stop = end;
    status = put_line(out, text, (size_t)(stop - text));
    text = stop + 1;
  }
  return status;
}

static idem_status put_script(idem__buf *out) {
  idem_status status = idem__buf_puts(out, "(() => {\n'use strict';\n");
  for (size_t i = 0; i < sizeof modules / sizeof *modules && status == IDEM_OK; i++)
    status = put_module(out, find(modules[i]));
  return status == IDEM_OK ? idem__buf_puts(out, "})();\n") : status;
}

static idem_status put_digest(idem__buf *out, const idem__buf *script) {
  uint8_t digest[IDEM__SHA256_BYTES];
  idem__sha256 sha;
  idem__sha256_init(&sha);
  idem__sha256_add(&sha, script->data, script->len);
  idem__sha256_end(&sha, digest);
  return idem__base64_encode(out, digest, sizeof digest, IDEM__BASE64_STANDARD);
}

static idem_status put_document(idem__buf *out, const idem__buf *script) {
  const idem_http_file *style = find("style.css");
  idem_status status = idem__buf_puts(
      out,
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; img-src data: blob:; media-src data: blob:; base-uri 'none'; form-action "
      "'none'; script-src 'sha256-");
  if (status == IDEM_OK) status = put_digest(out, script);
  if (status == IDEM_OK)
    status = idem__buf_puts(
        out,
        "'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n<title>idem: recordings</title>\n"
        "<style>\n");
  if (status == IDEM_OK) status = idem__buf_put(out, style->plain, style->plain_len);
  if (status == IDEM_OK)
    status = idem__buf_puts(
        out,
        "</style>\n</head>\n<body>\n<header class=\"bar\"><span class=\"brand\">idem</span>"
        "<div class=\"who\"><strong id=\"server-name\">recordings</strong></div></header>\n"
        "<main id=\"main\" tabindex=\"-1\"></main>\n"
        "<div id=\"notes\" class=\"notes\" role=\"status\" aria-live=\"polite\"></div>\n<script>");
  if (status == IDEM_OK) status = idem__buf_put(out, script->data, script->len);
  return status == IDEM_OK ? idem__buf_puts(out, "</script>\n</body>\n</html>\n") : status;
}

idem_status viewer_put(idem__buf *out) {
  idem__buf script;
  idem__buf_init(&script, NULL, (size_t)4 << 20);
  idem_status status = put_script(&script);
  if (status == IDEM_OK) status = put_document(out, &script);
  idem__buf_deinit(&script);
  return status;
}
