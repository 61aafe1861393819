/* client.c - telling clients apart: addresses, trusted proxies.
 * One named header is believed, only from a listed peer, and only up to the first hop that is not
 * listed; anything else is the client's own invention. See docs/internals/http.md. */
#include "http.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* -------------------------------------------------------------- addresses */

static bool parse_ipv4(idem__view text, uint8_t out[4]) {
  size_t at = 0;
  for (int part = 0; part < 4; part++) {
    unsigned value = 0;
    size_t digits = 0;
    while (at < text.len && text.at[at] >= '0' && text.at[at] <= '9' && digits < 4) {
      value = value * 10 + (unsigned)(text.at[at++] - '0');
      digits++;
    }
    if (!digits || digits > 3 || value > 255 || (digits > 1 && text.at[at - digits] == '0'))
      return false;
    out[part] = (uint8_t)value;
    if (part < 3 && (at >= text.len || text.at[at++] != '.')) return false;
  }
  return at == text.len;
}

/* Reads colon-separated groups up to "::" or the end; -1: malformed. */
static int parse_groups(idem__view text, uint8_t *out, int room) {
  int used = 0;
  while (text.len) {
    size_t len = 0;
    unsigned value = 0;
    while (len < text.len && len < 4 && idem_hex_value(text.at[len]) >= 0)
      value = value * 16 + (unsigned)idem_hex_value(text.at[len++]);
    if (len < text.len && text.at[len] == '.') {
      if (used + 4 > room || !parse_ipv4(text, out + used)) return -1;
      return used + 4;
    }
    if (!len || used + 2 > room) return -1;
    out[used++] = (uint8_t)(value >> 8);
    out[used++] = (uint8_t)value;
    if (len == text.len) break;
    if (text.at[len] != ':' || len + 1 == text.len) return -1;
    text.at += len + 1, text.len -= len + 1;
  }
  return used;
}

static bool parse_ipv6(idem__view text, uint8_t out[16]) {
  size_t gap = 0;
  while (gap + 1 < text.len && !(text.at[gap] == ':' && text.at[gap + 1] == ':')) gap++;
  memset(out, 0, 16);
  if (gap + 1 >= text.len) return parse_groups(text, out, 16) == 16;
  uint8_t tail[16];
  int left = parse_groups((idem__view){text.at, gap}, out, 14);
  idem__view rest = {text.at + gap + 2, text.len - gap - 2};
  int right = parse_groups(rest, tail, 14);
  if (left < 0 || right < 0 || left + right > 14) return false;
  memcpy(out + 16 - right, tail, (size_t)right);
  return true;
}

void idem__ip_text(const idem__ip *address, char text[IDEM__IP_TEXT]) {
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
  const uint8_t *b = address->bytes;
  idem_buf out;
  if (memcmp(b, mapped, sizeof mapped) == 0) {
    snprintf(text, IDEM__IP_TEXT, "%u.%u.%u.%u", b[12], b[13], b[14], b[15]);
    return;
  }
  idem_buf_fixed(&out, text, IDEM__IP_TEXT - 1);
  for (size_t i = 0; i < 16; i += 2)
    idem_buf_printf(&out, i ? ":%x" : "%x", (unsigned)b[i] << 8 | b[i + 1]);
  text[out.len] = '\0';
}

bool idem__ip_parse(idem__view text, idem__ip *address) {
  if (text.len > 2 && text.at[0] == '[' && text.at[text.len - 1] == ']') text.at++, text.len -= 2;
  uint8_t four[4];
  if (parse_ipv4(text, four)) {
    memset(address->bytes, 0, 10);
    memset(address->bytes + 10, 0xff, 2);
    memcpy(address->bytes + 12, four, 4);
    return true;
  }
  return text.len >= 2 && parse_ipv6(text, address->bytes);
}

static bool is_ipv4(const idem__ip *address) {
  static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
  return memcmp(address->bytes, prefix, sizeof prefix) == 0;
}

idem__ip idem__ip_client(const idem__ip *who) {
  idem__ip key = *who;
  if (!is_ipv4(who)) memset(key.bytes + 8, 0, 8);
  return key;
}

bool idem__ip_loopback(const idem__ip *who) {
  static const idem__ip six = {{[15] = 1}};
  if (is_ipv4(who)) return who->bytes[12] == 127;
  return memcmp(who, &six, sizeof six) == 0;
}

bool idem__ip_block_parse(idem__view text, idem__ip_block *block) {
  const char *slash = text.len ? memchr(text.at, '/', text.len) : NULL;
  idem__view host = {text.at, slash ? (size_t)(slash - text.at) : text.len};
  if (!idem__ip_parse(host, &block->address)) return false;
  unsigned offset = is_ipv4(&block->address) && memchr(host.at, '.', host.len) ? 96 : 0, bits = 0;
  block->bits = 128;
  if (!slash) return true;
  idem__view digits = {slash + 1, text.len - host.len - 1};
  if (!digits.len || digits.len > 3) return false;
  for (size_t i = 0; i < digits.len; i++) {
    if (digits.at[i] < '0' || digits.at[i] > '9') return false;
    bits = bits * 10 + (unsigned)(digits.at[i] - '0');
  }
  block->bits = bits + offset;
  return block->bits <= 128;
}

static bool block_holds(const idem__ip_block *block, const idem__ip *who) {
  unsigned whole = block->bits / 8, rest = block->bits % 8;
  if (memcmp(block->address.bytes, who->bytes, whole) != 0) return false;
  if (!rest) return true;
  unsigned mask = 0xffu << (8 - rest);
  return ((block->address.bytes[whole] ^ who->bytes[whole]) & mask & 0xffu) == 0;
}

bool idem__ip_in(const idem__ip_block *blocks, size_t count, const idem__ip *who) {
  for (size_t i = 0; i < count; i++)
    if (block_holds(&blocks[i], who)) return true;
  return false;
}

/* -------------------------------------------------------------- forwarding */

static idem__view without_port(idem__view text) {
  if (text.len && text.at[0] == '[') {
    const char *close = memchr(text.at, ']', text.len);
    return close ? (idem__view){text.at, (size_t)(close - text.at) + 1} : text;
  }
  const char *colon = text.len ? memchr(text.at, ':', text.len) : NULL;
  if (colon && !memchr(colon + 1, ':', text.len - (size_t)(colon - text.at) - 1))
    text.len = (size_t)(colon - text.at);
  return text;
}

/* The for= parameter of one element of a Forwarded header. */
static idem__view forwarded_for(idem__view element) {
  while (element.len) {
    const char *semicolon = memchr(element.at, ';', element.len);
    size_t len = semicolon ? (size_t)(semicolon - element.at) : element.len;
    idem__view pair = idem__view_trim((idem__view){element.at, len});
    if (pair.len > 4 && idem__text_equal_nocase(pair.at, 4, "for=", 4)) {
      idem__view value = {pair.at + 4, pair.len - 4};
      if (value.len > 1 && value.at[0] == '"' && value.at[value.len - 1] == '"')
        value.at++, value.len -= 2;
      return value;
    }
    if (!semicolon) break;
    element.at += len + 1, element.len -= len + 1;
  }
  return (idem__view){NULL, 0};
}

/* The last element of a comma list, cut off it. */
static bool last_element(idem__view *list, idem__view *element) {
  if (!list->at) return false;
  size_t at = list->len;
  while (at > 0 && list->at[at - 1] != ',') at--;
  *element = idem__view_trim((idem__view){list->at + at, list->len - at});
  if (at)
    list->len = at - 1;
  else
    list->at = NULL;
  return true;
}

#define HOPS_MAX 16

/* The headers of one name are one list, whose end the nearest proxy wrote: read backwards. */
typedef struct hops {
  const idem_http_request *request;
  const char *name;
  size_t name_len;
  size_t next;     /* headers not looked at */
  idem__view list; /* of the one before */
} hops;

static bool last_hop(hops *walk, idem__view *element) {
  while (!last_element(&walk->list, element)) {
    if (!walk->next) return false;
    const idem__http_header *header = &walk->request->headers[--walk->next];
    const char *name = walk->request->base + header->name;
    if (!idem__text_equal_nocase(name, header->name_len, walk->name, walk->name_len)) continue;
    walk->list = (idem__view){walk->request->base + header->value, header->value_len};
  }
  return true;
}

idem__ip idem__client_address(const idem_http_request *request, const idem__ip *peer,
                              const idem__proxies *proxies) {
  idem__ip client = *peer, address;
  if (!proxies->count || !idem__ip_in(proxies->blocks, proxies->count, peer)) return client;
  hops walk = {.request = request,
               .name = proxies->header,
               .name_len = strlen(proxies->header),
               .next = request->header_count};
  bool forwarded = idem__text_equal_nocase(walk.name, walk.name_len, "forwarded", 9);
  idem__view element;
  for (int hop = 0; hop < HOPS_MAX && last_hop(&walk, &element); hop++) {
    if (forwarded) element = forwarded_for(element);
    if (!element.at || !idem__ip_parse(without_port(element), &address)) break;
    client = address;
    if (!idem__ip_in(proxies->blocks, proxies->count, &address)) break;
  }
  return client;
}
