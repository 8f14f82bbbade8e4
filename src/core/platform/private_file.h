/*
** private_file.h - small files for secrets, which other users can neither read nor create. Reading
** fails if a file's owner or access rights are wrong.
*/
#ifndef TLI_PRIVATE_FILE_H
#define TLI_PRIVATE_FILE_H

#include "tlua.h"

/* The result of reading a private file. All values except TLI_PRIVATE_READ say why the file was not
** read. */
typedef enum tli_PrivateFile {
  TLI_PRIVATE_READ,
  TLI_PRIVATE_MISSING,
  TLI_PRIVATE_FOREIGN, /* another user owns the file, this user may not open it, or it is a link */
  /* other users may read or write the file, it is not a plain file, or it is too long */
  TLI_PRIVATE_REFUSED
} tli_PrivateFile;

/* Reads a file of at most `room` - 1 bytes, none of them 0, as a string. Accepts only a plain file
** with a single name (no other hard links) that this user owns and nobody else may read or write.
** Links are not followed. All results except TLI_PRIVATE_READ come with a message. */
tli_PrivateFile tli_private_file_read(const char *path, char *out, size_t room) TL_MUSTCHECK;

/* Writes a file that only this user may read and write. Replaces an existing file atomically, but
** refuses to replace another user's file in a folder that all users share. */
bool tli_private_file_write(const char *path, const void *data, size_t bytes) TL_MUSTCHECK;

#endif
