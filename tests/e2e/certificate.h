/* certificate.h - a folder with a certificate for this machine, for all tests of a program. */
#ifndef IDEM_TEST_CERTIFICATE_H
#define IDEM_TEST_CERTIFICATE_H

#include "child.h"

#include <stdio.h>

static char folder[64], cert[96], key[96];

static int certificate_set_up(void **state) {
  (void)state;
  child_make_folder(folder, sizeof folder);
  snprintf(cert, sizeof cert, "%s/cert.pem", folder);
  snprintf(key, sizeof key, "%s/key.pem", folder);
  child_make_certificate(cert, key, "first", "DNS:localhost,IP:127.0.0.1");
  return 0;
}

static int certificate_tear_down(void **state) {
  (void)state;
  child_remove_folder(folder);
  return 0;
}

#endif
