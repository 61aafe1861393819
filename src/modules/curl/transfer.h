/* transfer.h - what a set of transfers and the message of one know of each other: see curl.c and message.c. */
#ifndef IDEM_MODULES_CURL_TRANSFER_H
#define IDEM_MODULES_CURL_TRANSFER_H

#include "curl.h"

#include <curl/curl.h>
#include <signal.h>

struct idem__curl {
  CURLM *multi;
  idem__curl_host host;
  unsigned inside; /* libcurl is on the stack */
  bool masked;     /* and SIGPIPE is held back meanwhile */
  sigset_t mask;
  idem__curl_transfer *waiting; /* to be started, in no order */
  idem__curl_transfer *doomed;  /* to be freed */
  size_t taken;                 /* of bodies, since the last tick */
  idem_list late;               /* whose bodies go on with the next tick, in this order */
  idem_list broken;             /* that could not be let go: to be ended */
};

struct idem__curl_transfer {
  idem__curl *set;
  CURL *easy;
  struct curl_slist *headers;
  idem__curl_request request; /* callbacks, user, body */
  idem__curl_transfer *next;  /* in waiting or doomed */
  idem_list link;             /* in late or broken */
  bool added, cancelled, head_over, held;
  bool may_repeat;
  bool begun;     /* it has gone out, perhaps not all of it */
  CURLcode fault; /* of one that is broken, or cannot begin */
  int status;
  char error[CURL_ERROR_SIZE];
};

/* Tells libcurl what is asked, how often it may go out, and to whom the head of the answer is told. False: no memory, or
 * `fault` is what libcurl did not take. */
bool idem__curl_write_request(idem__curl_transfer *transfer);

#endif
