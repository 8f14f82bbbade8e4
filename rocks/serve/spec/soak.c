/*
** soak.c - sends inference requests at a constant rate over many connections. Each minute it prints the latencies of
** the answers, counted from the times at which the requests were due, and the server's memory. The server must serve a
** network with 64 inputs, as load.lua saves it:
**
**   cc -O2 -o /tmp/soak rocks/serve/spec/soak.c
**   build/tlua serve digits.tlp --port 8765 &
**   /tmp/soak 8765 $! 10000 1000 600     # port, process, requests a second, connections, seconds
*/
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef struct Connection {
  int fd;
  size_t size;
  double due; /* the time at which the request that is waiting for an answer was due */
  bool waits;
  char answer[2048];
} Connection;

static int poller, port;
static char request[1024];
static size_t request_size;
static long errors, answers, late;
static double *times;
static size_t ntimes, most_times;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void make_request(void) {
  static const char head[] =
      "{\"inputs\":[{\"name\":\"input\",\"shape\":[1,64],\"datatype\":\"FP32\",\"parameters\":"
      "{\"binary_data_size\":256}}],\"parameters\":{\"binary_data_output\":true}}";
  size_t n = sizeof head - 1;
  request_size = (size_t)snprintf(request, sizeof request,
                                  "POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\n"
                                  "Inference-Header-Content-Length: %zu\r\n"
                                  "Content-Length: %zu\r\n\r\n%s",
                                  n, n + 256, head);
  memset(request + request_size, 0, 256);
  request_size += 256;
}

static void open_connection(Connection *c) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int on = 1;
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&a, sizeof a) != 0) fail("connect");
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(c->fd, F_SETFL, O_NONBLOCK);
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
  epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &e);
  c->waits = false;
}

static void reopen(Connection *c) {
  errors++;
  close(c->fd);
  open_connection(c);
}

/* Returns whether the whole answer has arrived. */
static bool is_whole(Connection *c) {
  c->answer[c->size] = 0;
  char *end = strstr(c->answer, "\r\n\r\n"), *line = strcasestr(c->answer, "\r\ncontent-length: ");
  if (end == NULL || line == NULL || line > end) return false;
  size_t body = strtoul(line + 18, NULL, 10);
  return c->size >= (size_t)(end - c->answer) + 4 + body;
}

static void receive(Connection *c) {
  ssize_t n = recv(c->fd, c->answer + c->size, sizeof c->answer - 1 - c->size, 0);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) {
    reopen(c);
    return;
  }
  c->size += (size_t)n;
  if (!is_whole(c)) return;
  if (strncmp(c->answer, "HTTP/1.1 200", 12) != 0) errors++;
  if (ntimes < most_times) times[ntimes++] = now() - c->due;
  c->waits = false;
  answers++;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Returns the resident memory of a process in kB. */
static long memory_of(int pid) {
  char path[64], line[256];
  long kb = -1;
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file) && sscanf(line, "VmRSS: %ld", &kb) != 1) continue;
  if (file) fclose(file);
  return kb;
}

static void report(double minute, int pid) {
  if (ntimes == 0) return;
  qsort(times, ntimes, sizeof *times, compare);
  printf("minute %2.0f: %zu answers, %ld errors, p50 %.2f ms, p99 %.2f ms, most %.1f ms, late %ld, "
         "memory %ld kB\n",
         minute, ntimes, errors, times[ntimes / 2] * 1e3, times[ntimes * 99 / 100] * 1e3,
         times[ntimes - 1] * 1e3, late, memory_of(pid));
  fflush(stdout);
  ntimes = 0;
  late = 0;
}

int main(int argc, char **argv) {
  if (argc != 6) return fprintf(stderr, "usage: soak PORT PID RATE CONNECTIONS SECONDS\n"), 2;
  port = atoi(argv[1]);
  int pid = atoi(argv[2]), n = atoi(argv[4]);
  double rate = atof(argv[3]), seconds = atof(argv[5]);
  if (rate <= 0 || n <= 0 || seconds <= 0) return fprintf(stderr, "soak: expected numbers\n"), 2;
  struct rlimit limit = {(rlim_t)n + 64, (rlim_t)n + 64};
  setrlimit(RLIMIT_NOFILE, &limit);
  poller = epoll_create1(0);
  Connection *all = calloc((size_t)n, sizeof *all);
  most_times = (size_t)(rate * 70) + 1000;
  times = malloc(most_times * sizeof *times);
  if (poller < 0 || all == NULL || times == NULL) fail("soak");
  make_request();
  for (int i = 0; i < n; i++) open_connection(&all[i]);
  double start = now(), due = start, minute = start + 60;
  for (int next = 0; now() < start + seconds;) {
    for (double t = now(); due <= t; due += 1 / rate) {
      int tried = 0;
      for (; tried < n && all[next].waits; tried++) next = (next + 1) % n;
      if (tried == n) { /* all connections are waiting for answers, so this request is sent later */
        late++;
        break;
      }
      Connection *c = &all[next];
      c->due = due;
      c->size = 0;
      c->waits = true;
      if (send(c->fd, request, request_size, MSG_NOSIGNAL) != (ssize_t)request_size) reopen(c);
    }
    struct epoll_event events[256];
    int ready = epoll_wait(poller, events, 256, 1);
    for (int i = 0; i < ready; i++) receive(events[i].data.ptr);
    if (now() >= minute) {
      report((minute - start) / 60, pid);
      minute += 60;
    }
  }
  printf("%ld answers, %ld errors\n", answers, errors);
  return errors > 0;
}
