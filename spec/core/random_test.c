/*
** random_test.c - compares Philox4x32-10 with the test vectors of its authors (kat_vectors in
** Random123), and tests the state of a generator.
*/
#include "core/device/generator.h"
#include "core/kernel/random.h"

#include "test.h"

typedef struct Answer {
  uint32_t counter[4], key[2], out[4];
} Answer;

static const Answer answers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static void ten_rounds(uint32_t counter[4], uint32_t key[2]) {
  for (int round = 0; round < 10; round++) {
    TLI_PHILOX_ROUND(counter, key);
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
}

TEST(known_answers) {
  for (size_t k = 0; k < sizeof answers / sizeof *answers; k++) {
    Answer a = answers[k];
    ten_rounds(a.counter, a.key);
    CHECK_AT(k, memcmp(a.counter, a.out, sizeof a.out) == 0);
  }
}

TEST(blocks_are_counters) {
  uint64_t seed = 0x0123456789abcdefull, block = 0xfedcba9876543210ull;
  uint32_t counter[4] = {0x76543210, 0xfedcba98, 0, 0}, key[2] = {0x89abcdef, 0x01234567}, out[4];
  ten_rounds(counter, key);
  tli_philox(seed, block, out);
  CHECK(memcmp(counter, out, sizeof out) == 0);
  tli_philox(0, 0, out);
  CHECK(out[0] == 0x6627e8d5);
}

TEST(high_halves) {
  static const uint64_t cases[][3] = {
      {0, UINT64_MAX, 0},          {UINT64_MAX, UINT64_MAX, UINT64_MAX - 1},
      {UINT64_MAX, 2, 1},          {0x100000000, 0x100000000, 1},
      {0xffffffff, 0xffffffff, 0}, {0xfedcba9876543210, 0x0123456789abcdef, 0x0121fa00ad77d742},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    const uint64_t *c = cases[k];
    CHECK_AT(k, tli_multiply_high(c[0], c[1]) == c[2]);
    CHECK_AT(k, tli_multiply_high_parts(c[0], c[1]) == c[2]);
    CHECK_AT(k, tli_multiply_high_parts(c[1], c[0]) == c[2]);
  }
}

TEST(generators_hand_out_blocks_once) {
  tli_Generator g;
  tli_generator_seed(&g, 7);
  CHECK(g.seed == 7 && g.offset == 0);
  CHECK(tli_generator_take(&g, 1, 4) == 0);
  CHECK(tli_generator_take(&g, 4, 4) == 1);
  CHECK(tli_generator_take(&g, 5, 4) == 2);
  CHECK(tli_generator_take(&g, 0, 4) == 4);
  CHECK(tli_generator_take(&g, 3, 2) == 4);
  CHECK(g.offset == 6);
  CHECK(tli_generator_take(&g, INT64_MAX, 4) == 6 && g.offset == 6 + ((uint64_t)1 << 61));
}

int main(void) { return test_all(); }
