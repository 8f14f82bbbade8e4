/*
** cudnn_have.h - defines HAVE_CUDNN where there is something to try: cuDNN's headers, and no
** address sanitizer, which reports what cuDNN itself leaves behind.
*/
#ifndef CUDNN_HAVE_H
#define CUDNN_HAVE_H

#if defined(__has_include)
#if __has_include(<cudnn.h>) && !defined(__SANITIZE_ADDRESS__)
#define HAVE_CUDNN
#endif
#endif

#endif
