/*
** sha256_test.c - tests dist/sha256.h with the examples of FIPS 180-4 and RFC 4231.
*/
#include "dist/sha256.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

static void to_text(const unsigned char hash[TLI_SHA256_BYTES], char text[65]) {
  for (int i = 0; i < TLI_SHA256_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", hash[i]);
}

static bool has_hash(const char *data, size_t bytes, const char *expected) {
  unsigned char hash[TLI_SHA256_BYTES];
  char text[65];
  tli_Sha256 s;
  tli_sha256_begin(&s);
  tli_sha256_add(&s, data, bytes);
  tli_sha256_end(&s, hash);
  to_text(hash, text);
  return strcmp(text, expected) == 0;
}

static bool has_mac(const void *key, size_t key_bytes, const void *data, size_t bytes,
                    const char *expected) {
  unsigned char mac[TLI_SHA256_BYTES];
  char text[65];
  tli_hmac_sha256(key, key_bytes, data, bytes, mac);
  to_text(mac, text);
  return strcmp(text, expected) == 0;
}

/* Tests the examples of the standard (messages of one and two blocks), the empty message, and a
** message of a million letters "a". */
TEST(hashes_are_those_of_the_standard) {
  CHECK(has_hash("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
  CHECK(has_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"));
  CHECK(has_hash("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
  unsigned char hash[TLI_SHA256_BYTES];
  char text[65], some[1000];
  tli_Sha256 s;
  memset(some, 'a', sizeof some);
  tli_sha256_begin(&s);
  for (int i = 0; i < 1000; i++) tli_sha256_add(&s, some, sizeof some);
  tli_sha256_end(&s, hash);
  to_text(hash, text);
  CHECK(strcmp(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0") == 0);
}

/* Tests that a hash does not depend on how the message is divided: messages of 0 to 200 bytes
** are added in one call and byte by byte. */
TEST(parts_are_the_whole) {
  char data[200];
  for (int i = 0; i < 200; i++) data[i] = (char)i;
  for (size_t n = 0; n <= sizeof data; n++) {
    unsigned char one[TLI_SHA256_BYTES], two[TLI_SHA256_BYTES];
    tli_Sha256 s;
    tli_sha256_begin(&s);
    tli_sha256_add(&s, data, n);
    tli_sha256_end(&s, one);
    tli_sha256_begin(&s);
    for (size_t i = 0; i < n; i++) tli_sha256_add(&s, data + i, 1);
    tli_sha256_end(&s, two);
    CHECK(memcmp(one, two, sizeof one) == 0);
  }
}

/* Tests the message authentication codes (HMAC) of test cases 1, 2, 3, 6 (whose key is longer
** than a block) and 7 of RFC 4231. */
TEST(codes_are_those_of_the_rfc) {
  char key[131], data[50];
  memset(key, 0x0b, 20);
  CHECK(has_mac(key, 20, "Hi There", 8,
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"));
  CHECK(has_mac("Jefe", 4, "what do ya want for nothing?", 28,
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"));
  memset(key, 0xaa, sizeof key);
  memset(data, 0xdd, sizeof data);
  CHECK(has_mac(key, 20, data, 50,
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"));
  CHECK(has_mac(key, 131, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"));
  static const char longer[] =
      "This is a test using a larger than block-size key and a larger than "
      "block-size data. The key needs to be hashed before being used by the "
      "HMAC algorithm.";
  CHECK(has_mac(key, 131, longer, sizeof longer - 1,
                "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"));
}

int main(void) { return test_all(); }
