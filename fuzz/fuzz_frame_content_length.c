/* fuzz_frame_content_length.c - any bytes through the Content-Length framer, whole and in pieces:
 * the same events. Crashes, bytes held past the limit and answers that depend on how the input was
 * cut all abort. See frame_differential.h. */
#include "frame_differential.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return frame_differential(IDEM__FRAME_CONTENT_LENGTH, data, size);
}
