/* view.h - borrowed bytes, as heads of messages are made of. */
#ifndef IDEM_HTTP_VIEW_H
#define IDEM_HTTP_VIEW_H

#include "../base/base.h"

/* Borrowed bytes. `at` NULL: absent, which differs from empty. */
typedef struct idem__view {
  const char *at;
  size_t len;
} idem__view;
#define IDEM__VIEW(literal) ((idem__view){"" literal, sizeof(literal) - 1})
static inline bool idem__view_is(idem__view view, const char *text, size_t len) {
  return view.at && idem__text_equal_nocase(view.at, view.len, text, len);
}
#define idem__view_eq(view, literal) idem__view_is((view), "" literal, sizeof(literal) - 1)
/* Without blanks (space, tab) at both ends. */
idem__view idem__view_trim_ends(idem__view view);
/* Mostly there is nothing to trim. */
static inline idem__view idem__view_trim(idem__view view) {
  if (!view.len || (view.at[0] > ' ' && view.at[view.len - 1] > ' ')) return view;
  return idem__view_trim_ends(view);
}
/* What may be a header's name. */
bool idem__view_is_token(idem__view text);
/* The next element of a comma-separated list, trimmed; false at the end. */
bool idem__view_next(idem__view *list, idem__view *element);

#endif
