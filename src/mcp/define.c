/* define.c - what definitions of tools, resources and prompts have in common: JSON that is checked and
 * copied compact, and a sentence for whoever gave us something else. */
#include "define.h"
#include "server.h"

#include <stdio.h>
#include <string.h>

idem_status idem__definition_json(idem_server *server, const char *text, char open, char **out) {
  idem__buf compact;
  if (!text) return IDEM_OK;
  idem__buf_init(&compact, &server->alloc, (size_t)16 << 20);
  idem_status status = idem__json_put_text(&compact, text, strlen(text), 512);
  if (status == IDEM_OK && compact.data[0] != open) status = IDEM_E_INVAL;
  if (status == IDEM_OK) {
    *out = idem__strndup(&server->alloc, compact.data, compact.len);
    if (!*out) status = IDEM_E_NOMEM;
  }
  idem__buf_deinit(&compact);
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
