/*
** nvrtc.cc - replaces NVRTC in the emulated build: kernels that are generated at run time are
** compiled to shared libraries by the compiler that built the emulator. TLUA_EMULATED_COMPILER=1
** enables this, since each kernel takes a second; with 2, every compilation fails.
*/
#include "kernels/cuda/lib/lib.h"
#include "spec/cuda/inside.h"

#include <atomic>
#include <dlfcn.h>
#include <unistd.h>

using namespace emulated;

#ifdef __SANITIZE_ADDRESS__
#define MORE " -fsanitize=address,undefined -fno-sanitize-recover=all"
#else
#define MORE ""
#endif
#define FLAGS " -x c++ -shared" MORE
/* Flags for counting the bytes that kernels move (traffic.cc): accesses call our counters. The
** sanitizer's library is left out, because its functions have the same names. */
#define COUNTED " -fsanitize=thread -nodefaultlibs"

namespace {

/* The function that sets a thread's place, because each library has its own variable. */
const char runner[] = "namespace emulated { Place place; }\n"
                      "extern \"C\" void tlk_run(const void *call, const emulated::Place *at) {\n"
                      "  emulated::place = *at;\n"
                      "  fusion_chain(*static_cast<const fusion_Call *>(call));\n"
                      "}\n";

std::atomic<int> &files = *new std::atomic<int>();

std::string file_name(const char *end) {
  const char *folder = getenv("TMPDIR");
  return std::string(folder && *folder ? folder : "/tmp") + "/tlua-chain-" +
         std::to_string(getpid()) + "-" + std::to_string(files++) + end;
}

bool write_file(const std::string &path, const void *data, size_t bytes) {
  FILE *file = fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  bool ok = fwrite(data, 1, bytes, file) == bytes;
  return fclose(file) == 0 && ok;
}

std::string read_file(const std::string &path) {
  std::string all;
  char some[65536];
  FILE *file = fopen(path.c_str(), "rb");
  for (size_t n; file && (n = fread(some, 1, sizeof some, file)) > 0;) all.append(some, n);
  if (file) fclose(file);
  return all;
}

int64_t mode() {
  const char *text = getenv("TLUA_EMULATED_COMPILER");
  return text ? atoi(text) : 0;
}

bool is_counted() { return getenv("TLUA_EMULATED_TRAFFIC") != nullptr; }

/* Makes the plugin's symbols global, so that kernels loaded later find the counters. */
void show_counters() {
  Dl_info info;
  if (is_counted() && dladdr(reinterpret_cast<const void *>(cuda_lib_compile), &info))
    dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

typedef void (*Run)(const void *call, const Place *at);

} // namespace

const char *cuda_lib_compiler(void) {
  if (mode() == 0) return nullptr;
  return is_counted() ? "c++ " __VERSION__ MORE COUNTED : "c++ " __VERSION__ MORE;
}

bool cuda_lib_compile(const char *source, int, int, void **code, size_t *bytes) {
  std::string from = file_name(".cc"), to = file_name(".so");
  std::string text = std::string("#include <cuda_runtime.h>\n") + source + runner;
  if (mode() == 2 || !write_file(from, text.data(), text.size())) return false;
  std::string command = std::string(TLK_EMULATED_CXX FLAGS) + (is_counted() ? COUNTED : "") +
                        " -o " + to + " " + from;
  bool ok = system(command.c_str()) == 0;
  std::string made = ok ? read_file(to) : "";
  unlink(from.c_str());
  unlink(to.c_str());
  if (!ok) return false;
  *bytes = made.size();
  *code = malloc(*bytes);
  if (*code) memcpy(*code, made.data(), *bytes);
  return *code != nullptr;
}

void *cuda_lib_load(const void *code, size_t bytes, const char *) {
  std::string path = file_name(".so");
  show_counters();
  void *library =
      write_file(path, code, bytes) ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path.c_str());
  return library ? dlsym(library, "tlk_run") : nullptr;
}

bool cuda_lib_launch(const tlk_Context *cx, void *kernel, unsigned blocks, unsigned threads,
                     const void *argument, size_t bytes) {
  Run run = reinterpret_cast<Run>(kernel);
  std::string copy(static_cast<const char *>(argument), bytes);
  if (!cuda_enter(cx->device.index)) return false;
  return cuda_ok(put_kernel(kernel, dim3(blocks), dim3(threads), 0, cx->stream->handle,
                            [=] { run(copy.data(), &place); }),
                 "cudaLaunchKernel");
}
