/*
** curl.c - implements curl.h. Declares the constants of libcurl's stable binary interface, so a
** build needs no header of libcurl. libcurl makes connections and encrypts them;
** lua/tlua/utils/http.lua implements HTTP.
*/
#include "io/curl.h"

#include <limits.h>
#include <string.h>

#include "core/platform/optional.h"
#include "core/platform/platform.h"
#include "core/platform/socket.h"

enum { OK = 0, AGAIN = 81, GLOBAL_ALL = 3, HTTP_1_1 = 2, INFO_ACTIVESOCKET = 0x50002C };
enum Option { /* CURLOPT_ */
              PROXYTUNNEL = 61,
              HTTP_VERSION = 84,
              NOSIGNAL = 99,
              CONNECT_ONLY = 141,
              TIMEOUT_MS = 155,
              URL = 10002,
              ERRORBUFFER = 10010,
              CAINFO = 10065
};

#ifdef _WIN32
typedef uintptr_t CurlSocket;
#else
typedef int CurlSocket;
#endif

static struct {
  tli_Once once;
  bool there;
  int (*start)(long flags);
  void *(*make)(void);
  void (*end)(void *);
  int (*set)(void *, enum Option, ...);
  int (*perform)(void *);
  int (*info)(void *, int, ...);
  int (*send)(void *, const void *, size_t, size_t *);
  int (*receive)(void *, void *, size_t, size_t *);
  const char *(*error)(int);
} curl = {.once = TLI_ONCE_INIT};

static bool find(void *library, const char *name, void *function) {
  void *symbol = library ? tli_library_symbol(library, name) : NULL;
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static void open_library(void) {
  void *library = tli_optional_open(TLI_OPTIONAL_CURL, NULL);
  curl.there = find(library, "curl_global_init", &curl.start) &&
               find(library, "curl_easy_init", &curl.make) &&
               find(library, "curl_easy_cleanup", &curl.end) &&
               find(library, "curl_easy_setopt", &curl.set) &&
               find(library, "curl_easy_perform", &curl.perform) &&
               find(library, "curl_easy_getinfo", &curl.info) &&
               find(library, "curl_easy_send", &curl.send) &&
               find(library, "curl_easy_recv", &curl.receive) &&
               find(library, "curl_easy_strerror", &curl.error) && curl.start(GLOBAL_ALL) == OK;
}

static bool is_there(void) {
  tli_once(&curl.once, open_library);
  return curl.there ||
         tli_fail(TL_EIO, "https needs libcurl, which was not found; see `tlua doctor`");
}

void *tli_curl_connect(const char *address, const char *authorities, int64_t deadline,
                       int *socket) {
  if (!is_there()) return NULL;
  void *c = curl.make();
  if (c == NULL) return tli_fail_null(TL_EMEM, "out of memory for a connection");
  char why[256] = ""; /* CURL_ERROR_SIZE */
  int64_t ms = (deadline - tli_now_ns()) / 1000000;
  long left = ms < 1 ? 1 : ms > INT_MAX ? INT_MAX : (long)ms;
  CurlSocket fd = 0;
  int code = curl.set(c, URL, address);
  if (code == OK) code = curl.set(c, CONNECT_ONLY, 1L);
  if (code == OK) code = curl.set(c, NOSIGNAL, 1L);
  if (code == OK) code = curl.set(c, TIMEOUT_MS, left);
  if (code == OK) code = curl.set(c, HTTP_VERSION, (long)HTTP_1_1);
  if (code == OK) code = curl.set(c, PROXYTUNNEL, 1L);
  if (code == OK) code = curl.set(c, ERRORBUFFER, why);
  if (code == OK && authorities) code = curl.set(c, CAINFO, authorities);
  if (code == OK) code = curl.perform(c);
  if (code == OK) code = curl.info(c, INFO_ACTIVESOCKET, &fd);
  if (code != OK) {
    (void)tli_fail(TL_EIO, "%s", why[0] ? why : curl.error(code));
    curl.end(c);
    return NULL;
  }
  (void)curl.set(c, ERRORBUFFER, NULL);
  *socket = (int)fd;
  return c;
}

void tli_curl_close(void *connection) { curl.end(connection); }

bool tli_curl_send(void *connection, int socket, const char *data, size_t bytes, int64_t deadline) {
  while (bytes > 0) {
    size_t n = 0;
    int code = curl.send(connection, data, bytes, &n);
    if (code != OK && code != AGAIN) return tli_fail(TL_EIO, "%s", curl.error(code));
    data += n;
    bytes -= n;
    if (bytes == 0) break;
    if (tli_now_ns() >= deadline) return tli_fail(TL_EIO, "nothing could be sent in time");
    if (code == AGAIN) {
      tli_Watch watch = {socket, true, false};
      tli_socket_watch(&watch, 1, deadline);
    }
  }
  return true;
}

int64_t tli_curl_take(void *connection, int socket, char *data, size_t bytes, int64_t deadline) {
  for (;;) {
    size_t n = 0;
    int code = curl.receive(connection, data, bytes, &n);
    if (code == OK) return n > 0 ? (int64_t)n : -1;
    if (code != AGAIN) {
      (void)tli_fail(TL_EIO, "%s", curl.error(code));
      return -2;
    }
    if (!tli_socket_wait(socket, deadline)) return 0;
  }
}
