/*
** socket.h - TCP connections with deadlines. On unsupported systems, opening a connection fails
** with a message.
*/
#ifndef TLI_SOCKET_H
#define TLI_SOCKET_H

#include "tlua.h"

#define TLI_NOSOCKET (-1)
#define TLI_NOFILES (-2)

/* Listens at an address of this machine: "localhost", another name, or a number; "" means all
** addresses. If *port is 0, the system chooses a free port, which *port receives. */
int tli_socket_listen(const char *host, int *port) TL_MUSTCHECK;
/* Returns whether only this machine can reach a listener, because its address is a loopback
** address. For a connection, returns whether the other side's address is a loopback address. */
bool tli_socket_is_local(int socket);
/* Returns whether the other side of a connection within this machine belongs to another user who is
** not root. Returns false if the system does not tell the user. */
bool tli_socket_is_foreign(int socket);
/* Accepts the next waiting connection and returns its socket. Returns TLI_NOSOCKET if no connection
** is waiting, or TLI_NOFILES if this process or the system has no free file descriptors. */
int tli_socket_accept(int listener);
/* Connects to a listener. Tries again until the deadline (a time of tli_now_ns), since the other
** side may start later. */
int tli_socket_connect(const char *host, int port, int64_t deadline) TL_MUSTCHECK;
void tli_socket_close(int socket);

/* These functions send or receive exactly `bytes` bytes. They return false with a message if the
** deadline passes, if the other side has closed the connection, or after a call of tl_interrupt. */
bool tli_socket_send(int socket, const void *data, size_t bytes, int64_t deadline) TL_MUSTCHECK;
bool tli_socket_receive(int socket, void *data, size_t bytes, int64_t deadline) TL_MUSTCHECK;
/* Receives available bytes, at most `bytes`, and returns their number, which is 0 if there are none
** now. Returns -1 if the other side has closed the connection. */
int64_t tli_socket_take(int socket, void *data, size_t bytes);
/* Sends as many bytes as possible without blocking, and returns their number, which is 0 if there
** is no room now. Returns -1 if the other side has closed the connection. */
int64_t tli_socket_give(int socket, const void *data, size_t bytes);

/* Creates a pipe, whose ends these functions accept like sockets: data sent to ends[1] arrives at
** ends[0]. */
bool tli_socket_pair(int ends[2]) TL_MUSTCHECK;
/* Waits until data can be received. Returns false at the deadline, or after an hour. */
bool tli_socket_wait(int socket, int64_t deadline) TL_MUSTCHECK;

typedef struct tli_Watch {
  int socket; /* the socket to wait for; TLI_NOSOCKET if the entry is not used */
  bool sends; /* whether to wait until the socket can send; otherwise until it can receive */
  bool ready;
} tli_Watch;
/* Waits until one of the sockets is ready, or until the deadline, but at most for an hour. If
** memory is exhausted, all sockets may be reported as ready. */
void tli_socket_watch(tli_Watch *watches, int n, int64_t deadline);

#endif
