/*
** server.c - the servers of the process. Opens their sockets, ends late requests, and stops
** servers.
*/
#define _GNU_SOURCE
#include "server.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SERVERS = 64 };

static Server *servers[SERVERS];
static pthread_mutex_t servers_lock = PTHREAD_MUTEX_INITIALIZER;

int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

bool server_register(Server *s) {
  pthread_mutex_lock(&servers_lock);
  for (int i = 0; i < SERVERS && s->id < 0; i++)
    if (servers[i] == NULL) servers[s->id = i] = s;
  pthread_mutex_unlock(&servers_lock);
  return s->id >= 0;
}

Server *find_server(int64_t id) {
  pthread_mutex_lock(&servers_lock);
  Server *s = id >= 0 && id < SERVERS ? servers[id] : NULL;
  /* a count of 0 means that server_release is about to free the server, so it cannot be used any
  ** more */
  if (s && atomic_fetch_add(&s->refs, 1) == 0) {
    atomic_fetch_sub(&s->refs, 1);
    s = NULL;
  }
  pthread_mutex_unlock(&servers_lock);
  return s;
}

void server_release(Server *s) {
  if (atomic_fetch_sub(&s->refs, 1) != 1) return;
  pthread_mutex_lock(&servers_lock);
  if (s->id >= 0) servers[s->id] = NULL;
  pthread_mutex_unlock(&servers_lock);
  for (int i = 0; i < s->nqueues; i++) {
    free(s->queues[i]->name);
    pthread_cond_destroy(&s->queues[i]->arrived);
    free(s->queues[i]);
  }
  for (int i = 0; i < ROUTES; i++)
    for (Route *r = s->routes[i], *next; r; r = next) {
      next = r->next;
      free_route(r);
    }
  for (int i = 0; i < s->ntokens; i++) free(s->tokens[i]);
  free(s->tokens);
  free(s->key);
  free(s->certificate);
  if (s->log && s->log != stdout && s->log != stderr) fclose(s->log);
  pthread_rwlock_destroy(&s->routes_lock);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

int listen_on(const char *address, int port, int backlog, const char **why) {
  char service[16];
  snprintf(service, sizeof service, "%d", port);
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
  struct addrinfo *list = NULL;
  int status = getaddrinfo(address, service, &hints, &list);
  if (status != 0) {
    *why = gai_strerror(status);
    return -2;
  }
  int fd = -1;
  for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
    fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    int on = 1;
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd >= 0 && (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, backlog) != 0)) {
      int error = errno;
      close(fd);
      errno = error;
      fd = -1;
    }
  }
  freeaddrinfo(list);
  return fd;
}

int port_of(int fd) {
  struct sockaddr_storage a;
  socklen_t size = sizeof a;
  if (getsockname(fd, (struct sockaddr *)&a, &size) != 0) return 0;
  return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                       : ((struct sockaddr_in *)&a)->sin_port);
}

void raise_files(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int sweep_round(Server *s, Request **out, int most) {
  enum { AT_ONCE = 512 };
  struct pollfd fds[AT_ONCE];
  Request *of[AT_ONCE];
  int n = 0;
  int64_t t = now();
  pthread_mutex_lock(&s->lock);
  Request *r = s->open;
  while (r && n < most) {
    int polled = 0;
    for (; r && polled < AT_ONCE && n + polled < most; r = r->below) {
      if (!r->suspended) continue;
      fds[polled] = (struct pollfd){.fd = r->fd, .events = POLLRDHUP};
      of[polled++] = r;
    }
    if (poll(fds, (nfds_t)polled, 0) < 0) break;
    for (int i = 0; i < polled; i++) {
      Request *p = of[i];
      bool gone = (fds[i].revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
      bool late = !gone && !p->answered && p->deadline > 0 && t > p->deadline;
      if (!gone && !late) continue;
      if (gone) p->gone = true;
      p->limit_status = gone ? 0 : 504;
      if (late) p->answered = true;
      p->suspended = false;
      atomic_fetch_add(&p->refs, 1);
      out[n++] = p;
    }
  }
  pthread_mutex_unlock(&s->lock);
  return n;
}

/* Ends all waiting requests, because libmicrohttpd cannot stop while a connection is suspended. */
static void end_all(Server *s) {
  for (int n = 1; n > 0;) {
    Request *list[64];
    n = 0;
    pthread_mutex_lock(&s->lock);
    for (Request *r = s->open; r && n < 64; r = r->below) {
      if (!r->suspended) continue;
      r->suspended = false;
      r->gone = r->ended = true;
      atomic_fetch_add(&r->refs, 1);
      list[n++] = r;
    }
    for (int i = 0; i < s->nqueues; i++) {
      s->queues[i]->closed = true;
      pthread_cond_broadcast(&s->queues[i]->arrived);
    }
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < n; i++) {
      mhd.resume_connection(list[i]->connection);
      request_release(list[i]);
    }
  }
}

void stop(Server *s) {
  if (s->daemon == NULL) return;
  atomic_store(&s->draining, true);
  int fd = mhd.quiesce_daemon(s->daemon);
  if (fd >= 0) close(fd);
  /* The calls are repeated, because a stream may suspend its connection once more before it sees
  ** that it has ended. */
  for (int i = 0; i < 3; i++) {
    end_all(s);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  }
  Daemon *daemon = s->daemon;
  s->daemon = NULL;
  mhd.stop_daemon(daemon);
  for (int i = 0; i < s->nqueues; i++) {
    Queue *q = s->queues[i];
    for (Request *r = q->first, *next; r; r = next) {
      next = r->next;
      request_release(r);
    }
    q->first = NULL;
    q->end = &q->first;
    q->length = 0;
  }
}
