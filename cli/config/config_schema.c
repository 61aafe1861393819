/* config_schema.c - where in the file a tool's schema is wrong. A schema is compiled from text that was
 * made of the file; what its pointers lead to there is found in the file again. */
#include "config.h"

#include <stdio.h>
#include <string.h>

/* "properties/NAME/..." of what "args" became is NAME or NAME? there. */
static yyjson_val *find_argument(const config_source *source, const char *args, const char *path) {
  char pointer[768];
  size_t skip = strlen("/properties/");
  if (strncmp(path, "/properties/", skip) != 0) return source_find(source, args);
  size_t len = strcspn(path + skip, "/");
  snprintf(pointer, sizeof pointer, "%s/%s", args, path + skip);
  yyjson_val *found = source_find(source, pointer);
  if (found != source_find(source, args)) return found;
  snprintf(pointer, sizeof pointer, "%s/%.*s?%s", args, (int)len, path + skip, path + skip + len);
  return source_find(source, pointer);
}

void config_schema_fault(serve_config *self, const tool_config *tool, const char *member,
                         const idem_schema_fault *fault) {
  char whole[256], pointer[768];
  const char *path = strchr(fault->schema_path, '#');
  snprintf(whole, sizeof whole, "/tools/%s/%s", tool->name, member);
  snprintf(pointer, sizeof pointer, "%s%s", whole, path ? path + 1 : "");
  yyjson_val *at = strcmp(member, "args") == 0
                       ? find_argument(&self->source, whole, path ? path + 1 : "")
                       : source_find(&self->source, pointer);
  source_fault(&self->source, at, "tool %s: %s: %s", tool->name, member, fault->sentence);
}
