/*
** replies.h - sends answers to requests: complete answers, errors, and streams.
*/
#ifndef TLUA_SERVE_REPLIES_H
#define TLUA_SERVE_REPLIES_H

#include "requests.h"

#pragma GCC visibility push(hidden)
Response *text_response(const char *type, const char *text, size_t size);

/* Answers with an error in JSON. The text `why` must not contain characters that need an escape
** in JSON. */
int refuse(Server *s, Request *r, int status, const char *why);

/* Answers a waiting request and resumes its connection. Takes ownership of the response. Returns
** false if the request already has an answer or the client has left. */
bool answer(Request *r, int status, Response *response, int64_t size);

/* Copies bytes of a stream's body to `out`. libmicrohttpd's thread calls this when the client can
** take more bytes. If there are none, suspends the connection until feed() adds some. */
ssize_t read_stream(void *cls, uint64_t position, char *out, size_t most);
void release_stream(void *cls);

/* Adds bytes to a stream, and ends the stream if `ends` is true. Returns false if the client has
** left or reads too slowly. */
bool feed(Request *r, const char *text, size_t size, bool ends);
#pragma GCC visibility pop

#endif
