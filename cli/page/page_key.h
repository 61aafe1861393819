/* page_key.h - the operator's key: what opens traffic, logs and configuration on the page. */
#ifndef IDEM_CLI_PAGE_KEY_H
#define IDEM_CLI_PAGE_KEY_H

#include <stdbool.h>
#include <stddef.h>

#define PAGE_KEY_MOST 128

typedef struct page_key {
  char text[PAGE_KEY_MOST + 1];
  char file[512]; /* where its address was written; empty: nowhere */
} page_key;

/* `given` (NULL or "": a new one). False: *why says why there is none. */
bool page_key_init(page_key *self, const char *given, const char **why);
/* "http://HOST:PORT/#key=KEY"; false: it does not fit. */
bool page_key_address(const page_key *self, const char *url, char *address, size_t size);
/* Writes the address to a file that only this user reads, in the runtime directory; false: errno says why. */
bool page_key_write(page_key *self, const char *url);
/* Removes the file, and forgets the key. */
void page_key_deinit(page_key *self);

#endif
