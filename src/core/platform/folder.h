/*
** folder.h - listing and creating folders. System calls are in folder_posix.c and folder_windows.c,
** all other code is in folder.c.
*/
#ifndef TLI_FOLDER_H
#define TLI_FOLDER_H

#include "core/error.h"

/* Returns the entries of a folder except "." and "..", unordered, in a block for free(). Each entry
** is a byte for its kind, the name, and a byte 0. The kind is 'd' for a folder, 'l' for a link to a
** folder, 's' for a pipe, a socket or a device, and 'f' for anything else. Returns NULL, with
** TL_EIO and the system's message, if the folder cannot be read. */
char *tli_folder_list(const char *path, size_t *bytes) TL_MUSTCHECK;

/* Creates a folder and its parents unless they exist. Returns its absolute path in a block for
** free(). On failure returns NULL, with TL_EIO and the system's message. */
char *tli_folder_make(const char *path) TL_MUSTCHECK;

/* ---- system calls ---- */

typedef bool tli_FolderEntry(void *context, char kind, const char *name);

/* Calls `take` for each entry of a folder. Stops when `take` fails, and returns false. */
bool tli_folder_each(const char *path, tli_FolderEntry *take, void *context) TL_MUSTCHECK;
/* Creates one folder. Returns true if the folder already exists. Fails without a message. */
bool tli_folder_make_one(const char *path) TL_MUSTCHECK;
/* Returns false with the system's message for the last error. */
bool tli_folder_fail(void) TL_MUSTCHECK;
/* Returns the absolute path of an existing folder in a block for free(); NULL with a message on
** failure. */
char *tli_folder_absolute(const char *path) TL_MUSTCHECK;
bool tli_folder_separates(char c);
/* Returns a file's size and its modification time, whose unit depends on the system. Returns false,
** without a message, if the path is not a file. */
bool tli_folder_file(const char *path, int64_t *bytes, int64_t *written) TL_MUSTCHECK;
/* Returns whether the object at a path belongs to this user or to root, and is not writable for
** everybody. (Its group may be able to write to it.) Also returns true if the path does not exist,
** and always on Windows. */
bool tli_folder_own(const char *path);
/* Returns the bytes of a file in a block for free(). Returns NULL, without a message, if the file
** does not fulfil the condition of tli_folder_own, if it is a link, if it has more than `most`
** bytes, or if it cannot be read. */
char *tli_folder_read_own(const char *path, int64_t most, size_t *bytes);
/* Returns whether a file of this size may be written under this name. The name must be free or
** belong to an ordinary file, not to a link. The size must be within the process's limit; a larger
** file would raise a signal. */
bool tli_folder_may_write(const char *path, size_t bytes);

#endif
