/*
** private_file.h - small files that no other user may read or have made: where secrets lie.
*/
#ifndef TLI_PRIVATE_FILE_H
#define TLI_PRIVATE_FILE_H

#include "tlua.h"

/* Why a file was not read. */
typedef enum tli_PrivateFile {
  TLI_PRIVATE_READ,
  TLI_PRIVATE_MISSING,
  TLI_PRIVATE_FOREIGN, /* it is another user's, or a link */
  TLI_PRIVATE_REFUSED  /* other users may read or write it, it is no plain file, or too long */
} tli_PrivateFile;

/* Reads a file of at most `room` - 1 bytes, without bytes 0, as a string. Refuses what is no plain
** file with one name, of this user, that nobody else may read or write; links are not followed.
** Other results than TLI_PRIVATE_READ come with a message. */
tli_PrivateFile tli_private_file_read(const char *path, char *out, size_t room) TL_MUSTCHECK;

/* Writes a file that only this user may read and write. What was there is replaced as a whole, but
** not what another user has made in a folder of all users. */
bool tli_private_file_write(const char *path, const void *data, size_t bytes) TL_MUSTCHECK;

#endif
