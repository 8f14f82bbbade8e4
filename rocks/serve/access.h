/*
** access.h - checks of bearer tokens, and the log of all requests.
*/
#ifndef TLUA_SERVE_ACCESS_H
#define TLUA_SERVE_ACCESS_H

#include "requests.h"

#pragma GCC visibility push(hidden)
/* Returns whether the request is allowed: either its path needs no token, or its header
** Authorization has a valid token. */
bool is_allowed(Server *s, Connection *c, const char *path);

/* Opens the log. The path "-" means standard output, and NULL means that there is no log.
** Returns false on failure, with errno set. */
bool open_log(Server *s, const char *path);
void write_log(Server *s, const Request *r);
#pragma GCC visibility pop

#endif
