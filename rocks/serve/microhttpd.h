/*
** microhttpd.h - declares the part of libmicrohttpd's interface that the package uses (versions
** 0.9.71 to 1.x). The library is opened at run time, so compiling needs neither its header nor the
** library.
*/
#ifndef TLUA_SERVE_MICROHTTPD_H
#define TLUA_SERVE_MICROHTTPD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct MHD_Daemon Daemon;
typedef struct MHD_Connection Connection;
typedef struct MHD_Response Response;
typedef union MHD_ConnectionInfo {
  int fd;
  void *context;
  struct sockaddr *address;
} ConnectionInfo;

enum { MHD_NO = 0, MHD_YES = 1 };
enum {
  USE_TLS = 2,
  USE_INTERNAL_THREAD = 8,
  USE_IPV6 = 16,
  USE_ITC = 1024,
  USE_DUAL_STACK = USE_IPV6 | 2048,
  USE_TURBO = 4096,
  ALLOW_SUSPEND = 8192 | USE_ITC,
  USE_AUTO = 65536
};
enum {
  OPTION_END = 0,
  OPTION_MEMORY = 1,
  OPTION_CONNECTIONS = 2,
  OPTION_TIMEOUT = 3,
  OPTION_COMPLETED = 4,
  OPTION_KEY = 8,
  OPTION_CERTIFICATE = 9,
  OPTION_LISTEN_SOCKET = 12,
  OPTION_LOGGER = 13,
  OPTION_THREADS = 14,
  OPTION_NOTIFY_CONNECTION = 27
};
enum { KIND_HEADER = 1, KIND_ARGUMENT = 8 };
enum { INFO_ADDRESS = 2, INFO_FD = 6, INFO_CONTEXT = 7 };
enum { FEATURE_TLS = 2 };
enum { MEMORY_PERSISTENT = 0, MEMORY_FREE = 1, MEMORY_COPY = 2 };
enum { END_OF_STREAM = -1, END_WITH_ERROR = -2 };

typedef int (*OnRequest)(void *cls, Connection *c, const char *url, const char *method,
                         const char *version, const char *data, size_t *size, void **request);
typedef ssize_t (*ReadBody)(void *cls, uint64_t position, char *out, size_t most);
typedef int (*OnValue)(void *cls, int kind, const char *key, const char *value);

/* Lists the functions of the library as X(result, name, parameters). */
#define MHD_FUNCTIONS(X)                                                                           \
  X(Daemon *, start_daemon,                                                                        \
    (unsigned flags, uint16_t port, void *accept, void *accept_cls, OnRequest fn, void *cls, ...)) \
  X(void, stop_daemon, (Daemon * d))                                                               \
  X(int, quiesce_daemon, (Daemon * d))                                                             \
  X(const char *, get_version, (void))                                                             \
  X(int, is_feature_supported, (int feature))                                                      \
  X(void, suspend_connection, (Connection * c))                                                    \
  X(void, resume_connection, (Connection * c))                                                     \
  X(const ConnectionInfo *, get_connection_info, (Connection * c, int kind, ...))                  \
  X(int, get_connection_values, (Connection * c, int kind, OnValue fn, void *cls))                 \
  X(const char *, lookup_connection_value, (Connection * c, int kind, const char *key))            \
  X(int, queue_response, (Connection * c, unsigned status, Response *r))                           \
  X(Response *, create_response_from_buffer, (size_t size, void *data, int mode))                  \
  X(Response *, create_response_from_callback,                                                     \
    (uint64_t size, size_t block, ReadBody fn, void *cls, void (*release)(void *cls)))             \
  X(int, add_response_header, (Response * r, const char *name, const char *value))                 \
  X(void, destroy_response, (Response * r))

#define DECLARE(result, name, parameters) result(*name) parameters;
#pragma GCC visibility push(hidden)
extern struct Microhttpd {
  void *handle;
  MHD_FUNCTIONS(DECLARE)
} mhd;

/* Opens libmicrohttpd on first use. Returns NULL on success, and a message on failure. */
const char *load_library(void);
#pragma GCC visibility pop

#endif
