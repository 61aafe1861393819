/* logged.c - which claims of a token may be seen in a log, and how: scalars alone, each as one word behind its name, redacted and
 * bounded, so that a line holds all of them and none can pass for another. Written once, when the grant is made. */
#include "proof.h"

#include <string.h>

#define WORD_BYTES ((size_t)72)

/* ------------------------------------------------------------------- names */

/* What a log takes out of its lines by the name it stands behind. */
static bool is_secret_name(const char *name) {
  char before[IDEM__LOGGED_NAME + 16], after[2 * sizeof before];
  idem_buf text, redacted;
  idem_buf_fixed(&text, before, sizeof before);
  idem_buf_fixed(&redacted, after, sizeof after);
  if (idem_buf_printf(&text, " %s=word", name) != IDEM_OK) return true;
  idem_redact_cut(&redacted, before, text.len, NULL, 0, false);
  return redacted.len != text.len || memcmp(after, before, text.len) != 0;
}

const char *idem__logged_fault(const char *name) {
  char word[IDEM__LOGGED_NAME + 8];
  idem_buf text;
  size_t len = strlen(name);
  if (!len) return "a claim has a name";
  if (len > IDEM__LOGGED_NAME) return "a name is longer than 64 bytes";
  idem_buf_fixed(&text, word, sizeof word);
  if (idem_text_word(&text, name, len, IDEM__LOGGED_NAME) != IDEM_OK || text.len != len ||
      memcmp(word, name, len) != 0 || strchr(name, '='))
    return "a name has a character that does not go into a log (blanks, quotes, % = \\)";
  if (strcmp(name, "cnf") == 0) return "cnf is about a key, and no text";
  return is_secret_name(name) ? "a log hides whatever stands behind such a name" : NULL;
}

/* ------------------------------------------------------------------ values */

/* The text of a scalar; NULL: it is none. Numbers are raw. */
static const char *scalar(yyjson_val *value, size_t *len) {
  const char *text = yyjson_is_raw(value) ? yyjson_get_raw(value) : yyjson_get_str(value);
  *len = yyjson_get_len(value);
  if (!yyjson_is_bool(value)) return text;
  text = yyjson_get_bool(value) ? "true" : "false";
  *len = strlen(text);
  return text;
}

/* Secrets are looked for before anything is cut: half of one would not be known for what it is. */
static idem_status put_claim(idem_buf *out, yyjson_val *claims, const char *name) {
  const char *const once[] = {name, NULL};
  char storage[4 * WORD_BYTES];
  idem_buf redacted;
  size_t len;
  const char *text = scalar(yyjson_obj_get(claims, name), &len);
  if (!text || !idem__token_says_once(claims, once)) return IDEM_OK;
  idem_buf_fixed(&redacted, storage, sizeof storage);
  idem_redact_cut(&redacted, text, len, NULL, 0, false);
  idem_status status = idem_buf_printf(out, " %s=", name);
  return status == IDEM_OK ? idem_text_word(out, storage, redacted.len, WORD_BYTES) : status;
}

idem_status idem__grant_log_claims(idem__grant *grant, char *const *names) {
  char storage[IDEM__LOGGED_MAX * (IDEM__LOGGED_NAME + WORD_BYTES + 8)];
  idem_buf out;
  idem_status status = IDEM_OK;
  idem_buf_fixed(&out, storage, sizeof storage);
  for (size_t i = 0; names && names[i] && status == IDEM_OK; i++)
    status = put_claim(&out, yyjson_doc_get_root(grant->claims), names[i]);
  return status == IDEM_OK && out.len ? idem__grant_keep_logged(grant, storage, out.len) : status;
}
