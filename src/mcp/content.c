/* content.c - content blocks: building them, and writing them as a revision knows them.
 * A kind that the peer's revision does not know becomes a text that says what it was; fields it
 * does not know are left out. */
#include "content.h"

#include <string.h>

/* ------------------------------------------------------------------ building */

static yyjson_mut_val *add_block(yyjson_mut_doc *doc, yyjson_mut_val *content, const char *type) {
  yyjson_mut_val *block = yyjson_mut_arr_add_obj(doc, content);
  return yyjson_mut_obj_add_strcpy(doc, block, "type", type) ? block : NULL;
}

bool idem_content_text(yyjson_mut_doc *doc, yyjson_mut_val *content, const char *text, size_t len) {
  yyjson_mut_val *block = add_block(doc, content, "text");
  return yyjson_mut_obj_add_strncpy(doc, block, "text", text, len);
}

static bool add_base64(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key,
                       const void *data, size_t len) {
  if (len > SIZE_MAX / 2) return false;
  idem_buf text;
  size_t room = len / 3 * 4 + 5;
  char *memory = doc->alc.malloc(doc->alc.ctx, room); /* what the document itself is made of */
  if (!memory) return false;
  idem_buf_fixed(&text, memory, room);
  bool added = idem_base64_encode(&text, data, len, IDEM_BASE64_STANDARD) == IDEM_OK &&
               yyjson_mut_obj_add_strncpy(doc, object, key, memory, text.len);
  doc->alc.free(doc->alc.ctx, memory);
  return added;
}

static bool add_media(yyjson_mut_doc *doc, yyjson_mut_val *content, const char *type,
                      const void *data, size_t len, const char *mime_type) {
  yyjson_mut_val *block = add_block(doc, content, type);
  return block && add_base64(doc, block, "data", data, len) &&
         yyjson_mut_obj_add_strcpy(doc, block, "mimeType", mime_type);
}

bool idem_content_image(yyjson_mut_doc *doc, yyjson_mut_val *content, const void *data, size_t len,
                        const char *mime_type) {
  return add_media(doc, content, "image", data, len, mime_type);
}

bool idem_content_audio(yyjson_mut_doc *doc, yyjson_mut_val *content, const void *data, size_t len,
                        const char *mime_type) {
  return add_media(doc, content, "audio", data, len, mime_type);
}

bool idem_content_resource_text(yyjson_mut_doc *doc, yyjson_mut_val *content, const char *uri,
                                const char *mime_type, const char *text, size_t len) {
  yyjson_mut_val *block = add_block(doc, content, "resource");
  yyjson_mut_val *resource = yyjson_mut_obj_add_obj(doc, block, "resource");
  return yyjson_mut_obj_add_strcpy(doc, resource, "uri", uri) &&
         (!mime_type || yyjson_mut_obj_add_strcpy(doc, resource, "mimeType", mime_type)) &&
         yyjson_mut_obj_add_strncpy(doc, resource, "text", text, len);
}

bool idem_content_link(yyjson_mut_doc *doc, yyjson_mut_val *content, const char *uri,
                       const char *name, const char *mime_type) {
  yyjson_mut_val *block = add_block(doc, content, "resource_link");
  return yyjson_mut_obj_add_strcpy(doc, block, "uri", uri) &&
         yyjson_mut_obj_add_strcpy(doc, block, "name", name) &&
         (!mime_type || yyjson_mut_obj_add_strcpy(doc, block, "mimeType", mime_type));
}

/* ------------------------------------------------------------------- writing */

static bool kind_is(yyjson_val *block, const char *kind) {
  return yyjson_equals_str(yyjson_obj_get(block, "type"), kind);
}

static bool knows_kind(yyjson_val *block, const idem__revision *revision) {
  if (kind_is(block, "audio")) return idem__revision_has(revision, IDEM__F_AUDIO);
  if (kind_is(block, "resource_link")) return idem__revision_has(revision, IDEM__F_RESOURCE_LINK);
  return true;
}

static void write_as_text(yyjson_val *block, idem__writer *writer) {
  const char *uri = yyjson_get_str(yyjson_obj_get(block, "uri"));
  idem__write_object(writer);
  idem__write_member_text(writer, "type", "text");
  idem__write_key(writer, "text");
  if (uri)
    idem__write_text(writer, uri);
  else
    idem__write_text(writer, "[audio that this protocol revision cannot carry]");
  idem__write_object_end(writer);
}

static void write_annotations(yyjson_val *annotations, idem__writer *writer) {
  yyjson_obj_iter iter = yyjson_obj_iter_with(annotations);
  idem__write_object(writer);
  for (yyjson_val *key; (key = yyjson_obj_iter_next(&iter));) {
    if (yyjson_equals_str(key, "lastModified")) continue;
    idem__write_value(writer, key);
    writer->comma = false;
    idem__write_raw(writer, ":", 1);
    writer->comma = false;
    idem__write_value(writer, yyjson_obj_iter_get_val(key));
  }
  idem__write_object_end(writer);
}

static bool knows_member(yyjson_val *key, const idem__revision *revision) {
  if (yyjson_equals_str(key, "_meta")) return idem__revision_has(revision, IDEM__F_META);
  if (yyjson_equals_str(key, "title")) return idem__revision_has(revision, IDEM__F_TITLE);
  if (yyjson_equals_str(key, "icons")) return idem__revision_has(revision, IDEM__F_ICONS);
  return true;
}

static void write_known_members(yyjson_val *block, const idem__revision *revision,
                                idem__writer *writer) {
  bool dates = idem__revision_has(revision, IDEM__F_LAST_MODIFIED);
  yyjson_obj_iter iter = yyjson_obj_iter_with(block);
  idem__write_object(writer);
  for (yyjson_val *key; (key = yyjson_obj_iter_next(&iter));) {
    yyjson_val *val = yyjson_obj_iter_get_val(key);
    if (!knows_member(key, revision)) continue;
    idem__write_value(writer, key);
    writer->comma = false;
    idem__write_raw(writer, ":", 1);
    writer->comma = false;
    if (!dates && yyjson_equals_str(key, "annotations") && yyjson_is_obj(val)) {
      write_annotations(val, writer);
    } else if (yyjson_equals_str(key, "resource") && yyjson_is_obj(val)) {
      write_known_members(val, revision, writer);
    } else {
      idem__write_value(writer, val);
    }
  }
  idem__write_object_end(writer);
}

void idem__content_write_block(yyjson_val *block, const idem__revision *revision,
                               idem__writer *writer) {
  if (!yyjson_is_obj(block)) {
    if (writer->status == IDEM_OK) writer->status = IDEM_E_INVAL;
  } else if (knows_kind(block, revision)) {
    write_known_members(block, revision, writer);
  } else {
    write_as_text(block, writer);
  }
}

void idem__content_write(yyjson_val *blocks, const idem__revision *revision, idem__writer *writer) {
  yyjson_arr_iter iter = yyjson_arr_iter_with(blocks);
  idem__write_array(writer);
  for (yyjson_val *block; (block = yyjson_arr_iter_next(&iter));) {
    idem__content_write_block(block, revision, writer);
  }
  idem__write_array_end(writer);
}
