/* viewer.c - see viewer.h. The script is made with the program, of some of the page's modules (cmake/page.cmake). */
#include "viewer.h"

#include "page_files.h"

#include <string.h>

static const idem_http_file *find(const char *name) {
  for (size_t i = 0; i < page_file_count; i++)
    if (strcmp(page_files[i].name, name) == 0) return &page_files[i].file;
  return NULL; /* unreachable: the files are part of the program */
}

static idem_status put_digest(idem_buf *out, const idem_http_file *script) {
  uint8_t digest[IDEM_SHA256_BYTES];
  idem_sha256 sha;
  idem_sha256_init(&sha);
  idem_sha256_add(&sha, script->plain, script->plain_len);
  idem_sha256_end(&sha, digest);
  return idem_base64_encode(out, digest, sizeof digest, IDEM_BASE64_STANDARD);
}

idem_status viewer_put(idem_buf *out) {
  const idem_http_file *style = find("style.css"), *script = find("viewer.js");
  idem_status status = idem_buf_puts(
      out,
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; img-src data: blob:; media-src data: blob:; base-uri 'none'; form-action "
      "'none'; script-src 'sha256-");
  if (status == IDEM_OK) status = put_digest(out, script);
  if (status == IDEM_OK)
    status = idem_buf_puts(
        out,
        "'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n<title>idem: recordings</title>\n"
        "<style>\n");
  if (status == IDEM_OK) status = idem_buf_put(out, style->plain, style->plain_len);
  if (status == IDEM_OK)
    status = idem_buf_puts(
        out, "</style>\n</head>\n<body>\n<header class=\"bar\"><span class=\"brand\">idem</span>"
             "<div class=\"who\"><strong id=\"server-name\">recordings</strong></div>"
             "<div id=\"notes\" class=\"notes\" role=\"status\"></div></header>\n"
             "<main id=\"main\" tabindex=\"-1\"></main>\n<script>");
  if (status == IDEM_OK) status = idem_buf_put(out, script->plain, script->plain_len);
  return status == IDEM_OK ? idem_buf_puts(out, "</script>\n</body>\n</html>\n") : status;
}
