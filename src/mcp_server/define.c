/* define.c - what definitions of tools, resources and prompts have in common: JSON that is checked and
 * copied compact, and a sentence for whoever gave us something else. */
#include "define.h"
#include "server.h"

#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 512
#define BYTES_MAX ((size_t)16 << 20)

static idem_status copy_compact(idem_server *server, yyjson_val *value, char **out) {
  idem_buf compact;
  idem_buf_init(&compact, &server->alloc, BYTES_MAX);
  idem_status status = idem__json_put(&compact, value);
  if (status == IDEM_OK) {
    *out = idem__strndup(&server->alloc, compact.data, compact.len);
    if (!*out) status = IDEM_E_NOMEM;
  }
  idem_buf_deinit(&compact);
  return status;
}

idem_status idem__definition_read(idem_server *server, const char *text, char open, char **out,
                                  yyjson_doc **doc) {
  const idem_alloc *alloc = &server->alloc;
  yyjson_alc alc = idem__json_alc(alloc);
  idem_status status;
  *doc = idem__json_read_text(text, strlen(text), DEPTH_MAX, &alc, &status);
  if (!*doc) return status;
  bool fits = open == '{' ? yyjson_is_obj((*doc)->root) : yyjson_is_arr((*doc)->root);
  return fits ? copy_compact(server, (*doc)->root, out) : IDEM_E_INVAL;
}

idem_status idem__definition_json(idem_server *server, const char *text, char open, char **out) {
  yyjson_doc *doc;
  if (!text) return IDEM_OK;
  idem_status status = idem__definition_read(server, text, open, out, &doc);
  yyjson_doc_free(doc);
  return status;
}

idem_status idem__definition_refuse(char *why, size_t why_len, const char *sentence) {
  if (why && why_len) snprintf(why, why_len, "%s", sentence);
  return IDEM_E_INVAL;
}

idem_status idem__definition_copy(idem_server *server, const idem__definition_text *texts,
                                  size_t count, char *why, size_t why_len) {
  for (size_t i = 0; i < count; i++) {
    idem_status status = idem__definition_json(server, texts[i].text, texts[i].open, texts[i].out);
    if (status == IDEM_E_INVAL) return idem__definition_refuse(why, why_len, texts[i].sentence);
    if (status != IDEM_OK) return status;
  }
  return IDEM_OK;
}
