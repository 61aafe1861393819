/* names.h - what is public (idem/text.h, idem/containers.h) goes by its older name inside the library: one
 * thing, one definition. New code says the public name. */
#ifndef IDEM_BASE_NAMES_H
#define IDEM_BASE_NAMES_H

#include <idem/containers.h>
#include <idem/text.h>

#define idem__buf idem_buf
#define idem__buf_init idem_buf_init
#define idem__buf_deinit idem_buf_deinit
#define idem__buf_grow idem_buf_grow
#define idem__buf_trim idem_buf_trim
#define idem__buf_fit idem_buf_fit
#define idem__buf_consume idem_buf_consume
#define idem__buf_printf idem_buf_printf
#define idem__buf_vprintf idem_buf_vprintf
#define idem__buf_fixed idem_buf_fixed
#define idem__buf_reserve idem_buf_reserve
#define idem__buf_put idem_buf_put
#define idem__buf_puts idem_buf_puts

#define idem__list idem_list
#define idem__list_init idem_list_init
#define idem__list_empty idem_list_empty
#define idem__list_append idem_list_append
#define idem__list_remove idem_list_remove
#define idem__list_leave idem_list_leave
#define IDEM__CONTAINER IDEM_CONTAINER

#define idem__map idem_map
#define idem__map_entry idem_map_entry
#define idem__map_init idem_map_init
#define idem__map_deinit idem_map_deinit
#define idem__map_get idem_map_get
#define idem__map_put idem_map_put
#define idem__map_remove idem_map_remove
#define idem__map_next idem_map_next
#define IDEM__MAP_MAX IDEM_MAP_MAX

#define idem__hex_value idem_hex_value
#define idem__utf8_valid idem_utf8_valid
#define idem__utf8_decode idem_utf8_decode
#define idem__utf8_cut idem_utf8_cut
#define idem__text_escape idem_text_escape
#define idem__text_json_string idem_text_json_string

#define idem__base64_alphabet idem_base64_alphabet
#define IDEM__BASE64_STANDARD IDEM_BASE64_STANDARD
#define IDEM__BASE64_URL IDEM_BASE64_URL
#define idem__base64_encode idem_base64_encode
#define idem__base64_decode idem_base64_decode

#define idem__sha256 idem_sha256
#define idem__sha256_init idem_sha256_init
#define idem__sha256_add idem_sha256_add
#define idem__sha256_end idem_sha256_end
#define IDEM__SHA256_BYTES IDEM_SHA256_BYTES

#define idem__secret idem_secret
#define idem__redaction idem_redaction
#define idem__redact idem_redact
#define idem__redact_by idem_redact_by
#define idem__redact_cut idem_redact_cut
#define idem__log_redact idem_log_redact
#define idem__log_hide idem_log_hide
#define idem__log_enabled idem_log_enabled

#endif
