/* browser.h - pages that a person is to see. */
#ifndef IDEM_CLI_CALL_BROWSER_H
#define IDEM_CLI_CALL_BROWSER_H

#include <uv.h>

/* Opens a page by the desktop's own means: http and https alone, as one word of no shell. Says why where it cannot. */
void browser_open(uv_loop_t *loop, const char *address);

#endif
