/*
** replies.h - answers to requests: whole ones, errors, and streams.
*/
#ifndef TLUA_SERVE_REPLIES_H
#define TLUA_SERVE_REPLIES_H

#include "requests.h"

#pragma GCC visibility push(hidden)
Response *text_response(const char *type, const char *text, size_t size);

/* Answers with an error in JSON. The text needs no escapes. */
int refuse(Server *s, Request *r, int status, const char *why);

/* Sets the answer of a request that waits for one, and resumes its connection. Takes the response
** over. Returns false if the request was answered before, or the client has gone. */
bool answer(Request *r, int status, Response *response, int64_t size);

/* The body of a stream: called by the library's thread when the client can take more. */
ssize_t read_stream(void *cls, uint64_t position, char *out, size_t most);
void release_stream(void *cls);

/* Adds to a stream, or ends it. Returns false if the client has gone or does not read. */
bool feed(Request *r, const char *text, size_t size, bool ends);
#pragma GCC visibility pop

#endif
