/*
** optional.h - the optional libraries, which tlua uses if they are installed. The list has the file
** names of each library, its use, and how to install it. The engine's code opens a library by the
** file names in this list, so that `tlua doctor` looks for the same files. Plugins, which cannot
** call the engine's functions, use macros such as TLI_FILES_NVRTC. But cuBLAS, cuSOLVER, cuFFT and
** CUPTI are opened in the version that the plugin was built for; for these, the list serves only
** `tlua doctor`, or has no entry.
*/
#ifndef TLI_OPTIONAL_H
#define TLI_OPTIONAL_H

/* The file names of each library, in the order in which they are tried. */
#define TLI_FILES_BLAS                                                              \
  "libopenblas.so.0", "libopenblas.so", "libopenblas.0.dylib", "libopenblas.dylib", \
      "libopenblas.dll", "libcblas.so.3", "libblas.so.3"
#define TLI_FILES_EDIT                                                                  \
  "libedit.so.2", "libedit.so.0", "libedit.so", "libreadline.so.8", "libreadline.so.7", \
      "libreadline.so.6", "libedit.3.dylib"
#define TLI_FILES_CUDA "libcuda.so.1", "libcuda.so"
#define TLI_FILES_CUBLASLT \
  "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"
#define TLI_FILES_CUDNN "libcudnn.so.9"
#define TLI_FILES_CUSOLVER "libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"
#define TLI_FILES_NVRTC "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"
#define TLI_FILES_NCCL "libnccl.so.2"
#define TLI_FILES_MPI "libmpi.so.40", "libmpi.so.12", "libmpich.so.12", "libmpi.so"
#ifdef _WIN32
#define TLI_FILES_NVML "nvml.dll"
#define TLI_FILES_NVTX "nvToolsExt64_1.dll"
#define TLI_FILES_ZLIB "zlib1.dll", "libz.dll"
#define TLI_FILES_PNG "libpng16-16.dll", "libpng16.dll"
#define TLI_FILES_JPEG "turbojpeg.dll", "libturbojpeg.dll"
#define TLI_FILES_WEBP "libwebp-7.dll", "libwebp.dll"
#define TLI_FILES_SNDFILE "sndfile.dll", "libsndfile-1.dll"
#define TLI_FILES_ZMQ "libzmq.dll"
#define TLI_FILES_CURL "libcurl.dll", "libcurl-x64.dll", "libcurl-4.dll"
#else
#define TLI_FILES_NVML "libnvidia-ml.so.1"
#define TLI_FILES_NVTX "libnvtx3interop.so.1", "libnvToolsExt.so.1"
#define TLI_FILES_ZLIB "libz.so.1", "libz.so", "libz.dylib"
#define TLI_FILES_PNG "libpng16.so.16", "libpng16.so", "libpng16.dylib"
#define TLI_FILES_JPEG "libturbojpeg.so.0", "libturbojpeg.so", "libturbojpeg.dylib"
#define TLI_FILES_WEBP "libwebp.so.7", "libwebp.so.6", "libwebp.so", "libwebp.dylib"
#define TLI_FILES_SNDFILE "libsndfile.so.1", "libsndfile.so", "libsndfile.dylib"
#define TLI_FILES_ZMQ "libzmq.so.5", "libzmq.so", "libzmq.dylib"
#define TLI_FILES_CURL \
  "libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so", "libcurl.4.dylib", "libcurl.dylib"
#endif

/* The libraries, as X(id, name, use, installation), in the order in which `tlua doctor` shows
** them. */
#define TLI_OPTIONAL_LIBRARIES(X)                                                                 \
  X(BLAS, "OpenBLAS", "linear algebra", "Debian: apt install libopenblas0")                       \
  X(EDIT, "line editing", "history, completion and editing at the prompt",                        \
    "Debian: apt install libedit2")                                                               \
  X(CUDA, "CUDA driver", "tensors on NVIDIA GPUs",                                                \
    "the driver of your system, Debian: apt install nvidia-driver libcuda1")                      \
  X(CUBLASLT, "cuBLASLt", "matrix products on the GPU",                                           \
    "comes with the CUDA toolkit, Debian: apt install libcublaslt11")                             \
  X(CUDNN, "cuDNN", "convolution, batch norm, recurrent layers and attention on the GPU",         \
    "https://developer.nvidia.com/cudnn, Debian: apt install nvidia-cudnn")                       \
  X(CUSOLVER, "cuSOLVER", "linear algebra on the GPU", "comes with the CUDA toolkit")             \
  X(NVRTC, "NVRTC", "elementwise chains as one kernel on the GPU", "comes with the CUDA toolkit") \
  X(NCCL, "NCCL", "training on several GPUs",                                                     \
    "https://developer.nvidia.com/nccl, or the package libnccl2")                                 \
  X(NVML, "NVML", "load, temperature and processes of GPUs", "it comes with NVIDIA's driver")     \
  X(NVTX, "NVTX", "ranges of a program in Nsight", "it comes with CUDA's toolkit")                \
  X(MPI, "MPI", "training on several machines", "Debian: apt install openmpi-bin (or mpich)")     \
  X(ZLIB, "zlib", "packed .npz files and .gz", "Debian: apt install zlib1g")                      \
  X(PNG, "libpng", "PNG images", "Debian: apt install libpng16-16")                               \
  X(JPEG, "libturbojpeg", "JPEG images", "Debian: apt install libturbojpeg0")                     \
  X(WEBP, "libwebp", "WebP images", "Debian: apt install libwebp7")                               \
  X(SNDFILE, "libsndfile", "FLAC, Ogg and MP3 files", "Debian: apt install libsndfile1")          \
  X(ZMQ, "libzmq", "the kernel of Jupyter notebooks", "Debian: apt install libzmq5")              \
  X(CURL, "libcurl", "models and runs on https servers", "Debian: apt install libcurl4")

typedef enum tli_OptionalId {
#define X(id, name, use, get) TLI_OPTIONAL_##id,
  TLI_OPTIONAL_LIBRARIES(X)
#undef X
      TLI_NOPTIONAL
} tli_OptionalId;

typedef struct tli_Optional {
  const char *name;
  const char *files[8]; /* file names to try, ended by NULL */
  const char *use, *get;
} tli_Optional;

extern const tli_Optional tli_optional[TLI_NOPTIONAL];

/* Opens the first file of the library that exists, and stores the file's name in *file unless
** `file` is NULL. Returns NULL if none exists. The caller closes the library, or leaves it open
** forever. */
void *tli_optional_open(tli_OptionalId id, const char **file);

#endif
