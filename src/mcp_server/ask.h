/* ask.h - questions to the client: whether one may be asked, how it is written for a revision, and what
 * counts as an answer to it. A question travels as {"method","params"}; that text, or the part of it that
 * answers are held against, is its contract. */
#ifndef IDEM_MCP_ASK_H
#define IDEM_MCP_ASK_H

#include "nouns.h"

#include <idem/schema.h>

/* The shapes that questions and answers are held against: see ask_rules.c. */
typedef enum idem__ask_rule {
  IDEM__RULE_FORM,           /* requestedSchema of a form */
  IDEM__RULE_SAMPLING,       /* params of sampling/createMessage */
  IDEM__RULE_FORM_ANSWER,    /* ElicitResult */
  IDEM__RULE_SAMPLED_ANSWER, /* CreateMessageResult */
  IDEM__RULE_ROOTS_ANSWER,   /* ListRootsResult */
  IDEM__ASK_RULES
} idem__ask_rule;
/* True: the value has that shape. Else `why` says what is wrong. */
bool idem__ask_rule_holds(idem__mcp_worker *worker, idem__ask_rule rule, yyjson_val *value,
                          char *why, size_t why_len);
void idem__ask_rules_free(idem__mcp_worker *worker);

/* Why a question is not asked. */
typedef struct idem__ask_fault {
  const char *required; /* the peer lacks this capability: JSON text; NULL: the question is wrong */
  char sentence[256];
} idem__ask_fault;
/* May the peer be asked this, as it stands? */
bool idem__ask_possible(const idem__context *context, idem_ask_kind kind);
bool idem__ask_check(idem__context *context, const idem_ask *ask, idem__ask_fault *fault);

const char *idem__ask_method(idem_ask_kind kind);
/* Writes the params of an ask in the words of the context's revision. */
void idem__ask_write_params(const idem__context *context, const idem_ask *ask,
                            idem__writer *writer);
/* ... {"method","params"}, and what of it answers are held against. */
void idem__ask_write(const idem__context *context, const idem_ask *ask, idem__writer *writer);
void idem__ask_write_contract(const idem__context *context, const idem_ask *ask,
                              idem__writer *writer);

/* Is this an answer to a question with this contract, in this revision? */
bool idem__answer_fits(idem__mcp_worker *worker, const idem__revision *revision,
                       yyjson_val *contract, yyjson_val *answer, char *why, size_t why_len);
/* What a client's response comes to for a handler: the answer, or what takes its place where there is
 * none: {"error"}, and for elicitations the action "cancel" beside it. True: it is an answer. */
bool idem__answer_write(idem__mcp_worker *worker, const idem__revision *revision,
                        const char *contract, size_t len, const idem_response *response,
                        idem__writer *writer);

#endif
