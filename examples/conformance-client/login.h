/* login.h - the client's way to a token in the suite's auth scenarios. */
#ifndef CONFORMANCE_CLIENT_LOGIN_H
#define CONFORMANCE_CLIENT_LOGIN_H

#include "plan.h"

#include <idem/auth.h>

/* Whether the scenario is one of those. */
bool login_wanted(const plan *self);
/* Fills in self->auth; free it with idem_auth_free. */
idem_status login_new(plan *self, uv_loop_t *loop, const char *url);
/* on_refused of a client whose user is the plan. */
void login_on_sending(idem_mcp_client *client, idem_mcp_sending *sending, void *user);
void login_on_answered(idem_mcp_client *client, const idem_mcp_answered *answered, void *user);
void login_on_refused(idem_mcp_client *client, idem_mcp_refusal *refusal, void *user);

#endif
