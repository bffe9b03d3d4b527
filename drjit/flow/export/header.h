/* {title}

Written by drjit.export, for {target}. Link with {file}, the math library and threads:

    cc main.c {file} -lm -lpthread

A call returns 0, or a number for which {name}_message() has a text. Then, what it has written is
of no use. Arrays may have any address, and must not overlap. X_size is the number of entries of an
array X. Of a result, X_capacity is the number of entries that there is room for, and X_size becomes
the number of those that it has. Arguments that are not const are changed in place. `threads` is the
number of threads that share the work; with 0 and 1, the calling thread does it all. The others wait
for the next call when they have started, until {name}_end_threads(); a process that is forked has
none of them, and starts its own. Several threads may call a function at the same time. */

#ifndef {guard}
#define {guard}

#include <stddef.h>

#ifdef __cplusplus
extern "C" {{
#endif

{functions}
/* Returns the text of a number other than 0 that a call has returned. */
const char *{name}_message(int code);

/* Ends the threads that wait, as a program must before it unloads the code. No call may be running;
   later calls start new threads. */
void {name}_end_threads(void);

#ifdef __cplusplus
}}
#endif

#endif
