/* redis_scripts.c - the operations of a store as Lua, which Redis runs one at a time: each is all or nothing to everybody
 * else, whatever process asks. What they share is the prelude.
 *
 * Keys, those of a part with one hash tag, so that a cluster has them in one place ({p} is the prefix, or another part's tag; S a
 * space's number):
 *   {p}:m          hash: parts (of the store), clock (the last version given), bytes (of all), shown (when a key was, where
 *                  replicas are waited for)
 *   {p}:xS         sorted set: every record's name by when it expires, +inf for never
 *   {p}:rS:NAME    hash, the record: v value, n version, b birth, g group, e expiry, c counter, l last entry, s log's bytes
 *   {p}:lS:NAME    stream, its log: entry number-0
 *   {p}:gS:GROUP   sorted set: the group's names by birth
 *   {p}:news       channel: "event space version name"
 *
 * Versions are microseconds of Redis's clock, or one more than the last: also a Redis that came back without its last
 * seconds gives none twice. Numbers past 2^53 would not be exact, and such a clock is centuries away. Where Redis is out of
 * memory the first write of a script fails, so that is one that leaves nothing half done. While a slot moves to another node a
 * script fails when it touches a key that has gone there, or that is nowhere; so it looks at all that it will touch before it
 * changes the first. */
#include "redis_store.h"

#include <stdlib.h>
#include <string.h>

/* Arguments: space, name, now (0: Redis's clock), and as the last the number of parts; keys: meta, expiries, record, log, group. */
static const char prelude[] =
    "local space, name = ARGV[1], ARGV[2]\n"
    "local meta, expiries, record, log = KEYS[1], KEYS[2], KEYS[3], KEYS[4]\n"
    "local base = string.sub(meta, 1, -3)\n"
    "local time = redis.call('TIME')\n"
    "local us = tonumber(time[1]) * 1000000 + tonumber(time[2])\n"
    "local now = math.floor(us / 1000)\n"
    "if ARGV[3] ~= '0' then now = tonumber(ARGV[3]) end\n"
    "local function text(number) return string.format('%.0f', number) end\n"
    "local function tell(event, which, version)\n"
    "  redis.call('PUBLISH', base .. ':news', event .. ' ' .. space .. ' ' .. version .. ' ' .. "
    "which)\n"
    "end\n"
    /* Redis itself is full: its bound counts then, and ours begins anew. */
    "local function credit(bytes)\n"
    "  if bytes == 0 then return end\n"
    "  local left = redis.pcall('HINCRBY', meta, 'bytes', text(-bytes))\n"
    "  if type(left) == 'table' then redis.call('HDEL', meta, 'bytes') end\n"
    "end\n"
    "local function drop(which, event)\n"
    "  local key = base .. ':r' .. space .. ':' .. which\n"
    "  local f = redis.call('HMGET', key, 'g', 's', 'n')\n"
    "  if not f[3] then redis.call('ZREM', expiries, which) return end\n"
    "  local entries, group = base .. ':l' .. space .. ':' .. which, base .. ':g' .. space .. ':' "
    ".. f[1]\n"
    "  redis.call('EXISTS', entries, group)\n"
    "  local size = 128 + #which + #f[1] + redis.call('HSTRLEN', key, 'v') + tonumber(f[2])\n"
    "  redis.call('ZREM', expiries, which)\n"
    "  redis.call('DEL', key, entries)\n"
    "  redis.call('ZREM', group, which)\n"
    "  credit(size)\n"
    "  tell(event, which, f[3])\n"
    "end\n"
    "local function sweep(most)\n"
    "  local old = redis.call('ZRANGEBYSCORE', expiries, '-inf', text(now), 'LIMIT', 0, most)\n"
    "  for _, which in ipairs(old) do drop(which, 2) end\n"
    "  return #old\n"
    "end\n"
    "local function find(...)\n"
    "  local f = redis.call('HMGET', record, 'n', 'e', ...)\n"
    "  if not f[1] then return nil end\n"
    "  local expires = tonumber(f[2])\n"
    "  if expires > 0 and expires <= now then drop(name, 2) return nil end\n"
    "  return f\n"
    "end\n"
    "local function expiry(ttl)\n"
    "  if ttl == 0 then return 0 end\n"
    "  return now + ttl + (ttl >= 60000 and math.floor(ttl / 16) or 0)\n"
    "end\n"
    "local function set_expiry(at)\n"
    "  redis.call('HSET', record, 'e', text(at))\n"
    "  redis.call('ZADD', expiries, at == 0 and '+inf' or text(at), name)\n"
    "end\n"
    /* What tasks come to is for their clients to say, so they leave a quarter to the others. */
    "local function fits(bytes, most)\n"
    "  if space == '1' then most = most - math.floor(most / 4) end\n"
    "  local held = tonumber(redis.call('HGET', meta, 'bytes') or '0')\n"
    "  return bytes <= 0 or math.max(held, 0) + bytes <= most\n"
    "end\n"
    "local function charge(bytes) redis.call('HINCRBY', meta, 'bytes', text(bytes)) end\n"
    "local function next_version()\n"
    "  local last = tonumber(redis.call('HGET', meta, 'clock') or '0')\n"
    "  local version = text(us > last and us or last + 1)\n"
    "  redis.call('HSET', meta, 'clock', version, 'parts', ARGV[#ARGV])\n"
    "  return version\n"
    "end\n";

/* Further argument: 1, the WAIT behind it is to wait for what is shown here, whoever wrote it. It waits for what its own connection has written, so
 * something is. */
static const char get[] =
    "local f = find('v')\n"
    "if not f then return {1, '0', '0'} end\n"
    "if ARGV[4] == '1' then redis.pcall('HSET', meta, 'shown', text(us)) end\n"
    "return {0, f[1], '0', f[3]}\n";

/* Most touches find a record that has time enough: they end before the prelude, whose functions take longer to make than the rest. */
static const char touch_opening[] =
    "do\n"
    "  local f = redis.call('HMGET', KEYS[3], 'n', 'e')\n"
    "  if f[1] then\n"
    "    local now, ttl, expires = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(f[2])\n"
    "    if now == 0 then\n"
    "      local time = redis.call('TIME')\n"
    "      now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)\n"
    "    end\n"
    "    local slack = ttl >= 60000 and math.floor(ttl / 16) or 0\n"
    "    local enough = expires >= now + ttl and expires <= now + ttl + slack\n"
    "    if ttl == 0 then enough = expires == 0 end\n"
    "    if enough then return {0, f[1], '0'} end\n"
    "  end\n"
    "end\n";

/* Who is there lives on in a Redis without memory: a script may go on that has begun with a write which takes none, and what it writes then is in
 * the place of what it removed. That Redis is full is told (IDEM__STORE_FULL_OUTSIDE). */
_Static_assert(IDEM__STORE_FULL_OUTSIDE == 3, "the script says so");
static const char touch[] =
    "local f = find()\n"
    "if not f then return {1, '0', '0'} end\n"
    "local ttl, expires = tonumber(ARGV[4]), tonumber(f[2])\n"
    "local at = expiry(ttl)\n"
    "local enough = expires >= now + ttl and expires <= at\n"
    "if ttl == 0 then enough = expires == 0 end\n"
    "local full = '0'\n"
    "if not enough then\n"
    "  local said = redis.pcall('HSET', record, 'e', text(at))\n"
    "  if type(said) == 'table' then\n"
    "    if not string.find(said.err, 'OOM', 1, true) then return said end\n"
    "    full = '3'\n"
    "    redis.call('ZREM', expiries, name)\n"
    "  end\n"
    "  set_expiry(at)\n"
    "end\n"
    "return {0, f[1], full}\n";

/* Further arguments: expect, ttl, limit, most bytes, group, value, limit of the group. */
static const char put[] =
    "local f = find()\n"
    "local expect, ttl, limit, most = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), "
    "tonumber(ARGV[7])\n"
    "local group, value = ARGV[8], ARGV[9]\n"
    "if expect == '0' and f then return {2, f[1], '0'} end\n"
    "if expect ~= '0' and expect ~= 'any' then\n"
    "  if not f then return {1, '0', '0'} end\n"
    "  if f[1] ~= expect then return {3, f[1], '0'} end\n"
    "end\n"
    "if f then\n"
    "  local more = #value - redis.call('HSTRLEN', record, 'v')\n"
    "  if not fits(more, most) then return {4, f[1], '0'} end\n"
    "  local version = next_version()\n"
    "  charge(more)\n"
    "  redis.call('HSET', record, 'v', value, 'n', version)\n"
    "  set_expiry(expiry(ttl))\n"
    "  tell(0, name, version)\n"
    "  return {0, version, '0'}\n"
    "end\n"
    "sweep(64)\n"
    "local there = redis.call('ZCARD', expiries) - redis.call('ZCOUNT', expiries, '-inf', "
    "text(now))\n"
    "if limit > 0 and there >= limit then return {4, '0', '0'} end\n"
    "local own = tonumber(ARGV[10])\n"
    "if own > 0 and redis.call('ZCARD', KEYS[5]) >= own then return {4, '0', '1'} end\n"
    "local size = 128 + #name + #group + #value\n"
    "if not fits(size, most) then return {4, '0', '0'} end\n"
    "local birth = next_version()\n"
    "local version = next_version()\n"
    "charge(size)\n"
    "redis.call('HSET', record, 'v', value, 'n', version, 'b', birth, 'g', group,\n"
    "           'e', '0', 'c', '0', 'l', '0', 's', '0')\n"
    "set_expiry(expiry(ttl))\n"
    "redis.call('ZADD', KEYS[5], birth, name)\n"
    "tell(0, name, version)\n"
    "return {0, version, '0'}\n";

static const char remove_record[] =
    "local f = find()\n"
    "if not f then return {1, '0', '0'} end\n"
    "if ARGV[4] == '0' then return {2, f[1], '0'} end\n"
    "if ARGV[4] ~= 'any' and f[1] ~= ARGV[4] then return {3, f[1], '0'} end\n"
    "drop(name, 1)\n"
    "return {0, f[1], '0'}\n";

/* Further arguments: limit of the log, most bytes, the entry. What cannot be kept has a number all the same. */
static const char append[] =
    "local f = find('l', 's')\n"
    "if not f then return {1, '0', '0'} end\n"
    "local limit, most, entry = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]\n"
    "local number, held = text(tonumber(f[3]) + 1), tonumber(f[4])\n"
    "local size, before = 64 + #entry, held\n"
    "redis.call('HSET', record, 'l', number)\n"
    "if limit == 0 or size <= limit then\n"
    "  while limit > 0 and held > 0 and held > limit - size do\n"
    "    local oldest = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1]\n"
    "    if oldest then redis.call('XDEL', log, oldest[1]) end\n"
    "    held = oldest and math.max(held - 64 - #oldest[2][2], 0) or 0\n"
    "  end\n"
    "  if fits(size - (before - held), most) then\n"
    "    redis.call('XADD', log, number .. '-0', 'd', entry)\n"
    "    held = held + size\n"
    "  end\n"
    "  charge(held - before)\n"
    "  redis.call('HSET', record, 's', text(held))\n"
    "end\n"
    "tell(3, name, number)\n"
    "return {0, '0', number}\n";

/* Further arguments: the first entry, how many at a time (0: only the last number). */
static const char read_log[] =
    "local f = find('l')\n"
    "if not f then return {1, '0', '0'} end\n"
    "local page, most = {}, tonumber(ARGV[5])\n"
    "if most == 0 then return {0, '0', f[3], 0, page} end\n"
    "local entries = redis.call('XRANGE', log, ARGV[4] .. '-0', '+', 'COUNT', most)\n"
    "for _, entry in ipairs(entries) do\n"
    "  page[#page + 1] = string.match(entry[1], '^%d+')\n"
    "  page[#page + 1] = entry[2][2]\n"
    "end\n"
    "return {0, '0', f[3], #entries == most and 1 or 0, page}\n";

static const char count[] = "local f = find('c')\n"
                            "if not f then return {1, '0', '0'} end\n"
                            "redis.call('HINCRBY', record, 'c', ARGV[4])\n"
                            "return {0, '0', f[3]}\n";

/* Further arguments: after, how many at a time. Gives the last birth that was looked at. */
static const char list[] =
    "local after, most, page, bytes = ARGV[4], tonumber(ARGV[5]), {}, 0\n"
    "local names = redis.call('ZRANGEBYSCORE', KEYS[5], '(' .. after, '+inf', 'LIMIT', 0, most)\n"
    "local seen = 0\n"
    "for _, which in ipairs(names) do\n"
    "  if bytes > 1048576 then break end\n"
    "  local f = redis.call('HMGET', base .. ':r' .. space .. ':' .. which, 'b', 'n', 'e', 'v')\n"
    "  seen = seen + 1\n"
    "  if f[1] then\n"
    "    after = f[1]\n"
    "    local expires = tonumber(f[3])\n"
    "    if expires == 0 or expires > now then\n"
    "      page[#page + 1] = f[1]\n"
    "      page[#page + 1] = f[2]\n"
    "      page[#page + 1] = which\n"
    "      page[#page + 1] = f[4]\n"
    "      bytes = bytes + #which + #f[4]\n"
    "    end\n"
    "  end\n"
    "end\n"
    "local more = after ~= ARGV[4] and (seen < #names or #names == most)\n"
    "return {0, '0', after, more and 1 or 0, page}\n";

static const char tell[] = "tell(4, name, '0')\n"
                           "return {0, '0', '0'}\n";

/* Further argument: how many parts a store has that is made now. One that was made before they were counted has one. */
static const char join[] = "local held = redis.call('HMGET', meta, 'parts', 'clock')\n"
                           "local parts = held[1] or (held[2] and '1') or ARGV[4]\n"
                           "if not held[1] then redis.call('HSET', meta, 'parts', parts) end\n"
                           "return {0, '0', parts, text(now)}\n";

/* Both tell the time, for what is judged here. */
static const char sweep[] = "return {0, '0', text(sweep(256)), text(now)}\n";

static const char *body_of(redis_script which) {
  switch (which) {
  case REDIS_GET: return get;
  case REDIS_TOUCH: return touch;
  case REDIS_PUT: return put;
  case REDIS_REMOVE: return remove_record;
  case REDIS_APPEND: return append;
  case REDIS_READ: return read_log;
  case REDIS_COUNT: return count;
  case REDIS_LIST: return list;
  case REDIS_TELL: return tell;
  case REDIS_SWEEP: return sweep;
  case REDIS_JOIN: return join;
  case REDIS_PEEK:
  case REDIS_SCRIPTS: break;
  }
  return "";
}

char *redis_script_text(redis_script which) {
  const char *parts[] = {which == REDIS_TOUCH ? touch_opening : "", prelude, body_of(which)};
  size_t size = 1;
  for (int i = 0; i < 3; i++) size += strlen(parts[i]);
  char *text = malloc(size), *end = text;
  for (int i = 0; i < 3 && text; i++) end = stpcpy(end, parts[i]);
  return text;
}
