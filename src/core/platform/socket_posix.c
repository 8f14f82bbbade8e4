/*
** socket_posix.c - implements socket.h with POSIX calls.
*/
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "core/platform/socket.h"

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
#include "core/platform/parallel.h"
#include "core/platform/platform.h"

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

typedef union Address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
} Address;

static int port_of(int fd) {
  Address address;
  socklen_t size = sizeof address;
  if (getsockname(fd, &address.any, &size) != 0) return 0;
  return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

static bool is_loopback(const struct sockaddr *address) {
  if (address->sa_family == AF_INET) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
    return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
  }
  if (address->sa_family != AF_INET6) return false;
  const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

bool tli_socket_is_local(int fd) {
  struct sockaddr_storage address = {0};
  struct sockaddr *any = (struct sockaddr *)&address;
  socklen_t size = sizeof address;
  if (getpeername(fd, any, &size) == 0) return is_loopback(any);
  size = sizeof address;
  return getsockname(fd, any, &size) == 0 && is_loopback(any);
}

/* size of a buffer for an address with its port, in the format of Linux's list of sockets */
enum { PLACE = 48 };

static void write_place(const Address *a, char out[PLACE]) {
  uint32_t words[4];
  if (a->any.sa_family == AF_INET) {
    snprintf(out, PLACE, "%08X:%04X", (unsigned)a->v4.sin_addr.s_addr, ntohs(a->v4.sin_port));
    return;
  }
  memcpy(words, &a->v6.sin6_addr, sizeof words);
  snprintf(out, PLACE, "%08X%08X%08X%08X:%04X", words[0], words[1], words[2], words[3],
           ntohs(a->v6.sin6_port));
}

/* Searches Linux's list of sockets for the socket with the address `here` that is connected to the
** address `there`. Returns the user who owns the socket, or -1 if the list does not have it. */
static long user_of(const char *list, const char *here, const char *there) {
  char line[512], from[PLACE], to[PLACE];
  long user, found = -1;
  FILE *file = fopen(list, "re");
  if (file == NULL) return -1;
  while (found < 0 && fgets(line, sizeof line, file)) {
    int n = sscanf(line, " %*d: %47s %47s %*s %*s %*s %*s %ld", from, to, &user);
    if (n == 3 && strcmp(from, here) == 0 && strcmp(to, there) == 0) found = user;
  }
  fclose(file);
  return found;
}

bool tli_socket_is_foreign(int fd) {
  Address mine = {0}, theirs = {0};
  socklen_t n = sizeof mine, m = sizeof theirs;
  char here[PLACE], there[PLACE];
  if (getsockname(fd, &mine.any, &n) != 0 || getpeername(fd, &theirs.any, &m) != 0) return false;
  bool v4 = mine.any.sa_family == AF_INET;
  if (!v4 && mine.any.sa_family != AF_INET6) return false;
  write_place(&mine, here);
  write_place(&theirs, there);
  long user = user_of(v4 ? "/proc/net/tcp" : "/proc/net/tcp6", there, here);
  return user > 0 && (uid_t)user != geteuid();
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
  if (fd < 0) {
    bool none = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    return none ? TLI_NOFILES : TLI_NOSOCKET;
  }
  int on = 1;
  /* keepalive messages detect that the other machine has disappeared */
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  prepare(fd);
  return fd;
}

static int milliseconds_to(int64_t deadline) {
  int64_t left = deadline - tli_now_ns();
  return left <= 0 ? 0 : left > 100000000 ? 100 : (int)((left + 999999) / 1000000);
}

/* Waits for one event; returns false with a message at the deadline. */
static bool ready(int fd, short events, int64_t deadline) {
  for (;;) {
    struct pollfd p = {fd, events, 0};
    int n = poll(&p, 1, milliseconds_to(deadline));
    if (n > 0) return true;
    TL_TRY(tli_go_on());
    if (tli_now_ns() >= deadline) return tli_fail(TL_EIO, "no answer in time");
  }
}

/* Returns whether the socket is connected to itself. This happens if the system chooses, for the
** socket's own end, the very port that the socket connects to. */
static bool is_itself(int fd) {
  struct sockaddr_storage here = {0}, there = {0};
  socklen_t n = sizeof here, m = sizeof there;
  return getsockname(fd, (struct sockaddr *)&here, &n) == 0 &&
         getpeername(fd, (struct sockaddr *)&there, &m) == 0 && n == m &&
         memcmp(&here, &there, n) == 0;
}

/* Attempts to connect once. Returns a socket, or TLI_NOSOCKET with the reason in *why. */
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

int64_t tli_socket_give(int fd, const void *data, size_t bytes) {
  ssize_t n = send(fd, data, bytes, MSG_NOSIGNAL);
  if (n < 0 && errno == ENOTSOCK) n = write(fd, data, bytes);
  if (n > 0) return n;
  return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? 0 : -1;
}

bool tli_socket_send(int fd, const void *data, size_t bytes, int64_t deadline) {
  const char *at = data;
  while (bytes > 0) {
    int64_t n = tli_socket_give(fd, at, bytes);
    if (n < 0) return tli_fail(TL_EIO, "the connection was closed");
    if (n == 0) TL_TRY(ready(fd, POLLOUT, deadline));
    at += n;
    bytes -= (size_t)n;
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
    if (n < 0) return tli_fail(TL_EIO, "the connection was closed");
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

void tli_socket_watch(tli_Watch *watches, int n, int64_t deadline) {
  struct pollfd some[64], *p = n <= 64 ? some : malloc((size_t)n * sizeof *p);
  for (int i = 0; i < n; i++) watches[i].ready = p == NULL && watches[i].socket >= 0;
  if (p == NULL) return;
  for (int i = 0; i < n; i++)
    p[i] = (struct pollfd){watches[i].socket, watches[i].sends ? POLLOUT : POLLIN, 0};
  int64_t left = deadline - tli_now_ns();
  int wait = left <= 0 ? 0 : left > 3600000000000 ? 3600000 : (int)((left + 999999) / 1000000);
  if (poll(p, (nfds_t)n, wait) > 0)
    for (int i = 0; i < n; i++) watches[i].ready = p[i].revents != 0;
  if (p != some) free(p);
}

bool tli_socket_wait(int socket, int64_t deadline) {
  tli_Watch watch = {socket, false, false};
  tli_socket_watch(&watch, 1, deadline);
  return watch.ready;
}
