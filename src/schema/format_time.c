/* format_time.c - date, time, date-time and duration as RFC 3339 has them.
 * A leap second is 23:59:60 in UTC, whatever the offset it is written with. */
#include "format.h"

static int two_digits(const char *text) {
  if (!idem__is_digit(text[0]) || !idem__is_digit(text[1])) return -1;
  return (text[0] - '0') * 10 + (text[1] - '0');
}

static int days_in_month(int year, int month) {
  static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return month == 2 && leap ? 29 : days[month - 1];
}

bool idem__format_date(const char *text, size_t len, format_env *env) {
  (void)env;
  if (len != 10 || text[4] != '-' || text[7] != '-') return false;
  int century = two_digits(text), rest = two_digits(text + 2);
  int month = two_digits(text + 5), day = two_digits(text + 8);
  if (century < 0 || rest < 0 || month < 1 || month > 12) return false;
  return day >= 1 && day <= days_in_month(century * 100 + rest, month);
}

/* The offset in minutes: Z, +hh:mm or -hh:mm, up to the end. */
static bool read_offset(const char *text, size_t len, int *minutes) {
  *minutes = 0;
  if (len == 1) return text[0] == 'Z' || text[0] == 'z';
  if (len != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') return false;
  int hour = two_digits(text + 1), minute = two_digits(text + 4);
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59) return false;
  *minutes = (hour * 60 + minute) * (text[0] == '-' ? -1 : 1);
  return true;
}

bool idem__format_time(const char *text, size_t len, format_env *env) {
  (void)env;
  if (len < 9 || text[2] != ':' || text[5] != ':') return false;
  int hour = two_digits(text), minute = two_digits(text + 3), second = two_digits(text + 6);
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) return false;
  size_t at = 8;
  if (text[at] == '.') {
    size_t start = ++at;
    while (at < len && idem__is_digit(text[at])) at++;
    if (at == start) return false;
  }
  int offset;
  if (!read_offset(text + at, len - at, &offset)) return false;
  if (second < 60) return true;
  int utc = (hour * 60 + minute - offset + 2 * 1440) % 1440;
  return utc == 23 * 60 + 59;
}

bool idem__format_date_time(const char *text, size_t len, format_env *env) {
  if (len < 11 || (text[10] != 'T' && text[10] != 't')) return false;
  return idem__format_date(text, 10, env) && idem__format_time(text + 11, len - 11, env);
}

/* A number and one of `units`; returns the index of the unit, -1 when there is none. */
static int read_component(const char **at, const char *end, const char *units) {
  const char *p = *at;
  while (p < end && idem__is_digit(*p)) p++;
  if (p == *at || p == end || *p == 0) return -1;
  const char *unit = strchr(units, *p);
  if (!unit) return -1;
  *at = p + 1;
  return (int)(unit - units);
}

/* Components come in order and without a gap: hours and seconds need minutes between them. */
static bool read_components(const char **at, const char *end, const char *units) {
  int last = read_component(at, end, units);
  if (last < 0) return false;
  while (*at < end && **at != 'T') {
    int next = read_component(at, end, units);
    if (next != last + 1) return false;
    last = next;
  }
  return true;
}

bool idem__format_duration(const char *text, size_t len, format_env *env) {
  (void)env;
  const char *at = text, *end = text + len;
  if (len < 2 || *at++ != 'P') return false;
  const char *weeks = at;
  if (read_component(&weeks, end, "W") == 0) return weeks == end;
  if (*at != 'T' && !read_components(&at, end, "YMD")) return false;
  if (at == end) return true;
  if (*at++ != 'T') return false;
  return read_components(&at, end, "HMS") && at == end;
}
