/*
** socket_posix.c - see socket.h.
*/
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "core/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/parallel.h"
#include "core/platform.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

static void prepare(int fd) {
  int on = 1;
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
#ifdef SO_NOSIGPIPE
  setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
}

static struct addrinfo *resolve(const char *host, int port, bool passive) {
  char service[16];
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
  hints.ai_flags = passive ? AI_PASSIVE : 0;
  snprintf(service, sizeof service, "%d", port);
  int status = getaddrinfo(*host ? host : NULL, service, &hints, &found);
  if (status == 0) return found;
  return tli_fail_null(TL_EIO, "%.100s: %s", host, gai_strerror(status));
}

static int port_of(int fd) {
  union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
  } address;
  socklen_t size = sizeof address;
  if (getsockname(fd, &address.any, &size) != 0) return 0;
  return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

int tli_socket_listen(const char *host, int *port) {
  struct addrinfo *found = resolve(host, *port, true);
  if (found == NULL) return TLI_NOSOCKET;
  int fd = TLI_NOSOCKET, on = 1, why = 0;
  for (struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
    fd = socket(at->ai_family, at->ai_socktype, at->ai_protocol);
    if (fd < 0) {
      why = errno;
      continue;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    prepare(fd);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, 1024) == 0) break;
    why = errno;
    close(fd);
    fd = TLI_NOSOCKET;
  }
  freeaddrinfo(found);
  if (fd < 0) {
    tli_fail(TL_EIO, "%.100s:%d: %s", host, *port, strerror(why));
    return TLI_NOSOCKET;
  }
  *port = port_of(fd);
  return fd;
}

int tli_socket_accept(int listener) {
  int fd = accept(listener, NULL, NULL);
  if (fd < 0) return TLI_NOSOCKET;
  prepare(fd);
  return fd;
}

static int milliseconds_to(int64_t deadline) {
  int64_t left = deadline - tli_now_ns();
  return left <= 0 ? 0 : left > 100000000 ? 100 : (int)((left + 999999) / 1000000);
}

/* Waits for one event; false with a message at the deadline. */
static bool ready(int fd, short events, int64_t deadline) {
  for (;;) {
    struct pollfd p = {fd, events, 0};
    int n = poll(&p, 1, milliseconds_to(deadline));
    if (n > 0) return true;
    TL_TRY(tli_go_on());
    if (tli_now_ns() >= deadline) return tli_fail(TL_EIO, "no answer in time");
  }
}

/* A socket that has got the port which it asked for, where nobody listens, and so has reached itself. */
static bool is_itself(int fd) {
  struct sockaddr_storage here = {0}, there = {0};
  socklen_t n = sizeof here, m = sizeof there;
  return getsockname(fd, (struct sockaddr *)&here, &n) == 0 &&
         getpeername(fd, (struct sockaddr *)&there, &m) == 0 && n == m &&
         memcmp(&here, &there, n) == 0;
}

/* One attempt: a socket, or TLI_NOSOCKET with the reason in *why. */
static int attempt(const struct addrinfo *to, int64_t deadline, int *why) {
  int fd = socket(to->ai_family, to->ai_socktype, to->ai_protocol);
  socklen_t size = sizeof *why;
  if (fd < 0) {
    *why = errno;
    return TLI_NOSOCKET;
  }
  prepare(fd);
  *why = connect(fd, to->ai_addr, to->ai_addrlen) == 0 ? 0 : errno;
  if (*why == EINPROGRESS) {
    *why = ETIMEDOUT;
    if (ready(fd, POLLOUT, deadline)) getsockopt(fd, SOL_SOCKET, SO_ERROR, why, &size);
  }
  if (*why == 0 && is_itself(fd)) *why = ECONNREFUSED;
  if (*why == 0) return fd;
  close(fd);
  return TLI_NOSOCKET;
}

int tli_socket_connect(const char *host, int port, int64_t deadline) {
  struct addrinfo *found = resolve(host, port, false);
  if (found == NULL) return TLI_NOSOCKET;
  int why = 0;
  for (int64_t pause = 1000000;; pause = pause < 50000000 ? 2 * pause : pause) {
    for (struct addrinfo *at = found; at; at = at->ai_next) {
      int fd = attempt(at, deadline, &why);
      if (fd < 0) continue;
      freeaddrinfo(found);
      return fd;
    }
    if (!tli_go_on() || tli_now_ns() + pause >= deadline) break;
    struct timespec some = {0, (long)pause};
    nanosleep(&some, NULL);
  }
  freeaddrinfo(found);
  if (!tli_interrupted())
    tli_fail(TL_EIO, "no connection to %.100s:%d: %s", host, port, strerror(why));
  return TLI_NOSOCKET;
}

void tli_socket_close(int fd) {
  if (fd >= 0) close(fd);
}

bool tli_socket_send(int fd, const void *data, size_t bytes, int64_t deadline) {
  const char *at = data;
  while (bytes > 0) {
    ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == ENOTSOCK) n = write(fd, at, bytes);
    if (n > 0) {
      at += n;
      bytes -= (size_t)n;
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      TL_TRY(ready(fd, POLLOUT, deadline));
    } else if (n == 0 || errno != EINTR) {
      return tli_fail(TL_EIO, "the other side has gone");
    }
  }
  return true;
}

int64_t tli_socket_take(int fd, void *data, size_t bytes) {
  ssize_t n = read(fd, data, bytes);
  if (n > 0) return n;
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
  return -1;
}

bool tli_socket_receive(int fd, void *data, size_t bytes, int64_t deadline) {
  char *at = data;
  while (bytes > 0) {
    int64_t n = tli_socket_take(fd, at, bytes);
    if (n < 0) return tli_fail(TL_EIO, "the other side has gone");
    if (n == 0) TL_TRY(ready(fd, POLLIN, deadline));
    at += n;
    bytes -= (size_t)n;
  }
  return true;
}

bool tli_socket_pair(int ends[2]) {
  if (pipe(ends) != 0) return tli_fail(TL_EIO, "pipe: %s", strerror(errno));
  for (int i = 0; i < 2; i++) {
    fcntl(ends[i], F_SETFD, FD_CLOEXEC);
    fcntl(ends[i], F_SETFL, O_NONBLOCK);
  }
  return true;
}

void tli_socket_poll(const int *sockets, int n, bool *has, int64_t deadline) {
  struct pollfd some[64], *p = n <= 64 ? some : malloc((size_t)n * sizeof *p);
  for (int i = 0; i < n; i++) has[i] = p == NULL; /* then each is asked */
  if (p == NULL) return;
  for (int i = 0; i < n; i++) p[i] = (struct pollfd){sockets[i], POLLIN, 0};
  int64_t left = deadline - tli_now_ns();
  int wait = left <= 0 ? 0 : left > 3600000000000 ? 3600000 : (int)((left + 999999) / 1000000);
  if (poll(p, (nfds_t)n, wait) > 0)
    for (int i = 0; i < n; i++) has[i] = p[i].revents != 0;
  if (p != some) free(p);
}
