/*
** microhttpd.c - opens libmicrohttpd and finds the functions that the package uses.
*/
#include "microhttpd.h"

#include <dlfcn.h>
#include <pthread.h>

struct Microhttpd mhd;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/* Opens libmicrohttpd on first use. Returns NULL on success, and a message on failure. */
const char *load_library(void) {
  static const char *const names[] = {"libmicrohttpd.so.12", "libmicrohttpd.so",
                                      "libmicrohttpd.12.dylib", "libmicrohttpd.dylib", NULL};
  const char *message = NULL;
  pthread_mutex_lock(&loading);
  if (mhd.handle == NULL) {
    void *handle = NULL;
    for (int i = 0; handle == NULL && names[i]; i++) handle = dlopen(names[i], RTLD_NOW);
    if (handle == NULL)
      message = "libmicrohttpd was not found (Debian: apt install libmicrohttpd12)";
#define FIND(result, name, parameters)                                       \
  if (handle && (*(void **)&mhd.name = dlsym(handle, "MHD_" #name)) == NULL) \
    message = "libmicrohttpd has no function MHD_" #name;
    MHD_FUNCTIONS(FIND)
    if (message == NULL) mhd.handle = handle;
  }
  pthread_mutex_unlock(&loading);
  return message;
}
