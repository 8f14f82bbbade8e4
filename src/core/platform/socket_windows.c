/*
** socket_windows.c - implements socket.h for Windows, where all its functions fail: programs of
** several processes are not supported there.
*/
#include "core/platform/socket.h"

#include "core/error.h"

static bool refuse(void) {
  return tli_fail(TL_EIO, "programs of several processes are not supported on Windows");
}

int tli_socket_listen(const char *host, int *port) {
  (void)host, (void)port;
  refuse();
  return TLI_NOSOCKET;
}

bool tli_socket_is_local(int socket) {
  (void)socket;
  return false;
}

bool tli_socket_is_foreign(int socket) {
  (void)socket;
  return false;
}

int tli_socket_accept(int listener) {
  (void)listener;
  return TLI_NOSOCKET;
}

int tli_socket_connect(const char *host, int port, int64_t deadline) {
  (void)host, (void)port, (void)deadline;
  refuse();
  return TLI_NOSOCKET;
}

void tli_socket_close(int socket) { (void)socket; }

bool tli_socket_send(int socket, const void *data, size_t bytes, int64_t deadline) {
  (void)socket, (void)data, (void)bytes, (void)deadline;
  return refuse();
}

bool tli_socket_receive(int socket, void *data, size_t bytes, int64_t deadline) {
  (void)socket, (void)data, (void)bytes, (void)deadline;
  return refuse();
}

int64_t tli_socket_take(int socket, void *data, size_t bytes) {
  (void)socket, (void)data, (void)bytes;
  return -1;
}

int64_t tli_socket_give(int socket, const void *data, size_t bytes) {
  (void)socket, (void)data, (void)bytes;
  return -1;
}

bool tli_socket_pair(int ends[2]) {
  (void)ends;
  return refuse();
}

bool tli_socket_wait(int socket, int64_t deadline) {
  (void)socket, (void)deadline;
  return false;
}

void tli_socket_watch(tli_Watch *watches, int n, int64_t deadline) {
  (void)deadline;
  for (int i = 0; i < n; i++) watches[i].ready = false;
}
