/*
** access.h - bearer tokens, and the log of all requests.
*/
#ifndef TLUA_SERVE_ACCESS_H
#define TLUA_SERVE_ACCESS_H

#include "requests.h"

#pragma GCC visibility push(hidden)
/* Whether a connection's token allows it to ask for the path. */
bool is_allowed(Server *s, Connection *c, const char *path);

/* Opens the log; "-" is the standard output, NULL is none. Returns false with errno set. */
bool open_log(Server *s, const char *path);
void write_log(Server *s, const Request *r);
#pragma GCC visibility pop

#endif
