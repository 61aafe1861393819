/* path.c - where things are: schema paths from the places of nodes, JSON Pointer tokens. */
#include "schema.h"

/* Deeper chains than the compiler allows cannot exist. */
#define MAX_CHAIN 4096

idem_status idem__pointer_token(idem_buf *out, const char *token, size_t len) {
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < len && status == IDEM_OK; i++) {
    if (token[i] == '~')
      status = idem_buf_puts(out, "~0");
    else if (token[i] == '/')
      status = idem_buf_puts(out, "~1");
    else
      status = idem_buf_put(out, token + i, 1);
  }
  return status;
}

static idem_status put_place(const node_place *place, idem_buf *out) {
  if (place->parent == NODE_NONE) {
    idem_status status = idem_buf_put(out, place->name, place->name_len);
    bool has_fragment = place->name_len && memchr(place->name, '#', place->name_len);
    return status == IDEM_OK && !has_fragment ? idem_buf_puts(out, "#") : status;
  }
  idem_status status = idem_buf_printf(out, "/%s", idem__keyword_text((keyword)place->keyword));
  if (status == IDEM_OK && place->named) {
    status = idem_buf_puts(out, "/");
    if (status == IDEM_OK) status = idem__pointer_token(out, place->name, place->name_len);
  } else if (status == IDEM_OK && place->index != UINT32_MAX) {
    status = idem_buf_printf(out, "/%u", (unsigned)place->index);
  }
  return status;
}

static idem_status put_chain(const idem_schema *schema, node_id id, idem_buf *out, unsigned left) {
  const node_place *place = &schema->nodes[id].place;
  idem_status status = IDEM_OK;
  if (place->parent != NODE_NONE && left > 0)
    status = put_chain(schema, place->parent, out, left - 1);
  return status == IDEM_OK ? put_place(place, out) : status;
}

idem_status idem__schema_path(const idem_schema *schema, node_id id, idem_buf *out) {
  return put_chain(schema, id, out, MAX_CHAIN);
}
