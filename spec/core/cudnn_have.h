/*
** cudnn_have.h - defines HAVE_CUDNN if the cuDNN tests can run; otherwise defines a main that
** prints the reason. The tests need cuDNN's headers. They cannot run with the address sanitizer,
** because it reports cuDNN's own leaks.
*/
#ifndef CUDNN_HAVE_H
#define CUDNN_HAVE_H

#include "test.h"

#if defined(__has_include)
#if __has_include(<cudnn.h>) && !defined(__SANITIZE_ADDRESS__)
#define HAVE_CUDNN
#endif
#endif

#ifndef HAVE_CUDNN
int main(void) {
  printf("skipped: there are no headers of cuDNN, or a sanitizer watches\n");
  return test_end();
}
#endif

#endif
