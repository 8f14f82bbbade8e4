/*
** socket.h - connections by TCP, all with a deadline. Where the system has none
** that we know, opening one fails and says so.
*/
#ifndef TLI_SOCKET_H
#define TLI_SOCKET_H

#include "tlua.h"

#define TLI_NOSOCKET (-1)

/* A socket that takes connections at an address of this machine, "localhost" or one of its
** names or numbers; "" is all of them. Port 0: one that is free; *port is then that one. */
int tli_socket_listen(const char *host, int *port) TL_MUSTCHECK;
/* The next connection that waits, or TLI_NOSOCKET. */
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

/* Two ends: what is sent to [1] arrives at [0]. */
bool tli_socket_pair(int ends[2]) TL_MUSTCHECK;
/* Waits until one of n sockets has something to receive, or the deadline; ready[i] tells which. */
void tli_socket_poll(const int *sockets, int n, bool *ready, int64_t deadline);

#endif
