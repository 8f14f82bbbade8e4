/*
** symbols.cc - finds kernels' names and shared variables in the plugin's own symbol table.
*/
#include "spec/cuda/inside.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace emulated {

/* A thread-local variable whose address shows where the calling thread's variables begin. */
extern "C" __attribute__((used, visibility("hidden"))) thread_local char tlk_emulated_anchor;
thread_local char tlk_emulated_anchor;

namespace {

struct Variable {
  std::string name;
  size_t offset, bytes;
};

struct Symbols {
  std::map<uintptr_t, std::string> functions; /* by address in the file */
  std::vector<Variable> variables;            /* thread-local variables in functions */
  size_t anchor = 0;
  uintptr_t base = 0; /* the address to which the file's address 0 is mapped */
};

struct Image {
  const char *bytes = nullptr;
  size_t size = 0;
};

Image open_image(const char *path) {
  Image image;
  struct stat status;
  int file = open(path, O_RDONLY);
  if (file < 0 || fstat(file, &status) != 0) stop("%s cannot be read", path);
  image.size = (size_t)status.st_size;
  void *bytes = mmap(nullptr, image.size, PROT_READ, MAP_PRIVATE, file, 0);
  if (bytes == MAP_FAILED) stop("%s cannot be read", path);
  close(file);
  image.bytes = static_cast<const char *>(bytes);
  return image;
}

template <class T> const T *at(const Image &image, size_t offset) {
  return reinterpret_cast<const T *>(image.bytes + offset);
}

void add(Symbols &all, const ElfW(Sym) & symbol, const char *name) {
  int type = symbol.st_info & 0xf;
  if (symbol.st_shndx == SHN_UNDEF) return;
  if (type == STT_FUNC)
    all.functions[symbol.st_value] = name;
  else if (type == STT_TLS && strcmp(name, "tlk_emulated_anchor") == 0)
    all.anchor = symbol.st_value;
  else if (type == STT_TLS && strncmp(name, "_ZZ", 3) == 0) /* a variable in a function */
    all.variables.push_back({name, symbol.st_value, symbol.st_size});
}

void read_symbols(Symbols &all, const Image &image) {
  const ElfW(Ehdr) *header = at<ElfW(Ehdr)>(image, 0);
  const ElfW(Shdr) *sections = at<ElfW(Shdr)>(image, header->e_shoff);
  for (int s = 0; s < header->e_shnum; s++) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const char *names = image.bytes + sections[sections[s].sh_link].sh_offset;
    const ElfW(Sym) *symbols = at<ElfW(Sym)>(image, sections[s].sh_offset);
    for (size_t i = 0; i < sections[s].sh_size / sizeof *symbols; i++)
      add(all, symbols[i], names + symbols[i].st_name);
  }
}

const Symbols &symbols() {
  static Symbols &all = *new Symbols();
  if (all.base) return all;
  Dl_info info;
  if (!dladdr(reinterpret_cast<const void *>(run_grid), &info)) stop("the plugin has no file");
  Image image = open_image(info.dli_fname);
  read_symbols(all, image);
  munmap(const_cast<char *>(image.bytes), image.size);
  all.base = (uintptr_t)info.dli_fbase;
  return all;
}

std::string readable(const std::string &name) {
  int status;
  char *text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string out = text ? text : name;
  free(text);
  return out;
}

/* Returns whether a variable belongs to a function: its symbol is _ZZ, then the function's symbol
** without _Z, then E and the variable's name. */
bool belongs(const Variable &v, const std::string &function) {
  return function.compare(0, 2, "_Z") == 0 &&
         v.name.compare(3, function.size() - 1, function.substr(2) + "E") == 0;
}

Kernel describe(const void *function) {
  const Symbols &all = symbols();
  Kernel kernel;
  auto found = all.functions.find((uintptr_t)function - all.base);
  std::string name = found == all.functions.end() ? "?" : found->second;
  kernel.name = readable(name);
  for (const Variable &v : all.variables) {
    bool own = belongs(v, name);
    (own ? kernel.shared : kernel.others).push_back({v.offset, v.bytes});
    if (own) kernel.shared_bytes += v.bytes;
  }
  return kernel;
}

} // namespace

Kernel &kernel_of(const void *function) {
  static std::map<const void *, Kernel> &known = *new std::map<const void *, Kernel>();
  auto found = known.find(function);
  if (found == known.end()) found = known.emplace(function, describe(function)).first;
  return found->second;
}

char *thread_variables() { return &tlk_emulated_anchor - symbols().anchor; }

} // namespace emulated
