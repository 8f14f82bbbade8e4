/*
** scan_table.h - the scans of one compute type and their table. scan.c includes this file for each
** type after it has defined `real` (the type) and TYPE (the name of the type).
*/
#include "each_scan.h"

extern const tlk_Scanner TABLE(TYPE)[SCANNERS];
const tlk_Scanner TABLE(TYPE)[SCANNERS] = {
#define X(name, types) SCANNER_ENTRY(TYPE, name, types)
    TLK_SCANS(X)
#undef X
        [TLK_NSCANS] = {NULL, NULL},
};

#undef real
#undef TYPE
