/* What tests of all folders share. */
#ifndef BASE_TESTING_H
#define BASE_TESTING_H

/* By how much fewer forms are tried of what one thread does alone: a sanitizer of threads has
 * nothing to find there, and takes long; one of addresses takes five times as long as none. */
#ifdef __SANITIZE_THREAD__
enum { STRIDE = 7 };
#elif defined __SANITIZE_ADDRESS__
enum { STRIDE = 3 };
#else
enum { STRIDE = 1 };
#endif

#endif
