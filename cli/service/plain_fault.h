/* plain_fault.h - params of a plain method that break its schema: which, what was expected, what came. */
#ifndef IDEM_CLI_PLAIN_FAULT_H
#define IDEM_CLI_PLAIN_FAULT_H

#include <idem/rpc.h>
#include <idem/schema.h>

/* Answers -32602 with {param, expected, received, accepted}. `schema` is the method's, `arguments` what was checked;
 * `by_position`: they came as an array. */
void plain_fault_reply(idem_request *request, yyjson_val *schema, yyjson_val *arguments,
                       const idem_schema_error *error, bool by_position);
/* One more than the method has: params[count]. */
void plain_fault_reply_more(idem_request *request, yyjson_val *params, size_t count);

#endif
