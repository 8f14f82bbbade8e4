/*
** cudnn_have.h - defines HAVE_CUDNN if the tests can run. They need cuDNN's headers and no address
** sanitizer, which reports cuDNN's own leaks. Otherwise defines a main that prints why they cannot.
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
