/*
** socket.h - connections by TCP, all with a deadline. Where the system has none
** that we know, opening one fails and says so.
*/
#ifndef TLI_SOCKET_H
#define TLI_SOCKET_H

#include "tlua.h"

#define TLI_NOSOCKET (-1)
#define TLI_NOFILES (-2)

/* A socket that takes connections at an address of this machine, "localhost" or one of its
** names or numbers; "" is all of them. Port 0: one that is free; *port is then that one. */
int tli_socket_listen(const char *host, int *port) TL_MUSTCHECK;
/* Whether a listener is reached, or the other side of a connection is, within this machine alone, by
** its loopback addresses. */
bool tli_socket_is_local(int socket);
/* Whether the other side of a connection within this machine is known to be another user's, who is
** not root. False where the system does not tell. */
bool tli_socket_is_foreign(int socket);
/* The next connection that waits, TLI_NOSOCKET if none does, or TLI_NOFILES if this process or the
** system has no more of them to give. */
int tli_socket_accept(int listener);
/* Tries until the deadline (tli_now_ns), for the other side may start later. */
int tli_socket_connect(const char *host, int port, int64_t deadline) TL_MUSTCHECK;
void tli_socket_close(int socket);

/* Sends or receives so many bytes; false with a message at the deadline, when the other side
** has gone, or after tl_interrupt. */
bool tli_socket_send(int socket, const void *data, size_t bytes, int64_t deadline) TL_MUSTCHECK;
bool tli_socket_receive(int socket, void *data, size_t bytes, int64_t deadline) TL_MUSTCHECK;
/* Takes what is there, at most so many bytes: how many, 0 if there is nothing now, -1 when
** the other side has gone. */
int64_t tli_socket_take(int socket, void *data, size_t bytes);
/* Sends what there is room for: how many bytes, 0 if there is no room now, -1 when the other side
** has gone. */
int64_t tli_socket_give(int socket, const void *data, size_t bytes);

/* Two ends: what is sent to [1] arrives at [0]. */
bool tli_socket_pair(int ends[2]) TL_MUSTCHECK;
/* Waits until there is something to receive; false at the deadline. */
bool tli_socket_wait(int socket, int64_t deadline) TL_MUSTCHECK;

typedef struct tli_Watch {
  int socket; /* TLI_NOSOCKET: none */
  bool sends; /* waits for room to send, else for something to receive */
  bool ready;
} tli_Watch;
/* The same of several; all may be ready where there is no memory to ask. */
void tli_socket_watch(tli_Watch *watches, int n, int64_t deadline);

#endif
