/*
** test.h - the test harness for specs in C. Specs in spec/embed include only tlua.h; those in
** spec/core test internal functions. Each .c file is a program that is linked with libtlua.a. TEST
** defines a test, which checks conditions with CHECK. test_all() runs all tests of the file in
** order. The last line of output is the number of tests that passed. The exit status is 0 if all
** have passed.
** */
#ifndef TEST_H
#define TEST_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tlua.h"

static int test_passed, test_failed, test_faults;

/* Checks a condition. If it is false, the test fails. Only the first few failures of a test are
** printed. */
#define CHECK(fact) test_fact((fact), __FILE__, __LINE__, #fact)
/* Makes the test fail with a message, without a condition. */
#define FAIL(what) test_fact(false, __FILE__, __LINE__, what)
/* Checks a condition in a loop. A failed check is printed with the index i. */
#define CHECK_AT(i, fact)                                          \
  do {                                                             \
    if (!(fact)) {                                                 \
      if (test_faults < 5) printf("  at %lld:\n", (long long)(i)); \
      test_fact(false, __FILE__, __LINE__, #fact);                 \
    }                                                              \
  } while (0)
/* Checks that the last error is of kind `kind` and that its message contains `part`. */
#define CHECK_ERROR(kind, part) test_error((kind), (part), __FILE__, __LINE__)
#define RUN(test) test_run(#test, test)
/* Defines a test that test_all() runs: TEST(name) {...}. */
#define TEST(name)                                                  \
  static void name(void);                                           \
  __attribute__((constructor)) static void enter_##name(void) {     \
    static struct test_Entry entry = {#name, name, __LINE__, NULL}; \
    test_enter(&entry);                                             \
  }                                                                 \
  static void name(void)

static inline void test_fact(bool fact, const char *file, int line, const char *text) {
  if (!fact && test_faults++ < 5) printf("%s:%d: does not hold: %s\n", file, line, text);
}

static inline void test_error(tl_ErrorKind kind, const char *part, const char *file, int line) {
  if (tl_error_kind() == kind && strstr(tl_error(), part) != NULL) return;
  if (test_faults++ < 5)
    printf("%s:%d: expected error %d with \"%s\", got %d: %s\n", file, line, (int)kind, part,
           (int)tl_error_kind(), tl_error());
}

/* Returns whether the program runs in qemu-user (make test-arm), where a forked child cannot start
** threads. */
static inline bool test_emulated(void) { return getenv("SPEC_EMULATED") != NULL; }

static inline void test_run(const char *name, void (*test)(void)) {
  test_faults = 0;
  test();
  printf("%s %s\n", test_faults == 0 ? "ok" : "not ok", name);
  fflush(stdout);
  if (test_faults == 0)
    test_passed++;
  else
    test_failed++;
}

/* A test that TEST has defined. The list has the tests in the order of their lines. */
struct test_Entry {
  const char *name;
  void (*test)(void);
  int line;
  struct test_Entry *next;
};
static struct test_Entry *test_entries;

static inline void test_enter(struct test_Entry *entry) {
  struct test_Entry **at = &test_entries;
  while (*at && (*at)->line < entry->line) at = &(*at)->next;
  entry->next = *at;
  *at = entry;
}

static inline int test_end(void) {
  printf("%d passed, %d failed\n", test_passed, test_failed);
  return test_failed != 0;
}

static inline int test_all(void) {
  for (const struct test_Entry *e = test_entries; e; e = e->next) test_run(e->name, e->test);
  return test_end();
}

/* The state of a small generator of random numbers for test cases. Every run draws the same
** numbers. */
static unsigned long long test_state = 88172645463325252ull;

static inline long long test_random(long long below) {
  test_state ^= test_state << 13;
  test_state ^= test_state >> 7;
  test_state ^= test_state << 17;
  return (long long)(test_state % (unsigned long long)below);
}

#endif
