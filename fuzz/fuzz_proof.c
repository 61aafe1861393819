/* fuzz_proof.c - what strangers show as proofs, URLs and nonces. The first byte says which: a whole proof, or its header and claims on two
 * lines, so that a fuzzer need not know base64. Whatever they say: no algorithm is believed that is none, a key reaches the library
 * for signatures only in the form that we write, without a private part; a proof is for no other URL; what is normal stays so. */
#include "auth/proof.h"
#include "jws.h"

#define OURS "https://mcp.example/mcp"
#define NOW 1000000u

static const uint8_t nonce_key[IDEM__NONCE_KEY_BYTES] = {7};

static void try_proof(const idem_alloc *alloc, const char *text, size_t len) {
  static const idem__proof_request request = {
      .method = "POST", .target = OURS, .token = "token", .token_len = 5};
  idem__proof_rules rules = {.skew_s = 30};
  idem__proof proof;
  const char *why = NULL;
  idem_status status = idem__proof_read(alloc, text, len, &proof, &why);
  MUST(status == IDEM_OK || why);
  if (status == IDEM_OK) {
    MUST(idem__algorithm_key(proof.token.algorithm) == proof.kind);
    status = idem__proof_check(&rules, &proof, &request, NOW, &why);
    MUST(status == IDEM_OK || (status == IDEM_E_INVAL && why));
    MUST(status != IDEM_OK || (proof.made_s <= NOW + 30 && proof.made_s + 60 >= NOW &&
                               idem__proof_ends_s(&rules, &proof) > NOW));
    rules.nonce_key = nonce_key;
    idem_status asked = idem__proof_check(&rules, &proof, &request, NOW, &why);
    MUST(status == IDEM_OK || asked == status);
    MUST(idem__proof_verify(&proof, &jws_crypto) != IDEM_OK);
  }
  idem__proof_deinit(&proof);
}

static void try_parts(const idem_alloc *alloc, const char *text, size_t len) {
  idem_buf proof;
  idem_buf_init(&proof, alloc, 1 << 20);
  if (jws_of_lines(&proof, text, len)) try_proof(alloc, proof.data, proof.len);
  idem_buf_deinit(&proof);
}

static void try_target(const char *text, size_t len) {
  char first[IDEM__TARGET_BYTES], second[IDEM__TARGET_BYTES];
  idem_buf one, other;
  idem_buf_fixed(&one, first, sizeof first);
  idem_buf_fixed(&other, second, sizeof second);
  if (idem__target_put(&one, text, len) != IDEM_OK) return;
  MUST(strlen(first) == one.len && !strpbrk(first, "?# ") && strncmp(first, "http", 4) == 0);
  const char *path = strchr(strstr(first, "://") + 3, '/');
  MUST(path && !strstr(path, "/../") && !strstr(path, "/./"));
  MUST(idem__target_put(&other, first, one.len) == IDEM_OK && strcmp(first, second) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  if (!size) return 0;
  const char *text = (const char *)data + 1;
  switch (data[0]) {
  case 'p': try_proof(&alloc, text, size - 1); break;
  case 'u': try_target(text, size - 1); break;
  case 'n': MUST(idem__nonce_read(nonce_key, text, size - 1, NOW) == IDEM__NONCE_NONE); break;
  default: try_parts(&alloc, text, size - 1); break;
  }
  return 0;
}
