/*
** access.h - checks of bearer tokens, and the log of all requests.
*/
#ifndef TLUA_SERVE_ACCESS_H
#define TLUA_SERVE_ACCESS_H

#include "requests.h"

#pragma GCC visibility push(hidden)
/* Returns whether the request is allowed: its path needs no token, or its header has a valid
** one. */
bool is_allowed(Server *s, Connection *c, const char *path);

/* Opens the log. A path "-" means standard output, and NULL means no log. Returns false on failure,
** with errno set. */
bool open_log(Server *s, const char *path);
void write_log(Server *s, const Request *r);
#pragma GCC visibility pop

#endif
