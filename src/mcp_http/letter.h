/* letter.h - how a letter is named: digits of the node that it is for, its session, and chance. */
#ifndef IDEM_MCP_HTTP_LETTER_H
#define IDEM_MCP_HTTP_LETTER_H

#include "mcp_http.h"

#define IDEM__LETTER_NODE 6
#define IDEM__LETTER_LEAD                                                                          \
  (IDEM__LETTER_NODE + IDEM__SESSION_ID) /* a session's are taken in the order they came */
#define IDEM__LETTER_NAME (IDEM__LETTER_LEAD + 16)
#define IDEM__LETTER_FOR_ALL "000000" /* in place of a node's, none of which has it */
#define IDEM__LETTERS_FOR_ALL 1000u
#define IDEM__LETTER_MS 60000u /* one that nobody takes lies there for so long */

#endif
