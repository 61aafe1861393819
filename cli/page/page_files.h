/* page_files.h - the files of web/ as part of the program, compressed and as they are (cmake/page.cmake makes them). */
#ifndef IDEM_CLI_PAGE_FILES_H
#define IDEM_CLI_PAGE_FILES_H

#include <idem/http.h>

typedef struct page_file {
  const char *path; /* where it is served */
  const char *name; /* in web/ */
  idem_http_file file;
} page_file;

extern const page_file page_files[];
extern const size_t page_file_count;
/* SHA-256 of the style that stands in the document, in base64. */
extern const char page_style_digest[];

#endif
