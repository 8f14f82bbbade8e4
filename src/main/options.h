/*
** options.h - parses the command line as `lua` does: options, then a script, then the script's
** arguments.
*/
#ifndef TLI_OPTIONS_H
#define TLI_OPTIONS_H

#include <stdbool.h>

typedef struct tli_Options {
  int script;       /* index of the script in argv; argc if there is no script */
  bool chunks;      /* whether -e gives code to run */
  bool interactive; /* -i */
  bool version;     /* whether to print the version first, because -v or -i was given */
  bool no_env;      /* -E */
  bool help;        /* --help */
  bool profile;     /* --profile or --html was given */
  /* path of the HTML page of the profile (borrowed); NULL if none was requested */
  const char *html;
} tli_Options;

/* An option that is executed before the script runs. */
typedef struct tli_Step {
  /* 'e', 'l' or 'W' for the option with that letter; 'd' for --device; 't' for --torch7; 0 after
  ** the last option */
  char letter;
  const char *value; /* value of -e or -l (borrowed from argv) */
} tli_Step;

/* Reads the options. Returns false, with a message in `problem`, if an option is unknown or lacks
** its value. */
bool tli_options_parse(int argc, char **argv, tli_Options *options, char problem[128]);

/* Returns the first option to execute at or after argv[*i], and sets *i to the index after that
** option. *i must be 1 in the first call. */
tli_Step tli_options_step(char **argv, const tli_Options *options, int *i);

/* The text that --help prints. */
extern const char tli_options_usage[];

#endif
