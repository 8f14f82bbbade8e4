/*
** folder.h - what is in a folder, and making one. What the system does is in
** folder_posix.c and folder_windows.c, the rest in folder.c.
*/
#ifndef TLI_FOLDER_H
#define TLI_FOLDER_H

#include "core/error.h"

/* The entries of a folder but "." and "..", in no order, in a block for free(): each
** is a byte, 'd' for a folder, 'l' for a link to one and 'f' for anything else, the
** name, and a byte 0. NULL, with TL_EIO and the system's words, if the folder cannot
** be read. */
char *tli_folder_list(const char *path, size_t *bytes) TL_MUSTCHECK;

/* Makes a folder, and those that it lies in, unless they are there. Its absolute
** path, in a block for free(); NULL, with TL_EIO and the system's words, where one
** cannot be made. */
char *tli_folder_make(const char *path) TL_MUSTCHECK;

/* ---- what the system does ---- */

typedef bool tli_FolderEntry(void *context, char kind, const char *name);

/* Calls `take` for each entry; stops where that fails. */
bool tli_folder_each(const char *path, tli_FolderEntry *take, void *context) TL_MUSTCHECK;
/* Makes one folder; true also if it is there. Fails without a message. */
bool tli_folder_make_one(const char *path) TL_MUSTCHECK;
/* Fails with the words for what has just gone wrong. */
bool tli_folder_fail(void) TL_MUSTCHECK;
/* Of a folder that is there, in a block for free(); NULL with a message. */
char *tli_folder_absolute(const char *path) TL_MUSTCHECK;
bool tli_folder_separates(char c);
/* A file's size, and when it was written, in some unit; false, without a message, for what
** is none. */
bool tli_folder_file(const char *path, int64_t *bytes, int64_t *written) TL_MUSTCHECK;
/* Whether nobody but this user, and the system's, can change what a path names: it is theirs, and
** not everybody may write. Also where it names nothing. Windows: always. */
bool tli_folder_own(const char *path);
/* The bytes of such a file, in a block for free(). NULL, without a message, for any other, for one
** with more than `most` bytes, and for links. */
char *tli_folder_read_own(const char *path, int64_t most, size_t *bytes);
/* Whether a file of so many bytes may be made under that name: there is none, or an ordinary one,
** no link, and it would not pass the limit of this process, which a signal would tell. */
bool tli_folder_may_write(const char *path, size_t bytes);

#endif
