/* url.h - two functions of the module's table that have a file of their own: see curl.h. */
#ifndef IDEM_MODULES_CURL_URL_H
#define IDEM_MODULES_CURL_URL_H

#include "curl.h"

idem_status idem__curl_resolve(const char *base, const char *reference, char **out,
                               bool *same_origin);
void idem__curl_free_text(char *text);

#endif
