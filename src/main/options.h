/*
** options.h - parses the command line, like `lua`: options, then a script, then the script's
** arguments.
*/
#ifndef TLI_OPTIONS_H
#define TLI_OPTIONS_H

#include <stdbool.h>

typedef struct tli_Options {
  int script;       /* index of the script in argv; argc if there is none */
  bool chunks;      /* -e was given */
  bool interactive; /* -i */
  bool version;     /* -v or -i: print the version first */
  bool no_env;      /* -E */
  bool help;        /* --help */
  bool profile;     /* --profile or --html was given */
  const char *html; /* borrowed; path of the page; NULL: none */
} tli_Options;

/* An option that is executed before the script runs. */
typedef struct tli_Step {
  char letter;       /* 'e', 'l', 'W'; for --device 'd', for --torch7 't'; 0 after the last one */
  const char *value; /* the value of -e or -l, borrowed from argv */
} tli_Step;

/* Reads the options. Returns false, with a message in `problem`, if an option is unknown or lacks
** its value. */
bool tli_options_parse(int argc, char **argv, tli_Options *options, char problem[128]);

/* Returns the next step at or after *i, and moves *i past it. Start with *i = 1. */
tli_Step tli_options_step(char **argv, const tli_Options *options, int *i);

/* The text of --help. */
extern const char tli_options_usage[];

#endif
