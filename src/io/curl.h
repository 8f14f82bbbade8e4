/*
** curl.h - TLS connections through the system's libcurl. libcurl uses the proxies that environment
** variables such as https_proxy name.
*/
#ifndef TLI_CURL_H
#define TLI_CURL_H

#include "core/error.h"

/* Connects to an address such as "https://host:443". Fails at the deadline, a time of tli_now_ns.
** `authorities` is a file with the certificates of trusted authorities; NULL means the system's.
** Returns a connection, which the caller must close, and stores its socket. Returns NULL with a
** message on failure. */
void *tli_curl_connect(const char *address, const char *authorities, int64_t deadline, int *socket)
    TL_MUSTCHECK;
void tli_curl_close(void *connection);
/* Sends all bytes. Returns false with a message at the deadline, or if the connection fails. */
bool tli_curl_send(void *connection, int socket, const char *data, size_t bytes, int64_t deadline)
    TL_MUSTCHECK;
/* Waits until at least one byte is available, and receives at most `bytes`. Returns the number of
** bytes received; 0 at the deadline, -1 if the other side has closed the connection, or -2 with a
** message if the connection has failed. */
int64_t tli_curl_take(void *connection, int socket, char *data, size_t bytes, int64_t deadline)
    TL_MUSTCHECK;

#endif
